"""Compares what a master wants with what is here, and returns what to do. Pure.

Invariant: an allocation that is known here, in whatever state, is never started again. Pushed orders and heartbeat
answers go through the same function, so an order that arrives twice, late, or in the wrong order does no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gosched.core.orders import StopOrder
from gosched.core.records.task import TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStop(StopOrder):
    """A stop order with what the agent adds of its own, for a task that broke a rule of the node."""

    #: Name of the state in which the task ends: KILLED by a master, FAILED by its own fault.
    ends_as: str = "KILLED"
    #: One line for people. Empty: what its supervisor says of the end.
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """What one message of a master asks for. It says nothing about tasks that it does not name."""

    #: Allocation ids, as those of the last three.
    start: tuple[str, ...] = ()
    stop: tuple[StopOrder, ...] = ()
    forget: tuple[str, ...] = ()
    freeze: tuple[str, ...] = ()
    thaw: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    allocation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    order: StopOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """Records the end of a task that never came here, so that its start order, should it come late, is refused."""

    order: StopOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """Forgets the result of a task that has ended."""

    allocation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """Freezes a task, or thaws it."""

    allocation_id: str
    frozen: bool


Action = Start | Stop | Tombstone | Forget | Freeze


def hastened(now: StopOrder, later: StopOrder) -> StopOrder:
    """Return the order in force after one more to stop: it brings the end nearer, and never puts it off."""
    grace_ms = min(now.grace_ms, later.grace_ms)
    checkpoint_ms = min(now.checkpoint_ms, later.checkpoint_ms)
    if (grace_ms, checkpoint_ms) == (now.grace_ms, now.checkpoint_ms):
        return now
    return replace(now, reason=later.reason, grace_ms=grace_ms, checkpoint_ms=checkpoint_ms)


def reconcile(desired: Desired, observed: Mapping[str, TaskState]) -> tuple[Action, ...]:
    """Return what to do: stops first, then starts. `observed` has every allocation whose record is on this node."""
    stops = {order.allocation_id: order for order in desired.stop}
    actions: list[Action] = []
    for allocation_id, order in stops.items():
        state = observed.get(allocation_id)
        if state is None:
            actions.append(Tombstone(order=order))
        elif not state.is_final:
            actions.append(Stop(order=order))
    actions.extend(
        Start(allocation_id=wanted)
        for wanted in dict.fromkeys(desired.start)
        if wanted not in observed and wanted not in stops
    )
    for allocation_ids, frozen in ((desired.freeze, True), (desired.thaw, False)):
        for allocation_id in allocation_ids:
            state = observed.get(allocation_id)
            if state in (TaskState.STARTING, TaskState.RUNNING) and allocation_id not in stops:
                actions.append(Freeze(allocation_id=allocation_id, frozen=frozen))
    for done in desired.forget:
        state = observed.get(done)
        if state is not None and state.is_final:
            actions.append(Forget(allocation_id=done))
    return tuple(actions)
