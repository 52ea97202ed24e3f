"""Deadlines that were promised at submission: what is told, and that a promise is kept while durations keep limits."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import hypothesis
import pytest
from hypothesis import given, settings

from gosched.core.commands.jobs import SubmitJob
from gosched.core.records.job import Job, JobState
from gosched.core.spec.job_spec import JobSpec
from gosched.scheduling import Plan, Policy
from gosched.scheduling.backfill import reserved_starts
from gosched.scheduling.queries.deadline_admission import Admission, admit
from gosched.scheduling.reservations import ReservationKeeper
from gosched.scheduling.snapshot import builder
from tests.scheduling.support import notation, tables
from tests.scheduling.support.driver import MINUTE_MS, Driver, Life, life
from tests.scheduling.support.notation import moment
from tests.scheduling.support.seeds import SEEDS
from tests.scheduling.support.tables import World, begin
from tests.scheduling.test_force import SETTINGS, UNSHRUNK


def asked(world: World, words: str, policy: Policy | None = None) -> Admission:
    """For a job that would be submitted now."""
    return admit(
        world.builder.view(world.state), policy or Policy(), job_of(world, words), world.state.clock_ms, tables.SEED
    )


def job_of(world: World, words: str) -> Job:
    spec = notation.job(words.split())
    return Job(id=spec.name, spec=spec, sequence=world.state.next_sequence, submitted_at_ms=world.state.clock_ms)


def admitted(world: World, words: str) -> str:
    """The promised start and its nodes; the job is submitted with it."""
    (promise,) = [asked(world, words).reservation]
    assert promise is not None
    world.do(SubmitJob(job_id=promise.job_id, spec=notation.job(words.split()), reservation=(promise,)))
    return " ".join(
        [moment(promise.start_ms), *(share.node_id for share in promise.shares for _ in range(share.count))]
    )


BUSY = """
        nodes
          a  4cpu
          b  4cpu
        jobs
          run1  timeout=1h since=10m : 1x 4cpu  on a
          run2  timeout=2h since=10m : 1x 4cpu  on b
"""


def test_a_deadline_gets_the_first_slot_in_the_profile_and_the_next_one_a_slot_beside_it() -> None:
    world = begin(BUSY)
    assert admitted(world, "one due=2h timeout=30m : 1x 4cpu") == "50m a"
    assert admitted(world, "two due=2h timeout=30m : 1x 4cpu") == "80m a"
    assert world.state.reservations["one"].for_deadline
    world.expect("one INSUFFICIENT @50m a\ntwo INSUFFICIENT @80m a", Policy(reservations=1))


def test_a_slot_that_is_there_now_is_promised_now() -> None:
    world = begin("nodes\n  a  4cpu")
    assert admitted(world, "one due=1h timeout=30m : 1x 4cpu").endswith(" a")
    world.expect("one a")


def test_without_a_slot_in_time_the_earliest_end_the_largest_gang_and_the_priority_are_told() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          run1  timeout=1h since=10m : 1x 4cpu  on a
          run2  yields timeout=2h since=10m : 1x 4cpu  on b
    """)
    answer = asked(world, "late due=90m timeout=30m : 2x 4cpu")
    assert answer.reservation is None
    assert "no slot" in answer.problem
    assert moment(answer.earliest_ms) == "140m"
    assert answer.largest == 1


def test_a_priority_that_would_start_it_at_once_is_told() -> None:
    world = begin("""
        nodes
          a  4cpu
        jobs
          run  yields priority=7 timeout=5h since=10m : 1x 4cpu  on a
    """)
    assert asked(world, "late due=90m timeout=30m : 1x 4cpu").priority == 8


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("job due=2h : 1x 4cpu", "no timeout and no estimate"),
        ("job due=20m timeout=30m : 1x 1cpu", "would miss the deadline even if it started now"),
    ],
)
def test_a_deadline_that_cannot_be_judged_or_met_is_told_so(words: str, problem: str) -> None:
    answer = asked(begin(BUSY), words)
    assert answer.reservation is None
    assert problem in answer.problem


def test_a_promise_that_was_made_is_broken_for_no_newer_deadline() -> None:
    world = begin(BUSY)
    assert admitted(world, "one due=2h timeout=1h : 1x 4cpu") == "50m a"
    assert asked(world, "two due=90m timeout=30m : 1x 4cpu").reservation is None


def test_a_job_that_begins_later_is_promised_nothing_and_once_it_may_begin_it_is() -> None:
    world = begin(BUSY)
    assert asked(world, "later begin=10m due=2h timeout=1h : 1x 4cpu").problem == "it begins later"
    assert admitted(world, "now begin=0s due=2h timeout=1h : 1x 4cpu") == "50m a"


def test_an_estimate_will_do_but_before_a_window_only_a_limit_is_trusted() -> None:
    world = begin(f"""{BUSY}
        windows
          fix  a from=70m to=3h
    """)
    assert admitted(world, "one due=3h estimate=20m : 1x 4cpu") == "110m b"
    assert admitted(world, "two due=3h timeout=20m : 1x 4cpu") == "50m a"


@dataclass
class Deadlines:
    """Admits what has a deadline, and sees that what was promised is kept. What is not admitted comes without one."""

    seen: Counter[str]
    due: dict[str, int] = field(default_factory=dict)

    def submitted(self, driver: Driver, spec: JobSpec) -> SubmitJob:
        command = SubmitJob(job_id=spec.name, spec=spec)
        if not spec.deadline_at_ms:
            return command
        state = driver.state
        job = Job(id=spec.name, spec=spec, sequence=state.next_sequence, submitted_at_ms=state.clock_ms)
        view = driver.world.builder.view(state)
        found = admit(view, driver.life.policy, job, state.clock_ms, tables.SEED).reservation
        if found is None:
            self.seen["turned away"] += 1
            return replace(command, spec=replace(spec, deadline_at_ms=0))
        self.seen["admitted"] += 1
        self.seen["later"] += found.start_ms > state.clock_ms
        self.due[job.id] = spec.deadline_at_ms
        return replace(command, reservation=(found,))

    def kept(self, driver: Driver, plan: Plan) -> None:
        for job_id, due_ms in [*self.due.items()]:
            job = driver.job(job_id)
            if job.state.is_final:
                done = job.state is JobState.SUCCEEDED and job.ended_at_ms <= due_ms
                assert done, f"deadline: {job_id} was {job.state.name} at {job.ended_at_ms}, due {due_ms}"
                self.seen["kept"] += 1
                del self.due[job_id]
            else:
                assert driver.state.clock_ms < due_ms, f"deadline: {job_id} is {job.state.name} at {due_ms}"


def check_admitted_deadlines_are_met(rules: settings = SETTINGS) -> None:
    seen: Counter[str] = Counter()

    @rules
    @given(SEEDS)
    def check(seed: int) -> None:
        lived = with_deadlines(seed)
        hypothesis.note(repr(lived))
        deadlines = Deadlines(seen)
        Driver(lived, lambda *_: None, deadlines.kept, deadlines.submitted).run()

    check()
    assert min(seen["kept"], seen["later"], seen["turned away"]) > 15, seen


def with_deadlines(seed: int) -> Life:
    """Every other job that has a limit wants to be done by a certain time."""
    draw, lived = random.Random(seed), life(seed, begins=False)
    arrivals = []
    for arrival in lived.arrivals:
        spec = notation.job(arrival.words.split())
        if spec.span_ms and draw.random() < 0.6:
            due = arrival.at_ms + spec.span_ms + draw.choice([0, 2, 10, 30]) * MINUTE_MS
            words = arrival.words.replace(" :", f" due={due // 1000}s :", 1)
            arrival = replace(arrival, words=words)
        arrivals.append(arrival)
    return replace(lived, arrivals=tuple(arrivals))


def test_an_admitted_deadline_is_met_in_every_life_in_which_durations_keep_their_limits() -> None:
    check_admitted_deadlines_are_met(settings(SETTINGS, max_examples=60))


Mutation = Callable[[pytest.MonkeyPatch], None]


def whoever_was_admitted_may_be_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    made = builder.running_gang

    def mutated(*args: Any) -> Any:
        gang = made(*args)
        return gang and replace(gang, deadline_ms=0)

    monkeypatch.setattr(builder, "running_gang", mutated)


def the_room_to_come_belongs_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reserved_starts, "take_shares", lambda *args: None)


def promises_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReservationKeeper, "keep", lambda self: {})


@pytest.mark.parametrize(
    "mutation", [whoever_was_admitted_may_be_evicted, the_room_to_come_belongs_to_nobody, promises_are_forgotten]
)
def test_a_planner_that_breaks_its_promises_is_noticed(monkeypatch: pytest.MonkeyPatch, mutation: Mutation) -> None:
    mutation(monkeypatch)
    with pytest.raises(AssertionError, match=r"^deadline"):
        check_admitted_deadlines_are_met(UNSHRUNK)
