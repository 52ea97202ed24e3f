"""Amounts by resource name, ceilings and guarantees of queues in them: what planner and state machine agree on.

Names: `cpu` (milli-CPUs), `memory`, `storage` (bytes), `gpu` (milli-GPUs), `gpu:MODEL`, and the cluster's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gosched.core.records.queue import Queue, QueueType
from gosched.core.resources import AmountMap, Resources

MODEL_PREFIX = "gpu:"
BUILT_IN = ("cpu", "memory", "storage", "gpu")

Amounts = dict[str, int]


def charge_of(resources: Resources, gpu_model: str = "") -> Amounts:
    """What holding them counts as; no zeros."""
    charge = {
        "cpu": resources.cpu_millis,
        "memory": resources.memory_bytes,
        "storage": resources.storage_bytes,
        "gpu": resources.gpu_millis,
    }
    if gpu_model:
        charge[MODEL_PREFIX + gpu_model] = resources.gpu_millis
    charge.update(resources.custom)
    return {name: amount for name, amount in charge.items() if amount}


def add_to(total: Amounts, more: Mapping[str, int], times: int = 1) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount * times


def lineage(path: str) -> tuple[str, ...]:
    """The queue and its ancestors, the topmost first: `a.b` has `a` and `a.b`."""
    parts = path.split(".")
    return tuple([".".join(parts[: i + 1]) for i in range(len(parts))])


def parent_of(path: str) -> str:
    """Empty for a topmost queue."""
    return path.rpartition(".")[0]


def ceilings(queues: Mapping[str, Queue], total: Mapping[str, int]) -> dict[str, Amounts]:
    """For each queue the most it may hold of each resource that is limited for it; `total` is the cluster's.

    `max_pct` is of what the parent may hold, and does not apply to single GPU models.
    """
    found: dict[str, Amounts] = {}
    for path in sorted(queues):  # parents come before their children
        queue = queues[path]
        ceiling: Amounts = {}
        if queue.max_pct < 100:
            base = {name: amount for name, amount in total.items() if not name.startswith(MODEL_PREFIX)}
            for ancestor in lineage(path)[:-1]:
                base.update(found.get(ancestor, {}))
            ceiling = {name: amount * queue.max_pct // 100 for name, amount in base.items()}
        for name, amount in queue.limit:
            ceiling[name] = min(amount, ceiling.get(name, amount))
        found[path] = ceiling
    return found


def guarantees(queues: Mapping[str, Queue], total: Mapping[str, int]) -> dict[str, Amounts]:
    """For each queue what it is guaranteed of each resource; `total` is the cluster's. Only CAPACITY queues have one.

    `capacity_pct` is of what the parent is guaranteed, and does not apply to single GPU models; below a queue that has
    no guarantee, a percentage is of nothing.
    """
    whole = {name: amount for name, amount in total.items() if not name.startswith(MODEL_PREFIX)}
    found: dict[str, Amounts] = {}
    for path in sorted(queues):  # parents come before their children
        queue = queues[path]
        found[path] = {}
        if queue.type is QueueType.CAPACITY:
            base = found.get(parent_of(path), {}) if parent_of(path) else whole
            shares = {n: amount * queue.capacity_pct // 100 for n, amount in base.items() if n in whole}
            found[path] = {n: amount for n, amount in {**shares, **dict(queue.guaranteed)}.items() if amount}
    return found


def beyond(used: Mapping[str, int], more: Mapping[str, int], ceiling: Mapping[str, int]) -> str:
    """The first resource, by name, of which `used` and `more` together exceed the ceiling; only `more` counts as a
    reason. Empty: none."""
    over = [name for name, most in ceiling.items() if more.get(name, 0) and used.get(name, 0) + more[name] > most]
    return min(over, default="")


def as_map(amounts: Mapping[str, int]) -> AmountMap:
    return tuple(sorted([(name, amount) for name, amount in amounts.items() if amount]))


def cluster_total(capacities: Iterable[tuple[Resources, str]]) -> Amounts:
    """Of nodes, each with its GPU model."""
    total: Amounts = {}
    for capacity, model in capacities:
        add_to(total, charge_of(capacity, model))
    return total
