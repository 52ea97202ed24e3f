"""Queues: the nodes of the sharing tree."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.resources import AmountMap
from gosched.core.spec.policies import PreemptionPolicy


class QueueType(IntEnum):
    UNSPECIFIED = 0
    FIFO = 1
    FAIR = 2
    CAPACITY = 3


class QueueOrder(IntEnum):
    """Of the jobs in a queue. UNSPECIFIED: the cluster's algorithm says."""

    UNSPECIFIED = 0
    FIFO = 1
    PRIORITY = 2
    FAIR = 3
    DEADLINE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A node of the sharing tree; `research.llm` is a child of `research`. Jobs stand in leaves only.

    `type` says how it takes part among its siblings: CAPACITY has a guarantee (`capacity_pct` of its parent's share,
    or the vector `guaranteed`); what is left is shared by `weight`. It never holds more than `max_pct` of
    what its parent may hold, nor more than `limit`. A resource that a vector does not name has no limit by it.
    `max_running_jobs` 0, `half_life_ms` 0, `tenants` empty: no such rule. `preemption` UNSPECIFIED: as its parent's; a
    topmost queue then lets its jobs do what they ask for.
    """

    path: str
    type: QueueType = QueueType.FIFO
    weight: int = 1
    capacity_pct: int = 0
    max_pct: int = 100
    guaranteed: AmountMap = ()
    limit: AmountMap = ()
    order: QueueOrder = QueueOrder.UNSPECIFIED
    max_running_jobs: int = 0
    tenants: tuple[str, ...] = ()
    half_life_ms: int = 0
    preemption: PreemptionPolicy = PreemptionPolicy.UNSPECIFIED
