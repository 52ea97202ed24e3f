"""What a job may ask of a node for its tasks' limits.

Invariant: no task gets more by asking than the node's operator gives: what the settings name, or what the agent has.
"""

from __future__ import annotations

import resource

from gosched.agent.runtimes.interface import CannotRun
from gosched.config.agent_settings import Ceilings
from gosched.core.orders import TaskOrder
from gosched.core.reasons import Reason
from gosched.core.spec.isolation import Rlimit

# Where the settings name none: memory that is never given back, and a place before all other programs of the node.
DEFAULTS = {"memlock": 8 << 20, "nice": 0, "rtprio": 0}


def check_ceilings(order: TaskOrder, ceilings: Ceilings) -> None:
    """Raise CannotRun where the order asks for more than this node gives."""
    isolation = order.isolation
    _check("limits.pids", isolation.pids, ceilings.pids, "ceilings.pids")
    if ceilings.memory_low_bytes is not None:
        _check("limits.memory_low", isolation.memory_low_bytes, ceilings.memory_low_bytes, "ceilings.memory_low")
    else:
        # So much is set aside for it on this node, and no more.
        _check("limits.memory_low", isolation.memory_low_bytes, order.resources.memory_bytes, "its resources.memory")
    named = {limit.name: limit.hard for limit in ceilings.rlimits}
    for limit in isolation.rlimits:
        ceiling = named.get(limit.name, _ceiling(limit))
        if ceiling != resource.RLIM_INFINITY:
            highest = max((limit.soft, limit.hard), key=lambda value: (value < 0, value))
            _check(f"rlimits.{limit.name}", highest, ceiling, f"ceilings.rlimits.{limit.name}")


def _ceiling(limit: Rlimit) -> int:
    """Return the hard limit that a task of an agent that is not root gets; root could raise any."""
    if limit.name in DEFAULTS:
        return DEFAULTS[limit.name]
    number = getattr(resource, f"RLIMIT_{limit.name.upper()}", None)
    return resource.getrlimit(number)[1] if number is not None else resource.RLIM_INFINITY


def _check(what: str, asked: int, ceiling: int, by: str) -> None:
    """Raise CannotRun for more than the ceiling. A negative amount is no limit at all."""
    if asked < 0 or asked > ceiling:
        shown = "unlimited" if asked < 0 else asked
        raise CannotRun(
            Reason.LIMIT_NOT_ALLOWED, f"{what}: it asks for {shown}, and this node gives at most {ceiling} ({by})"
        )
