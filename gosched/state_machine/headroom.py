"""What queues and tenants may still take while the gangs of one plan are applied.

Rule: the sums are made once per plan, for limited queues and tenants only, and then follow the gangs that are taken.
There are two of each: what is held now, and what will be held once all fences have become starts. A gang that starts
at once keeps the limits by both, one that gets a fence by the second.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gosched.core.records.fence import Fence
from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.sharing import Amounts, add_to, beyond, ceilings, charge_of, lineage
from gosched.core.spec.job_spec import group_of
from gosched.core.state.cluster_state import ClusterState


@dataclass(slots=True, kw_only=True)
class _Holder:
    """A limited queue or tenant. `max_running` 0: any number of jobs."""

    name: str
    ceiling: Mapping[str, int]
    max_running: int
    used: Amounts = field(default_factory=dict)
    running: int = 0
    more: Amounts = field(default_factory=dict)  # what fences add to it, less what leaves for them; may be negative
    starting: int = 0

    def problem(self, wanted: Amounts, starts: bool, fence: bool) -> str:
        problem = "" if fence else self._beyond(self.used, self.running, wanted, starts)
        if problem or not (fence or self.more or self.starting):
            return problem
        later = dict(self.used)
        add_to(later, self.more)
        return self._beyond(later, self.running + self.starting, wanted, starts)

    def _beyond(self, used: Amounts, running: int, wanted: Amounts, starts: bool) -> str:
        if starts and self.max_running and running >= self.max_running:
            return f"{self.name} runs {running} jobs, its max_running_jobs is {self.max_running}"
        name = beyond(used, wanted, self.ceiling) if self.ceiling else ""
        if name:
            held, most = used.get(name, 0), self.ceiling[name]
            return f"{self.name} holds {held} of its limit of {most} {name}; the gang wants {wanted[name]}"
        return ""


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

    def problem(self, job: Job, wanted: Amounts, leaving: Sequence[Departure] = (), *, fence: bool = False) -> str:
        """Why the job may not take this much more, by resource name, once `leaving` has gone."""
        starts = not _runs_on(job)
        self._depart(leaving, 1)
        holders = self._holders(job.spec.queue, job.spec.tenant)
        problems = [holder.problem(wanted, starts, fence) for holder in holders]
        self._depart(leaving, -1)
        return next((problem for problem in problems if problem), "")

    def take(self, job: Job, wanted: Amounts, leaving: Sequence[Departure] = (), *, fence: bool = False) -> None:
        """`job` as it was before it took them."""
        self._depart(leaving, 1)
        starts = not _runs_on(job)
        for holder in self._holders(job.spec.queue, job.spec.tenant):
            if fence:
                add_to(holder.more, wanted)
                holder.starting += starts
            else:
                if holder.ceiling:
                    add_to(holder.used, wanted)
                holder.running += starts

    def _add_up(self, state: ClusterState) -> None:
        for (queue, tenant, model), resources in state.charges.items():
            charge = charge_of(resources, model)
            for holder in self._holders(queue, tenant):
                add_to(holder.used, charge)
        for (queue, tenant), jobs in state.running.items():
            for holder in self._holders(queue, tenant):
                holder.running += jobs
        self._depart(departures(state, leaving_allocations(state)), 1)
        for fence in state.fences.values():
            self.take(state.jobs[fence.job_id], fenced_charge(state, fence), fence=True)

    def _depart(self, leaving: Sequence[Departure], times: int) -> None:
        for departure in leaving:
            for holder in self._holders(departure.queue, departure.tenant):
                add_to(holder.more, departure.charge, -times)
                holder.starting -= departure.jobs * times

    def _holders(self, queue: str, tenant: str) -> list[_Holder]:
        line = self._lines.get((queue, tenant))
        if line is None:
            line = [self._queues[path] for path in lineage(queue) if path in self._queues]
            if tenant in self._tenants:
                line.append(self._tenants[tenant])
            self._lines[queue, tenant] = line
        return line


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """What goes with the allocations of one job; `jobs` 1: it stops running with them."""

    queue: str
    tenant: str
    charge: Amounts
    jobs: int


def departures(state: ClusterState, allocations: Iterable[str], whole: Container[str] = ()) -> list[Departure]:
    """Of these allocations. `whole`: the jobs that are about to be stopped, besides those that stop already."""
    charges: dict[str, Amounts] = {}
    for allocation_id in allocations:
        allocation = state.allocations[allocation_id]
        charge = charges.setdefault(allocation.job_id, {})
        add_to(charge, charge_of(allocation.resources, allocation.gpu_model))
    jobs = {job_id: state.jobs[job_id] for job_id in charges}
    return [
        Departure(
            queue=job.spec.queue,
            tenant=job.spec.tenant,
            charge=charges[job.id],
            jobs=int(job.id in whole or not _runs_on(job)),
        )
        for job in jobs.values()
    ]


def leaving_allocations(state: ClusterState) -> list[str]:
    """Those that leave for a fence."""
    return [a for node in state.leaving for a in state.node_allocations[node] if state.allocations[a].leaves_for]


def fenced_charge(state: ClusterState, fence: Fence) -> Amounts:
    """What its job will hold once it has started."""
    spec = state.jobs[fence.job_id].spec
    wanted: Amounts = {}
    for placement in fence.tasks:
        resources = group_of(spec, placement.rank).resources
        add_to(wanted, charge_of(resources, state.nodes[placement.node_id].gpu_model))
    return wanted


def _runs_on(job: Job) -> bool:
    return job.state is JobState.RUNNING and job.intent is JobIntent.RUN
