"""The agent's brain: what a master wants, against what is here, gives what to do. Pure.

The one rule: an allocation that is known here, in whatever state, is never started again. Pushed orders and heartbeat
answers go through the same function, so an order that arrives twice, late, or in the wrong order does no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gosched.core.records.task import TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class StopWish:
    """First `checkpoint_signal`, and up to `checkpoint_ms` to save itself (either 0: none of it); then SIGTERM, and up
    to `grace_ms` until the kill; 0 kills at once. `ends_as`: KILLED by a master; FAILED where the task broke a rule of
    the node."""

    allocation_id: str
    grace_ms: int
    reason: str = ""
    checkpoint_signal: int = 0
    checkpoint_ms: int = 0
    ends_as: str = "KILLED"
    detail: str = ""

    @property
    def saves(self) -> bool:
        return self.checkpoint_signal > 0 and self.checkpoint_ms > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """What one message of a master asks for. It says nothing about tasks that it does not name."""

    start: tuple[str, ...] = ()
    stop: tuple[StopWish, ...] = ()
    forget: tuple[str, ...] = ()
    freeze: tuple[str, ...] = ()
    thaw: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    allocation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    wish: StopWish


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """Record the end of a task that never came here, so that its start order, should it come late, is refused."""

    wish: StopWish


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    allocation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """Make it stand still, or go on."""

    allocation_id: str
    frozen: bool


Action = Start | Stop | Tombstone | Forget | Freeze


def hastened(now: StopWish, wish: StopWish) -> StopWish:
    """What is in force after one more order to stop: it brings the end nearer, and never puts it off."""
    grace_ms = min(now.grace_ms, wish.grace_ms)
    checkpoint_ms = min(now.checkpoint_ms, wish.checkpoint_ms)
    if (grace_ms, checkpoint_ms) == (now.grace_ms, now.checkpoint_ms):
        return now
    return replace(now, reason=wish.reason, grace_ms=grace_ms, checkpoint_ms=checkpoint_ms)


def reconcile(desired: Desired, observed: Mapping[str, TaskState]) -> tuple[Action, ...]:
    """Stops first, then starts. `observed` has every allocation whose record is on this node."""
    stops = {wish.allocation_id: wish for wish in desired.stop}
    actions: list[Action] = []
    for allocation_id, wish in stops.items():
        state = observed.get(allocation_id)
        if state is None:
            actions.append(Tombstone(wish=wish))
        elif not state.is_final:
            actions.append(Stop(wish=wish))
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
