"""Checks a tree of queues as a whole, and the queues in it.

Paths of findings begin with the queue's place in the list. Live jobs stay in leaves: the state machine, which knows
them, checks that.
"""

from __future__ import annotations

from collections.abc import Sequence

from gosched.core.amounts import amount_text
from gosched.core.limits import MAX_DURATION_MS, MAX_QUEUES, MAX_QUEUES_BYTES, MAX_TENANTS_PER_QUEUE
from gosched.core.records.queue import Queue, QueueType
from gosched.core.rules.finding import Finding
from gosched.core.rules.values import check_name, check_not_negative, check_order, check_range, check_vector
from gosched.core.sharing import Amounts, add_to, parent_of
from gosched.core.state.record_bytes import content_bytes

_ALL_PCT = 100
_MAX_WEIGHT = 1_000_000
_MIN_HALF_LIFE_MS = 60_000


def check_queues(queues: Sequence[Queue]) -> Finding | None:
    """Return the first thing that is wrong with the queues of a cluster, or None."""
    if not 0 < len(queues) <= MAX_QUEUES:
        return Finding(problem=f"there are 1 to {MAX_QUEUES} queues; {len(queues)} were given")
    places: dict[str, int] = {}
    for place, queue in enumerate(queues):
        found = check_name("queue path", queue.path, place, "name") or _check_queue(queue, place)
        if found:
            return found
        if queue.path in places:
            return Finding(path=(place, "name"), subject=f"queue {queue.path}", problem="is given twice")
        places[queue.path] = place
    return _check_tree(queues, places)


def check_queues_size(queues: tuple[Queue, ...]) -> Finding | None:
    """Check how much the queues take of the replicated state, from `FeatureLevel.BOUNDED` on."""
    size = content_bytes(queues)
    if size <= MAX_QUEUES_BYTES:
        return None
    problem = f"would take {size} bytes; at most {MAX_QUEUES_BYTES} are allowed"
    return Finding(subject="all queues", problem=problem, advice="name fewer tenants and resources")


def _check_tree(queues: Sequence[Queue], places: dict[str, int]) -> Finding | None:
    percents: dict[str, int] = {}
    guaranteed: dict[str, Amounts] = {}
    for place, queue in enumerate(queues):
        subject, parent = f"queue {queue.path}", parent_of(queue.path)
        if parent and parent not in places:
            return Finding(path=(place,), subject=subject, problem="lacks its parent", advice=f"add the queue {parent}")
        percents[parent] = percents.get(parent, 0) + queue.capacity_pct
        if percents[parent] > _ALL_PCT:
            problem = "its capacity and that of the queues beside it exceed 100 percent"
            return Finding(path=(place, "capacity_pct"), subject=f"{subject}:", problem=problem)
        add_to(guaranteed.setdefault(parent, {}), dict(queue.guaranteed))
    for parent, of_children in guaranteed.items():
        for name, most in queues[places[parent]].guaranteed if parent else ():
            if of_children.get(name, 0) > most:
                problem = f"is guaranteed {most} of {name}, the queues below it {of_children[name]} together"
                together = amount_text(name, of_children[name], bare=True)
                in_units = f"is guaranteed {amount_text(name, most)}, the queues below it {together} together"
                path = (places[parent], "guaranteed", name)
                return Finding(path=path, subject=f"queue {parent}", problem=problem, in_units=in_units)
    return None


def _check_queue(queue: Queue, place: int) -> Finding | None:
    subject = f"queue {queue.path}:"
    if "" in queue.path.split("."):
        return Finding(path=(place, "name"), subject=f"queue path {queue.path}", problem="has an empty part")
    if queue.type is QueueType.UNSPECIFIED:
        return Finding(path=(place, "type"), subject=subject, problem="type must be fifo, fair or capacity")
    found = check_range(f"{subject} weight", queue.weight, 1, _MAX_WEIGHT, place, "weight") or check_not_negative(
        f"{subject} max_running_jobs", queue.max_running_jobs, place, "max_running_jobs"
    )
    if found:
        return found
    if queue.half_life_ms and not _MIN_HALF_LIFE_MS <= queue.half_life_ms <= MAX_DURATION_MS:
        subject = f"{subject} half_life of {queue.half_life_ms} ms"
        return Finding(path=(place, "half_life"), subject=subject, problem="is not between a minute and 366 days")
    return _check_share(queue, place) or _check_tenants(queue, place)


def _check_share(queue: Queue, place: int) -> Finding | None:
    subject = f"queue {queue.path}:"
    if queue.type is not QueueType.CAPACITY and (queue.capacity_pct or queue.guaranteed):
        problem = "only a queue of type capacity has capacity_pct or guaranteed; a fair one has a weight"
        key = "capacity_pct" if queue.capacity_pct else "guaranteed"
        return Finding(path=(place, key), subject=subject, problem=problem)
    found = check_range(f"{subject} capacity_pct", queue.capacity_pct, 0, _ALL_PCT, place, "capacity_pct")
    if found:
        return found
    if not max(1, queue.capacity_pct) <= queue.max_pct <= _ALL_PCT:
        problem = f"{queue.max_pct} is not between its capacity_pct (at least 1) and 100"
        return Finding(path=(place, "max_pct"), subject=f"{subject} max_pct", problem=problem)
    found = check_vector(f"{subject} guaranteed", queue.guaranteed, place, "guaranteed") or check_vector(
        f"{subject} limit", queue.limit, place, "limit"
    )
    return found or _check_guarantee(queue, place)


def _check_guarantee(queue: Queue, place: int) -> Finding | None:
    limit = dict(queue.limit)
    for name, amount in queue.guaranteed:
        if amount > limit.get(name, amount):
            problem = f"is guaranteed {amount} of {name}, more than its limit of {limit[name]}"
            most = amount_text(name, limit[name], bare=True)
            in_units = f"is guaranteed {amount_text(name, amount)}, more than its limit of {most}"
            path = (place, "guaranteed", name)
            return Finding(path=path, subject=f"queue {queue.path}", problem=problem, in_units=in_units)
    return None


def _check_tenants(queue: Queue, place: int) -> Finding | None:
    subject = f"queue {queue.path}: tenants"
    if len(queue.tenants) > MAX_TENANTS_PER_QUEUE:
        problem = f"{len(queue.tenants)} are named; at most {MAX_TENANTS_PER_QUEUE} are allowed"
        return Finding(path=(place, "tenants"), subject=f"{subject}:", problem=problem)
    for tenant in queue.tenants:
        found = check_name(f"queue {queue.path}: tenant", tenant, place, "tenants")
        if found:
            return found
    return check_order(subject, queue.tenants, place, "tenants")
