"""The environment of every task, whatever runs it: its order's variables, and the few that the order lacks."""

from __future__ import annotations

import os

from gosched.agent.supervisor.launch import Account
from gosched.agent.tasks.processes import MARK
from gosched.core.orders import TaskOrder
from gosched.core.resources import Resources

# What a task gets from the agent's own environment when its order does not say otherwise.
INHERITED = ("PATH", "LANG", "TZ")
OF_THE_USER = ("HOME", "USER", "LOGNAME")
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def environment(order: TaskOrder, account: Account | None, checkpoint_file: str) -> dict[str, str]:
    """Return the environment. MARK tells the task's processes from all others."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {
        "PATH": DEFAULT_PATH,
        **inherited,
        **_of_user(account),
        **dict(order.env),
        **_amounts(order.resources),
        "GOSCHED_ALLOCATION_ID": order.allocation_id,
        MARK: checkpoint_file,
    }


def _amounts(held: Resources) -> dict[str, str]:
    """Return what the task holds on the node, for programs that pass it on or make use of it all."""
    amounts = {
        "GOSCHED_CPU_MILLIS": held.cpu_millis,
        "GOSCHED_MEMORY_BYTES": held.memory_bytes,
        "GOSCHED_GPU_MILLIS": held.gpu_millis,
    }
    return {name: str(amount) for name, amount in amounts.items() if amount}


def _of_user(account: Account | None) -> dict[str, str]:
    if account is None:
        return {name: os.environ[name] for name in OF_THE_USER if name in os.environ}
    return {"HOME": account.home, "USER": account.name, "LOGNAME": account.name}
