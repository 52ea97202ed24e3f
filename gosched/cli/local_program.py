"""One daemon of a local cluster: its process, its log, and the end of both.

Invariant: a process is signalled only while it is this program's own.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

STOP_S = 10.0
_SUPERVISOR = "gosched.agent.supervisor"  # on the command line of a task's supervisor


class LocalClusterError(Exception):
    """An error whose text is one line for the user."""

    exit_code = 1


def own_environment() -> dict[str, str]:
    """Return this process's environment without the settings of gosched, and without what the client told gRPC: a
    master logs why a handshake failed."""
    return {k: v for k, v in os.environ.items() if not k.startswith("GOSCHED_") and k != "GRPC_VERBOSITY"}


class Program:
    """One daemon: how it is started, where it listens, and its latest process."""

    def __init__(self, id: str, command: list[str], home: Path, *, grpc: str, http: str = "") -> None:
        self.id = id
        self.grpc = grpc
        self.http = http
        self.log = home / f"{id}.log"
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    @property
    def exit_code(self) -> int | None:
        """Return the exit code; None while it runs or is frozen."""
        return self._process.poll() if self._process else None

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        # In its own session, so that Ctrl-C reaches only the parent, which stops the cluster in order.
        # It has commands of tasks, and is this user's alone.
        with open(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=own_environment(),
            )

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        self.send(signal.SIGKILL)
        if self._process:
            self._process.wait(STOP_S)

    def freeze(self) -> None:
        """Send SIGSTOP to the process and its children: a master's replica is a separate process."""
        self._send_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._send_all(signal.SIGCONT)

    def send(self, number: signal.Signals) -> None:
        if self._process and self.is_alive:
            self._process.send_signal(number)

    def wait(self, timeout_s: float) -> int:
        if self._process is None:
            return 0
        return self._process.wait(timeout_s)

    def last_line(self) -> str:
        """Return the last line of the log."""
        with suppress(OSError):
            lines = self.log.read_text("utf-8", "replace").strip().splitlines()
            if lines:
                return lines[-1]
        return "its log is empty"

    def _send_all(self, number: signal.Signals) -> None:
        if not self.is_alive:
            raise LocalClusterError(f"{self.id} is not running")
        process = psutil.Process(self.pid)
        for each in [process, *process.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):  # an agent's probe of its runtimes may end at any time
                each.send_signal(number)


def end_in_order(programs: Iterable[Program]) -> None:
    """Send SIGTERM to all of them, and wait for each up to STOP_S."""
    running = [program for program in programs if program.is_alive]
    for program in running:
        program.send(signal.SIGTERM)
    for program in running:
        with suppress(subprocess.TimeoutExpired):
            program.wait(STOP_S)


def tasks_under(homes: Sequence[Path]) -> list[psutil.Process]:
    """Return the supervisors that work in one of these directories, and all their children."""
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # OSError: a foreign process's directory is deeper than a path can be
            if not any(Path(process.cwd()).is_relative_to(home) for home in homes):
                continue
            if any(_SUPERVISOR in word for word in process.cmdline()):
                for member in (process, *process.children(recursive=True)):
                    found[member.pid] = member
    return list(found.values())
