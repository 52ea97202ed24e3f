"""What the programs of an MPI job know of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

JOIN_S = 120.0  # for all tasks to be there
# How long a task that was not the first to fail waits to be stopped: longer than a node may be silent.
HOLD_S = 60.0
RANKS_TMPDIR = "GOSCHED_MPI_TMPDIR"  # TMPDIR of the task; empty: it has none


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The job, as a task of it sees it."""

    #: Of the task in the job.
    index: int
    #: Where each task's node is reached.
    hosts: tuple[str, ...]
    #: Of the job, on the node of the first task.
    port: int
    #: Of the attempt.
    secret: str
    #: Of this task.
    ranks: int
    #: The implementation that the job names; empty: it is found.
    implementation: str
    #: A directory of the task's own.
    scratch: str
    #: What each rank of this task runs.
    command: tuple[str, ...]

    @classmethod
    def of(cls, ranks: str, implementation: str, scratch: str, *command: str) -> Job:
        """Return the job by the words of the command line, and by the environment."""
        env = os.environ
        return cls(
            index=int(env["GOSCHED_TASK_INDEX"]),
            hosts=tuple(env["GOSCHED_HOSTS"].split(",")),
            port=int(env["GOSCHED_PORT"]),
            secret=env["GOSCHED_SECRET"],
            ranks=int(ranks),
            implementation=implementation,
            scratch=scratch,
            command=command,
        )

    def daemon_environment(self) -> dict[str, str]:
        """Return the environment of mpiexec and of MPI's daemon in this task, and make the directory that it names.

        Daemons of Open MPI that share a directory for temporary files fail now and then: each makes the same
        directories in it, and those of killed ones stay. So each task has its own; ranks have the task's again.
        """
        directory = os.path.join(self.scratch, ".gosched-mpi-tmp")
        os.makedirs(directory, mode=0o700, exist_ok=True)
        return {**os.environ, "TMPDIR": directory, RANKS_TMPDIR: os.environ.get("TMPDIR", "")}


def failed(why: str) -> int:
    """Say why, and return the exit code."""
    print(f"gosched: {why}", file=sys.stderr, flush=True)
    return 1


def words(ranks: int, implementation: str, scratch: str, command: Sequence[str]) -> tuple[str, ...]:
    """Return the command line of a member, which `Job.of` reads."""
    return (sys.executable, "-I", "-m", "gosched.agent.mpi.task", str(ranks), implementation, scratch, *command)
