"""The limit of one queue or tenant, and whether it could hold a job at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gosched.core.amounts import amount_text
from gosched.core.reasons import WaitReason
from gosched.core.records.queue import Queue
from gosched.core.records.tenant import Quota
from gosched.core.sharing import Amounts, beyond, ceilings, lineage
from gosched.core.spec.job_spec import JobSpec
from gosched.scheduling.snapshot.task_requests import floor_charge

_WHOLE_PCT = 100


@dataclass(slots=True, kw_only=True)
class Limit:
    """The limit of a queue, or of a tenant in the whole cluster."""

    #: QUEUE_LIMIT or QUOTA.
    code: WaitReason
    #: In messages.
    name: str
    #: What its jobs hold, by resource name; placements of the cycle are added.
    used: Amounts
    #: The most that they may hold; a resource that is not named is not limited.
    ceiling: Mapping[str, int]
    #: Number of jobs that run.
    running: int
    #: Number of jobs that may run at once; 0: any number.
    jobs: int
    #: The part of the ceiling that is named in amounts; the rest follows from `max_pct` and the cluster.
    fixed: Mapping[str, int] = field(default_factory=dict)
    #: Of what its parent may hold.
    max_pct: int = _WHOLE_PCT

    def obstacle(self, charge: Mapping[str, int]) -> str:
        """Return a line that says that the limit could not hold so much if nothing else ran; empty: it could."""
        over = beyond({}, charge, self.ceiling)
        if not over:
            return ""
        needs, most = amount_text(over, charge[over]), amount_text(over, self.ceiling[over], bare=True)
        what = f"its limit is {most}"
        if self.max_pct < _WHOLE_PCT and self.fixed.get(over) != self.ceiling[over]:
            what = f"its max_pct of {self.max_pct} allows {most} in the cluster as it is"
        return f"{self.name}: the job needs {needs}, {what}: waiting does not help"


def limit_of_queue(queue: Queue, ceiling: Mapping[str, int], *, used: Amounts, running: int) -> Limit:
    return Limit(
        code=WaitReason.QUEUE_LIMIT,
        name=f"queue {queue.path}",
        used=used,
        ceiling=ceiling,
        running=running,
        jobs=queue.max_running_jobs,
        fixed=dict(queue.limit),
        max_pct=queue.max_pct,
    )


def limit_of_tenant(quota: Quota, *, used: Amounts, running: int) -> Limit:
    limit = dict(quota.limit)
    return Limit(
        code=WaitReason.QUOTA,
        name=f"quota of tenant {quota.tenant}",
        used=used,
        ceiling=limit,
        running=running,
        jobs=quota.max_running_jobs,
        fixed=limit,
    )


def limit_warnings(
    queues: Mapping[str, Queue], quotas: Mapping[str, Quota], total: Mapping[str, int], spec: JobSpec
) -> list[str]:
    """Return the limits that could not hold the job if nothing else ran, a line each. `total`: the cluster's. They may
    be raised, and nodes may join, so it is no error."""
    above = {path: queues[path] for path in lineage(spec.queue) if path in queues}
    limits = [limit_of_queue(above[path], most, used={}, running=0) for path, most in ceilings(above, total).items()]
    if spec.tenant in quotas:
        limits.append(limit_of_tenant(quotas[spec.tenant], used={}, running=0))
    charge = dict(floor_charge(spec)) if any(limit.ceiling for limit in limits) else {}
    return [line for limit in limits if (line := limit.obstacle(charge))]
