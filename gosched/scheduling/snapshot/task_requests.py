"""What pending gangs ask for. Made once for each job, and kept while it waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from gosched.core.preemption_rules import may_restart
from gosched.core.primitives import StringMap
from gosched.core.records.job import Job, JobState
from gosched.core.records.task import Task, TaskState
from gosched.core.replace import quickly_made
from gosched.core.replace import replace as quickly_replaced
from gosched.core.resources import MILLI, AmountMap, Resources
from gosched.core.run_times import RunTimes
from gosched.core.sharing import Amounts, add_to, as_map, charge_of
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.placement_rules import (
    LINK_LEVEL,
    NUMA_LEVEL,
    SELF,
    Affinity,
    AntiAffinity,
    Mode,
    SpreadRule,
    Strategy,
    Toleration,
    TopologyRule,
)
from gosched.core.spec.policies import PreemptionPolicy, RetryCause
from gosched.core.spec.task_group import TaskGroup
from gosched.scheduling.snapshot.by_groups import ByGroups, Groups
from gosched.scheduling.snapshot.columns import Column, Vector, resources_of, vector

MAX_RULES_REMEMBERED = 65_536


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Constraints:
    """Which nodes may run the tasks and which are preferred, whatever the amounts. Equal constraints are one object."""

    #: Labels that a node must have.
    selector: StringMap
    #: Empty: any model.
    gpu_model: str
    #: Memory that each device must have; 0: any.
    gpu_memory_bytes: int
    wants_gpu: bool
    #: Terms with a weight are preferences, the others are required.
    affinity: tuple[Affinity, ...]
    tolerations: tuple[Toleration, ...]
    topology: tuple[TopologyRule, ...]
    spread: tuple[SpreadRule, ...]
    anti_affinity: tuple[AntiAffinity, ...]
    #: Whether all GPUs of a task must be in one island of fast links.
    needs_link: bool
    #: Whether the CPUs and GPUs of a task must be on one NUMA node.
    needs_numa: bool
    #: Whether the nodes that a task may use depend on where other tasks are.
    depends_on_other_tasks: bool

    def changed(
        self,
        *,
        selector: StringMap | None = None,
        gpu_model: str | None = None,
        topology: tuple[TopologyRule, ...] | None = None,
    ) -> Constraints:
        """Return the constraints with the given ones replaced."""
        return _constraints(
            self.selector if selector is None else selector,
            self.gpu_model if gpu_model is None else gpu_model,
            self.gpu_memory_bytes,
            self.wants_gpu,
            self.affinity,
            self.tolerations,
            self.topology if topology is None else topology,
            self.spread,
            self.anti_affinity,
        )

    @property
    def is_more_than_amounts(self) -> bool:
        """Return whether more than amounts decides which nodes may run the tasks."""
        return bool(
            self.selector or self.gpu_model or self.affinity or self.topology or self.spread or self.anti_affinity
        )


@lru_cache(maxsize=MAX_RULES_REMEMBERED)
def _constraints(
    selector: StringMap,
    gpu_model: str,
    gpu_memory_bytes: int,
    wants_gpu: bool,
    affinity: tuple[Affinity, ...],
    tolerations: tuple[Toleration, ...],
    topology: tuple[TopologyRule, ...],
    spread: tuple[SpreadRule, ...],
    anti_affinity: tuple[AntiAffinity, ...],
) -> Constraints:
    return Constraints(
        selector=selector,
        gpu_model=gpu_model,
        gpu_memory_bytes=gpu_memory_bytes,
        wants_gpu=wants_gpu,
        affinity=affinity,
        tolerations=tolerations,
        topology=topology,
        spread=spread,
        anti_affinity=anti_affinity,
        needs_link=_requires(topology, LINK_LEVEL),
        needs_numa=_requires(topology, NUMA_LEVEL),
        depends_on_other_tasks=bool(spread or anti_affinity),
    )


def _requires(topology: tuple[TopologyRule, ...], level: str) -> bool:
    return any(rule.level == level and rule.mode is Mode.REQUIRED for rule in topology)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRequest:
    """Equal tasks of one group that ask to be placed."""

    group: str
    #: Of the tasks, in the gang.
    ranks: Sequence[int]
    #: The first so many tasks start together or not at all.
    floor: int
    #: Amounts of one task.
    each: Vector
    #: Amounts of one task, of the cluster's own resources.
    custom: AmountMap
    constraints: Constraints
    #: UNSPECIFIED: the policy's.
    strategy: Strategy = Strategy.UNSPECIFIED

    @property
    def count(self) -> int:
        return len(self.ranks)

    @property
    def whole_gpus(self) -> int:
        return self.each[Column.GPU] // MILLI

    @property
    def gpu_share(self) -> int:
        """Return the milli-GPUs of the one device that is shared; 0 for a task on whole GPUs or none."""
        return self.each[Column.GPU] % MILLI

    @property
    def owned_cpus(self) -> int:
        """Return how many CPUs a task owns where CPUs are known: all of them, if its CPUs and GPUs are whole."""
        cpu, gpu = self.each[Column.CPU], self.each[Column.GPU]
        return cpu // MILLI if gpu >= MILLI and cpu % MILLI == 0 else 0

    @property
    def resources(self) -> Resources:
        """Return what one of the tasks asks for."""
        return resources_of(self.each, self.custom)


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class PendingGang:
    """A job that wants to be placed, or elastic tasks of one that runs."""

    job_id: str
    name: str
    queue: str
    tenant: str
    labels: StringMap
    attempt: int
    priority: int
    #: Order of submission; unique.
    sequence: int
    #: The gang does not start before; 0: at any time.
    not_before_ms: int
    #: 0: none.
    deadline_ms: int
    requests: tuple[TaskRequest, ...]
    #: Number of tasks that start together: the sum of the floors.
    tasks: int
    #: Number of all tasks.
    most: int
    #: What the floors ask for together.
    total: Vector
    #: What the floors count as in queues and quotas; of elastic tasks that join, the first one.
    charge: AmountMap
    #: (group, node id) of each task of the job that holds a place.
    placed: tuple[tuple[str, str], ...]
    #: (group, level) where a group wants no other task of the job.
    keeps_apart: tuple[tuple[str, str], ...]
    #: Whether these are elastic tasks of a job that runs.
    joins: bool
    #: Gangs of equal shape ask for the same.
    shape: str
    #: How long it will hold its place from its start on; 0: unknown.
    span_ms: int = 0
    #: Whether a timeout ends it after `span_ms`, which is an estimate otherwise.
    is_bounded: bool = False
    #: Whether jobs of lower priority in its queue may be evicted for it.
    may_evict: bool = False
    #: Whether it may be evicted itself, ...
    is_preemptible: bool = False
    #: ... how long it takes to end then, ...
    grace_ms: int = 0
    #: ... and whether little is lost by it.
    is_cheap: bool = False
    #: Ids of the jobs for which it was evicted; they are not evicted for it in turn.
    evicted_for: tuple[str, ...] = ()
    #: Whether the job was admitted with the promise to meet its deadline.
    deadline_promised: bool = False
    #: Before this moment it does not start for the first time; 0: none is named, or it has started.
    begin_ms: int = 0
    #: Since when it could start.
    waits_since_ms: int = 0
    #: What half of the jobs like it ran no longer than; 0: not known.
    median_ms: int = 0
    #: What nine of ten jobs like it ran no longer than; 0: not known.
    likely_ms: int = 0


def pending_gang(job: Job, tasks: Iterable[Task] = (), run_times: RunTimes | None = None) -> PendingGang:
    """Return the job as a pending gang. `tasks`: those of a job that runs, in order of rank. `run_times`: of jobs like
    it; None: there are none."""
    spec = job.spec
    joins = job.state is JobState.RUNNING
    placed: tuple[tuple[str, str], ...] = ()
    if joins:
        kept = list(tasks)
        placed = tuple([(t.group, t.node_id) for t in kept if t.state.is_active])
        waiting = [t for t in kept if t.state is TaskState.PENDING]
        requests = tuple(
            [
                _request(group, ranks, 0)
                for group in spec.groups
                if (ranks := tuple([t.rank for t in waiting if t.group == group.name][: job.may_join]))
            ]
        )
    else:
        requests = task_requests_of(spec, job.wanted)
    sums = _sums_of(requests, job.id) if joins else _FLOOR_SUMS(spec.groups, _elastic(spec, job.wanted))
    gang = PendingGang(
        job_id=job.id,
        name=spec.name,
        queue=spec.queue,
        tenant=spec.tenant,
        labels=spec.labels,
        attempt=job.attempt,
        priority=spec.priority,
        sequence=job.sequence,
        not_before_ms=job.not_before_ms,
        deadline_ms=job.deadline_ms,
        requests=requests,
        tasks=sums.tasks,
        most=sums.most,
        total=sums.total,
        charge=sums.charge,
        placed=placed,
        keeps_apart=_KEEPS_APART(spec.groups),
        joins=joins,
        shape=_shape_in(spec.tenant, sums.shape, requests),
        span_ms=spec.span_ms,
        is_bounded=bool(spec.timeout_ms),
        may_evict=spec.preemption.policy is PreemptionPolicy.LOWER_PRIORITY,
        is_preemptible=spec.preemption.preemptible and may_restart(job, RetryCause.PREEMPTED),
        grace_ms=spec.eviction_ms,
        is_cheap=spec.preemption.is_cheap,
        evicted_for=job.evicted_for,
        deadline_promised=job.deadline_promised,
        begin_ms=0 if job.started_at_ms else job.begin_ms,
        waits_since_ms=max(job.submitted_at_ms, job.not_before_ms, job.requeued_at_ms),
    )
    return gang if run_times is None else with_run_times(gang, run_times)


def with_run_times(gang: PendingGang, run_times: RunTimes | None) -> PendingGang:
    """Return the gang with what is known of jobs like it; None: nothing."""
    if run_times is None:
        return quickly_replaced(gang, median_ms=0, likely_ms=0)
    return quickly_replaced(gang, median_ms=run_times.expected_ms, likely_ms=run_times.likely_ms)


def floor_charge(spec: JobSpec) -> AmountMap:
    """Return what the job counts as in queues and quotas when it starts."""
    return _FLOOR_SUMS(spec.groups, _elastic(spec, 0)).charge


def replace_requests(gang: PendingGang, requests: tuple[TaskRequest, ...]) -> PendingGang:
    """Return the gang with other requests, and all fields that follow from them."""
    sums = _sums_of(requests, gang.job_id if gang.joins else "")
    return replace(
        gang,
        requests=requests,
        tasks=sums.tasks,
        most=sums.most,
        total=sums.total,
        charge=sums.charge,
        shape=_shape_in(gang.tenant, sums.shape, requests),
    )


def task_requests_of(spec: JobSpec, wanted: int = 0) -> tuple[TaskRequest, ...]:
    """Return the requests of a job that has not started. `wanted`: for so many of its tasks; 0: for all."""
    return _FLOOR_REQUESTS(spec.groups, _elastic(spec, wanted))


def _elastic(spec: JobSpec, wanted: int) -> int:
    """Return how many tasks beyond the floors are wanted."""
    return max(0, wanted - spec.gang.min_tasks) if wanted else spec.task_count


def _floor_requests(groups: Groups, elastic: int) -> tuple[TaskRequest, ...]:
    requests = []
    first = 0
    for group in groups:
        joining = min(group.count - group.floor, elastic)
        elastic -= joining
        requests.append(_request(group, range(first, first + group.floor + joining), group.floor))
        first += group.count
    return tuple(requests)


def charge_of_one(request: TaskRequest) -> Amounts:
    """Return what one of the tasks counts as in queues and quotas."""
    return charge_of(request.resources, request.constraints.gpu_model)


def _request(group: TaskGroup, ranks: Sequence[int], floor: int) -> TaskRequest:
    gpu = group.resources.gpu_millis
    return TaskRequest(
        group=group.name,
        ranks=ranks,
        floor=floor,
        each=vector(group.resources),
        custom=group.resources.custom,
        constraints=_constraints(
            group.node_selector,
            group.gpu_model,
            -(-group.gpu_memory_bytes * MILLI // min(gpu, MILLI)) if gpu else 0,
            gpu > 0,
            group.affinity,
            group.tolerations,
            group.topology,
            group.spread,
            group.anti_affinity,
        ),
        strategy=group.strategy,
    )


def _shape_in(tenant: str, shape: str, requests: tuple[TaskRequest, ...]) -> str:
    """Return the shape of a gang of the tenant: names of jobs that it keeps away from are its tenant's own."""
    apart = any(rule.job != SELF for request in requests for rule in request.constraints.anti_affinity)
    return f"{tenant};{shape}" if apart else shape


def _shape(requests: tuple[TaskRequest, ...], job_id: str) -> str:
    """Return a text, because it caches its hash. A gang keeps its constraints alive, so their ids identify them."""
    parts = [f"{a.count},{a.floor},{a.each},{a.custom},{int(a.strategy)},{id(a.constraints)}" for a in requests]
    return ";".join([job_id, *parts])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sums:
    """What the requests of a gang are together; its fields are those of PendingGang."""

    tasks: int
    most: int
    total: Vector
    charge: AmountMap
    shape: str


def _sums_of(requests: tuple[TaskRequest, ...], joining: str = "") -> _Sums:
    """Return the sums. `joining`: the job that runs already, where the tasks join one."""
    return _Sums(
        tasks=sum([request.floor for request in requests]),
        most=sum([len(request.ranks) for request in requests]),
        total=_total(requests),
        charge=_charge(requests, joins=bool(joining)),
        shape=_shape(requests, joining),
    )


def _keeps_apart(groups: Groups, _: int) -> tuple[tuple[str, str], ...]:
    return tuple([(g.name, rule.level) for g in groups for rule in g.anti_affinity if rule.job == SELF])


# A hundred thousand jobs that wait have few kinds of groups.
_FLOOR_REQUESTS = ByGroups(_floor_requests)
_FLOOR_SUMS = ByGroups(lambda groups, elastic: _sums_of(_FLOOR_REQUESTS(groups, elastic)))
_KEEPS_APART = ByGroups(_keeps_apart)


def _total(requests: tuple[TaskRequest, ...]) -> Vector:
    cpu = memory = storage = gpu = 0
    for request in requests:
        each, floor = request.each, request.floor
        cpu += each[Column.CPU] * floor
        memory += each[Column.MEMORY] * floor
        storage += each[Column.STORAGE] * floor
        gpu += each[Column.GPU] * floor
    return cpu, memory, storage, gpu


def _charge(requests: tuple[TaskRequest, ...], joins: bool) -> AmountMap:
    """Return the charge of the floors; of elastic tasks that join, that of one task of the first group."""
    charge: Amounts = {}
    for request in requests[:1] if joins else requests:
        add_to(charge, charge_of_one(request), 1 if joins else request.floor)
    return as_map(charge)
