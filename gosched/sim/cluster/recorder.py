"""What is kept of a run: a record of each job, amounts over time, work, evictions, reserved starts, the time of each
cycle.

Invariant: times are milliseconds from the start of the trace; only `cycles_s` differs between runs of the same inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gosched.core.events import JobEvicted
from gosched.core.outcome import Refusal
from gosched.core.records.job import Job, JobState
from gosched.core.resources import Resources
from gosched.observe.pingpong import EvictionGraph
from gosched.sim.cluster.series import Series
from gosched.sim.cluster.work import Work

TOTALS = ("cpu_millis", "memory_bytes", "gpu_millis", "waiting", "running")
QUEUE = "queue:"  # before a queue's name: what it holds of the resource that `measure` names
MOST_SHOWN = 10  # cycles of jobs that evict each other, refusals


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One start of a job."""

    start_ms: int
    #: How many it began with.
    tasks: int
    end_ms: int = 0
    #: A job's state, or the cause of an eviction; empty: it goes on.
    ended_by: str = ""


@dataclass(slots=True, kw_only=True)
class JobRecord:
    """What became of one job."""

    id: str
    name: str
    queue: str
    tenant: str
    priority: int
    tasks: int
    submit_ms: int
    #: How long it runs if nothing disturbs it; None: it never ends.
    work_ms: int | None
    attempts: list[Attempt] = field(default_factory=list)
    end_ms: int | None = None
    state: JobState = JobState.PENDING
    reason: str = ""
    evictions: int = 0
    #: Work that evictions undid, times the tasks.
    lost_task_ms: int = 0
    #: Its first reserved start; None: it had no reservation.
    promised_ms: int | None = None
    #: When that reservation was made.
    promised_at_ms: int = 0

    @property
    def start_ms(self) -> int | None:
        return self.attempts[0].start_ms if self.attempts else None


class Recorder:
    """The records of a run. `measure`: the resource that queues are compared by, as in TOTALS."""

    def __init__(self, capacity: Resources, queues: Iterable[str]) -> None:
        self.capacity = capacity
        self.measure = "gpu_millis" if capacity.gpu_millis else "cpu_millis"
        self.jobs: dict[str, JobRecord] = {}
        self.evictions: Counter[str] = Counter()  # jobs that were evicted, or lost some tasks, by cause
        self.eviction_cycles: list[tuple[str, ...]] = []  # the first few: jobs that evicted each other in turn
        self.eviction_cycles_found = 0
        self.broken_promises = 0
        self.refused = 0  # gangs of plans; none, unless planner and state machine disagree
        self.refusals: list[Refusal] = []  # the first few
        self.cycles_s: list[float] = []
        self.end_ms = 0
        self._places = {queue: len(TOTALS) + i for i, queue in enumerate(queues)}
        self.series = Series([*TOTALS, *[QUEUE + queue for queue in self._places]])
        self.work = Work()
        self._now = [0] * len(self.series.names)
        self._graph = EvictionGraph()

    @property
    def queues(self) -> list[str]:
        return list(self._places)

    def pass_time(self, now_ms: int) -> None:
        """Pass on to a moment, before what happens then."""
        if now_ms > self.end_ms:
            self.series.hold(now_ms, self._now)
            self.end_ms = now_ms

    def submitted(self, job: Job, now_ms: int, work_ms: int | None) -> None:
        spec = job.spec
        self.jobs[job.id] = JobRecord(
            id=job.id,
            name=spec.name,
            queue=spec.queue,
            tenant=spec.tenant,
            priority=spec.priority,
            tasks=spec.task_count,
            submit_ms=now_ms,
            work_ms=work_ms,
        )
        self._count(JobState.PENDING, 1)

    def changed(self, job: Job, before: JobState, now_ms: int) -> None:
        record = self.jobs[job.id]
        self._count(before, -1)
        self._count(job.state, 1)
        record.state, record.reason = job.state, job.reason
        if job.state is JobState.RUNNING:
            record.attempts.append(Attempt(start_ms=now_ms, tasks=job.active))
        elif record.attempts and not record.attempts[-1].ended_by:
            record.attempts[-1].end_ms = now_ms
            record.attempts[-1].ended_by = job.state.name
        if job.state.is_final:
            self._graph.ended(job.id)
            record.end_ms = now_ms

    def began(self, allocation_id: str, queue: str, amount: Resources, now_ms: int) -> None:
        """Record that a task got its place."""
        self._hold(queue, amount, 1)
        self.work.begin(allocation_id, amount, now_ms)

    def ended(self, allocation_id: str, queue: str, amount: Resources, now_ms: int, succeeded: bool) -> None:
        """Record that a task lost its place."""
        self._hold(queue, amount, -1)
        self.work.end(allocation_id, now_ms, succeeded)

    def evicted(self, event: JobEvicted, allocations: Iterable[str], now_ms: int, saved: bool) -> None:
        """Record an eviction of these tasks; `saved`: no work is lost."""
        record = self.jobs[event.job_id]
        self.work.evict(allocations, now_ms, saved)
        record.evictions += 1
        record.lost_task_ms += 0 if saved else event.lost_ms
        self.evictions[event.cause.name] += 1
        if event.whole and record.attempts:
            record.attempts[-1].ended_by = event.cause.name
            record.attempts[-1].end_ms = now_ms
        cycle = self._graph.add(event.for_job, [event.job_id], now_ms) if event.for_job else None
        if cycle:
            self.eviction_cycles_found += 1
            if len(self.eviction_cycles) < MOST_SHOWN:
                self.eviction_cycles.append(cycle)

    def promised(self, job_id: str, start_ms: int, now_ms: int) -> None:
        record = self.jobs[job_id]
        if record.promised_ms is None and record.start_ms is None:
            record.promised_ms, record.promised_at_ms = start_ms, now_ms

    def refuse(self, refusals: Sequence[Refusal]) -> None:
        self.refused += len(refusals)
        self.refusals += refusals[: MOST_SHOWN - len(self.refusals)]

    def _hold(self, queue: str, amount: Resources, sign: int) -> None:
        now = self._now
        now[0] += sign * amount.cpu_millis
        now[1] += sign * amount.memory_bytes
        now[2] += sign * amount.gpu_millis
        place = self._places.get(queue)
        if place is not None:
            now[place] += sign * (amount.gpu_millis if self.measure == "gpu_millis" else amount.cpu_millis)

    def _count(self, state: JobState, change: int) -> None:
        if state is JobState.PENDING:
            self._now[3] += change
        elif state is JobState.RUNNING:
            self._now[4] += change
