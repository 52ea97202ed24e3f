"""Queues and quotas as the keys of a file: the inverse of `queues`.

Invariant: what is written here is read as the same records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gosched.config.written import cpus, differing, duration, gpus, memory
from gosched.core.records.queue import Queue, QueueOrder
from gosched.core.records.tenant import Quota
from gosched.core.resources import AmountMap
from gosched.core.rules.quotas import is_no_quota
from gosched.core.sharing import MODEL_PREFIX
from gosched.core.spec.policies import PreemptionPolicy

Keys = dict[str, Any]
_WRITERS = {"cpu": cpus, "memory": memory, "storage": memory, "gpu": gpus}


def queues_keys(queues: Sequence[Queue], quotas: Sequence[Quota] | None = None) -> Keys:
    """Return the tree, and the quotas where some are given, as `queue apply` reads them."""
    by_path = {queue.path: queue for queue in sorted(queues, key=lambda queue: queue.path)}
    keys: Keys = {"queues": _below("", by_path)}
    return keys if quotas is None else keys | quotas_keys(quotas)


def quotas_keys(quotas: Sequence[Quota]) -> Keys:
    there = sorted((quota for quota in quotas if not is_no_quota(quota)), key=lambda quota: quota.tenant)
    return {"quotas": [{"tenant": quota.tenant, **quota_keys(quota)} for quota in there]}


def queue_keys(queue: Queue) -> Keys:
    """Return the keys of one queue that are not their defaults, without its name and its children."""
    return {
        "type": queue.type.name.lower(),
        **differing(
            weight=(queue.weight, 1),
            capacity_pct=(queue.capacity_pct, 0),
            max_pct=(queue.max_pct, 100),
            guaranteed=(amounts_keys(queue.guaranteed), {}),
            limit=(amounts_keys(queue.limit), {}),
            order=(queue.order.name.lower(), QueueOrder.UNSPECIFIED.name.lower()),
            max_running_jobs=(queue.max_running_jobs, 0),
            tenants=([*queue.tenants], []),
            half_life=(duration(queue.half_life_ms), duration(0)),
            preemption=(queue.preemption.name.lower(), PreemptionPolicy.UNSPECIFIED.name.lower()),
        ),
    }


def quota_keys(quota: Quota) -> Keys:
    """Return the keys of one quota that are not their defaults, without its tenant."""
    return differing(limit=(amounts_keys(quota.limit), {}), max_running_jobs=(quota.max_running_jobs, 0))


def _below(parent: str, by_path: Mapping[str, Queue]) -> list[Keys]:
    found = []
    for path, queue in by_path.items():
        above, _, name = path.rpartition(".")
        if above == parent:
            children = _below(path, by_path)
            found.append({"name": name, **queue_keys(queue), **({"children": children} if children else {})})
    return found


def amounts_keys(amounts: AmountMap) -> Keys:
    """Return amounts as a file writes them."""
    return {name: _amount(name, amount) for name, amount in amounts}


def _amount(name: str, amount: int) -> int | str:
    if name.startswith(MODEL_PREFIX):
        return gpus(amount)
    return _WRITERS[name](amount) if name in _WRITERS else amount
