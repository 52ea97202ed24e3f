"""Scheduling cycles: view on the loop's thread, plan in a worker thread, commit through the log.

Invariant: a change that could start a job wakes a cycle at once; the period is only the longest wait.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice

import structlog

from gosched.core.events import (
    Event,
    FenceChanged,
    JobChanged,
    JobUpdated,
    NodeChanged,
    QueuesChanged,
    ReservationChanged,
    TaskChanged,
    WindowsChanged,
)
from gosched.core.outcome import Accepted, Rejected
from gosched.core.reasons import WaitReason
from gosched.core.records.job import JobState
from gosched.core.records.node import NodeState
from gosched.core.spec.job_spec import JobSpec
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.clock import Clock
from gosched.master.base.errors import ApiError
from gosched.master.base.job_changes import JobChanges
from gosched.master.base.proposals import Proposals
from gosched.master.planning.planner import Planner
from gosched.master.planning.planner_queries import Given, PlannerQueries
from gosched.observe.metrics import MasterMetrics
from gosched.observe.sharing import Shares
from gosched.observe.tracing import now_ns
from gosched.observe.tracing_leader import Cycle, LeaderTraces
from gosched.replication.interface import Replication
from gosched.scheduling import Explanation, Plan, Policy, View, ViewBuilder, warnings
from gosched.scheduling.fairness.limit import limit_warnings
from gosched.scheduling.queries.explain_on_request import explain_on_request
from gosched.scheduling.rng_seed import seed_of

MAX_DOUBLINGS = 10
RETRY_S = 0.05  # after a gang of a plan was refused: the world had moved on
MIN_REST_S, MAX_REST_S = 0.01, 0.25  # between two cycles
RETRY_FAULTS_S = 60.0  # until what could not be read into the view is tried again
NEVER_MS = 1 << 62

Lines = Mapping[str, Sequence[str]]  # queue -> the jobs that wait in it, in the order in which a cycle looked at them

log = structlog.get_logger()


class Cycles:
    """The cycles of a leader, and what the newest one found."""

    def __init__(
        self,
        replication: Replication,
        proposals: Proposals,
        clock: Clock,
        changes: JobChanges,
        metrics: MasterMetrics,
        traces: LeaderTraces | None = None,
        *,
        policy: Policy,
        period_s: float,
    ) -> None:
        self._replication = replication
        self._proposals = proposals
        self._clock = clock
        self._changes = changes
        self._metrics = metrics
        self._traces = traces
        self._policy = policy
        self._period_s = period_s
        self._builder = ViewBuilder([label for plugin in policy.plugins for label in plugin.tracked_labels])
        self._wake = asyncio.Event()
        self._plan_s = 0.0  # how long the newest plan took
        self._planned = -1  # the revision of the newest plan
        self._refused_in_a_row = 0  # plans
        self._due_ms = NEVER_MS  # when a backoff ends that the newest plan waits for
        self._planner = Planner(policy, metrics.planner_bug)
        self._faults = metrics.faults
        self._is_stale = False  # the builder may not be where the state is
        self._retry_faults_s = 0.0  # what the builder failed at is tried again then
        self._told: dict[str, None] = {}  # jobs and nodes of which the log says so already
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="planner")
        self.queries = PlannerQueries(self._thread, self._given)
        # Who waits for an explanation does not wait for a plan; but a plugin is never called by two threads at once.
        self._explain_thread = (
            self._thread if policy.plugins else ThreadPoolExecutor(max_workers=1, thread_name_prefix="explain")
        )
        self._explain_queries = PlannerQueries(self._explain_thread, self._given)
        self.explanations: Mapping[str, Explanation] = {}
        self.shares: Shares = {}
        self._lines: Lines = {}

    def reset(self) -> None:
        self._is_stale = True
        with self._faults.guarded("planner's columns"):
            self._reset_builder()
        self._planner.reset()
        self._planned = -1
        self._wake.set()

    def take(self, events: Iterable[Event]) -> None:
        events = tuple(events)
        if not self._is_stale:
            try:
                self._builder.apply(self._state, events)
            except Exception as error:  # the next cycle begins with new columns
                self._is_stale = True
                self._faults.caught("planner's columns", error)
        if self._is_stale or any(could_start_a_job(event) for event in events):
            self._wake.set()

    async def explanation(self, job_id: str, caller: str) -> Explanation | None:
        """Return the whole explanation as of now; what only a cycle finds out is the newest cycle's. Raises
        ApiError."""
        whole: Explanation | None = None
        try:
            whole = await self._explain_queries.ask(
                lambda view, policy, at_ms, seed: explain_on_request(view, policy, job_id, at_ms), caller
            )
        except ApiError:
            raise
        except Exception as error:  # what the newest cycle found is still known
            self._faults.caught("explanation", error)
        why = self.explanations.get(job_id)
        if why is None or whole is None:
            return whole or why
        if why.start_ms:  # a reserved start
            whole = replace(whole, start_ms=why.start_ms, start_from=why.start_from)
        return replace(whole, victims=why.victims)

    def warnings(self, spec: JobSpec) -> list[str]:
        """Return why the job could not start even if nothing else ran, as nodes, queues and quotas are now."""
        state = self._state
        limits = limit_warnings(state.queues, state.quotas, state.total, spec)
        return [*limits, *warnings(self._builder.shared_nodes(), spec)]

    def bug(self, job_id: str) -> Explanation | None:
        """Return what the planner fails at of a job that does not wait; None: nothing."""
        return self._planner.why(job_id) or self._unread(job_id)

    async def run(self, epoch: int) -> None:
        """Run cycles until it is cancelled."""
        wait_s = 0.0
        while True:
            await self._wait(wait_s)
            wait_s = await self._cycle(epoch)
            # What arrives during a long plan is planned together, and the planner leaves half of the time to the APIs.
            await asyncio.sleep(min(max(self._plan_s, MIN_REST_S), MAX_REST_S))

    def forget(self) -> None:
        """Forget what the cycles found: leadership is lost."""
        self.explanations = {}
        self.shares = {}

    def position(self, job_id: str) -> int:
        """Return the place of a pending job in its queue, 1 is next; 0: the newest cycle did not look at it."""
        job = self._state.jobs.get(job_id)
        line = self._lines.get(job.spec.queue, ()) if job is not None else ()
        if job_id not in line:
            return 0
        ahead = islice(line, line.index(job_id))
        return 1 + sum(map(self._state.pending.__contains__, ahead))

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._explain_thread.shutdown(wait=False, cancel_futures=True)

    @property
    def _state(self) -> ClusterState:
        return self._replication.state

    def _given(self) -> Given:
        now_ms = self._now_ms()
        view, policy = self._planner.given(self._view(), now_ms)
        return view, policy, now_ms, seed_of(self._state.epoch, view.revision)

    def _view(self) -> View:
        if self._is_stale:
            self._reset_builder()
        now_s = self._clock.monotonic_s()
        if self._builder.faults and now_s >= self._retry_faults_s:
            self._retry_faults_s = now_s + RETRY_FAULTS_S
            self._builder.retry(self._state)
        view = self._builder.view(self._state)
        for name, error in self._builder.faults.items():
            if name not in self._told:
                self._told[name] = None
                self._metrics.planner_bug("node" if name in self._state.nodes else "job")
                log.error("the planner cannot read this, please report it", name=name, exc_info=error)
        self._told = {name: None for name in self._told if name in self._builder.faults}
        return view

    def _reset_builder(self) -> None:
        self._builder.reset(self._state, at_work=self._replication.say_alive)
        self._is_stale = False

    def _unread(self, job_id: str) -> Explanation | None:
        if (error := self._builder.faults.get(job_id)) is None:
            return None
        return Explanation(
            code=WaitReason.PLANNER_BUG,
            message=f"the planner met a bug with it ({type(error).__name__}): please report it with the leader's log;"
            f" it is tried again every {RETRY_FAULTS_S:.0f} s, or when it has changed",
        )

    def _now_ms(self) -> int:
        return max(self._clock.now_ms(), self._state.clock_ms)

    async def _wait(self, longest_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await self._wake.wait()
        self._wake.clear()

    async def _cycle(self, epoch: int) -> float:
        """Run one cycle; return how long the next one may wait."""
        if self._planned == self._state.revision and self._clock.now_ms() < self._due_ms:
            return self._period_s  # the same view would give the same plan
        began_ns = now_ns()
        plan, lines = await self._make_plan(epoch)
        planned_ns = now_ns()
        committed = await self._commit(plan, epoch)
        if self._traces and plan.gangs:
            cycle = Cycle(
                epoch=epoch,
                revision=plan.revision,
                began_ns=began_ns,
                planned_ns=planned_ns,
                committed_ns=now_ns(),
                waiting=len(plan.explanations),
                accepted=committed,
            )
            with self._faults.guarded("traces of cycles"):
                self._traces.planned(self._state, plan.gangs, cycle)
        unread = {job_id: why for job_id in self._builder.faults if (why := self._unread(job_id)) is not None}
        self._explain({**plan.explanations, **{j: why for j, why in unread.items() if j in self._state.pending}})
        self._lines = lines
        self.shares = plan.shares
        self._report_faults(plan.faults)
        self._metrics.planned(len(plan.gangs), plan.tasks, len(plan.explanations))
        self._refused_in_a_row = 0 if committed else self._refused_in_a_row + 1
        if not committed:  # at once, but not for ever: every refusal is an entry in the log
            return min(RETRY_S * (1 << min(self._refused_in_a_row - 1, MAX_DOUBLINGS)), self._period_s)
        if plan.more:
            self._wake.set()
        return min(self._period_s, max(0.0, (self._due_ms - self._clock.now_ms()) / 1000))

    async def _make_plan(self, epoch: int) -> tuple[Plan, Lines]:
        started = self._clock.monotonic_s()
        view = self._view()
        viewed = self._clock.monotonic_s()
        plan, lines = await asyncio.get_running_loop().run_in_executor(
            self._thread, self._plan, view, self._now_ms(), seed_of(epoch, view.revision)
        )
        self._planned = view.revision
        self._due_ms = NEVER_MS if plan.wake_at_ms is None else plan.wake_at_ms
        self._metrics.cycle_phase("view", viewed - started)
        self._plan_s = self._clock.monotonic_s() - viewed
        self._metrics.cycle_phase("plan", self._plan_s)
        return plan, lines

    def _plan(self, view: View, now_ms: int, seed: int) -> tuple[Plan, Lines]:
        """Plan, in the planner's thread."""
        plan = self._planner.plan(view, now_ms, seed)
        return plan, _lines(view, plan.explanations)

    async def _commit(self, plan: Plan, epoch: int) -> bool:
        """Commit the plan; return False when a part of it was refused, which is then planned anew."""
        started = self._clock.monotonic_s()
        commands = plan.commands(epoch, self._clock.now_ms())
        answers = await asyncio.gather(*(self._proposals.propose_all([command]) for command in commands))
        refused = 0
        for outcome in (outcomes[0] for outcomes in answers):
            match outcome:
                case Accepted(refusals=refusals):
                    refused += len(refusals)
                    for refusal in refusals:
                        log.info("gang not taken", job=refusal.job_id, why=refusal.detail)
                        if refusal.is_bug:
                            self._planner.refuse(refusal.job_id, refusal.detail, self._now_ms())
                case Rejected(detail=detail):
                    refused += 1
                    log.warning("plan refused", why=detail, epoch=epoch)
        if commands:
            self._metrics.cycle_phase("commit", self._clock.monotonic_s() - started)
            self._metrics.refused(refused)
        return not refused

    def _explain(self, explanations: Mapping[str, Explanation]) -> None:
        """Keep the explanations and wake those that watch a changed one: it costs what is watched, not what waits."""
        before, self.explanations = self.explanations, explanations
        self._changes.touch(with_another_reason(self._changes.watched, before, explanations))

    def _report_faults(self, faults: Iterable[str]) -> None:
        for fault in faults:
            plugin, _, why = fault.partition(": ")
            log.warning("plugin switched off for this cycle", plugin=plugin, why=why)
            self._metrics.plugin_failed(plugin)


def _lines(view: View, looked_at: Iterable[str]) -> Lines:
    queue_of = {gang.job_id: gang.queue for gang in view.pending}
    lines: dict[str, list[str]] = {}
    for job_id in looked_at:
        if job_id in queue_of:
            lines.setdefault(queue_of[job_id], []).append(job_id)
    return lines


def with_another_reason(
    job_ids: Iterable[str], before: Mapping[str, Explanation], after: Mapping[str, Explanation]
) -> list[str]:
    """Return those of the jobs that wait for another reason than before."""
    return [job_id for job_id in job_ids if _differ(before.get(job_id), after.get(job_id))]


def _differ(before: Explanation | None, after: Explanation | None) -> bool:
    return before is not after and after is not None and before != after


def could_start_a_job(event: Event) -> bool:
    """Return whether a cycle after this event might start a job that the one before could not."""
    match event:
        case JobChanged(after=after):
            return after is JobState.PENDING
        case TaskChanged(before=before, after=after):
            return before.is_active and not after.is_active
        case NodeChanged(after=after):
            return after is NodeState.READY
        case FenceChanged(made=made):
            return not made
        case ReservationChanged(start_ms=start_ms):
            return not start_ms
        case QueuesChanged() | WindowsChanged() | JobUpdated():
            return True
        case _:
            return False
