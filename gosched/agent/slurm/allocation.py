"""An allocation that is held while one command runs in it: both sides of `goschedctl salloc` in the job's first task.

python -m gosched.agent.slurm.allocation hold DIRECTORY            in place of a script
python -m gosched.agent.slurm.allocation run DIRECTORY COMMAND...   beside it, started by exec; a shell without COMMAND

Invariant: the job ends once nothing runs in it: the lease is a FIFO that `run` alone has open for writing, so its end
is seen however it came about, also when salloc, its machine or its connection is gone, which ends what exec started.
"""

from __future__ import annotations

import json
import os
import pwd
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gosched.agent.mpi.job import failed

#: From when all nodes of the job have begun to the start of the command.
COME_S = 60.0
_LOOK_S = 0.1  # whether the job is to end, while no command has come
_LEFT_BEHIND_S = 5.0
_TO_END = {signal.SIGTERM}
_LEASE, _RECORD = "lease", "allocation.json"


def hold(directory: Path) -> int:
    """Wait until the command has come and ended; return its exit code."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _TO_END)  # what comes together with the command is for it to hear
    record = directory / _RECORD
    record.touch(mode=0o600)
    record.write_text(json.dumps({"env": dict(os.environ), "cwd": os.getcwd()}))
    lease = directory / _LEASE
    os.mkfifo(lease, 0o600)
    fd = os.open(lease, os.O_RDONLY | os.O_NONBLOCK)
    gives_up = time.monotonic() + COME_S
    while not (came := _readable(fd, _LOOK_S)) and not _TO_END & signal.sigpending() and time.monotonic() < gives_up:
        pass
    if not came:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _TO_END)  # a SIGTERM that has come ends this process here
        return failed(f"no command came within {COME_S:g} s: salloc is gone, or cannot reach this node")
    os.set_blocking(fd, True)
    with open(fd) as said:
        parent, group, *_ = [*map(int, said.readline().split()), 0, 0]
        if group:  # that the job is to end is for the command to hear: it has the job's stop_grace
            signal.signal(signal.SIGTERM, lambda number, _: _tell(group, number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _TO_END)
        code = said.read()
    if not code:
        return failed("the command was ended, as salloc is gone or has lost its connection")
    _await_end(parent)
    return int(code)


def run(directory: Path, command: Sequence[str]) -> int:
    """Run the command with what a script would have: its variables, `srun` in PATH, its directory."""
    lease = os.open(directory / _LEASE, os.O_WRONLY)
    os.write(lease, b"%d %d\n" % (os.getppid(), os.getpgrp()))
    record = json.loads((directory / _RECORD).read_text())
    own = {name: os.environ[name] for name in ("TERM",) if name in os.environ}
    env: dict[str, str] = {**record["env"], **own}
    env.pop("ENVIRONMENT", None)  # it says BATCH
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave_to_command)
    words = command or (pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh",)
    try:
        code = subprocess.Popen(words, env=env, cwd=record["cwd"]).wait()
    except OSError as error:
        failed(f"cannot run {words[0]}: {error.strerror or error}")
        code = 126 if isinstance(error, PermissionError) else 127
    code = 128 - code if code < 0 else code
    os.write(lease, b"%d\n" % code)
    return code


def _leave_to_command(_number: int, _frame: object) -> None:
    """Signals come to the command as well, which decides."""


def _tell(group: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


def _await_end(pid: int) -> None:
    """Wait until what exec started has been seen to its end: that of the job would cut it short."""
    with suppress(ProcessLookupError):
        end = os.pidfd_open(pid)
        _readable(end, _LEFT_BEHIND_S)
        os.close(end)


def _readable(fd: int, timeout_s: float) -> bool:
    """Wait until there is something to read, or an end; select() takes no descriptor beyond 1,023."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


def main(words: Sequence[str]) -> int:
    what, directory, *command = words
    return hold(Path(directory)) if what == "hold" else run(Path(directory), command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
