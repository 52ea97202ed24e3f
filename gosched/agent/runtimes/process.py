"""The process runtime: a command on the node as it is, the ranks of an MPI program, or a batch script of Slurm's users,
in its own cgroup, as its own user."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from gosched.agent.mpi.job import words
from gosched.agent.runtimes.interface import CannotRun, Place
from gosched.agent.supervisor.launch import Launch
from gosched.core.orders import TaskOrder
from gosched.core.reasons import Reason
from gosched.integrations.slurm.batch import COMMAND as BATCH

DEFAULT_UMASK = 0o022


@dataclass(frozen=True, slots=True)
class Process:
    def problem(self) -> str:
        return ""

    def launch(self, order: TaskOrder, place: Place, env: dict[str, str]) -> Launch:
        if not order.command or not order.command[0]:
            raise CannotRun(Reason.COMMAND_NOT_FOUND, "the command is empty", exit_code=127)
        isolation = order.isolation
        return Launch(
            command=_command(order, place, env),
            env=env,
            cwd=str(place.work / order.working_dir),
            cgroup=str(place.cgroup or ""),
            account=place.account,
            umask=DEFAULT_UMASK if isolation.umask is None else isolation.umask,
            rlimits={limit.name: (limit.soft, limit.hard) for limit in isolation.rlimits},
            view=place.view,
            variables=place.secrets.variables if place.secrets is not None else "",
        )


def _command(order: TaskOrder, place: Place, env: dict[str, str]) -> tuple[str, ...]:
    """Return the order's command, or the program of ours that stands in its place."""
    is_batch = order.command[0] == BATCH
    if (is_batch or order.mpi_ranks) and not (env.get("GOSCHED_PORT") and env.get("GOSCHED_SECRET")):
        what = "a batch script needs" if is_batch else "MPI's ranks need"
        raise CannotRun(Reason.BAD_ORDER, f"{what} GOSCHED_PORT and GOSCHED_SECRET, which the order lacks")
    if is_batch:
        return (sys.executable, "-I", "-m", "gosched.agent.slurm.task", *order.command[1:])
    return _with_ranks(order, place) if order.mpi_ranks else order.command


def _with_ranks(order: TaskOrder, place: Place) -> tuple[str, ...]:
    """Return the command that starts the ranks of this task, once those of the whole job are there."""
    return words(order.mpi_ranks, order.mpi_implementation, str(place.work), order.command)
