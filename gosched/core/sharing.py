"""Amounts by resource name, and the ceilings and guarantees of queues: planner and state machine share these rules.

Names: `cpu` (milli-CPUs), `memory`, `storage` (bytes), `gpu` (milli-GPUs), `gpu:MODEL`, and custom resources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gosched.core.records.queue import Queue, QueueType
from gosched.core.resources import AmountMap, Resources

MODEL_PREFIX = "gpu:"
BUILT_IN = ("cpu", "memory", "storage", "gpu")  # the amounts that every node has, in the order of a vector
IN_BYTES = ("memory", "storage")

Amounts = dict[str, int]


def charge_of(resources: Resources, gpu_model: str = "") -> Amounts:
    """Return what holding the resources counts as, without zeros."""
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


def resources_of(amounts: Mapping[str, int]) -> Resources:
    """Return the amounts as a record; single GPU models are left out."""
    return Resources(
        cpu_millis=amounts.get("cpu", 0),
        memory_bytes=amounts.get("memory", 0),
        storage_bytes=amounts.get("storage", 0),
        gpu_millis=amounts.get("gpu", 0),
        custom=as_map({n: a for n, a in amounts.items() if n not in BUILT_IN and not n.startswith(MODEL_PREFIX)}),
    )


def is_in_millis(name: str) -> bool:
    """Return whether the resource is counted in thousandths."""
    return name in ("cpu", "gpu") or name.startswith(MODEL_PREFIX)


def add_to(total: Amounts, more: Mapping[str, int], times: int = 1) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount * times


def lineage(path: str) -> tuple[str, ...]:
    """Return the queue and its ancestors, the topmost first: for `a.b` these are `a` and `a.b`."""
    parts = path.split(".")
    return tuple([".".join(parts[: i + 1]) for i in range(len(parts))])


def parent_of(path: str) -> str:
    """Return the path of the parent queue; empty for a topmost queue."""
    return path.rpartition(".")[0]


def ceilings(queues: Mapping[str, Queue], total: Mapping[str, int]) -> dict[str, Amounts]:
    """Return, for each queue, the most that it may hold of each resource that is limited for it.

    `total` is the cluster's. `max_pct` is a percentage of what the parent may hold; it does not apply to single GPU
    models.
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
    """Return, for each queue, what it is guaranteed of each resource. Only CAPACITY queues have guarantees.

    `total` is the cluster's. `capacity_pct` is a percentage of what the parent is guaranteed, so it gives nothing below
    a queue without guarantees; it does not apply to single GPU models.
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
    """Return the first resource, by name, of which `used` and `more` together exceed the ceiling; empty if none.
    Only resources in `more` are looked at."""
    over = [name for name, most in ceiling.items() if more.get(name, 0) and used.get(name, 0) + more[name] > most]
    return min(over, default="")


def as_map(amounts: Mapping[str, int]) -> AmountMap:
    return tuple(sorted([(name, amount) for name, amount in amounts.items() if amount]))


def cluster_total(capacities: Iterable[tuple[Resources, str]]) -> Amounts:
    """Return the sum over nodes, each given with its GPU model."""
    total: Amounts = {}
    for capacity, model in capacities:
        add_to(total, charge_of(capacity, model))
    return total
