"""What pending gangs ask for, made once for each job and kept while it waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from gosched.core.force import may_restart
from gosched.core.job import Job, JobState, Task, TaskState
from gosched.core.resources import MILLI, AmountMap, Resources
from gosched.core.sharing import Amounts, add_to, as_map, charge_of
from gosched.core.spec import (
    LINK_LEVEL,
    NUMA_LEVEL,
    SELF,
    Affinity,
    AntiAffinity,
    JobSpec,
    Mode,
    PreemptionPolicy,
    RetryCause,
    SpreadRule,
    Strategy,
    StringMap,
    TaskGroup,
    Toleration,
    TopologyRule,
)
from gosched.scheduling.snapshot.columns import Column, Vector, resources_of, vector

MAX_RULES_REMEMBERED = 65_536


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Constraints:
    """Where tasks may stand and where they would like to, whatever they ask for. Equal rules are the same object.

    `gpu_memory_bytes`: that a device must have. `needs_link`, `needs_numa`: all GPUs of a task in one island; its CPUs
    and GPUs on one NUMA node.
    """

    selector: StringMap
    gpu_model: str
    gpu_memory_bytes: int
    wants_gpu: bool
    affinity: tuple[Affinity, ...]
    tolerations: tuple[Toleration, ...]
    topology: tuple[TopologyRule, ...]
    spread: tuple[SpreadRule, ...]
    anti_affinity: tuple[AntiAffinity, ...]
    needs_link: bool
    needs_numa: bool

    def changed(
        self,
        *,
        selector: StringMap | None = None,
        gpu_model: str | None = None,
        topology: tuple[TopologyRule, ...] | None = None,
    ) -> Constraints:
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
        """Whether there is anything besides resources that a node is chosen by."""
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
    )


def _requires(topology: tuple[TopologyRule, ...], level: str) -> bool:
    return any(rule.level == level and rule.mode is Mode.REQUIRED for rule in topology)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRequest:
    """Equal tasks of one group, `ranks` of the gang; the first `floor` of them start together or not at all."""

    group: str
    ranks: Sequence[int]
    floor: int
    each: Vector
    custom: AmountMap
    constraints: Constraints
    strategy: Strategy = Strategy.UNSPECIFIED

    @property
    def count(self) -> int:
        return len(self.ranks)

    @property
    def whole_gpus(self) -> int:
        return self.each[Column.GPU] // MILLI

    @property
    def gpu_share(self) -> int:
        """Milli-GPUs of the one device that is shared, or 0."""
        return self.each[Column.GPU] % MILLI

    @property
    def owned_cpus(self) -> int:
        """A task on whole GPUs with whole CPUs owns them, on nodes whose CPUs are known."""
        cpu, gpu = self.each[Column.CPU], self.each[Column.GPU]
        return cpu // MILLI if gpu >= MILLI and cpu % MILLI == 0 else 0

    @property
    def resources(self) -> Resources:
        """What one of the tasks asks for, as a record."""
        return resources_of(self.each, self.custom)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingGang:
    """A job that wants to be placed, or elastic tasks of one that runs (`joins`). Gangs with the same `shape` ask for
    the same.

    `tasks`, `total`, `charge`: of the floors together; `most`: all tasks. `placed`: (group, node id) of its tasks
    that hold a place. `keeps_apart`: (group, level) where a group wants no other task of the job. `span_ms`: how long
    it will hold its place from now on, 0: unknown; `is_bounded`: no longer than that. `may_evict`: jobs of lower
    priority in its queue; `yields`: it may be evicted itself, and needs `grace_ms` for it. `evicted_for`: to whom it
    had to give way.
    """

    job_id: str
    name: str
    queue: str
    tenant: str
    labels: StringMap
    attempt: int
    priority: int
    sequence: int
    not_before_ms: int
    deadline_ms: int  # 0: none
    requests: tuple[TaskRequest, ...]
    tasks: int
    most: int
    total: Vector
    charge: AmountMap
    placed: tuple[tuple[str, str], ...]
    keeps_apart: tuple[tuple[str, str], ...]
    joins: bool
    shape: str
    span_ms: int = 0
    is_bounded: bool = False
    may_evict: bool = False
    is_preemptible: bool = False
    grace_ms: int = 0
    evicted_for: tuple[str, ...] = ()
    deadline_promised: bool = False


def pending_gang(job: Job, tasks: Iterable[Task] = ()) -> PendingGang:
    """`tasks`: of a job that runs, in order of rank; not needed for one that waits for its start."""
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
                if (ranks := tuple([t.rank for t in waiting if t.group == group.name]))
            ]
        )
    else:
        requests = task_requests_of(spec)
    charge = _charge(requests, joins)
    return PendingGang(
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
        tasks=sum([request.floor for request in requests]),
        most=sum([len(request.ranks) for request in requests]),
        total=_total(requests),
        charge=charge,
        placed=placed,
        keeps_apart=tuple([(g.name, rule.level) for g in spec.groups for rule in g.anti_affinity if rule.job == SELF]),
        joins=joins,
        shape=_shape(requests, job.id if joins else ""),
        span_ms=spec.span_ms,
        is_bounded=bool(spec.timeout_ms),
        may_evict=spec.preemption.policy is PreemptionPolicy.LOWER_PRIORITY,
        is_preemptible=spec.preemption.preemptible and may_restart(job, RetryCause.PREEMPTED),
        grace_ms=spec.leave_ms,
        evicted_for=job.evicted_for,
        deadline_promised=job.deadline_promised,
    )


def replace_requests(gang: PendingGang, requests: tuple[TaskRequest, ...]) -> PendingGang:
    """The gang with other asks, and all that follows from them."""
    return replace(
        gang,
        requests=requests,
        tasks=sum([request.floor for request in requests]),
        most=sum([len(request.ranks) for request in requests]),
        total=_total(requests),
        charge=_charge(requests, gang.joins),
        shape=_shape(requests, gang.job_id if gang.joins else ""),
    )


def task_requests_of(spec: JobSpec) -> tuple[TaskRequest, ...]:
    """Of a gang that has not started."""
    requests = []
    first = 0
    for group in spec.groups:
        requests.append(_request(group, range(first, first + group.count), group.floor))
        first += group.count
    return tuple(requests)


def charge_of_one(request: TaskRequest) -> Amounts:
    """What one of the tasks counts as."""
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


def _shape(requests: tuple[TaskRequest, ...], job_id: str) -> str:
    """A text, because it remembers its hash. A gang keeps its rules alive, so their addresses are names for them."""
    parts = [f"{a.count},{a.floor},{a.each},{a.custom},{int(a.strategy)},{id(a.constraints)}" for a in requests]
    return ";".join([job_id, *parts])


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
    """Of the floors; of an elastic join one task, the first."""
    charge: Amounts = {}
    for request in requests[:1] if joins else requests:
        add_to(charge, charge_of_one(request), 1 if joins else request.floor)
    return as_map(charge)
