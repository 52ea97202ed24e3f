"""Small random clusters that live for a while on a virtual clock, driven through the real state machine.

Jobs come, tasks end when their work is done (never later than their limit) or some time after they were ordered to
stop, nodes may die. After each moment at which something happened there is a cycle, and one at each moment for which a
plan asked. Every job has one group that asks for CPUs alone, so that whatever fits can be counted.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gosched.core.commands.cluster import PassTime, SetQueues, SetWindow
from gosched.core.commands.jobs import SubmitJob
from gosched.core.commands.nodes import MarkNodeDead
from gosched.core.invariants.check_state import check as invariants
from gosched.core.records.job import Job
from gosched.core.records.task import TaskState
from gosched.core.spec.job_spec import JobSpec
from gosched.core.state.cluster_state import ClusterState
from gosched.scheduling import Plan, Policy
from tests.scheduling.support import notation
from tests.scheduling.support.notation import NOW_MS
from tests.scheduling.support.tables import World

MINUTE_MS = 60_000
MAX_CYCLES = 300


@dataclass(frozen=True)
class Arrival:
    """`runs_ms`: its work, if nobody interrupts it, less than its limit; `saves_ms`: how long it takes to stop."""

    at_ms: int
    words: str
    runs_ms: int
    saves_ms: int


@dataclass(frozen=True)
class Life:
    """In the tables' notation; moments are distances from NOW_MS. `deaths`: node and moment."""

    policy: Policy
    queues: tuple[str, ...]
    nodes: tuple[str, ...]
    arrivals: tuple[Arrival, ...]
    windows: tuple[str, ...] = ()
    deaths: tuple[tuple[int, str], ...] = ()

    def __repr__(self) -> str:
        jobs = [f"{a.words}   # at {a.at_ms}, runs {a.runs_ms}, stops in {a.saves_ms}" for a in self.arrivals]
        parts = [("queues", self.queues), ("nodes", self.nodes), ("windows", self.windows), ("jobs", jobs)]
        told = "\n".join("\n".join([name, *(f"  {line}" for line in lines)]) for name, lines in parts)
        return f"\nreservations {self.policy.reservations}\n{told}\ndeaths {self.deaths}\n"


Watch = Callable[["Driver", Plan], None]
Admit = Callable[["Driver", JobSpec], SubmitJob | None]


@dataclass
class Driver:
    """`before`: sees each plan before it is committed. `after`: once it is. `submits`: makes the command of a job that
    comes, None: it is turned away."""

    life: Life
    before: Watch
    after: Watch
    submits: Admit | None = None
    world: World = field(default_factory=lambda: World(careful=False))
    _events: list[tuple[int, int, str, str]] = field(default_factory=list)
    _known: dict[str, str] = field(default_factory=dict)  # allocation -> the end that awaits it
    _number: int = 0

    @property
    def state(self) -> ClusterState:
        return self.world.state

    def run(self) -> None:
        life = self.life
        self.world.do(SetQueues(queues=tuple([notation.queue(words.split()) for words in life.queues])))
        for words in life.nodes:
            self.world.do(notation.node(words.split()))
        self.world.go("0s")
        for words in life.windows:
            self.world.do(SetWindow(window=notation.window(words.split())))
        for arrival in life.arrivals:
            self._at(NOW_MS + arrival.at_ms, "arrival", arrival.words)
        for at_ms, node_id in life.deaths:
            self._at(NOW_MS + at_ms, "death", node_id)
        self._cycles()

    def _cycles(self) -> None:
        for _ in range(MAX_CYCLES):
            if not self._events:
                break
            now = self._events[0][0]
            self.world.do(PassTime(), now)
            while self._events and self._events[0][0] <= now:
                _, _, kind, subject = heapq.heappop(self._events)
                self._happens(kind, subject)
            plan = self.world.plan(self.life.policy)
            self.before(self, plan)
            self.world.commit(plan)
            assert invariants(self.state) == []
            self.after(self, plan)
            self._look_ahead()
            if plan.gangs or plan.withdrawn:
                self._at(now + 1000, "cycle", "")
            if plan.wake_at_ms:
                self._at(max(plan.wake_at_ms, now + 1000), "cycle", "")

    def _happens(self, kind: str, subject: str) -> None:
        if kind == "arrival":
            spec = notation.job(subject.split())
            command = SubmitJob(job_id=spec.name, spec=spec)
            admitted = self.submits(self, spec) if self.submits is not None else command
            if admitted is not None:
                self.world.do(admitted)
        elif kind == "death":
            self.world.do(MarkNodeDead(node_id=subject, incarnation=self.state.nodes[subject].incarnation))
        elif subject in self.state.allocations and self._known.get(subject) == kind:
            self.world.report(subject, TaskState.SUCCEEDED if kind == "done" else TaskState.KILLED)

    def _look_ahead(self) -> None:
        """What runs now, and was ordered to stop now, ends some time."""
        self._known = {known: end for known, end in self._known.items() if known in self.state.allocations}
        for allocation in self.state.allocations.values():
            arrival = self.arrival(allocation.job_id)
            stopping = self.state.tasks[allocation.task_id].state is TaskState.STOPPING
            if stopping and self._known.get(allocation.id) != "stopped":
                self._known[allocation.id] = "stopped"
                self._at(self.state.clock_ms + arrival.saves_ms, "stopped", allocation.id)
            elif allocation.id not in self._known:
                self._known[allocation.id] = "done"
                self._at(self.job(allocation.job_id).placed_at_ms + arrival.runs_ms, "done", allocation.id)
        if moment := self.state.timers.next_ms():
            self._at(moment, "cycle", "")

    def arrival(self, job_id: str) -> Arrival:
        return next(arrival for arrival in self.life.arrivals if arrival.words.split()[0] == job_id)

    def job(self, job_id: str) -> Job:
        return self.state.jobs[job_id]

    def _at(self, moment_ms: int, kind: str, subject: str) -> None:
        if kind != "cycle" or all(event[0] != moment_ms for event in self._events):
            self._number += 1
            heapq.heappush(self._events, (moment_ms, self._number, kind, subject))


def life(seed: int, *, deaths: bool = False, windows: bool = True, begins: bool = True) -> Life:
    draw, later = random.Random(seed), random.Random(f"begins {seed}")
    racks = draw.random() < 0.4
    nodes = [
        f"n{i} {draw.choice([2, 4, 4, 6])}cpu" + (f" zone=z rack=r{draw.randint(1, 2)}" if racks else "")
        for i in range(draw.randint(2, 4))
    ]
    queues = draw.choice(QUEUES)
    leaves = [queue.split()[0] for queue in queues if not any(q.startswith(f"{queue.split()[0]}.") for q in queues)]
    arrivals = []
    at_ms = 0
    for number in range(draw.randint(4, 12)):
        at_ms += draw.choice([0, 0, 0, 1, 2, 5]) * MINUTE_MS + draw.choice([0, 0, 30_000])
        runs = draw.choice([1, 2, 3, 5, 8, 13, 30]) * MINUTE_MS
        limit = draw.choice([runs, runs, runs * 2, 0])
        head = [
            f"j{number} {draw.choice(leaves)}",
            draw.choice(["", "priority=5", "priority=9"]),
            draw.choice(
                ["yields", "yields cheap", "yields cheap min_runtime=2m", "yields cheap grace=2m", "stays", ""]
            ),
            f"timeout={limit // 1000}s" if limit else draw.choice(["", f"estimate={runs // 1000}s"]),
            draw.choice(["", "", "", "never", "tenant=t"]),
        ]
        body = [
            draw.choice(["1x", "1x", "2x", "3x", "4x", "1..3x", "2..4x"]),
            draw.choice(["1cpu", "1cpu", "2cpu", "2cpu", "3cpu", "4cpu"]),
            draw.choice(["in:rack", ""]) if racks else "",
        ]
        if begins and later.random() < 0.15:
            head.append(f"begin={at_ms // 1000 + later.choice([60, 90, 300, 1200])}s")
        words = " ".join(filter(None, [*head, ":", *body]))
        arrivals.append(Arrival(at_ms, words, runs - 1000, draw.choice([0, 1000, 9000])))
    node_ids = [node.split()[0] for node in nodes]
    made: list[str] = []
    if windows and draw.random() < 0.3:
        start = draw.randint(0, 20)
        users = draw.choice(["", f"for={draw.choice(leaves)}"])
        made.append(f"w {draw.choice(node_ids)} from={start}m to={start + draw.randint(1, 20)}m {users}")
    dying = [(draw.randint(1, 20) * MINUTE_MS, draw.choice(node_ids))] if deaths else []
    policy = Policy(topology=("zone", "rack"), reservations=draw.choice([0, 1, 1, 4, 1 << 30]))
    patience = random.Random(f"patience {seed}")
    if patience.random() < 0.3:  # and few jobs tell when they end
        policy = replace(policy, max_wait_ms=patience.choice([0, 5, 15]) * MINUTE_MS)
        arrivals = [replace(each, words=_endless(each.words)) if patience.random() < 0.7 else each for each in arrivals]
    return Life(policy, queues, tuple(nodes), tuple(arrivals), tuple(made), tuple(dying))


def _endless(words: str) -> str:
    return " ".join([word for word in words.split() if not word.startswith(("timeout=", "estimate="))])


QUEUES = (
    ("x fair",),
    ("x fifo",),
    ("x capacity 50%", "y capacity 50%"),
    ("x capacity 50%", "y capacity 25%", "z fair"),
    ("p capacity 50%", "p.a capacity 50%", "p.b capacity 50%", "q capacity 50%"),
)
