"""The state's clock: what a stamp may do to it, and what becomes of each moment when it is set back."""

from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Any, get_args, get_type_hints

import pytest

from gosched.core.commands.cluster import Noop, PassTime, SetClock, SetQueues, SetWindow
from gosched.core.commands.command import Command
from gosched.core.commands.jobs import NextRun, SubmitJob
from gosched.core.commands.nodes import ControlNode, NodeAction
from gosched.core.commands.plans import CommitPlan
from gosched.core.events import ClockSet
from gosched.core.features import FeatureLevel
from gosched.core.invariants.check_state import check
from gosched.core.limits import MAX_CLOCK_STEP_MS
from gosched.core.outcome import Code
from gosched.core.records.job import Children
from gosched.core.records.node import ClosedBy
from gosched.core.records.queue import Queue
from gosched.core.records.reservation import Reservation, Share
from gosched.core.records.task import TaskState
from gosched.core.records.window import Window
from gosched.core.spec.array import Array
from gosched.core.spec.policies import GangPolicy
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.restore import restore
from gosched.core.state.tables import TABLES
from gosched.state_machine import apply
from gosched.state_machine.clock import STAMPED
from tests.state_machine import chaos
from tests.state_machine.cluster import Cluster, group, retrying, spec

NOON = 1_800_000_000_000
HOUR = 3_600_000
YEAR = 365 * 24 * HOUR

# What has `_ms` in its name and is no stamp of the state's clock.
DURATIONS = {
    ("Node", "away_ms"),
    ("Queue", "half_life_ms"),
    ("Usage", "cpu_ms"), ("Usage", "throttled_ms"),
    ("Usage", "cpu_stalled_ms"), ("Usage", "memory_stalled_ms"), ("Usage", "io_stalled_ms"),
    ("Spent", "cpu_ms"),
    ("GangPolicy", "wait_ms"), ("GangPolicy", "replace_after_ms"), ("RetryPolicy", "backoff_ms"),
    ("Preemption", "grace_ms"), ("Preemption", "min_runtime_ms"),
    ("JobSpec", "stop_grace_ms"), ("JobSpec", "deadline_in_ms"), ("JobSpec", "estimate_ms"), ("JobSpec", "timeout_ms"),
    ("JobSpec", "begin_in_ms"), ("Job", "likely_ms"), ("RunHistory", "run_ms"),
}  # fmt: skip
NAMED_BY_PEOPLE = {("JobSpec", "deadline_at_ms"), ("Window", "start_ms"), ("Window", "end_ms")}
NAMED_BY_PEOPLE |= {("JobSpec", "begin_at_ms")}
NAMED_BY_PEOPLE |= {("Revocation", "ends_at_ms")}  # by its certificate
IN_CERTIFICATES = {("JoinedNode", "ends_at_ms")}  # which say so whatever the clock of the state
SET_BY_THE_LEADER = {("Children", "next_run_at_ms")}  # in SetClock.runs
REMEMBERED_LONGER = {("Answered", "until_ms")}  # and what was forgotten is refused, by `requests_from_ms`
RULED = DURATIONS | NAMED_BY_PEOPLE | SET_BY_THE_LEADER | IN_CERTIFICATES | REMEMBERED_LONGER


@pytest.fixture
def c() -> Cluster:
    cluster = Cluster()
    cluster.accept(SetClock(to_ms=NOON))
    cluster.node("n1", cpus=64)
    return cluster


def step(c: Cluster, ms: int) -> None:
    """As a leader of before that was so far ahead: one command, and the clock is there."""
    c.state.feature_level = FeatureLevel.FIRST
    c.accept(PassTime(), at_ms=c.state.clock_ms + ms)
    c.state.feature_level = FeatureLevel.BOUNDED


def set_back(c: Cluster, to_ms: int, *runs: NextRun) -> None:
    before = c.state.clock_ms
    c.accept(SetClock(to_ms=to_ms, runs=runs), at_ms=before)
    assert c.events == (ClockSet(from_ms=before, to_ms=to_ms),)
    assert c.state.clock_ms == to_ms


def test_a_stamp_far_ahead_of_the_clock_is_not_believed(c):
    now = c.state.clock_ms
    c.accept(Noop(), at_ms=now + MAX_CLOCK_STEP_MS + 1)
    assert c.state.clock_ms == now
    c.accept(Noop(), at_ms=now + MAX_CLOCK_STEP_MS)
    assert c.state.clock_ms == now + MAX_CLOCK_STEP_MS


def test_the_clock_that_was_never_set_takes_any_stamp():
    state = ClusterState()
    apply(state, Command(body=Noop(), at_ms=NOON))
    assert state.clock_ms == NOON


def test_below_the_level_a_stamp_moves_the_clock_as_in_the_release_before(c):
    c.state.feature_level = FeatureLevel.FIRST
    c.accept(Noop(), at_ms=NOON + YEAR)
    assert c.state.clock_ms == NOON + YEAR


def test_a_leader_that_has_to_sets_the_clock_forward_and_nothing_else_moves(c):
    c.submit(spec("a", group()))
    jobs = dict(c.state.jobs)
    c.accept(SetClock(to_ms=NOON + YEAR))
    assert (c.state.clock_ms, c.events) == (NOON + YEAR, ())
    assert c.state.jobs == jobs


def test_a_clock_that_is_no_time_is_refused(c):
    for to_ms in (0, -1, 1 << 60):
        c.reject(SetClock(to_ms=to_ms), Code.INVALID)
    c.reject(SetClock(to_ms=NOON, runs=(NextRun(job_id="s1", at_ms=-5),)), Code.INVALID)


def test_a_backoff_of_30_s_that_began_a_year_ahead_ends_30_s_after_the_clock_was_set_back(c):
    step(c, YEAR)
    j = c.submit(retrying("a", group(), backoff_ms=30_000))
    c.place(j, "n1")
    c.report(j, 0, TaskState.FAILED, 1)
    left = c.job(j).not_before_ms - c.state.clock_ms
    assert 0 < left <= 30_000
    set_back(c, NOON + 60_000)
    assert c.job(j).not_before_ms == NOON + 60_000 + left


def test_a_timeout_that_began_before_the_clock_jumped_or_after_runs_its_time_once_it_is_set_back(c):
    early = c.submit(spec("early", group(), timeout_ms=2 * HOUR))
    c.place(early, "n1")
    step(c, HOUR)
    late = c.submit(spec("late", group(), timeout_ms=20_000))
    c.place(late, "n1")
    left = c.job(late).placed_at_ms + 20_000 - c.state.clock_ms
    set_back(c, NOON + 5_000)
    assert c.state.timers.next_ms() == NOON + 5_000 + left
    c.accept(PassTime(), at_ms=NOON + 5_000 + left)
    assert c.job(late).reason == "TIMEOUT"
    assert c.state.timers.next_ms() == c.job(early).placed_at_ms + 2 * HOUR


def test_patience_and_a_relative_deadline_have_as_long_to_go_as_before(c):
    step(c, YEAR)
    j = c.submit(spec("a", group(), gang=GangPolicy(min_tasks=1, wait_ms=9_000), deadline_in_ms=60_000))
    submitted = c.job(j).submitted_at_ms
    by = c.state.clock_ms - NOON
    set_back(c, NOON)
    assert c.job(j).submitted_at_ms == submitted - by
    assert c.job(j).deadline_ms == submitted - by + 60_000
    assert c.state.timers.next_ms() == submitted - by + 9_000


def test_a_deadline_that_people_named_stays_and_one_that_is_to_come_again_has_not_been_missed(c):
    j = c.submit(spec("a", group(), deadline_at_ms=NOON + HOUR))
    step(c, YEAR)
    assert c.job(j).deadline_missed
    set_back(c, NOON + 1_000)
    assert (c.job(j).deadline_ms, c.job(j).deadline_missed) == (NOON + HOUR, False)
    assert c.state.timers.next_ms() == NOON + HOUR


def test_a_begin_that_people_named_stays_and_a_relative_one_has_as_long_to_go_as_before(c):
    named = c.submit(spec("named", group(), begin_at_ms=NOON + HOUR))
    ran = c.submit(spec("ran", group(), begin_at_ms=NOON + 1_000))
    many = c.submit(spec("many", group(), begin_at_ms=NOON + HOUR, hold=True, array=Array(last=1, step=1)))
    step(c, HOUR // 2)
    c.place(ran, "n1")
    relative = c.submit(spec("relative", group(), begin_in_ms=60_000))
    left = c.job(relative).not_before_ms - c.state.clock_ms
    step(c, YEAR)
    set_back(c, NOON)
    assert [c.job(j).not_before_ms for j in (named, many)] == [NOON + HOUR] * 2
    assert c.job(ran).not_before_ms < NOON
    assert c.job(relative).not_before_ms - c.job(relative).submitted_at_ms == left == 60_000


def test_a_schedule_goes_on_at_the_run_that_the_leader_names(c):
    c.accept(SubmitJob(job_id="s1", spec=spec("s", group(), cron="0 6 * * *", timezone="UTC"), next_run_at_ms=NOON + 1))
    step(c, YEAR)
    late = replace(c.job("s1"), children=Children(next_run_at_ms=NOON + YEAR + HOUR))
    c.state.put_moments("jobs", "s1", late)
    set_back(c, NOON, NextRun(job_id="s1", at_ms=NOON + HOUR), NextRun(job_id="gone", at_ms=NOON + HOUR))
    assert c.job("s1").children.next_run_at_ms == NOON + HOUR


def test_drains_reservations_and_windows_after_the_clock_was_set_back(c):
    window = Window(name="w", start_ms=NOON + YEAR + HOUR, end_ms=NOON + YEAR + 2 * HOUR, nodes=("n1",))
    c.accept(SetWindow(window=window))
    step(c, YEAR)
    c.node("n2")
    k = c.submit(spec("k", group()))
    c.place(k, "n2")  # a node that is empty is drained at once
    now = c.state.clock_ms
    drain = ControlNode(node_id="n2", action=NodeAction.DRAIN, by=ClosedBy.OPERATOR, drain_by_ms=now + 60_000)
    j = c.submit(spec("a", group()))
    c.accept(SubmitJob(job_id="id-b", spec=spec("b", group(cpus=60))))
    share = (Share(group="worker", node_id="n1", count=1),)
    promised = Reservation(
        job_id=j, attempt=1, start_ms=now + 5_000, end_ms=now + 9_000, shares=share, made_at_ms=now + 1
    )
    c.accept(CommitPlan(revision=c.state.revision, gangs=(), reservations=(promised,)), at_ms=now + 2)
    c.accept(drain)
    by = c.state.clock_ms - NOON
    set_back(c, NOON)
    assert c.state.nodes["n2"].drain_by_ms == now + 60_000 - by
    assert c.state.windows["w"] == window
    kept = c.state.reservations[j]
    assert (kept.made_at_ms, kept.start_ms, kept.end_ms) == (now + 1 - by, now + 5_000 - by, now + 9_000 - by)
    assert c.state.nodes["n1"].registered_at_ms <= NOON
    assert c.state.nodes["n2"].registered_at_ms <= NOON


def test_what_ended_is_in_order_of_its_end_again(c):
    for name in ("a", "b", "c"):
        j = c.submit(spec(name, group()))
        c.place(j, "n1")
        c.succeed_all(j)
        step(c, {"a": HOUR, "b": 2 * HOUR, "c": 0}[name])
    set_back(c, NOON + HOUR + 1_000)
    assert [job.spec.name for job in c.state.finished_oldest_first()] == [
        restored.spec.name for restored in restore(c.state.freeze()).finished_oldest_first()
    ]


def test_decayed_usage_goes_on_from_the_time_that_was_set(c):
    c.accept(SetQueues(queues=(Queue(path="default", half_life_ms=HOUR),)))
    step(c, YEAR)
    j = c.submit(spec("a", group()))
    c.place(j, "n1")
    (account,) = c.state.accounts.values()
    set_back(c, NOON + 1_000)
    (after,) = c.state.accounts.values()
    assert after.at_ms <= NOON + 1_000
    assert after.used == account.used
    c.succeed_all(j)  # brings the account up to the clock: the invariants hold, nothing is negative


def test_every_moment_of_a_record_has_its_rule():
    """A new field with `_ms` in its name belongs to STAMPED, or to one of the sets above."""
    unknown = []
    for kind in _kinds([table.kind for table in TABLES]):
        tables = {"Node": "nodes", "Account": "accounts", "Tenant": "tenants", "Job": "jobs", "Task": "tasks"}
        tables |= {"Allocation": "allocations", "Fence": "fences", "Reservation": "reservations", "Token": "tokens"}
        tables |= {"Revocation": "revocations", "Secret": "secrets"}
        tables |= {"JoinToken": "join_tokens", "JoinedNode": "joined_nodes"}
        known = {name for names in STAMPED.get(tables.get(kind.__name__, ""), ()) for name in names}
        for field in fields(kind):
            place = (kind.__name__, field.name)
            ruled = field.name in known or place in RULED
            if field.name.endswith("_ms") and not ruled:
                unknown.append(place)
    assert unknown == []


def _kinds(hints: list[Any]) -> list[type]:
    """Return all dataclasses that the types lead to."""
    found: dict[type, None] = {}
    todo = [*hints]
    while todo:
        one = todo.pop()
        todo += get_args(one)
        if isinstance(one, type) and is_dataclass(one) and one not in found:
            found[one] = None
            todo += get_type_hints(one).values()
    return list(found)


@pytest.mark.parametrize("seed", range(40))
def test_after_any_history_the_clock_can_be_set_back_and_the_state_goes_on(seed):
    r = Random(seed)
    state = ClusterState()
    for command in chaos.opening():
        apply(state, command)
    apply(state, Command(body=SetClock(to_ms=NOON)))
    _run(state, r, 150)
    began = state.clock_ms
    apply(state, Command(body=SetClock(to_ms=began + r.choice((1_000, HOUR, YEAR)))))
    _run(state, r, 150)
    ahead, now = state.clock_ms, began + r.randrange(1, 1_000)
    before = state.freeze()
    apply(state, Command(body=SetClock(to_ms=now)))
    assert check(state) == []
    by = ahead - now
    for table, groups in STAMPED.items():
        for key, record in getattr(state, table).items():
            old = getattr(before, table)[key]
            for first, *others in groups:
                was = getattr(old, first)
                assert getattr(record, first) == (was - by if was > now else was)
                for other in others:
                    late = was > now and getattr(old, other)
                    assert getattr(record, other) == getattr(old, other) - (by if late else 0)
                if was <= ahead:
                    assert getattr(record, first) <= now
    twin = restore(state.freeze())
    assert twin.digest() == state.digest()
    assert list(twin.finished) == list(state.finished)
    assert twin.timers.next_ms() == state.timers.next_ms()
    _run(state, r, 100)


def _run(state: ClusterState, r: Random, count: int) -> None:
    for command in chaos.commands(r, state, count):
        apply(state, command)
        assert check(state) == []
