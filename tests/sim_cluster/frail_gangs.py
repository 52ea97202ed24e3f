"""Gangs whose members fail when a peer is gone, on a virtual clock: the real state machine and planner, a leader that
knows of a node only what it hears, and agents and networks that break.

`python -m tests.sim_cluster.frail_gangs SEEDS [FIRST]` lives through so many, and says what was met.
"""

from __future__ import annotations

import heapq
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from gosched.core.commands.cluster import PassTime, SetQueues
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import SubmitJob
from gosched.core.commands.nodes import (
    ControlNode,
    MarkNodeDead,
    NodeAction,
    RegisterNode,
    ReportTasks,
    TaskReport,
)
from gosched.core.events import Event, JobChanged, TaskChanged
from gosched.core.invariants.check_state import check
from gosched.core.outcome import Accepted, Outcome
from gosched.core.reasons import Reason
from gosched.core.records.job import Job, JobState
from gosched.core.records.node import ClosedBy, NodeState
from gosched.core.records.queue import Queue
from gosched.core.records.task import TaskState
from gosched.core.resources import MILLI, Resources
from gosched.core.spec.job_spec import JobSpec, OnDisconnect
from gosched.core.spec.policies import GangPolicy, MemberFailure, RetryCause, RetryPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.silent_members import may_live_on
from gosched.scheduling import Policy, ViewBuilder, schedule
from gosched.state_machine import apply

NODES, CPUS = 6, 4
BEAT_MS, LEASE_MS = 1_000, 10_000
LASTS_MS = 300_000
SOON_MS = 5_000
FAULTS_MS = (20_000, 200_000)
_CAUSES = {RetryCause.FAILED: "failed", RetryCause.NODE_LOST: "node lost"}


class Wrong(AssertionError):
    """What must not happen to a gang."""


@dataclass(slots=True)
class Process:
    allocation: str
    job: str
    rank: int
    attempt: int
    node: str
    #: What its agent will say of its end; empty: it runs.
    ended: str = ""
    ended_at_ms: int = 0


@dataclass(slots=True)
class Node:
    id: str
    processes: dict[str, Process] = field(default_factory=dict)
    is_up: bool = True  # the host, with all that runs there
    has_agent: bool = True
    hears_masters: bool = True
    hears_peers: bool = True
    boot: int = 1
    heard_ms: int = 0
    waited_from_ms: int = 0

    @property
    def reports(self) -> bool:
        return self.is_up and self.has_agent and self.hears_masters


class World:
    def __init__(self, seed: int) -> None:
        self.r = Random(seed)
        self.state, self.builder = ClusterState(), ViewBuilder()
        self.now_ms = 1_700_000_000_000
        self.begin_ms = self.now_ms
        self.nodes = {f"n{number}": Node(f"n{number}") for number in range(NODES)}
        self.hardy: dict[str, bool] = {}
        #: Job -> what went wrong with its present attempt.
        self.causes: dict[str, set[str]] = {}
        self.broke_ms: dict[str, int] = {}
        self.stood: dict[str, dict[int, str]] = {}
        self.steady_since = dict.fromkeys(self.nodes, 0)
        self.seen: Counter[str] = Counter()
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = self._jobs = 0
        self._plans = False
        self.do(SetQueues(queues=(Queue(path="default"),)))
        for node in self.nodes.values():
            self._register(node)

    def run(self) -> World:
        for _ in range(self.r.randint(4, 9)):
            self.at(self.r.randrange(60_000), self._submit)
        for _ in range(self.r.randint(1, 5)):
            self.at(self.r.randint(*FAULTS_MS), self._fault)
        for node in self.nodes.values():
            self.at(self.r.randrange(BEAT_MS), lambda node=node: self._beat(node))  # type: ignore[misc]
        self.at(0, self._lead)
        while self._heap and self._heap[0][0] <= self.begin_ms + LASTS_MS:
            self.now_ms, _, work = heapq.heappop(self._heap)
            work()
            if self._plans:
                self._plan()
        assert check(self.state) == []
        return self

    def at(self, in_ms: int, work: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._heap, (self.now_ms + in_ms, self._count, work))

    # The leader

    def do(self, body: Body) -> Outcome:
        before = {job.id: job for job in self.state.jobs.values()}
        outcome, events = apply(self.state, Command(body=body, at_ms=self.now_ms, epoch=0))
        self.builder.apply(self.state, events)
        self._plans |= bool(events)
        for event in events:
            self._look(event, before)
        return outcome

    def _lead(self) -> None:
        for node in self.nodes.values():
            record = self.state.nodes[node.id]
            if record.state is not NodeState.DEAD and self.now_ms - node.heard_ms >= LEASE_MS:
                self._give_up(node)
        due_ms = self.state.timers.next_ms()
        if self.state.follow_ups or 0 < due_ms <= self.now_ms:
            self.do(PassTime())
        self._plans = True  # a backoff may be over
        self.at(500, self._lead)

    def _give_up(self, node: Node) -> None:
        node.waited_from_ms = node.waited_from_ms or self.now_ms
        waited_ms = self.now_ms - node.waited_from_ms + 1
        held = self.state.node_allocations[node.id]
        if held and len(may_live_on(self.state, node.id, waited_ms)) == len(held):
            return
        record = self.state.nodes[node.id]
        self._blame_node(node)
        dead = MarkNodeDead(
            node_id=node.id,
            incarnation=record.incarnation,
            reason="no heartbeat",
            heard_at_ms=node.heard_ms,
            waited_ms=waited_ms,
        )
        self.do(dead)

    def _plan(self) -> None:
        self._plans = False
        plan = schedule(self.builder.view(self.state), Policy(), self.now_ms, 1)
        for command in plan.commands(epoch=0, at_ms=0):
            outcome = self.do(command.body)
            if isinstance(outcome, Accepted) and outcome.refusals:
                raise Wrong(f"refused: {outcome.refusals}")
        self._plans = plan.more

    # The agents

    def _register(self, node: Node) -> None:
        capacity = Resources(cpu_millis=CPUS * MILLI, memory_bytes=1 << 30)
        self.do(
            RegisterNode(node_id=node.id, name=node.id, address="h:1", incarnation=f"b{node.boot}", capacity=capacity)
        )
        node.heard_ms, node.waited_from_ms = self.now_ms, 0

    def _beat(self, node: Node) -> None:
        self.at(BEAT_MS, lambda: self._beat(node))
        if not node.reports:
            return
        record = self.state.nodes[node.id]
        if record.state is NodeState.DEAD or record.incarnation != f"b{node.boot}":
            self._register(node)
            record = self.state.nodes[node.id]
        node.heard_ms, node.waited_from_ms = self.now_ms, 0
        if record.state is NodeState.CORDONED and record.closed_by is ClosedBy.AGENT:
            self.do(ControlNode(node_id=node.id, action=NodeAction.UNCORDON, by=ClosedBy.AGENT))
        self._report(node)
        for allocation in [*self.state.node_allocations[node.id]]:  # orders that were not heard at once
            if allocation not in node.processes:
                self._start(allocation)
            elif self.state.tasks[self.state.allocations[allocation].task_id].state is TaskState.STOPPING:
                self._stop(node, node.processes[allocation])

    def _report(self, node: Node) -> None:
        """Say what has ended, and end what the masters know nothing of."""
        if not node.reports:
            return
        held = self.state.node_allocations[node.id]
        told = []
        for process in [*node.processes.values()]:
            if process.allocation not in held:
                self._end(node, process, "KILLED")
                del node.processes[process.allocation]
            elif process.ended:
                del node.processes[process.allocation]
                told.append(_report_of(process))
        if told:
            self.do(ReportTasks(node_id=node.id, incarnation=f"b{node.boot}", reports=tuple(told)))

    def _start(self, allocation_id: str) -> None:
        allocation = self.state.allocations.get(allocation_id)
        if allocation is None:
            return
        node = self.nodes[allocation.node_id]
        task = self.state.tasks[allocation.task_id]
        if not node.reports or allocation_id in node.processes or task.state is TaskState.STOPPING:
            return
        process = Process(allocation_id, task.job_id, task.rank, task.attempt, node.id)
        self._look_for_twins(process)
        node.processes[allocation_id] = process
        running = TaskReport(allocation_id=allocation_id, state=TaskState.RUNNING, started_at_ms=self.now_ms)
        self.do(ReportTasks(node_id=node.id, incarnation=f"b{node.boot}", reports=(running,)))

    def _stop(self, node: Node, process: Process) -> None:
        if not process.ended:
            self.at(self.r.randrange(100, 2_000), lambda: self._end(node, process, "KILLED"))

    def _end(self, node: Node, process: Process, how: str, *, seen_ms: int = 0) -> None:
        """The process ends, and its peers notice: at once by a reset connection, or after `seen_ms`."""
        if process.ended or (how != "GONE" and not node.is_up):
            return
        process.ended, process.ended_at_ms = how, self.now_ms
        self.at(self.r.randrange(10, 200), lambda: self._report(node))
        job = self.state.jobs.get(process.job)
        if job is None or how == "SUCCEEDED" or self.hardy.get(process.job, False):
            return
        for peer in self._peers(process):
            in_ms = seen_ms or self.r.randrange(50, 1_500)
            self.at(in_ms, lambda peer=peer: self._end(self.nodes[peer.node], peer, "FAILED"))  # type: ignore[misc]

    def _peers(self, process: Process) -> list[Process]:
        own = [p for node in self.nodes.values() for p in node.processes.values() if p.job == process.job]
        return [p for p in own if not p.ended and p is not process and p.attempt == process.attempt]

    # Faults

    def _fault(self) -> None:
        kinds = (self._kill_rank, self._crash, self._crash, self._power, self._agent_away, self._cut_masters, self._cut)
        self.r.choice(kinds)()

    def _running(self) -> list[Process]:
        return [p for node in self.nodes.values() if node.is_up for p in node.processes.values() if not p.ended]

    def _blame(self, processes: list[Process], cause: str) -> None:
        for process in processes:
            self.causes.setdefault(process.job, set()).add(cause)

    def _blame_node(self, node: Node) -> None:
        for allocation in self.state.node_allocations[node.id]:
            self.causes.setdefault(self.state.allocations[allocation].job_id, set()).add("node lost")

    def _kill_rank(self) -> None:
        if running := self._running():
            process = self.r.choice(running)
            self.seen["rank killed"] += 1
            self._blame([process], "failed")
            self._end(self.nodes[process.node], process, "FAILED")

    def _victim(self) -> Node | None:
        nodes = [node for node in self.nodes.values() if node.reports and node.hears_peers]
        node = self.r.choice(nodes) if len(nodes) > NODES // 2 else None
        if node is not None:
            self.steady_since[node.id] = self.now_ms + 120_000  # by then it is whole again
        return node

    def _down(self, seen_ms: int) -> None:
        node = self._victim()
        if node is None:
            return
        processes = [p for p in node.processes.values() if not p.ended]
        self._blame_node(node)
        for process in processes:
            self._end(node, process, "GONE", seen_ms=seen_ms)
        node.is_up = False
        self.at(self.r.choice((3_000, 30_000, 120_000)), lambda: self._boot(node))

    def _boot(self, node: Node) -> None:
        node.boot += 1
        node.is_up = True
        for process in node.processes.values():
            process.ended = "GONE"

    def _crash(self) -> None:
        self.seen["node crashed"] += 1
        self._down(0)

    def _power(self) -> None:
        self.seen["node lost power"] += 1
        self._down(self.r.randrange(5_000, 60_000))

    def _agent_away(self) -> None:
        if node := self._victim():
            self.seen["agent away"] += 1
            node.has_agent = False
            self._lapse(node)
            self.at(self.r.choice((5_000, 20_000, 60_000)), lambda: setattr(node, "has_agent", True))

    def _cut_masters(self) -> None:
        if node := self._victim():
            self.seen["cut from masters"] += 1
            node.hears_masters = False
            self._lapse(node)
            self.at(self.r.choice((5_000, 20_000, 60_000)), lambda: setattr(node, "hears_masters", True))

    def _cut(self) -> None:
        """Masters and peers do not hear the node; its own ranks fail by their time limit, as do the others."""
        node = self._victim()
        if node is None:
            return
        self.seen["cut from all"] += 1
        node.hears_masters = node.hears_peers = False
        self._lapse(node)
        limit_ms = self.r.randrange(5_000, 60_000)
        here = [p for p in node.processes.values() if not p.ended and not self.hardy[p.job]]
        lonely = [p for p in here if any(peer.node != node.id for peer in self._peers(p))]

        def fail(process: Process) -> None:
            if not node.hears_peers:
                self._blame([process], "node lost")
                self._end(node, process, "FAILED")

        for process in lonely:
            self.at(limit_ms, lambda p=process: fail(p))  # type: ignore[misc]

        def heal() -> None:
            node.hears_masters = node.hears_peers = True

        self.at(self.r.choice((3_000, 20_000, 60_000)), heal)

    def _lapse(self, node: Node) -> None:
        """Tasks that end with the lease do so before the masters count the node as dead."""

        def end() -> None:
            if self.now_ms - node.heard_ms < LEASE_MS - 2 * BEAT_MS:
                return
            for process in [*node.processes.values()]:
                if not process.ended and self.state.jobs[process.job].spec.on_disconnect is OnDisconnect.STOP:
                    self._blame([process], "node lost")
                    self._end(node, process, "DISCONNECTED")

        self.at(LEASE_MS - BEAT_MS, end)
        self.at(LEASE_MS, lambda: self._blame_if_silent(node))

    def _blame_if_silent(self, node: Node) -> None:
        if self.now_ms - node.heard_ms >= LEASE_MS - BEAT_MS:
            self._blame_node(node)

    # Jobs

    def _submit(self) -> None:
        self._jobs += 1
        name, r = f"j{self._jobs}", self.r
        count = r.randint(2, 6)
        policy = r.choice((*[MemberFailure.RESTART_GANG] * 3, MemberFailure.FAIL_JOB, *[MemberFailure.CONTINUE] * 3))
        goes_on = policy is MemberFailure.CONTINUE
        least = r.randint(1, count - 1) if goes_on else 0
        causes = (RetryCause.NODE_LOST, RetryCause.FAILED)
        when = r.choice((causes, causes[:1], causes[:1], causes[1:], ()))
        spec = JobSpec(
            name=name,
            queue="default",
            tenant="t",
            groups=(
                TaskGroup(
                    name="w", count=count, min_count=least, resources=Resources(cpu_millis=MILLI), command=("x",)
                ),
            ),
            gang=GangPolicy(
                min_tasks=least or count,
                on_member_failure=policy,
                replace_after_ms=r.choice((0, 120_000, 120_000)) if goes_on else 0,
            ),
            retry=RetryPolicy(max_restarts=20, backoff_ms=r.choice((0, 0, 5_000, 30_000)), when=when),
            on_disconnect=r.choice((OnDisconnect.KEEP, OnDisconnect.STOP)),
        )
        self.hardy[name] = goes_on and r.random() < 0.7
        assert isinstance(self.do(SubmitJob(job_id=name, spec=spec)), Accepted)

    # What must not happen

    def _look(self, event: Event, before: dict[str, Job]) -> None:
        if isinstance(event, TaskChanged):
            if event.after is TaskState.PLACED:
                self.at(self.r.randrange(50, 400), lambda: self._start(event.allocation_id))
            elif event.after is TaskState.STOPPING:
                node = self.nodes[event.node_id]
                if node.reports and event.allocation_id in node.processes:
                    self._stop(node, node.processes[event.allocation_id])
            return
        if not isinstance(event, JobChanged):
            return
        job = self.state.jobs.get(event.job_id)
        if job is None:
            return
        causes = self.causes.get(job.id, set())
        if event.after is JobState.FAILED:
            self._look_at_failure(job, causes)
        elif event.after is JobState.PENDING and event.before is JobState.RUNNING:
            self.seen["restart"] += 1
            covered = {_CAUSES[cause] for cause in job.spec.retry.when}
            frail = {"failed"} if "node lost" in causes and not self.hardy[job.id] else set()  # by their peers' end
            if not (causes | frail) & covered:
                raise Wrong(f"{job.id} starts again, after {causes or 'nothing'}; its retry covers {covered}")
            self.broke_ms[job.id] = self.now_ms
            self.stood[job.id] = {task.rank: task.node_id for task in self.state.tasks_of(job) if task.node_id}
            self.causes.pop(job.id, None)
        elif event.after is JobState.RUNNING:
            if self.now_ms - self.broke_ms.pop(job.id, 0) < SOON_MS:
                self._look_at_places(job)
            if job.attempt == 1:  # one that starts again goes where it was
                self._look_at_start(job)

    def _look_at_failure(self, job: Job, causes: set[str]) -> None:
        covered = {_CAUSES[cause] for cause in job.spec.retry.when}
        self.seen["failed"] += 1
        if job.spec.gang.on_member_failure is MemberFailure.FAIL_JOB:
            return
        if causes <= covered:
            raise Wrong(f"{job.id} FAILED ({job.reason}: {job.detail}) after {causes}; its retry covers {covered}")

    def _look_at_start(self, started: Job) -> None:
        """A later gang has started: no gang that broke would have had room without it."""
        used = self._used()
        ready = [node.id for node in self.state.nodes.values() if node.state is NodeState.READY]
        free = sum(max(CPUS - used[node], 0) for node in ready)
        for job_id in self.broke_ms:
            broken = self.state.jobs[job_id]
            needs = sum(group.floor for group in broken.spec.groups)
            promised = job_id in self.state.fences or job_id in self.state.reservations
            waits = broken.state is JobState.PENDING and not promised and broken.not_before_ms <= self.now_ms
            own = len([t for t in self.state.tasks_of(started) if t.state.is_active])
            if waits and broken.sequence < started.sequence and free < needs <= free + own:
                raise Wrong(f"{started.id} has started where {job_id} ran, which waits since {self.broke_ms[job_id]}")

    def _used(self) -> Counter[str]:
        used = Counter(a.node_id for a in self.state.allocations.values())
        for fence in self.state.fences.values():
            used.update([p.node_id for p in fence.tasks])
        return used

    def _look_at_places(self, job: Job) -> None:
        """A gang has started again at once: each rank is where it was, if that node was there all the time and has room
        (another gang that broke may have taken it)."""
        stood, moved, used = self.stood[job.id], {}, self._used()
        for task in self.state.tasks_of(job):
            node = self.nodes.get(stood.get(task.rank, ""))
            steady = node is not None and node.reports and self.steady_since[node.id] < self.now_ms - 2 * LEASE_MS
            has_room = steady and used[stood[task.rank]] < CPUS
            if task.state.is_active and has_room and task.node_id != stood[task.rank]:
                moved[task.rank] = (stood[task.rank], task.node_id)
        if moved:
            raise Wrong(f"{job.id} has started again, and moved {moved}")

    def _look_for_twins(self, process: Process) -> None:
        """Of a gang that goes on without a member, no second one starts while the first is at work."""
        job = self.state.jobs[process.job]
        asked = not job.spec.gang.replace_after_ms
        others = [p for p in self._peers(process) if p.rank == process.rank and self.nodes[p.node].is_up]
        for other in others if job.spec.gang.on_member_failure is MemberFailure.CONTINUE else ():
            if job.spec.on_disconnect is OnDisconnect.STOP or not asked:
                raise Wrong(f"{process.allocation} has started beside {other.allocation}")


def _report_of(process: Process) -> TaskReport:
    state, reason, code = {
        "FAILED": (TaskState.FAILED, Reason.NONZERO_EXIT, 1),
        "KILLED": (TaskState.KILLED, "", None),
        "GONE": (TaskState.LOST, Reason.NODE_REBOOTED, None),
        "DISCONNECTED": (TaskState.LOST, Reason.DISCONNECTED, None),
    }[process.ended]
    ended_at_ms = 0 if process.ended == "GONE" else process.ended_at_ms
    return TaskReport(
        allocation_id=process.allocation, state=state, reason=reason, exit_code=code, ended_at_ms=ended_at_ms
    )


def main() -> int:
    seeds, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    seen: Counter[str] = Counter()
    wrong = 0
    for seed in range(first, first + seeds):
        world = World(seed)
        try:
            world.run()
        except AssertionError as error:
            wrong += 1
            print(f"seed {seed}, after {(world.now_ms - world.begin_ms) / 1000:.1f} s: {error}", flush=True)
        seen.update(world.seen)
    print(f"{seeds} seeds, {wrong} wrong;", ", ".join(f"{what} {count}" for what, count in seen.most_common()))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
