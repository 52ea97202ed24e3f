"""The agent's end of its nursery: asks it for supervisors, and starts another nursery when it is gone.

Invariant: a supervisor holds its allocation's lock from before its first instruction.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import gosched

_ANSWER_LIMIT_S = 30.0
_END_LIMIT_S = 5.0
_MAX_ANSWER = 8192
# Without site-packages: an interpreter that looks for nothing starts in a few milliseconds, and stays small.
_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from gosched.agent.supervisor.nursery import main; main()"
_SOURCES = str(Path(gosched.__file__).parent.parent)


class NurseryError(OSError):
    """No supervisor could be started."""


class Nursery:
    """The nursery's process, started with the first task.

    `enter` gets its pid before it forks anything, and puts it, and so all supervisors, into their cgroup. `data_dir`,
    the agent's, is on the command line of all of them: they can be told apart without any file (`tasks.orphans`).
    """

    def __init__(self, enter: Callable[[int], None], data_dir: Path) -> None:
        self._enter = enter
        self._data_dir = data_dir
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def spawn(self, directory: Path, descriptors: list[int]) -> tuple[int, int] | None:
        """Give the task of the directory a supervisor, with the allocation's lock and the end of its line. Return its
        pid and its start time in clock ticks; None when it has ended, or when it is not known whether it was started:
        then the lock says. Raises NurseryError: it was not."""
        with self._turn:
            self._ask(directory, descriptors)
            try:
                answer = json.loads(self._connected().recv(_MAX_ANSWER))
            except (OSError, ValueError):  # it was killed, or hangs
                self._end()
                return None
        if "error" in answer:
            raise NurseryError(answer["error"])
        return (int(answer["pid"]), int(answer["start_time"])) if answer else None

    def close(self) -> None:
        with self._turn:
            self._end()

    def _ask(self, directory: Path, descriptors: list[int]) -> None:
        """Send the request. What was not sent was not received, so a nursery that has died is replaced."""
        try:
            socket.send_fds(self._connected(), [bytes(directory)], descriptors)
        except OSError:
            self._end()
            try:
                socket.send_fds(self._connected(), [bytes(directory)], descriptors)
            except OSError as error:
                self._end()
                raise NurseryError(f"cannot start a supervisor: {error}") from error

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._start()
        assert self._socket is not None
        return self._socket

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _PROGRAM, _SOURCES, str(theirs.fileno()), self._data_dir],
                env={},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        ours.settimeout(_ANSWER_LIMIT_S)
        self._socket = ours
        try:
            self._enter(self._process.pid)
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_LIMIT_S)
            self._process.kill()
            self._process.wait()
            self._process = None
