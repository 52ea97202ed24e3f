"""What queues and tenants may still take while the gangs of one plan are applied.

Rule: the sums are made once per plan, for limited queues and tenants only, and then follow the gangs that are taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gosched.core.job import Job, JobState
from gosched.core.sharing import Amounts, add_to, beyond, ceilings, charge_of, lineage
from gosched.core.state import ClusterState


@dataclass(slots=True, kw_only=True)
class _Holder:
    """A limited queue or tenant. `max_running` 0: any number of jobs."""

    name: str
    ceiling: Mapping[str, int]
    max_running: int
    used: Amounts = field(default_factory=dict)
    running: int = 0


class Headroom:
    def __init__(self, state: ClusterState) -> None:
        self._queues = {
            path: _Holder(name=f"queue {path}", ceiling=ceiling, max_running=state.queues[path].max_running_jobs)
            for path, ceiling in ceilings(state.queues, state.total).items()
            if ceiling or state.queues[path].max_running_jobs
        }
        self._tenants = {
            quota.tenant: _Holder(
                name=f"tenant {quota.tenant}", ceiling=dict(quota.limit), max_running=quota.max_running_jobs
            )
            for quota in state.quotas.values()
        }
        self._lines: dict[tuple[str, str], list[_Holder]] = {}
        self.is_limited = bool(self._queues or self._tenants)
        if self.is_limited:
            self._add_up(state)

    def problem(self, job: Job, wanted: Amounts) -> str:
        """Why the job may not take this much more; `wanted` is by resource name."""
        starts = job.state is JobState.PENDING
        for holder in self._holders(job.spec.queue, job.spec.tenant):
            if starts and holder.max_running and holder.running >= holder.max_running:
                return f"{holder.name} runs {holder.running} jobs, its max_running_jobs is {holder.max_running}"
            name = beyond(holder.used, wanted, holder.ceiling) if holder.ceiling else ""
            if name:
                used, most = holder.used.get(name, 0), holder.ceiling[name]
                return f"{holder.name} holds {used} of its limit of {most} {name}; the gang wants {wanted[name]}"
        return ""

    def take(self, job: Job, wanted: Amounts) -> None:
        """`job` as it was before it took them."""
        for holder in self._holders(job.spec.queue, job.spec.tenant):
            if holder.ceiling:
                add_to(holder.used, wanted)
            holder.running += job.state is JobState.PENDING

    def _add_up(self, state: ClusterState) -> None:
        for (queue, tenant, model), resources in state.charges.items():
            charge = charge_of(resources, model)
            for holder in self._holders(queue, tenant):
                add_to(holder.used, charge)
        for (queue, tenant), jobs in state.running.items():
            for holder in self._holders(queue, tenant):
                holder.running += jobs

    def _holders(self, queue: str, tenant: str) -> list[_Holder]:
        line = self._lines.get((queue, tenant))
        if line is None:
            line = [self._queues[path] for path in lineage(queue) if path in self._queues]
            if tenant in self._tenants:
                line.append(self._tenants[tenant])
            self._lines[queue, tenant] = line
        return line
