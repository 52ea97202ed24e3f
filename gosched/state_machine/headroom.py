"""What queues and tenants may still take while the gangs of one plan are applied.

Invariant: the sums are made once per plan, for limited queues and tenants only, and then follow the gangs that are
taken. There are two of each: what is held now, and what will be held once all fences have become starts. A gang that
starts at once keeps the limits by both, one that gets a fence by the second.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gosched.core.records.fence import Fence
from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.sharing import Amounts, add_to, beyond, ceilings, charge_of, lineage
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.fenced_capacity import charge_of_fence
from gosched.state_machine import units


@dataclass(slots=True, kw_only=True)
class _Holder:
    """A limited queue or tenant. `max_running` 0: any number of jobs."""

    name: str
    ceiling: Mapping[str, int]
    max_running: int
    level: int  # of features, for the words of a problem
    used: Amounts = field(default_factory=dict)
    running: int = 0
    more: Amounts = field(default_factory=dict)  # what fences add to it, less what their victims hold; may be negative
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
            held = units.bare_amount(self.level, name, used.get(name, 0))
            most = units.amount(self.level, name, self.ceiling[name])
            wants = units.bare_amount(self.level, name, wanted[name])
            return f"{self.name} holds {held} of its limit of {most}; the gang wants {wants}"
        return ""


class Headroom:
    """The limits that hold for the gangs of one plan."""

    def __init__(self, state: ClusterState) -> None:
        self._queues = {
            path: _Holder(
                name=f"queue {path}",
                ceiling=ceiling,
                max_running=state.queues[path].max_running_jobs,
                level=state.feature_level,
            )
            for path, ceiling in ceilings(state.queues, state.total).items()
            if ceiling or state.queues[path].max_running_jobs
        }
        self._tenants = {
            quota.tenant: _Holder(
                name=f"tenant {quota.tenant}",
                ceiling=dict(quota.limit),
                max_running=quota.max_running_jobs,
                level=state.feature_level,
            )
            for quota in state.quotas.values()
        }
        self._lines: dict[tuple[str, str], list[_Holder]] = {}
        self.is_limited = bool(self._queues or self._tenants)
        if self.is_limited:
            self._add_up(state)

    def problem(self, job: Job, wanted: Amounts, releases: Sequence[Release] = (), *, fence: bool = False) -> str:
        """Return why the job may not take this much more, by resource name, once `releases` have ended."""
        starts = not _runs_on(job)
        self._count_releases(releases, 1)
        holders = self._holders(job.spec.queue, job.spec.tenant)
        problems = [holder.problem(wanted, starts, fence) for holder in holders]
        self._count_releases(releases, -1)
        return next((problem for problem in problems if problem), "")

    def take(self, job: Job, wanted: Amounts, releases: Sequence[Release] = (), *, fence: bool = False) -> None:
        """Take it from the limits. `job`: as it was before."""
        self._count_releases(releases, 1)
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
        for (queue, tenant), jobs in state.counts.running.items():
            for holder in self._holders(queue, tenant):
                holder.running += jobs
        self._count_releases(releases_of(state, evicted_allocations(state)), 1)
        for fence in state.fences.values():
            self.take(state.jobs[fence.job_id], fenced_charge(state, fence), fence=True)

    def _count_releases(self, releases: Sequence[Release], times: int) -> None:
        for release in releases:
            for holder in self._holders(release.queue, release.tenant):
                add_to(holder.more, release.charge, -times)
                holder.starting -= release.jobs * times

    def _holders(self, queue: str, tenant: str) -> list[_Holder]:
        line = self._lines.get((queue, tenant))
        if line is None:
            line = [self._queues[path] for path in lineage(queue) if path in self._queues]
            if tenant in self._tenants:
                line.append(self._tenants[tenant])
            self._lines[queue, tenant] = line
        return line


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What ends with the allocations of one job."""

    queue: str
    tenant: str
    #: What they hold, by resource name.
    charge: Amounts
    #: 1: the job stops running with them; else 0.
    jobs: int


def releases_of(state: ClusterState, allocations: Iterable[str], whole: Container[str] = ()) -> list[Release]:
    """Return what ends with these allocations. `whole`: the jobs that are about to be stopped, besides those that stop
    already."""
    charges: dict[str, Amounts] = {}
    for allocation_id in allocations:
        allocation = state.allocations[allocation_id]
        charge = charges.setdefault(allocation.job_id, {})
        add_to(charge, charge_of(allocation.resources, allocation.gpu_model))
    jobs = {job_id: state.jobs[job_id] for job_id in charges}
    return [
        Release(
            queue=job.spec.queue,
            tenant=job.spec.tenant,
            charge=charges[job.id],
            jobs=int(job.id in whole or not _runs_on(job)),
        )
        for job in jobs.values()
    ]


def evicted_allocations(state: ClusterState) -> list[str]:
    """Return the allocations that are evicted for a fence."""
    on_their_nodes = [a for node in state.fenced.evicting for a in state.node_allocations[node]]
    return [a for a in on_their_nodes if state.allocations[a].evicted_for_fence]


def fenced_charge(state: ClusterState, fence: Fence) -> Amounts:
    """Return what the job of a fence will hold once it has started."""
    return charge_of_fence(fence, state.jobs[fence.job_id].spec, state.nodes)


def _runs_on(job: Job) -> bool:
    return job.state is JobState.RUNNING and job.intent is JobIntent.RUN
