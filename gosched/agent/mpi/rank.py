"""Runs one rank of an MPI program: what MPI's daemon starts, beside which the job's command runs.

    python -m gosched.agent.mpi.rank COMMAND...

The member of its task, at the socket that GOSCHED_MPI_SOCKET names, gives it the task's own output, and is told the
command's exit code. Invariant: MPI hears of the rank's end only after the member has.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import NoReturn

from gosched.agent.mpi.job import RANKS_TMPDIR

_ANSWER_S = 15.0
# To a whole process group, of which only the command is meant.
_PASSED_BY = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
# What the command is told, as any distributed task, by what the two implementations tell it.
_VARIABLES = {
    "RANK": ("OMPI_COMM_WORLD_RANK", "PMI_RANK"),
    "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"),
    "LOCAL_RANK": ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"),
}


def main(command: Sequence[str]) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as member:
        member.settimeout(_ANSWER_S)
        member.connect("\0" + os.environ["GOSCHED_MPI_SOCKET"])
        _, outputs, _, _ = socket.recv_fds(member, 1, 2)
        for number in _PASSED_BY:
            signal.signal(number, signal.SIG_IGN)
        pid = os.fork()
        if pid == 0:
            _become(command, outputs)
        member.sendall(f"{os.getpgid(0)}\n".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        code = 128 - code if code < 0 else code
        try:
            member.sendall(f"{code}\n".encode())
            member.recv(1)
        except OSError:  # the task is at its end already
            pass
    return code


def _become(command: Sequence[str], outputs: Sequence[int]) -> NoReturn:
    """Become the command. An exit code says why it cannot be run, as a shell's does."""
    for number in _PASSED_BY:
        signal.signal(number, signal.SIG_DFL)
    for standard, output in zip((1, 2), outputs, strict=True):
        os.dup2(output, standard)
    for name, sources in _VARIABLES.items():
        found = next((os.environ[source] for source in sources if source in os.environ), None)
        if found is not None:
            os.environ[name] = found
    if directory := os.environ.pop(RANKS_TMPDIR, ""):
        os.environ["TMPDIR"] = directory
    else:
        os.environ.pop("TMPDIR", None)
    try:
        os.execvp(command[0], [*command])
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
