"""Who is looked at first: the lines of gangs that wait, one for each queue, or for each of its tenants.

Rule: sequences are unique, so every order is total, whatever order the gangs came in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter

from gosched.core.cluster import Queue, QueueOrder
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
    """Lines that take turns; a strict policy has a band for each priority, the highest first."""
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
    """Each in its queue's order. A queue that is fair among its tenants has a line for each of them."""
    found: list[Line[PendingGang]] = []
    for queue, inside in sorted(_grouped(gangs, _by_queue).items()):
        order = _order(queues, queue, policy)
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


def _order(queues: Mapping[str, Queue], path: str, policy: Policy) -> QueueOrder:
    queue = queues.get(path)
    return (queue.order if queue else QueueOrder.UNSPECIFIED) or policy.order


def _sorted(gangs: list[PendingGang], order: QueueOrder, policy: Policy, now_ms: int) -> list[PendingGang]:
    """Stable sorts, the last one counts most; they are near to free on what is nearly sorted. Whatever the order, gangs
    that are about to miss their deadlines come first, the earliest deadline before the others."""
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
    """Its slack has run short: it is less than half of what it runs, or ten minutes. A deadline that has passed anyway
    hurries nobody."""
    if not gang.deadline_ms or gang.deadline_ms <= now_ms:
        return False
    slack = gang.deadline_ms - now_ms - gang.span_ms
    return slack < max(gang.span_ms // 2, _SHORT_MS)


def _size(gang: PendingGang) -> int:
    return gang.total[Column.GPU] << 32 | gang.tasks


def _deadline(gang: PendingGang) -> int:
    return gang.deadline_ms or _NEVER_MS
