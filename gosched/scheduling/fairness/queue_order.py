"""The order of gangs within each queue: lines of gangs that wait, one for each queue or for each of its tenants.

Invariant: sequences are unique, so the order is total, whatever order the gangs come in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter

from gosched.core.records.queue import Queue, QueueOrder
from gosched.scheduling.fairness.drf_order import Line
from gosched.scheduling.plugins.calls import Plugins
from gosched.scheduling.policy import Policy
from gosched.scheduling.snapshot.columns import Column
from gosched.scheduling.snapshot.task_requests import PendingGang

_NEVER_MS = 1 << 62
_SHORT_MS = 10 * 60 * 1000

_by_queue = attrgetter("queue")
_by_tenant = attrgetter("tenant")
_by_sequence = attrgetter("sequence")
_by_priority = attrgetter("priority")


def bands(
    queues: Mapping[str, Queue], pending: Sequence[PendingGang], policy: Policy, plugins: Plugins, now_ms: int
) -> Iterator[list[Line[PendingGang]]]:
    """Yield bands of lines that are served together: if the policy is strict, one for each priority."""
    if not policy.strict:
        yield lines(queues, pending, policy, plugins, now_ms)
        return
    by_priority: dict[int, list[PendingGang]] = {}
    for gang in pending:
        by_priority.setdefault(gang.priority, []).append(gang)
    for priority in sorted(by_priority, reverse=True):
        yield lines(queues, by_priority[priority], policy, plugins, now_ms)


def lines(
    queues: Mapping[str, Queue], gangs: Sequence[PendingGang], policy: Policy, plugins: Plugins, now_ms: int
) -> list[Line[PendingGang]]:
    """Return a line for each queue, in its order; a queue that is fair among its tenants has one for each of them."""
    found: list[Line[PendingGang]] = []
    for queue, inside in sorted(_grouped(gangs, _by_queue).items()):
        order = order_of(queues, queue, policy)
        by_tenant = _grouped(inside, _by_tenant) if order is QueueOrder.FAIR else {"": inside}
        found += [
            Line(queue, tenant, plugins.ordered(queue, _sorted(own, order, policy, now_ms)))
            for tenant, own in sorted(by_tenant.items())
        ]
    return found


def _grouped(gangs: Sequence[PendingGang], key: Callable[[PendingGang], str]) -> dict[str, list[PendingGang]]:
    groups: defaultdict[str, list[PendingGang]] = defaultdict(list)
    for gang in gangs:
        groups[key(gang)].append(gang)
    return groups


def order_of(queues: Mapping[str, Queue], path: str, policy: Policy) -> QueueOrder:
    queue = queues.get(path)
    return (queue.order if queue else QueueOrder.UNSPECIFIED) or policy.order


def _sorted(gangs: list[PendingGang], order: QueueOrder, policy: Policy, now_ms: int) -> list[PendingGang]:
    """Sort by stable sorts, of which the last counts most; they cost little on what is nearly sorted.

    In every order gangs that are about to miss their deadlines come first, the earliest deadline before the others.
    """
    gangs.sort(key=_by_sequence)
    keys: list[tuple[Callable[[PendingGang], int], bool]] = []
    if policy.compact:
        keys.append((_size, True))
    if order is not QueueOrder.FIFO:
        keys.append((_by_priority, True))
    if order is QueueOrder.DEADLINE:
        keys.append((_deadline, False))
    if any(gang.deadline_ms for gang in gangs):
        keys.append((lambda gang: gang.deadline_ms if is_urgent(gang, now_ms) else _NEVER_MS, False))
    for key, reverse in keys:
        gangs.sort(key=key, reverse=reverse)
    return gangs


def is_urgent(gang: PendingGang, now_ms: int) -> bool:
    """Return whether the gang is about to miss its deadline: its slack is less than half of its run time, or than ten
    minutes. A gang whose deadline has passed is not urgent any more."""
    if not gang.deadline_ms or gang.deadline_ms <= now_ms:
        return False
    slack = gang.deadline_ms - now_ms - gang.span_ms
    return slack < max(gang.span_ms // 2, _SHORT_MS)


def _size(gang: PendingGang) -> int:
    return gang.total[Column.GPU] << 32 | gang.tasks


def _deadline(gang: PendingGang) -> int:
    return gang.deadline_ms or _NEVER_MS
