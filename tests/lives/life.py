"""A cluster that lives: any command that there is, over jobs of every shape, planned by the real planner.

After each command what must hold is looked at, and a second copy, which is restored from snapshots now and then, has
answered alike. What has met in one job is counted, by pairs: a fault of two things that meet needs both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from gosched.core.commands.cluster import PassTime, SetClock, SetQueues, SetQuotas, SetWindow
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import Action, ControlJob
from gosched.core.commands.nodes import ControlNode, MarkNodeDead, RegisterNode, ReportTasks, TaskReport
from gosched.core.commands.plans import CommitPlan
from gosched.core.events import (
    ClockSet,
    DeadlineMissed,
    Event,
    FenceChanged,
    JobChanged,
    JobEvicted,
    JobFrozen,
    ReservationChanged,
    TaskChanged,
)
from gosched.core.invariants.check_state import check
from gosched.core.outcome import Accepted, Outcome, Rejected
from gosched.core.records.job import Job, JobIntent, JobState, wants_placement
from gosched.core.records.node import NodeState
from gosched.core.records.queue import QueueOrder
from gosched.core.records.task import TaskState
from gosched.core.spec.placement_rules import Strategy
from gosched.core.state.cluster_state import ClusterState
from gosched.replication.snapshots import snapshot
from gosched.replication.snapshots.snapshot import Snapshot
from gosched.scheduling import Admission, Plan, Policy, View, ViewBuilder, admit, explain_on_request, schedule, what_if
from gosched.scheduling.policy import ALGORITHMS, ALL
from gosched.state_machine import apply
from tests.lives import draws, shapes
from tests.lives.draws import Hand
from tests.lives.shapes import LEVELS, MINUTE_MS, SECOND_MS
from tests.scheduling.test_builder import anew, assert_same
from tests.state_machine.test_properties import (
    assert_legal,
    broken_fences,
    given_what_takes_no_work,
    over_limits,
    wrong_victims,
    wrongly_opened,
)

BEGIN_MS = 1_700_000_000_000
SETTLING_ROUNDS = 400
CHECKED = 4  # commands: what must hold of the whole state costs as much to look at as these take to be planned
CYCLE, REPLAN, RESTORE, QUERY = "cycle", "stale plan", "restore", "query"
_ENTRY = (b"", 1, 1)


@dataclass(slots=True)
class Seen:
    """What lives have met. `pairs`: jobs in which both have happened."""

    commands: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)


class Life:
    def __init__(self, seed: int, seen: Seen) -> None:
        self.seed, self.seen, self.r = seed, seen, Random(seed)
        self.state, self.twin, self.builder = ClusterState(), ClusterState(), ViewBuilder()
        self.policy = _policy(self.r)
        self.met: dict[str, dict[str, None]] = {}
        self.hand = Hand(r=self.r, state=self.state, favour=self._favour, admit=self._admit)
        self.step = self._applied = 0
        self._stale: list[CommitPlan] = []
        for body in draws.opening(self.r):
            self.do(body, at_ms=BEGIN_MS)

    def run(self, steps: int) -> None:
        """Live for so many steps, and settle. Raises AssertionError, or what the code under test raises."""
        kinds = [*draws.WEIGHTS, CYCLE, REPLAN, RESTORE, QUERY]
        weights = [*draws.WEIGHTS.values(), 24, 1, 1, 1]
        for kind in self.r.choices(kinds, weights, k=steps):
            self.step += 1
            if callable(kind):
                self.do(kind(self.hand))
            elif kind == CYCLE:
                self.cycle()
            elif kind == REPLAN and self._stale:
                self.do(self.r.choice(self._stale))
            elif kind == RESTORE:
                self.restore()
            elif kind == QUERY:
                self.ask()
            if self.step % 20 == 0:
                self.compare()
        self.compare()
        self.settle()

    def do(self, body: Body, at_ms: int = 0) -> Outcome:
        """Apply a command to both copies, and look at what must hold."""
        r, state = self.r, self.state
        later_ms = r.choice((0, 1, SECOND_MS, 10 * SECOND_MS)) + (isinstance(body, PassTime)) * r.randrange(
            5 * MINUTE_MS
        )
        command = Command(body=body, at_ms=at_ms or state.clock_ms + later_ms, epoch=r.choice((0, state.epoch)))
        before = state.freeze()
        outcome, events = apply(state, command)
        assert apply(self.twin, command) == (outcome, events), "both copies answer alike"
        self._applied += 1
        if self._applied % CHECKED == 0:
            assert check(state) == []
        for event in events:
            assert_legal(event)
        if isinstance(outcome, Rejected):
            assert (events, state.jobs, state.tasks) == ((), before.jobs, before.tasks), "a refusal changes nothing"
            assert (state.nodes, state.allocations, state.fences) == (before.nodes, before.allocations, before.fences)
        if not isinstance(body, SetClock):  # which moves their moments
            assert broken_fences(before, state, events) == []
        assert given_what_takes_no_work(before, state, events) == []
        assert wrongly_opened(before, state, command) == []
        if isinstance(body, CommitPlan):
            over = over_limits(state, events)
            assert over == [], over
            assert wrong_victims(state, before, events) == []
        self.builder.apply(state, events)
        if any(isinstance(event, ClockSet) for event in events):
            self.builder.reset(state)
        self._count(body, outcome, events)
        return outcome

    def cycle(self) -> Plan:
        """Plan what there is now, and commit it: nothing has changed in between, so nothing of it is refused."""
        plan = schedule(self.view(), self.policy, self.state.clock_ms, self.state.revision)
        assert plan.faults == ()
        for command in plan.commands(epoch=0, at_ms=0):
            assert isinstance(command.body, CommitPlan)
            self._stale = [*self._stale[-3:], command.body]
            outcome = self.do(command.body, at_ms=self.state.clock_ms)
            assert isinstance(outcome, Accepted), outcome
            assert outcome.refusals == (), outcome.refusals
        return plan

    def ask(self) -> None:
        """What people ask the planner, about any job."""
        view, now_ms = self.view(), self.state.clock_ms
        for gang in self.r.sample(view.pending, min(len(view.pending), 2)):
            assert explain_on_request(view, self.policy, gang.job_id, now_ms) is not None
        what_if(view, self.policy, [shapes.job(self.r, self.state, 9999)], now_ms, 1)
        self.seen.commands[QUERY] += 1

    def restore(self) -> None:
        """The second copy begins again from a snapshot, as bytes; the planner's view as under a new leader."""
        data = b"".join(snapshot.encode(Snapshot(self.state.freeze(), _ENTRY, _ENTRY)))
        self.twin = snapshot.restored(snapshot.decode(data))
        self.builder.reset(self.state)
        self.seen.commands[RESTORE] += 1
        self._mark_all("restored")

    def compare(self) -> None:
        assert check(self.state) == []
        assert self.twin.digest() == self.state.digest(), "both copies are equal"
        assert_same(self.view(), anew(self.state))

    def view(self) -> View:
        return self.builder.view(self.state)

    def settle(self) -> None:
        """Everybody lets go: no new jobs, all nodes whole, tasks end. Then no job is left that could go on, and none
        waits without a reason."""
        for body in self._calm():
            self.do(body)
        plan = self.cycle()
        for _ in range(SETTLING_ROUNDS):
            ends = self._ends()
            for body in ends:
                self.do(body, at_ms=self.state.clock_ms + 1)
            moment = self.state.timers.next_ms()
            if self.state.follow_ups or moment:
                self.do(
                    PassTime(), at_ms=min(moment or 0, self.state.clock_ms + 50 * MINUTE_MS) or self.state.clock_ms + 1
                )
            plan = self.cycle()
            if not ends and not plan.gangs and not self.state.follow_ups:
                break
        else:
            raise AssertionError(f"it does not settle: {[_told(job) for job in self.hand.live()]}")
        left = [job for job in self.hand.live() if not self._waits_for_a_reason(job, plan)]
        assert left == [], [_told(job) for job in left]

    def _calm(self) -> list[Body]:
        calm: list[Body] = [registration for node in draws.NODES for registration in self._healed(node)]
        calm += [ControlNode(node_id=node, action=draws.NodeAction.UNCORDON, by=draws.ClosedBy.OPERATOR)
                 for node in draws.NODES]  # fmt: skip
        calm += [draws.DropWindow(name=name) for name in self.state.windows]
        for job in self.hand.live():
            rests = job.frozen or job.state is JobState.SUSPENDED or job.intent is JobIntent.SUSPEND
            calm += [ControlJob(job_id=job.id, action=Action.RESUME)] * rests
            calm += [ControlJob(job_id=job.id, action=Action.RELEASE)] * job.held
            calm += [draws.CancelJob(job_id=job.id)] * bool(job.spec.cron)
        return calm

    def _healed(self, node_id: str) -> list[Body]:
        known = self.state.nodes.get(node_id)
        dead = known is None or known.state is NodeState.DEAD
        boot = f"b{self.hand.next()}" if known is None or dead else known.incarnation
        body = draws.registration(Random(1), node_id, boot)
        return [body, draws.LabelNode(node_id=node_id, labels=(("pool", "a"),), drop_taints=("busy",))]

    def _ends(self) -> list[Body]:
        """All tasks that run succeed, and those that were ordered to stop have stopped."""
        found: list[Body] = []
        for node_id, own in self.state.node_allocations.items():
            told = []
            for allocation_id in own:
                task = self.state.tasks[self.state.allocations[allocation_id].task_id]
                if self.state.jobs[task.job_id].frozen:
                    continue
                stops = task.state is TaskState.STOPPING
                after = TaskState.KILLED if stops else TaskState.SUCCEEDED
                told.append(TaskReport(allocation_id=allocation_id, state=after, exit_code=None if stops else 0))
            if told:
                boot = self.state.nodes[node_id].incarnation
                found.append(ReportTasks(node_id=node_id, incarnation=boot, reports=tuple(told)))
        return found

    def _waits_for_a_reason(self, job: Job, plan: Plan) -> bool:
        if job.waits_for:
            return any(not self.state.jobs[wanted.job].state.is_final for wanted in job.waits_for)
        if job.spec.is_parent:
            return job.children.live > 0 or bool(job.detail)
        if job.state is JobState.RUNNING:  # with elastic tasks that wait to come back
            return wants_placement(job) and job.id in plan.explanations
        return job.state is JobState.PENDING and job.id in plan.explanations and job.intent is JobIntent.RUN

    def _favour(self, jobs: Sequence[Job]) -> Job:
        if self.r.random() < 0.5:
            return max(jobs, key=lambda job: (len(self.met.get(job.id, ())), job.id))
        return self.r.choice(jobs)

    def _admit(self, job: Job) -> Admission:
        return admit(self.view(), self.policy, job, self.state.clock_ms, 1)

    def _count(self, body: Body, outcome: Outcome, events: tuple[Event, ...]) -> None:
        name = type(body).__name__
        if isinstance(body, ControlJob):
            name += f" {body.action.name}"
        self.seen.commands[name] += 1
        if isinstance(outcome, Rejected):
            self.seen.refused[name] += 1
            self.seen.refusals[f"{name}: {outcome.code.name}"] += 1
            return
        self.seen.refused["gangs of CommitPlan"] += len(outcome.refusals)
        if isinstance(body, ControlJob):
            self._mark(body.job_id, body.action.name.lower())
        if isinstance(body, SetClock | SetQueues | SetQuotas | SetWindow):
            back = isinstance(body, SetClock) and any(isinstance(event, ClockSet) for event in events)
            self._mark_all("clock back" if back else name)
        if isinstance(body, MarkNodeDead | ControlNode | RegisterNode):
            what = body.action.name.lower() if isinstance(body, ControlNode) else "node news"
            for allocation in [*self.state.allocations.values()]:
                if allocation.node_id == body.node_id:
                    self._mark(allocation.job_id, what)
        for event in events:
            for mark in _marks(event):
                self._mark(event.job_id, mark)  # type: ignore[union-attr]

    def _mark_all(self, mark: str) -> None:
        for job in self.state.jobs.values():
            if job.active:
                self._mark(job.id, mark)

    def _mark(self, job_id: str, mark: str) -> None:
        met = self.met.setdefault(job_id, {})
        if mark not in met:
            self.seen.marks[mark] += 1
            self.seen.pairs.update([(min(mark, other), max(mark, other)) for other in met])
            met[mark] = None


def _marks(event: Event) -> list[str]:
    match event:
        case JobEvicted(cause=cause, whole=whole):
            return [f"{cause.name.lower()} {'whole' if whole else 'in part'}"]
        case FenceChanged(made=made, why=why):
            return ["fence" if made else "fence dropped" if why else "fence fired"]
        case ReservationChanged(start_ms=start_ms, broken=broken):
            return ["reservation broken" if broken else "reserved" if start_ms else "unreserved"]
        case DeadlineMissed():
            return ["deadline missed"]
        case JobFrozen(frozen=frozen):
            return ["frozen" if frozen else "thawed"]
        case JobChanged(before=before, after=after, reason=reason):
            return [f"{before.name.lower()} > {after.name.lower()} {reason}".strip()]
        case TaskChanged(before=before, after=after, reason=reason) if after in (TaskState.LOST, TaskState.STOPPING):
            return [f"task {after.name.lower()} {reason}".strip()]
        case TaskChanged(after=TaskState.FAILED):
            return ["task failed"]
        case _:
            return []


def _policy(r: Random) -> Policy:
    if r.random() < 0.5:
        return Policy.of(r.choice(ALGORITHMS), topology=LEVELS)
    return Policy(
        strategy=r.choice([strategy for strategy in Strategy if strategy]),
        order=r.choice([order for order in QueueOrder if order]),
        topology=LEVELS,
        compact=r.random() < 0.3,
        strict=r.random() < 0.3,
        reservations=r.choice((0, 1, 4, ALL)),
        max_victims=r.choice((1, 100)),
        max_wait_ms=r.choice((0, 5 * MINUTE_MS, 1 << 62)),
    )


def _told(job: Job) -> str:
    return (f"{job.id} {job.state.name} {job.intent.name} {job.reason} active {job.active} held {job.held} "
            f"waits for {job.waits_for} {job.detail}")  # fmt: skip
