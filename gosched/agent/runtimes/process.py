"""The process runtime: a command on the node as it is, or the ranks of an MPI program, in its own cgroup, as its own
user."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.agent.mpi.job import words
from gosched.agent.runtimes.interface import CannotRun, Place
from gosched.agent.supervisor.launch import Launch
from gosched.core.orders import TaskOrder
from gosched.core.reasons import Reason

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
            command=_with_ranks(order, place, env) if order.mpi_ranks else order.command,
            env=env,
            cwd=str(place.work / order.working_dir),
            cgroup=str(place.cgroup or ""),
            account=place.account,
            umask=DEFAULT_UMASK if isolation.umask is None else isolation.umask,
            rlimits={limit.name: (limit.soft, limit.hard) for limit in isolation.rlimits},
            variables=place.secrets.variables if place.secrets is not None else "",
        )


def _with_ranks(order: TaskOrder, place: Place, env: dict[str, str]) -> tuple[str, ...]:
    """Return the command that starts the ranks of this task, once those of the whole job are there."""
    if not env.get("GOSCHED_PORT") or not env.get("GOSCHED_SECRET"):
        raise CannotRun(Reason.BAD_ORDER, "MPI's ranks need GOSCHED_PORT and GOSCHED_SECRET, which the order lacks")
    return words(order.mpi_ranks, order.mpi_implementation, str(place.work), order.command)
