"""The smallest change to a waiting job that would start it now, as far as one is found.

Rule: a change that is named was planned: with it the gang had a place, at the view it was asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from gosched.core.spec import Mode
from gosched.scheduling.cycle_state import CycleState
from gosched.scheduling.preemption.eviction_rules import Victim
from gosched.scheduling.snapshot.task_requests import PendingGang, TaskRequest, with_asks

MAX_PRIORITIES = 8  # that are tried

_Change = tuple[str, PendingGang]


def smallest_change(scene: CycleState, gang: PendingGang) -> str:
    """One line; empty: none was found. Changes nothing in the scene's rooms."""
    for line, changed in _changes(scene, gang):
        if scene.would_start(changed):
            return f"it would start now {line}"
    if line := _fewer_tasks(scene, gang):
        return f"it would start now {line}"
    return _higher_priority(scene, gang)


def largest_gang(gang: PendingGang, starts: Callable[[PendingGang], bool]) -> int:
    """The most tasks, fewer than now, with which a gang of one group would start; 0: none, or several groups."""
    if len(gang.asks) != 1 or gang.joins:
        return 0
    most, low, high = 0, 1, gang.tasks - 1
    while low <= high:
        middle = (low + high) // 2
        if starts(with_tasks(gang, middle)):
            most, low = middle, middle + 1
        else:
            high = middle - 1
    return most


def with_tasks(gang: PendingGang, count: int) -> PendingGang:
    ask = gang.asks[0]
    return with_asks(gang, (replace(ask, ranks=ask.ranks[:count], floor=count),))


def lowest_priority(scene: CycleState, gang: PendingGang) -> tuple[int, tuple[Victim, ...]]:
    """The lowest higher priority at which others would be evicted for it, and whom; 0: none is found."""
    lower = sorted({h.priority for h in scene.view.holders.values() if h.queue == gang.queue and h.is_preemptible})
    for priority in [p + 1 for p in lower if p + 1 > gang.priority][:MAX_PRIORITIES]:
        victims = scene.would_evict(replace(gang, priority=priority, may_evict=True))
        if victims:
            return priority, victims
    return 0, ()


def _changes(scene: CycleState, gang: PendingGang) -> Iterator[_Change]:
    starts = [claim.start_ms for claim in scene.claims.all if claim.start_ms > scene.now_ms]
    starts += [window.start_ms for window in scene.claims.windows if window.start_ms > scene.now_ms]
    for start in sorted(starts)[:1]:
        span = start - scene.now_ms
        if not gang.is_promised or gang.span_ms > span:
            yield f"with a timeout of at most {span // 1000} s", replace(gang, span_ms=span, is_promised=True)
    if any(rule.mode is Mode.REQUIRED for ask in gang.asks for rule in ask.rules.topology):
        yield "if its topology were preferred instead of required", with_asks(gang, tuple(map(_preferring, gang.asks)))
    if any(ask.rules.gpu_model for ask in gang.asks):
        asks = [replace(ask, rules=ask.rules.changed(gpu_model="")) for ask in gang.asks]
        yield "with GPUs of any model", with_asks(gang, tuple(asks))
    if any(ask.rules.selector for ask in gang.asks):
        asks = [replace(ask, rules=ask.rules.changed(selector=())) for ask in gang.asks]
        yield "without its node_selector", with_asks(gang, tuple(asks))


def _preferring(ask: TaskRequest) -> TaskRequest:
    topology = tuple([replace(rule, mode=Mode.PREFERRED) for rule in ask.rules.topology])
    return replace(ask, rules=ask.rules.changed(topology=topology))


def _fewer_tasks(scene: CycleState, gang: PendingGang) -> str:
    most = largest_gang(gang, scene.would_start)
    return f"with {most} of its {gang.tasks} tasks" if most else ""


def _higher_priority(scene: CycleState, gang: PendingGang) -> str:
    priority, victims = lowest_priority(scene, gang)
    if not priority:
        return ""
    names = ", ".join([victim.gang.name for victim in victims[:3]]) + (", ..." if len(victims) > 3 else "")
    return f"it would start with priority {priority}, in place of {names}"
