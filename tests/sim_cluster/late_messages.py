"""A leader and agents on a virtual clock and a network that may deliver anything after any delay, also after a cut.

The decisions are the programs' own: `apply`, `compare`, `Talks` and `Leases` of the leader, `Fence` and `reconcile` of
the agents. Every job asks to be stopped with its node's lease, and agents forget a task as soon as they may.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

from gosched.agent.logic.fence import Fence, Made
from gosched.agent.logic.reconcile import Desired, Forget, Start, Stop, Tombstone, reconcile
from gosched.core.commands.cluster import SetQueues
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import CancelJob, SubmitJob
from gosched.core.commands.nodes import MarkNodeDead, RegisterNode, ReportTasks, TaskReport
from gosched.core.commands.plans import CommitPlan, GangPlacement
from gosched.core.events import NodeChanged, TaskChanged
from gosched.core.orders import StopOrder
from gosched.core.outcome import Accepted, Outcome
from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.node import NodeState
from gosched.core.records.queue import Queue
from gosched.core.records.task import TaskState
from gosched.core.resources import Resources
from gosched.core.spec.job_spec import JobSpec, OnDisconnect
from gosched.core.spec.policies import GangPolicy, RetryCause, RetryPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.core.state.cluster_state import ClusterState
from gosched.master.agents.leases import Leases
from gosched.master.agents.orders import stop_order
from gosched.master.agents.reconcile import compare
from gosched.master.agents.talks import Talks
from gosched.state_machine import apply

CALL_MS, BEAT_MS, LEASE_MS, FIRST_MS = 3_000, 1_000, 10_000, 15_000
_RETRY = RetryPolicy(max_restarts=100, when=(RetryCause.NODE_LOST, RetryCause.PREEMPTED, RetryCause.FAILED))


class GivenUpStarted(AssertionError):
    """A task started that the leader had given up."""


@dataclass(slots=True)
class _Run:
    ends_ms: int
    report: TaskReport


class World:
    def __init__(self, seed: int, nodes: int = 3) -> None:
        self.rng = Random(seed)
        self.now_ms = 1_000_000
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._cut_until: dict[str, int] = {}
        self.started = 0
        self.refused = 0
        self.leader = _Leader(self)
        self.agents = {f"n{i}": _Agent(self, f"n{i}") for i in range(nodes)}

    def run(self, seconds: int) -> World:
        for agent in self.agents.values():
            self.at(self.rng.randrange(BEAT_MS), agent.tick)
        self.at(0, self.leader.tick)
        self.at(5_000, self._trouble)
        ends = self.now_ms + seconds * 1000
        while self._heap and self._heap[0][0] <= ends:
            self.now_ms, _, work = heapq.heappop(self._heap)
            work()
        return self

    def at(self, in_ms: int, work: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._heap, (self.now_ms + in_ms, self._count, work))

    def send(self, node: str, work: Callable[[], None]) -> None:
        """Send a message to or from a node. What is sent into a cut comes after the heal, or never."""
        delay = self.rng.randrange(1, 40) if self.rng.random() < 0.97 else self.rng.randrange(60_000)
        left_ms = self._cut_until.get(node, 0) - self.now_ms
        if left_ms > 0:
            delay = max(delay, left_ms) + self.rng.choice((0, 500, 5_000, 40_000))
        if left_ms <= 0 or self.rng.random() < 0.8:
            self.at(delay, work)

    def _trouble(self) -> None:
        node = self.rng.choice(list(self.agents))
        if self.rng.random() < 0.2:
            self.agents[node].restart()
        else:
            self._cut_until[node] = self.now_ms + self.rng.choice((2_000, 12_000, 20_000, 30_000))
        self.at(self.rng.randrange(2_000, 20_000), self._trouble)


class _Leader:
    def __init__(self, world: World) -> None:
        self._world = world
        self.state = ClusterState()
        self._talks = Talks()
        self._leases = Leases(self, timeout_s=LEASE_MS / 1000, first_s=FIRST_MS / 1000)
        self._leases.begin(())
        self._jobs = 0
        self._tell(SetQueues(queues=(Queue(path="default"),)))

    def now_ms(self) -> int:
        return self._world.now_ms

    def monotonic_s(self) -> float:
        return self._world.now_ms / 1000

    def tick(self) -> None:
        for node_id in self._leases.expired():
            node = self.state.nodes[node_id]
            dead = MarkNodeDead(node_id=node_id, incarnation=node.incarnation, registration=node.registration)
            if isinstance(self._tell(dead), Accepted):
                self._leases.drop(node_id)
        rng = self._world.rng
        if sum(not job.state.is_final for job in self.state.jobs.values()) < 4:
            self._jobs += 1
            group = TaskGroup(name="main", count=1, resources=Resources(cpu_millis=1000), command=("true",))
            spec = JobSpec(
                name=f"j{self._jobs}",
                queue="default",
                groups=(group,),
                gang=GangPolicy(min_tasks=1),
                retry=_RETRY,
                on_disconnect=OnDisconnect.STOP,
            )
            self._tell(SubmitJob(job_id=spec.name, spec=spec))
        elif rng.random() < 0.05:
            self._tell(CancelJob(job_id=rng.choice(list(self.state.jobs))))
        ready = [node.id for node in self.state.nodes.values() if node.state is NodeState.READY]
        for job_id in [*self.state.pending] if ready else ():
            task = TaskPlacement(rank=0, node_id=rng.choice(ready))
            gang = GangPlacement(job_id=job_id, attempt=self.state.jobs[job_id].attempt, tasks=(task,))
            self._tell(CommitPlan(revision=self.state.revision, gangs=(gang,)))
        self._world.at(500, self.tick)

    def register(self, offer: RegisterNode, seen: list[TaskReport]) -> tuple[int, list[str]] | None:
        """Return the registration's number and what has to stop first."""
        leftovers = compare(self.state, offer.node_id, seen).leftovers
        if leftovers:
            return 0, leftovers
        if self._leases.is_given_up(offer.node_id) or not isinstance(self._tell(offer), Accepted):
            return None
        self._leases.renew(offer.node_id)
        return self.state.nodes[offer.node_id].registration, []

    def heartbeat(
        self, node_id: str, sender: tuple[str, int], number: int, heard: int, seen: list[TaskReport]
    ) -> tuple[Desired, int, frozenset[str]] | None:
        """Return what is wanted, the revision and what is under way; None: register again."""
        node = self.state.nodes.get(node_id)
        if node is None or node.state is NodeState.DEAD or (node.incarnation, node.registration) != sender:
            return None
        if self._leases.is_given_up(node_id) or self._talks.is_late(node, number):
            return Desired(), 0, frozenset()
        self._leases.renew(node_id)
        verdict = compare(self.state, node_id, seen, self._talks.missing(node, 1))
        self._talks.note_missing(node, 1, verdict.missing)
        if verdict.reports:
            incarnation, registration = sender
            self._tell(
                ReportTasks(
                    node_id=node_id,
                    incarnation=incarnation,
                    registration=registration,
                    reports=tuple(verdict.reports),
                )
            )
            verdict = compare(self.state, node_id, seen)
        pushed = self._talks.answer(node, heard)
        starts = [allocation for allocation in verdict.start if allocation not in pushed]
        self._talks.told(node, starts)
        stops = [stop_order(self.state, self.state.allocations[i]) for i in verdict.stop]
        stops += [StopOrder(allocation_id=i, grace_ms=0) for i in verdict.leftovers]
        desired = Desired(start=tuple(starts), stop=tuple(stops), forget=tuple(verdict.forget))
        return desired, self.state.revision, pushed.intersection(verdict.start)

    def _tell(self, body: Body) -> Outcome:
        outcome, events = apply(self.state, Command(body=body, at_ms=self._world.now_ms))
        for event in events:
            if isinstance(event, TaskChanged) and event.after in (TaskState.PLACED, TaskState.STOPPING):
                self._push(event.node_id, event.allocation_id, event.after)
            elif isinstance(event, NodeChanged) and event.after is NodeState.DEAD:
                self._talks.drop(event.node_id)
        return outcome

    def _push(self, node_id: str, allocation_id: str, state: TaskState) -> None:
        node = self.state.nodes[node_id]
        if node.state is NodeState.DEAD:
            return
        desired = Desired(start=(allocation_id,))
        if state is TaskState.STOPPING:
            desired = Desired(stop=(stop_order(self.state, self.state.allocations[allocation_id]),))
        else:
            self._talks.push(node, [allocation_id])
        made = Made(registration=node.registration, revision=self.state.revision)
        agent, incarnation, waits = self._world.agents[node_id], node.incarnation, [True]

        def ended(obeyed: bool) -> None:
            if waits.pop() if waits else False:
                self._talks.pushed(node, desired.start, made.revision, obeyed=obeyed)

        def arrive() -> None:
            obeyed = agent.take_push(incarnation, desired, made)
            self._world.send(node_id, lambda: ended(obeyed))

        self._world.send(node_id, arrive)
        self._world.at(5_000, lambda: ended(False))


class _Agent:
    def __init__(self, world: World, node_id: str) -> None:
        self._world = world
        self.id = node_id
        self._boots = 0
        self._runs: dict[str, _Run] = {}
        self._lease_ms = 0
        self._boot()

    def restart(self) -> None:
        """Another boot, which adopts the tasks."""
        self._boot()

    def _boot(self) -> None:
        self._boots += 1
        self.incarnation = f"{self.id}.{self._boots}"
        self.fence = Fence()
        self._registered = False
        self._number = 0
        self._call = 0  # of the newest one
        self._called_ms = 0  # 0: none is under way
        self._leased_ms = 0  # under this boot

    def tick(self) -> None:
        now = self._world.now_ms
        for allocation, run in self._runs.items():
            if run.report.state.is_final:
                continue
            if now >= self._lease_ms:
                self._end(allocation, TaskState.LOST)
            elif now >= run.ends_ms:
                self._end(allocation, TaskState.SUCCEEDED)
        if not self._called_ms or now - self._called_ms > CALL_MS:
            self._ask()
        self._world.at(BEAT_MS, self.tick)

    def take_push(self, incarnation: str, desired: Desired, made: Made) -> bool:
        if incarnation != self.incarnation or self.fence.take_push(desired, made):
            self._world.refused += 1
            return False
        if not self._obey(desired):
            return False
        self.fence.note(desired, made)
        return True

    def _ask(self) -> None:
        self._call += 1
        self._called_ms = self._world.now_ms
        call, boot, seen = self._call, self.incarnation, [run.report for run in self._runs.values()]
        leader, send = self._world.leader, self._world.send

        def when_current(work: Callable[[], None]) -> Callable[[], None]:
            def take() -> None:
                in_time = self._world.now_ms - self._called_ms <= CALL_MS
                if (call, boot) == (self._call, self.incarnation) and in_time:
                    self._called_ms, sent = 0, self._called_ms
                    self._sent_ms = sent
                    work()

            return take

        if not self._registered:
            capacity = Resources(cpu_millis=8000)
            offer = RegisterNode(
                node_id=self.id, name=self.id, address=self.id, incarnation=boot, capacity=capacity, numbered=True
            )

            def arrive() -> None:
                answer = leader.register(offer, seen)
                if answer is not None:
                    send(self.id, when_current(lambda: self._on_registered(*answer)))

        else:
            self._number += 1
            sender, number, heard = (boot, self.fence.registration), self._number, self.fence.heard

            def arrive() -> None:
                answer = leader.heartbeat(self.id, sender, number, heard, seen)
                send(self.id, when_current(lambda: self._on_answer(sender[1], answer)))

        send(self.id, arrive)

    def _on_registered(self, registration: int, stop_first: list[str]) -> None:
        self.fence.register(registration)
        for allocation in stop_first:
            if allocation in self._runs and not self._runs[allocation].report.state.is_final:
                self._end(allocation, TaskState.KILLED)
        if not stop_first:
            self._registered = True
            self._lease_ms = self._leased_ms = self._sent_ms + LEASE_MS

    def _on_answer(self, registration: int, answer: tuple[Desired, int, Iterable[str]] | None) -> None:
        if answer is None:
            self._registered = False
            return
        desired, revision, under_way = answer
        if revision:
            self._lease_ms = self._leased_ms = self._sent_ms + LEASE_MS
            if not self.fence.take_answer(desired, Made(registration=registration, revision=revision), under_way):
                self._obey(desired)

    def _obey(self, desired: Desired) -> bool:
        states = {allocation: run.report.state for allocation, run in self._runs.items()}
        for action in reconcile(desired, states):
            match action:
                case Start() if self._world.now_ms >= self._leased_ms:
                    return False
                case Start():
                    self._start(action.allocation_id)
                case Stop():
                    self._end(action.order.allocation_id, TaskState.KILLED)
                case Tombstone():
                    self._runs[action.order.allocation_id] = _Run(
                        0, _report(action.order.allocation_id, TaskState.KILLED)
                    )
                case Forget():
                    del self._runs[action.allocation_id]
        return True

    def _start(self, allocation: str) -> None:
        held = self._world.leader.state.allocations.get(allocation)
        if held is None or held.node_id != self.id:
            raise GivenUpStarted(f"{allocation} on {self.id} at {self._world.now_ms}")
        self._world.started += 1
        ends_ms = self._world.now_ms + self._world.rng.randrange(500, 8_000)
        self._runs[allocation] = _Run(ends_ms, _report(allocation, TaskState.RUNNING))

    def _end(self, allocation: str, state: TaskState) -> None:
        self._runs[allocation].report = _report(allocation, state)


def _report(allocation: str, state: TaskState) -> TaskReport:
    return TaskReport(allocation_id=allocation, state=state, reason="NODE_LOST" if state is TaskState.LOST else "")
