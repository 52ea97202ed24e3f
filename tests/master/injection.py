"""Throws an exception at every function of the planner, in random lives of a state machine.

Each function's code is replaced by one that asks here first; whoever holds the function meets it. A throw is either
about one job, then it happens in calls that are about that job, or about nothing, then it happens in every call.

`python -m tests.master.injection` runs a life for each place and kind, and prints what it found.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import structlog

import gosched.scheduling
from gosched.core.commands.cluster import DropWindow, PassTime, SetQueues, SetQuotas, SetWindow
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import Action, ControlJob, SubmitJob
from gosched.core.commands.nodes import MarkNodeDead, RegisterNode, ReportTasks, TaskReport
from gosched.core.commands.plans import CommitPlan
from gosched.core.invariants.check_state import check
from gosched.core.outcome import Accepted
from gosched.core.records.job import Job
from gosched.core.records.node import NodeState
from gosched.core.records.task import Task, TaskState
from gosched.core.records.window import Window
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.clock import SystemClock
from gosched.master.base.job_changes import JobChanges
from gosched.master.planning.cycles import Cycles
from gosched.master.planning.planner import LAST_RETRY_MS
from gosched.observe.metrics import MasterMetrics
from gosched.scheduling import Plan, schedule
from gosched.scheduling.plugins.interface import API_VERSION, Plugin
from gosched.scheduling.suspects import Kind, Suspect, without
from gosched.state_machine.apply import apply
from tests.scheduling.support import notation
from tests.scheduling.test_properties import HEAD, any_groups, scenario, words

STEPS = 4  # of a life
SEED = 7
KIND = words("yields | yields | yields timeout=1h | timeout=10m | ", " | estimate=1h", " | grace=30s")


class Thrown(Exception):
    """The exception that is thrown."""


@dataclass(frozen=True)
class Place:
    """A function of the planner."""

    name: str
    function: FunctionType = field(compare=False, repr=False)


def places(package: ModuleType = gosched.scheduling, *, but: tuple[str, ...] = ()) -> list[Place]:
    """All functions and methods that a package defines, by name; without those of a closure."""
    found: dict[str, Place] = {}
    names = [info.name for info in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
    for module in map(importlib.import_module, [package.__name__, *names]):
        for owner in [module, *[c for _, c in inspect.getmembers(module, inspect.isclass)]]:
            if "queries" in module.__name__ or "interface" in module.__name__:
                continue  # answers on request, and the base of plugins
            if getattr(owner, "__module__", module.__name__) != module.__name__:
                continue
            for thing in vars(owner).values():
                function = _function_of(thing)
                if function is None or function.__code__.co_filename != module.__file__:
                    continue
                name = f"{module.__name__.removeprefix('gosched.')}.{function.__qualname__}"
                if not function.__code__.co_freevars and not name.startswith(but):
                    found[name] = Place(name, function)
    return [found[name] for name in sorted(found)]


def _function_of(thing: object) -> FunctionType | None:
    match thing:
        case FunctionType():
            return thing
        case property(fget=FunctionType() as function):
            return function
        case cached_property(func=FunctionType() as function):
            return function
        case staticmethod(__func__=FunctionType() as function) | classmethod(__func__=FunctionType() as function):
            return function
        case _:
            return None


class Injection:
    """The hook of all places. `thrower`: is asked at each call whether it throws."""

    def __init__(self, of: list[Place]) -> None:
        self.of = of
        self.met: Counter[str] = Counter()
        self.culprit = ""
        self.at = ""
        self.always = False
        self.rights: list[FunctionType] = []
        self._about = 0  # calls under way that are about the culprit

    def call(self, number: int, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if not self.at:
            return self.rights[number](*args, **named)
        about = bool(self.culprit) and any(_is_about(value, self.culprit) for value in (*args, *named.values()))
        self._about += about
        try:
            if self.of[number].name == self.at and (self.always or self._about):
                self.met[self.at] += 1
                raise Thrown(self.at)
            return self.rights[number](*args, **named)
        finally:
            self._about -= about

    @contextmanager
    def thrown(self, at: str, culprit: str = "") -> Iterator[None]:
        """Throw at one place, in calls that are about a job, or in all."""
        self.at, self.culprit, self.always, self._about = at, culprit, not culprit, 0
        try:
            yield
        finally:
            self.at = ""


_NUMBER = 123_456_789


def _hook(*args: Any, **named: Any) -> Any:
    return __injection__.call(123_456_789, args, named)  # type: ignore[name-defined]  # noqa: F821


@contextmanager
def hooked(of: list[Place]) -> Iterator[Injection]:
    injection = Injection(of)
    codes: list[CodeType] = []
    for number, place in enumerate(of):
        function = place.function
        right = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
        right.__kwdefaults__ = function.__kwdefaults__
        injection.rights.append(right)
        codes.append(function.__code__)
        function.__globals__["__injection__"] = injection
        constants = tuple([number if constant == _NUMBER else constant for constant in _hook.__code__.co_consts])
        function.__code__ = _hook.__code__.replace(co_consts=constants)
    try:
        yield injection
    finally:
        for place, code in zip(of, codes, strict=True):
            place.function.__code__ = code
            place.function.__globals__.pop("__injection__", None)


def _is_about(value: object, job_id: str) -> bool:
    if isinstance(value, str):
        return value == job_id
    if isinstance(value, Job):
        return value.id == job_id
    return getattr(value, "job_id", None) == job_id


class Follower:
    """What `Cycles` needs of a replication."""

    def __init__(self) -> None:
        self.state = ClusterState()

    def say_alive(self) -> None:
        pass


class Even(Plugin):
    """A plugin that looks at what it can, and changes nothing."""

    name = "even"
    api_version = API_VERSION
    job_labels = ("kind",)
    tracked_labels = ("kind",)
    reads = ("queue", "allowed", "count")

    def filter(self, request: Any, nodes: Any) -> Any:
        return [("any node", np.ones(len(nodes), dtype=np.bool_))]

    def score(self, request: Any, nodes: Any) -> Any:
        return np.zeros(len(nodes), dtype=np.int64)


class Life:
    """A state machine to which much happens, and a leader's cycles that plan for it."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        made = scenario(seed, any_groups, models=True)
        self.follower = Follower()
        nothing: Any = None
        follower: Any = self.follower
        self.policy = replace(made.policy, plugins=(Even({}),) if seed % 2 else ())
        metrics = MasterMetrics("test")
        self.cycles = Cycles(follower, nothing, SystemClock(), JobChanges(), metrics, policy=self.policy, period_s=1.0)
        self.jobs = self.refused = 0
        self.nodes = {words.split()[0]: notation.node(words.split()) for words in made.nodes}
        self.apply(SetQueues(queues=tuple([notation.queue(words.split()) for words in made.queues])))
        self.apply(SetQuotas(quotas=tuple([notation.quota(words.split()) for words in made.quotas])))
        for node in self.nodes.values():
            self.apply(node)
        self.cycles.reset()

    @property
    def state(self) -> ClusterState:
        return self.follower.state

    def apply(self, body: Body, later_ms: int = 1) -> Any:
        outcome, events = apply(self.state, Command(body=body, at_ms=self.state.clock_ms + later_ms))
        self.cycles.take(events)
        return outcome

    def steps(self, count: int = STEPS) -> Iterator[None]:
        """Jobs come, and something happens to those that run."""
        for _ in range(count):
            for _ in range(self.draw.choice((1, 2, 3))):
                self.jobs += 1
                words = f"j{self.jobs} {HEAD(self.draw)} {KIND(self.draw)} : {' | '.join(any_groups(self.draw))}"
                spec = notation.job(words.split())
                self.apply(SubmitJob(job_id=spec.name, spec=replace(spec, labels=(("kind", "a"),))))
            for happens in self.draw.choices((self._end, self._stop, self._kill, self._scale, self._window), k=2):
                happens()
            yield

    def _end(self) -> None:
        running = [job.id for job in self.state.jobs.values() if job.active]
        self._report(TaskState.SUCCEEDED, lambda task: task.job_id in self.draw.sample(running, min(len(running), 1)))

    def _stop(self) -> None:
        self._report(TaskState.KILLED, lambda task: task.state is TaskState.STOPPING)
        self.apply(PassTime(), 60_000)

    def _kill(self) -> None:
        node = self.draw.choice([*self.nodes.values()])
        self.apply(MarkNodeDead(node_id=node.node_id, incarnation=node.incarnation))
        if self.draw.random() < 0.5:
            self._register(node)

    def _register(self, node: RegisterNode) -> None:
        node = self.nodes[node.node_id] = replace(node, incarnation=node.incarnation + "+")
        self.apply(node)

    def _scale(self) -> None:
        for job in [job for job in self.state.jobs.values() if job.active > job.spec.gang.min_tasks]:
            self.apply(ControlJob(job_id=job.id, action=Action.SCALE, tasks=job.spec.gang.min_tasks))
        for node in self.nodes.values():
            if self.state.nodes[node.node_id].state is NodeState.DEAD:
                self._register(node)

    def _window(self) -> None:
        now = self.state.clock_ms
        window = Window(name="w", start_ms=now + 60_000, end_ms=now + 600_000, nodes=(self.draw.choice([*self.nodes]),))
        self.apply(SetWindow(window=window) if self.draw.random() < 0.6 else DropWindow(name="w"))

    def _report(self, state: TaskState, chosen: Callable[[Task], bool]) -> None:
        for allocation in [*self.state.allocations.values()]:
            if chosen(self.state.tasks[allocation.task_id]):
                report = TaskReport(allocation_id=allocation.id, state=state, exit_code=0)
                boot = self.state.nodes[allocation.node_id].incarnation
                self.apply(ReportTasks(node_id=allocation.node_id, incarnation=boot, reports=(report,)))

    def cycle(self, later_ms: int = 0) -> Plan:
        """One cycle of the leader, whose plan the state machine gets."""
        view = self.cycles._view()
        plan, _ = self.cycles._plan(view, self.state.clock_ms + later_ms, SEED)
        self.commit(plan)
        return plan

    def commit(self, plan: Plan) -> None:
        for command in plan.commands(epoch=0, at_ms=0):
            outcome = self.apply(command.body)
            assert isinstance(outcome, Accepted), outcome
            assert isinstance(command.body, CommitPlan)
            self.refused += len(outcome.refusals)

    def expected(self, culprit: str, now_ms: int) -> set[str]:
        """The jobs that a planner without a bug starts at once if it does not look at the culprit."""
        view = self.cycles._builder.view(self.state)
        out = [Suspect(kind, culprit) for kind in (Kind.JOB, Kind.REPAIR, Kind.RUNNING, Kind.RESERVATION)]
        plan = schedule(*without((view, self.policy), out, now_ms), now_ms, SEED)
        return {gang.job_id for gang in plan.gangs if gang.job_id} - {culprit}


def live_with_a_culprit(injection: Injection, at: str, seed: int) -> Counter[str]:
    """A life in which the place throws whenever it is about one of the jobs. Innocent ones start within two cycles, and
    none is set aside."""
    seen: Counter[str] = Counter()
    life = Life(seed)
    for _ in life.steps():
        jobs = [job.id for job in life.state.jobs.values() if not job.state.is_final]
        if not jobs:
            continue
        culprit = life.draw.choice(jobs)
        life.cycles._view()
        wanted, before = life.expected(culprit, life.state.clock_ms), injection.met[at]
        with injection.thrown(at, culprit):
            life.cycles._is_stale = True  # all is read anew
            started = {gang.job_id for gang in life.cycle().gangs}
        if injection.met[at] == before:  # its turn may come with what this cycle has changed
            wanted = life.expected(culprit, life.state.clock_ms)
        with injection.thrown(at, culprit):
            started |= {gang.job_id for gang in life.cycle().gangs}
            started |= {gang.job_id for gang in life.cycle().gangs} if injection.met[at] > before else set()
        seen["cycles"] += 2
        if injection.met[at] > before:
            seen["thrown"] += 1
            late = {job_id for job_id in wanted - started if job_id in life.state.pending}
            aside = [suspect for suspect in life.cycles._planner.set_aside if suspect.name != culprit]
            innocent = [suspect for suspect in aside if suspect.kind is not Kind.RUNNING]
            seen["running jobs that may not be evicted"] += len(aside) - len(innocent)
            if late:
                seen["late"] += 1
            if innocent:
                seen["innocent set aside"] += 1
                seen.update([f"innocent: {suspect.kind.value}" for suspect in innocent])
        life.cycles.reset()
    assert check(life.state) == []
    return seen


def live_with_a_broken_function(injection: Injection, at: str, seed: int) -> Counter[str]:
    """A life in which the place throws at each call for some cycles. Afterwards all is planned again."""
    seen: Counter[str] = Counter()
    life = Life(seed)
    for number, _ in enumerate(life.steps()):
        before = injection.met[at]
        with injection.thrown(at) if number % 2 else injection.thrown(""):
            try:
                life.cycles._is_stale = True
                life.cycle()
            except Thrown:  # a turn of the leader's loop, which begins again: see `Faults.keep`
                seen["turns lost"] += 1
        seen["cycles"] += 1
        seen["thrown"] += injection.met[at] > before
    try:
        life.cycle(2 * LAST_RETRY_MS)
    finally:
        seen["still set aside"] += len(life.cycles._planner.set_aside)
    view = life.cycles._builder.view(life.state)
    now_ms = life.state.clock_ms + 4 * LAST_RETRY_MS
    left = schedule(view, life.policy, now_ms, SEED).gangs
    got = {gang.job_id for gang in life.cycle(4 * LAST_RETRY_MS).gangs}
    seen["late"] += bool({gang.job_id for gang in left} - got)
    assert check(life.state) == []
    return seen


KINDS: dict[str, Callable[[Injection, str, int], Counter[str]]] = {
    "a culprit": live_with_a_culprit,
    "a broken function": live_with_a_broken_function,
}


def run(
    of: list[Place], hooks: list[Place], seeds: int = 1, tell: Callable[[str], None] = lambda line: None
) -> tuple[Counter[str], list[str]]:
    """Live at each place; return what was seen, and what went wrong, a line each, which `tell` gets at once."""
    total: Counter[str] = Counter()
    wrong: list[str] = []
    with hooked(hooks) as injection:
        for number, place in enumerate(of):
            for kind, live in KINDS.items():
                for seed in range(seeds):
                    try:
                        seen = live(injection, place.name, number * seeds + seed)
                    except Exception as error:
                        seen = Counter({f"late: {type(error).__name__}: {error}": 1})
                    total.update({f"{kind}: {name}": count for name, count in seen.items()})
                    if bad := {n: c for n, c in seen.items() if n.startswith(("late", "innocent", "still")) and c}:
                        wrong.append(f"{place.name} as {kind}: {bad}")
                        tell(wrong[-1])
                tell(f"{number + 1} of {len(of)}") if number % 50 == 49 else None
        total["places"] = len(of)
        total["places that threw"] = len(injection.met)
    return total, wrong


def main() -> None:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory(), cache_logger_on_first_use=False)
    began = time.monotonic()
    every = places()
    step = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    total, wrong = run(every[::step], every, tell=lambda line: print(line, flush=True))
    for name, count in sorted(total.items()):
        print(f"{count:8} {name}")
    print(f"{len(wrong):8} lives that went wrong, in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
