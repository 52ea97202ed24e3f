"""The process runtime: a command on the node as it is, in its own cgroup, as its own user."""

from __future__ import annotations

from dataclasses import dataclass

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
            command=order.command,
            env=env,
            cwd=str(place.work / order.working_dir),
            cgroup=str(place.cgroup or ""),
            account=place.account,
            umask=DEFAULT_UMASK if isolation.umask is None else isolation.umask,
            rlimits={limit.name: (limit.soft, limit.hard) for limit in isolation.rlimits},
        )
