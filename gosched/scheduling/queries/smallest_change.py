"""The smallest change to a waiting job that would start it now, as far as one is found.

Invariant: a change that is returned was planned: with it the gang fits, in the view that was asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from gosched.core.amounts import duration_text
from gosched.core.spec.placement_rules import Mode
from gosched.scheduling.explain.explanation import name_of
from gosched.scheduling.preemption.eviction_rules import Victim
from gosched.scheduling.queries.trial_cycle import TrialCycle
from gosched.scheduling.snapshot.task_requests import PendingGang, TaskRequest, replace_requests

MAX_PRIORITIES = 8  # priorities that are tried

_Change = tuple[str, PendingGang]


def smallest_change(trial: TrialCycle, gang: PendingGang) -> str:
    """Return the change as one line; empty: none was found."""
    for line, changed in _changes(trial, gang):
        if trial.starts_now(changed):
            return f"it would start now {line}"
    if line := _fewer_tasks(trial, gang):
        return f"it would start now {line}"
    return _higher_priority(trial, gang)


def largest_gang(gang: PendingGang, starts: Callable[[PendingGang], bool]) -> int:
    """Return the most tasks, fewer than now, with which a gang of one group would start; 0: none, or several groups."""
    if len(gang.requests) != 1 or gang.joins:
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
    request = gang.requests[0]
    return replace_requests(gang, (replace(request, ranks=request.ranks[:count], floor=count),))


def lowest_priority(trial: TrialCycle, gang: PendingGang) -> tuple[int, tuple[Victim, ...]]:
    """Return the lowest higher priority at which others would be evicted for the gang, and these; 0: none is found."""
    lower = sorted({h.priority for h in trial.view.holders.values() if h.queue == gang.queue and h.is_preemptible})
    for priority in [p + 1 for p in lower if p + 1 > gang.priority][:MAX_PRIORITIES]:
        victims = trial.victims_for(replace(gang, priority=priority, may_evict=True))
        if victims:
            return priority, victims
    return 0, ()


def _changes(trial: TrialCycle, gang: PendingGang) -> Iterator[_Change]:
    if begins := trial.next_reserved_ms():
        span = begins - trial.now_ms
        if not gang.is_bounded or gang.span_ms > span:
            longest = duration_text(span // 1000 * 1000)
            yield f"with a timeout of at most {longest}", replace(gang, span_ms=span, is_bounded=True)
    if any(rule.mode is Mode.REQUIRED for request in gang.requests for rule in request.constraints.topology):
        yield (
            "if its topology were preferred instead of required",
            replace_requests(gang, tuple(map(_preferring, gang.requests))),
        )
    if any(request.constraints.gpu_model for request in gang.requests):
        requests = [
            replace(request, constraints=request.constraints.changed(gpu_model="")) for request in gang.requests
        ]
        yield "with GPUs of any model", replace_requests(gang, tuple(requests))
    if any(request.constraints.selector for request in gang.requests):
        requests = [replace(request, constraints=request.constraints.changed(selector=())) for request in gang.requests]
        yield "without its node_selector", replace_requests(gang, tuple(requests))


def _preferring(request: TaskRequest) -> TaskRequest:
    topology = tuple([replace(rule, mode=Mode.PREFERRED) for rule in request.constraints.topology])
    return replace(request, constraints=request.constraints.changed(topology=topology))


def _fewer_tasks(trial: TrialCycle, gang: PendingGang) -> str:
    most = largest_gang(gang, trial.starts_now)
    return f"with {most} of its {gang.tasks} tasks" if most else ""


def _higher_priority(trial: TrialCycle, gang: PendingGang) -> str:
    priority, victims = lowest_priority(trial, gang)
    if not priority:
        return ""
    names = ", ".join([name_of(victim.gang, gang) for victim in victims[:3]]) + (", ..." if len(victims) > 3 else "")
    return f"it would start with priority {priority}, evicting {names}"
