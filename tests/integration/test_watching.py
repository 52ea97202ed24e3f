"""`-w` while the leader dies: on a pipe the changes go on, and a picture on a terminal stays in its place."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gosched.cli.local_cluster import LocalCluster

from .support import goschedctl, kill_whole, until

ENTER, LEAVE, HOME = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[H"
LINES, COLUMNS = 12, 80


class Watcher:
    """A goschedctl that watches, and what it has written so far."""

    def __init__(self, process: subprocess.Popen[bytes], source: int) -> None:
        self.process = process
        self.text = b""
        self._source = source
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._source, 65536)
            except OSError:  # of a terminal whose last program has ended
                return
            if not data:
                return
            self.text += data

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(60)
        self._reader.join(10)
        return code


@contextmanager
def watching(endpoints: str, *words: str, terminal: bool) -> Iterator[Watcher]:
    ours, theirs = pty.openpty() if terminal else os.pipe()
    if terminal:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("goschedctl")), *words],
        env={**os.environ, "GOSCHED_ENDPOINTS": endpoints, "TERM": "xterm"},
        stdout=theirs,
    )
    os.close(theirs)
    try:
        yield Watcher(process, ours)
    finally:
        process.kill()
        process.wait(10)
        os.close(ours)


def test_both_kinds_of_watching_outlive_the_leader() -> None:
    with LocalCluster(masters=3, agents=1) as c:
        listing = ("node", "list", "-w")
        with (
            watching(c.endpoints, *listing, "-o", "json", terminal=False) as piped,
            watching(c.endpoints, *listing, terminal=True) as shown,
        ):
            until(lambda: b"READY" in piped.text and b"READY" in shown.text, "both show the node")
            leader = json.loads(goschedctl(c.endpoints, "status", "-o", "json").stdout)["leader"]
            kill_whole(c.masters[leader])
            until(
                lambda: goschedctl(c.endpoints, "node", "cordon", "agent-1", "--reason", "new disk").returncode == 0,
                "another master leads",
            )
            until(lambda: b"CORDONED" in piped.text and b"CORDONED" in shown.text, "both show the change")
            assert (piped.interrupt(), shown.interrupt()) == (130, 130)
        states = [[node["state"] for node in json.loads(line)] for line in piped.text.splitlines()]
        assert states[0] == ["READY"]
        assert states[-1] == ["CORDONED"]
        assert len(states) < 10, "a line for each change, not for each look"
        picture, _, left = shown.text.partition(LEAVE)
        assert picture.startswith(ENTER)
        assert all(frame.count(b"\n") < LINES for frame in picture.split(HOME)[1:]), "nothing scrolls"
        assert b"CORDONED" in left
        assert left.count(b"agent-1") == 1, "the last picture alone is left"
