"""What queues and tenants hold, want and may hold, read from the state at one moment.

Invariant: an inner queue shows the sums over the queues below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gosched.core.records.job import JobState
from gosched.core.records.queue import Queue
from gosched.core.records.usage import NOTHING_SPENT, Spent
from gosched.core.sharing import Amounts, add_to, ceilings, charge_of, guarantees, lineage
from gosched.core.state.cluster_state import ClusterState
from gosched.observe.counts import ClusterCounts

Shares = Mapping[str, Mapping[str, int]]  # queue path -> resource -> amount


@dataclass(slots=True, kw_only=True)
class QueueUse:
    """What one queue holds, wants and may hold."""

    queue: Queue
    #: Jobs.
    pending: int = 0
    running: int = 0
    #: What its jobs hold.
    used: Amounts = field(default_factory=dict)
    #: What the jobs ask for that wait to start.
    demand: Amounts = field(default_factory=dict)
    #: By the newest cycle; empty on a master that does not lead.
    fair_share: Mapping[str, int] = field(default_factory=dict)
    #: What it is guaranteed; nothing for queues of other types.
    guaranteed: Amounts = field(default_factory=dict)
    #: The most it may hold; a resource that it does not name has no limit.
    ceiling: Amounts = field(default_factory=dict)

    @property
    def fair_share_ratio(self) -> float | None:
        """The ratio of what it holds to its fair share, of the resource where it is largest; above 1 it borrows. None:
        it has no share."""
        ratios = [self.used.get(name, 0) / amount for name, amount in self.fair_share.items() if amount]
        return max(ratios, default=None)


@dataclass(slots=True, kw_only=True)
class TenantUse:
    used: Amounts = field(default_factory=dict)
    running_jobs: int = 0
    spent: Spent = NOTHING_SPENT


def queue_uses(state: ClusterState, counts: ClusterCounts, shares: Shares) -> dict[str, QueueUse]:
    """Return the use of each queue by its path, in the order of the state."""
    most, least = ceilings(state.queues, state.total), guarantees(state.queues, state.total)
    uses = {
        path: QueueUse(queue=queue, fair_share=shares.get(path, {}), ceiling=most[path], guaranteed=least.get(path, {}))
        for path, queue in state.queues.items()
    }
    for (path, job_state), number in counts.jobs.items():
        for use in _chain(uses, path):
            use.pending += number * (job_state is JobState.PENDING)
            use.running += number * (job_state is JobState.RUNNING)
    for (path, _, gpu_model), held in state.charges.items():
        for use in _chain(uses, path):
            add_to(use.used, charge_of(held, gpu_model))
    for path, wanted in counts.demand.items():
        for use in _chain(uses, path):
            add_to(use.demand, wanted)
    return uses


def tenant_uses(state: ClusterState) -> dict[str, TenantUse]:
    """Return the use of each tenant that has a quota, holds something or has spent something."""
    uses = {tenant: TenantUse() for tenant in state.quotas}
    for (_, tenant, gpu_model), held in state.charges.items():
        add_to(uses.setdefault(tenant, TenantUse()).used, charge_of(held, gpu_model))
    for (_, tenant), number in state.counts.running.items():
        uses.setdefault(tenant, TenantUse()).running_jobs += number
    for tenant, record in state.tenants.items():
        if record.spent != NOTHING_SPENT:
            uses.setdefault(tenant, TenantUse()).spent = record.spent
    return uses


def _chain(uses: Mapping[str, QueueUse], path: str) -> list[QueueUse]:
    """Return the queue and those above it; a queue that is gone (only ended jobs name it) has none."""
    return [uses[part] for part in lineage(path) if part in uses] if path in uses else []
