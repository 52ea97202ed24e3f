"""The virtual clock: what happens next, told to the state machine as agents and people would tell it.

Invariant: the state changes by commands alone, and plans are made as a leader makes them: from a view, when something
changed that could start a job.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from gosched.core.commands.cluster import PassTime, SetClock, SetQueues
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import DropFinishedJobs, SubmitJob
from gosched.core.commands.nodes import RegisterNode, ReportTasks, TaskReport
from gosched.core.events import (
    Event,
    FenceChanged,
    JobChanged,
    JobEvicted,
    JobUpdated,
    NodeChanged,
    ReservationChanged,
    TaskChanged,
)
from gosched.core.limits import MAX_CLOCK_STEP_MS
from gosched.core.outcome import Accepted, Rejected
from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.records.queue import Queue
from gosched.core.records.task import TaskState
from gosched.core.records.tenant import Quota
from gosched.core.resources import ZERO
from gosched.core.spec.job_spec import group_of
from gosched.core.state.cluster_state import ClusterState
from gosched.scheduling import Policy, ViewBuilder, schedule
from gosched.scheduling.rng_seed import seed_of
from gosched.sim.cluster.recorder import Recorder
from gosched.sim.cluster.trace import TraceJob
from gosched.state_machine import apply
from gosched.state_machine.children import live_namesake

START_MS = 1_767_225_600_000  # 2026-01-01 00:00 UTC: a moment 0 would read as "never" in the records
KEPT_JOBS = 10_000  # finished ones, as by default in a master
FEW_KEPT_JOBS = 500  # of a trace whose jobs wait for no others: nothing asks for one that has ended
RETRY_MS, LONGEST_RETRY_MS = 50, 1000  # as a master does when a gang of a plan was refused
MOST_NEWS = 10_000  # events
MOST_IDLE_STEPS = 10_000  # moments in a row at which nothing changed: the rest waits for ever


class SimulationFailed(Exception):
    """A trace that asks for something a master would refuse; one line for people."""


class Kind(IntEnum):
    """What happens, in this order at one moment: a task that ends in time is not caught by its timeout."""

    GONE = 0
    END = 1
    DUE = 2
    ARRIVAL = 3
    WAKE = 4


@dataclass(slots=True)
class _Work:
    """The work of a live job."""

    source: TraceJob
    #: What an attempt that begins now has to do; None: it never ends.
    left_ms: int | None
    #: When the current attempt began.
    since_ms: int = 0


@dataclass(frozen=True, slots=True)
class _End:
    job_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class _Gone:
    """Allocations that end together."""

    allocations: list[str]
    #: Whether they end with a checkpoint.
    saved: bool


class Simulator:
    """One run, whose jobs are in order of arrival. `period_ms`: the shortest time between two cycles."""

    def __init__(
        self,
        jobs: Sequence[TraceJob],
        nodes: Sequence[RegisterNode],
        policy: Policy,
        *,
        queues: tuple[Queue, ...] = (Queue(path="default"),),
        quotas: tuple[Quota, ...] = (),
        seed: int = 1,
        period_ms: int = 0,
    ) -> None:
        self._jobs = jobs
        self._kept_jobs = KEPT_JOBS if any(job.spec.after for job in jobs) else min(KEPT_JOBS, FEW_KEPT_JOBS)
        self._policy = policy
        self._seed = seed
        self._period_ms = period_ms
        self._now = START_MS
        self._heap: list[tuple[int, Kind, int, TraceJob | _End | _Gone | None]] = []
        self._pushed = 0
        self._arrived = 0
        self._armed_ms = 0  # the next PassTime in the heap
        self._next_cycle_ms = 0  # the period ends then
        self._woken_ms = 0  # the next wake in the heap for that
        self._dirty = False  # something changed that could start a job
        self._work: dict[str, _Work] = {}
        self._placed: list[str] = []  # allocations whose tasks are to be reported as running
        self._refused_in_a_row = 0  # plans
        self._stirred = False  # something came of a command
        self._news: list[Event] = []  # that the view does not have yet
        self.state = ClusterState()
        self._builder = ViewBuilder([label for plugin in policy.plugins for label in plugin.tracked_labels])
        self._builder.reset(self.state)
        capacity = ZERO
        for node in nodes:
            capacity = capacity + node.capacity
        leaves = [q.path for q in queues if not any(other.path.startswith(q.path + ".") for other in queues)]
        self.recorder = Recorder(capacity, leaves)
        self._tell(SetQueues(queues=queues, quotas=quotas, sets_quotas=True))
        for node in nodes:
            self._tell(node)

    def run(self, until_ms: int | None = None) -> Recorder:
        """Run until nothing happens any more, or up to a moment of the trace. Raises SimulationFailed."""
        end = None if until_ms is None else START_MS + until_ms
        idle = 0
        self._next_arrival()
        while self._heap and idle < MOST_IDLE_STEPS and (end is None or self._heap[0][0] <= end):
            self._stirred = False
            self._now = self._heap[0][0]
            while self._heap and self._heap[0][0] == self._now:
                _, kind, _, what = heapq.heappop(self._heap)
                self._happen(kind, what)
            self._pass_time()
            self._plan()
            self._report_running()
            self._drop_finished()
            self._arm()
            idle = 0 if self._stirred else idle + 1
        return self.recorder

    def _push(self, at_ms: int, kind: Kind, what: TraceJob | _End | _Gone | None = None) -> None:
        self._pushed += 1
        heapq.heappush(self._heap, (at_ms, kind, self._pushed, what))

    def _next_arrival(self) -> None:
        if self._arrived < len(self._jobs):
            job = self._jobs[self._arrived]
            self._arrived += 1
            self._push(START_MS + job.at_ms, Kind.ARRIVAL, job)

    def _happen(self, kind: Kind, what: TraceJob | _End | _Gone | None) -> None:
        match what:
            case TraceJob():
                self._submit(what)
                self._next_arrival()
            case _End():
                self._end(what)
            case _Gone():
                self._report(what.allocations, TaskState.KILLED, saved=what.saved)
            case None:  # PassTime and the cycle look at the clock themselves
                self._dirty = self._dirty or kind is Kind.WAKE

    # People and agents

    def _submit(self, source: TraceJob) -> None:
        job_id = f"j{self._arrived:07}"
        spec = source.spec
        if live_namesake(self.state, spec.tenant, spec.name) is not None:  # a master would take it for the same one
            spec = replace(spec, name=f"{spec.name}-{self._arrived}")
        self._work[job_id] = _Work(source, source.duration_ms)
        self._tell(SubmitJob(job_id=job_id, spec=spec))

    def _end(self, what: _End) -> None:
        """End an attempt that has done its work, if it is still the one that runs."""
        job = self.state.jobs.get(what.job_id)
        if job is None or job.attempt != what.attempt or job.state is not JobState.RUNNING:
            return
        if job.intent is JobIntent.RUN:
            tasks = self.state.tasks_of(job)
            self._report([task.allocation_id for task in tasks if task.state.is_active], TaskState.SUCCEEDED)

    def _report(self, allocations: Iterable[str], state: TaskState, saved: bool = False) -> None:
        """Report tasks from every node that holds some of them."""
        by_node: dict[str, list[TaskReport]] = {}
        exit_code = {TaskState.SUCCEEDED: 0, TaskState.KILLED: 137}.get(state)
        for allocation_id in allocations:
            allocation = self.state.allocations.get(allocation_id)
            if allocation is None:
                continue
            report = TaskReport(
                allocation_id=allocation_id,
                state=state,
                exit_code=exit_code,
                started_at_ms=self._now if state is TaskState.RUNNING else 0,
                ended_at_ms=self._now if state.is_final else 0,
                checkpoint_at_ms=self._now if saved else 0,
            )
            by_node.setdefault(allocation.node_id, []).append(report)
        for node_id, reports in by_node.items():
            self._tell(ReportTasks(node_id=node_id, incarnation="1", reports=tuple(reports)))

    def _report_running(self) -> None:
        placed, self._placed = self._placed, []
        self._report(placed, TaskState.RUNNING)

    # The leader

    def _pass_time(self) -> None:
        due = self.state.timers.next_ms()
        if due and due <= self._now:
            self._tell(PassTime())
        while self.state.follow_ups:  # such as further elements of an array
            self._tell(PassTime())

    def _arm(self) -> None:
        """Wait for what is due next, as everything stands now."""
        due = self.state.timers.next_ms()
        if due and due <= self._now:
            raise SimulationFailed("internal error, please report it: time passed and something is still due")
        if due and (due < self._armed_ms or self._armed_ms <= self._now):
            self._armed_ms = due
            self._push(due, Kind.DUE)

    def _plan(self) -> None:
        if not self._dirty or not self.state.pending:
            return
        if self._now < self._next_cycle_ms:
            if self._woken_ms != self._next_cycle_ms:
                self._woken_ms = self._next_cycle_ms
                self._push(self._next_cycle_ms, Kind.WAKE)
            return
        self._dirty = False
        self._next_cycle_ms = self._now + self._period_ms
        while self._cycle():
            pass

    def _cycle(self) -> bool:
        """Run a cycle; return whether a bound cut it short, so that another one has to follow at once."""
        began = time.perf_counter()
        self._update_view()
        view = self._builder.view(self.state)
        plan = schedule(view, self._policy, self._now, seed_of(self._seed, view.revision))
        self.recorder.cycles_s.append(time.perf_counter() - began)
        refusals = [refusal for c in plan.commands(0, self._now) for refusal in self._tell(c.body).refusals]
        self.recorder.refuse(refusals)
        if refusals:
            self._refused_in_a_row += 1
            delay = min(RETRY_MS << min(self._refused_in_a_row - 1, 10), LONGEST_RETRY_MS)
            self._push(self._now + delay, Kind.WAKE)
            return False
        self._refused_in_a_row = 0
        if plan.wake_at_ms is not None:
            self._push(max(plan.wake_at_ms, self._now + 1), Kind.WAKE)
        return plan.more

    def _update_view(self) -> None:
        self._builder.apply(self.state, self._news)
        self._news = []

    def _tell(self, body: Body) -> Accepted:
        self.recorder.pass_time(self._now - START_MS)
        if self._now - self.state.clock_ms > MAX_CLOCK_STEP_MS:  # as a leader does after an idle time
            apply(self.state, Command(body=SetClock(to_ms=self._now), at_ms=self._now))
        outcome, events = apply(self.state, Command(body=body, at_ms=self._now))
        if isinstance(outcome, Rejected):
            raise SimulationFailed(f"{type(body).__name__}: {outcome.detail}")
        self._react(events)
        return outcome

    def _drop_finished(self) -> None:
        """Drop finished jobs as a master does; seldom, since it looks at all that are kept."""
        if len(self.state.finished) > 2 * self._kept_jobs:
            self._update_view()
            self._tell(DropFinishedJobs(keep=self._kept_jobs, ended_before_ms=0))

    # What came of it

    def _react(self, events: tuple[Event, ...]) -> None:
        self._stirred = self._stirred or bool(events)
        self._news += events
        if len(self._news) > MOST_NEWS:
            self._update_view()
        stopping: dict[str, list[str]] = {}  # by job
        evicted: dict[str, JobEvicted] = {}
        for event in events:
            match event:
                case TaskChanged():
                    self._on_task(event, stopping)
                case JobChanged():
                    self._on_job(event)
                case JobEvicted():
                    evicted[event.job_id] = event
                case ReservationChanged():
                    self._on_promise(event)
                case NodeChanged() | JobUpdated() | FenceChanged():
                    self._dirty = True
        for job_id, allocations in stopping.items():
            self._stop(self.state.jobs[job_id], allocations, evicted.get(job_id))

    def _on_task(self, event: TaskChanged, stopping: dict[str, list[str]]) -> None:
        if event.after is TaskState.STOPPING:
            stopping.setdefault(event.job_id, []).append(event.allocation_id)
        if event.before.is_active == event.after.is_active:
            return
        job = self.state.jobs[event.job_id]
        group = group_of(job.spec, self.state.tasks[event.task_id].rank)
        if event.after.is_active:
            self.recorder.began(event.allocation_id, job.spec.queue, group.resources, self._now - START_MS)
            self._placed.append(event.allocation_id)
        else:
            succeeded = event.after is TaskState.SUCCEEDED
            self.recorder.ended(event.allocation_id, job.spec.queue, group.resources, self._now - START_MS, succeeded)
            self._dirty = True

    def _on_job(self, event: JobChanged) -> None:
        if event.after is JobState.UNSPECIFIED:
            return
        job = self.state.jobs[event.job_id]
        if event.before is JobState.UNSPECIFIED:
            self._on_new_job(job)
        elif not job.spec.is_parent:
            self.recorder.changed(job, event.before, self._now - START_MS)
        self._dirty = self._dirty or event.after is JobState.PENDING
        if event.after.is_final:
            self._work.pop(job.id, None)
        elif event.after is JobState.RUNNING and not job.spec.is_parent:
            work = self._work[job.id]
            work.since_ms = self._now
            if work.left_ms is not None:
                self._push(self._now + work.left_ms, Kind.END, _End(job.id, job.attempt))

    def _on_new_job(self, job: Job) -> None:
        """Take in a job of the trace, or a child of one of its arrays."""
        if job.parent:
            source = self._work[job.parent].source
            self._work[job.id] = _Work(source, source.duration_ms)
        if not job.spec.is_parent:
            self.recorder.submitted(job, self._now - START_MS, self._work[job.id].left_ms)

    def _on_promise(self, event: ReservationChanged) -> None:
        self.recorder.broken_promises += event.broken
        reservation = self.state.reservations.get(event.job_id)
        if event.start_ms and not (reservation and reservation.standing):  # that is a guess, and no promise
            self.recorder.promised(event.job_id, event.start_ms - START_MS, self._now - START_MS)

    def _stop(self, job: Job, allocations: list[str], eviction: JobEvicted | None) -> None:
        """Stop tasks. A victim saves itself if it can and is given the time; all others end at once."""
        if eviction is None:
            self._push(self._now, Kind.GONE, _Gone(allocations, saved=False))
            return
        work, preemption = self._work[job.id], job.spec.preemption
        can_save = preemption.checkpoint_signal > 0
        saved = can_save and work.source.checkpoint_ms <= preemption.grace_ms
        self.recorder.evicted(eviction, allocations, self._now - START_MS, saved)
        if saved and eviction.whole and work.left_ms is not None:
            work.left_ms = max(1, work.left_ms - (self._now - work.since_ms))
        delay = min(preemption.grace_ms, work.source.checkpoint_ms) if can_save else 0
        self._push(self._now + delay, Kind.GONE, _Gone(allocations, saved))
