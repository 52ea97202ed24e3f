"""Queues: the nodes of the sharing tree."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.resources import AmountMap
from gosched.core.spec.policies import PreemptionPolicy


class QueueType(IntEnum):
    """How a queue takes part among its siblings."""

    UNSPECIFIED = 0
    FIFO = 1
    #: It shares by `weight` what is not guaranteed.
    FAIR = 2
    #: It has a guarantee; what is left is shared by `weight`.
    CAPACITY = 3


class QueueOrder(IntEnum):
    """The order of the jobs in a queue. UNSPECIFIED: the cluster's algorithm says."""

    UNSPECIFIED = 0
    FIFO = 1
    PRIORITY = 2
    FAIR = 3
    DEADLINE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A node of the sharing tree: `research.llm` is a child of `research`. Only leaves have jobs."""

    #: Names of its ancestors and its own, with dots between them.
    path: str
    #: How it takes part among its siblings.
    type: QueueType = QueueType.FIFO
    #: Its part, against its siblings, of what is not guaranteed; above 0.
    weight: int = 1
    #: Guarantee of a CAPACITY queue, in percent of its parent's; 0: see `guaranteed`.
    capacity_pct: int = 0
    #: What it may hold at most, in percent of what its parent may hold.
    max_pct: int = 100
    #: Guarantee of a CAPACITY queue by resource; one that is not named has none by it.
    guaranteed: AmountMap = ()
    #: What it may hold at most by resource; one that is not named has no limit by it.
    limit: AmountMap = ()
    #: Order of its jobs.
    order: QueueOrder = QueueOrder.UNSPECIFIED
    #: 0: any number.
    max_running_jobs: int = 0
    #: Tenants that may submit to it; empty: all.
    tenants: tuple[str, ...] = ()
    #: After which past use counts half; 0: its parent's, and without one past use does not count.
    half_life_ms: int = 0
    #: What its jobs may evict at most; UNSPECIFIED: as its parent's; at the top, what the jobs ask for.
    preemption: PreemptionPolicy = PreemptionPolicy.UNSPECIFIED
