"""Stays with a container while it runs: its output becomes this process's own, signals are passed on, usage is read.

    python -I -S docker_follow.py ATTACHED_FD PID STOP_SIGNAL SPEC

Started in the place of the launcher, and replaced by it again when the container has ended: so that what waits for
hours takes a few megabytes, it is on its own with the standard library. Invariant: it ends with the container's
main process, and passes all of its output on before.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))

from gosched.agent.supervisor.control_group import ControlGroup, cgroup_of
from gosched.agent.supervisor.family import children_by_pid, signal_one
from gosched.agent.supervisor.records import USAGE, write

FORWARDED = tuple(
    number
    for number in signal.valid_signals()
    if number
    not in (
        *(signal.SIGKILL, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCONT),
        *(signal.SIGCHLD, signal.SIGPIPE, signal.SIGURG, signal.SIGWINCH),
        *(signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, signal.SIGTRAP),
    )
)
FIRST_SAMPLE_S, SAMPLE_S = 0.2, 5.0  # twice as long after each; the last moment is read, too, if it is to be had
DRAIN_S = 30.0  # of silence, once the container has ended: its output may still be on its way
HEADER_BYTES = 8
CHUNK = 65536


def main(attached: int, pid: int, stop_signal: int, spec: str) -> None:
    process = open_process(pid)
    read_end, write_end = os.pipe()
    for fd in (read_end, write_end):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in FORWARDED:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    usage = follow(Output(attached), process, pid, read_end, stop_signal)
    # From here on there is nothing left to pass signals to.
    for number in FORWARDED:
        signal.signal(number, signal.SIG_IGN)
    words = [sys.executable, "-I", "-m", "gosched.agent.runtimes.docker_launcher", "finish", spec, json.dumps(usage)]
    os.execv(sys.executable, words)


def open_process(pid: int) -> int:
    """Return a pidfd; -1: it has ended."""
    try:
        return os.pidfd_open(pid) if pid else -1
    except ProcessLookupError:
        return -1


def follow(output: Output, process: int, pid: int, signals: int, stop_signal: int) -> dict[str, int]:
    """Follow the container to its end, and return what it used."""
    group = ControlGroup(cgroup_of(pid) if process >= 0 else "")
    end_as_one(group)
    usage: dict[str, int] = {}
    poll = select.poll()
    for fd in (output.fd, process, signals):
        if fd >= 0:
            poll.register(fd, select.POLLIN)
    runs, pause_s, sample_at = process >= 0, FIRST_SAMPLE_S, 0.0
    while output.is_open or runs:
        now = time.monotonic()
        if runs and now >= sample_at:
            usage, sample_at = sample(group, usage), now + pause_s
            with contextlib.suppress(OSError):  # the disk is full
                write(USAGE, usage)  # all that is known if this process is killed
            pause_s = min(2 * pause_s, SAMPLE_S)
        ready = {fd for fd, _ in poll.poll(1000 * (sample_at - now if runs else DRAIN_S))}
        if not ready and not runs:
            break
        if process in ready:
            usage = sample(group, usage)
            poll.unregister(process)
            runs = False
        if output.fd in ready:
            output.pump()
            if not output.is_open:
                poll.unregister(output.fd)
        if signals in ready:
            for number in os.read(signals, CHUNK):
                if runs:
                    forward(number, process, pid, stop_signal)
    return usage


def end_as_one(group: ControlGroup) -> None:
    """Make a task that is out of memory end whole, which Docker's API cannot express. Where there is no such file, or
    it is not ours to write, one process of it may end alone."""
    if group.path:
        with contextlib.suppress(OSError), open(f"{group.path}/memory.oom.group", "w", encoding="ascii") as file:
            file.write("1")


def forward(number: int, process: int, pid: int, stop_signal: int) -> None:
    """Pass a signal on. SIGTERM asks the container's main process to end; others go to each process that handles
    them."""
    if number == signal.SIGTERM:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, stop_signal)
        return
    children = children_by_pid()
    family = [pid]
    for each in family:
        family.extend(children.get(each, []))
    parent = next((parent for parent, found in children.items() if pid in found), 0)
    for each in family:
        signal_one(each, number, {parent, *family})


def sample(group: ControlGroup, last: dict[str, int]) -> dict[str, int]:
    """Read the usage. The cgroup may have gone already: what was read last is kept."""
    found = group.usage()
    return found if found.get("cpu_ms", 0) >= last.get("cpu_ms", 0) else last


class Output:
    """The daemon's stream: blocks, each with a header of its stream (1, 2) and length. Written as it comes."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.is_open = True
        self.header = b""
        self.target = 1
        self.left = 0  # of the block

    def copy(self) -> None:
        """Copy a terminal's stream, which has no headers."""
        write_all(1, self._read(CHUNK))

    def pump(self) -> None:
        """Write as much as there is, of one block."""
        if self.left:
            data = self._read(min(self.left, CHUNK))
            self.left -= len(data)
            write_all(self.target, data)
            return
        self.header += self._read(HEADER_BYTES - len(self.header))
        if len(self.header) == HEADER_BYTES:
            self.target = 2 if self.header[0] == 2 else 1
            self.left = int.from_bytes(self.header[4:], "big")
            self.header = b""

    def _read(self, size: int) -> bytes:
        try:
            data = os.read(self.fd, size)
        except ConnectionError:
            data = b""
        self.is_open = bool(data)
        return data


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
