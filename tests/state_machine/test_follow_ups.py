"""What follows from a command is spread over several, none of which does more than its share."""

import gc
import time
from collections.abc import Iterator

import pytest

from gosched.core.commands.cluster import PassTime
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import Action, CancelJob, ControlJob, DropFinishedJobs, SubmitJob
from gosched.core.events import Event, JobChanged
from gosched.core.features import FeatureLevel
from gosched.core.invariants.check_state import check
from gosched.core.records.follow_up import FollowUpKind
from gosched.core.records.job import JobState
from gosched.core.records.task import TaskState
from gosched.core.spec.array import Array
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.restore import restore
from gosched.state_machine import apply
from gosched.state_machine.follow_ups import STEPS_AT_ONCE, STEPS_PER_TICK
from tests.state_machine.cluster import Cluster, group, spec


@pytest.fixture
def c():
    cluster = Cluster()
    cluster.node("n1", cpus=64)
    return cluster


def big(last: int, **more: object) -> object:
    return spec("big", group(cpus=0), array=Array(last=last, step=1, **more))  # type: ignore[arg-type]


def passes(c: Cluster) -> Iterator[tuple[Event, ...]]:
    """The events of each PassTime until nothing is left."""
    for _ in range(1000):
        if not c.state.follow_ups:
            return
        c.accept(PassTime())
        yield c.events
    raise AssertionError("something is always left")


def test_an_array_is_filled_by_many_commands_and_each_makes_a_bounded_number(c):
    c.submit(big(2999, parallelism=2000), "a1")
    assert c.job("a1").children.made == STEPS_AT_ONCE
    made = [sum(isinstance(e, JobChanged) and not e.before for e in events) for events in passes(c)]
    assert max(made) == STEPS_PER_TICK
    assert c.job("a1").children.live == 2000


def test_a_cancelled_array_ends_by_many_commands(c):
    c.submit(big(2999, parallelism=2000), "a1")
    [*passes(c)]
    c.cancel("a1")
    assert c.job("a1").children.live == 2000 - STEPS_AT_ONCE
    ended = [sum(isinstance(e, JobChanged) and e.after.is_final for e in events) for events in passes(c)]
    assert max(ended) <= STEPS_PER_TICK + 1  # and the array itself
    job = c.job("a1")
    assert (job.state, job.children.made, job.children.cancelled) == (JobState.CANCELLED, 2000, 2000)


def test_the_end_of_a_chain_comes_by_many_commands(c):
    c.submit(spec("job-0"), "j0")
    for n in range(1, 1000):
        wanted = spec(f"job-{n}", after=(Dependency(job=f"j{n - 1}", condition=Condition.SUCCESS),))
        apply(c.state, Command(body=SubmitJob(job_id=f"j{n}", spec=wanted), at_ms=c.state.clock_ms))
    c.cancel("j0")
    assert sum(job.state.is_final for job in c.state.jobs.values()) == STEPS_AT_ONCE // 2 + 1  # of two tasks each
    [*passes(c)]
    assert all(job.state is JobState.CANCELLED for job in c.state.jobs.values())


def test_a_command_that_finds_something_left_adds_to_it_and_does_nothing_of_it(c):
    """Otherwise thousands of commands in one entry of the log would each do their share."""
    c.submit(big(999, parallelism=900), "a1")
    made = c.job("a1").children.made
    for n in range(5):
        c.submit(spec(f"array-{n}", array=Array(last=9, step=1)), f"b{n}")
    assert c.job("a1").children.made == made
    assert [c.job(f"b{n}").children.made for n in range(5)] == [0] * 5
    [*passes(c)]
    assert [c.job(f"b{n}").children.made for n in range(5)] == [10] * 5


def test_a_small_family_need_not_wait_for_a_large_one(c):
    c.submit(big(9_999, parallelism=9_999), "a1")
    c.submit(spec("small", array=Array(last=9, step=1)), "b1")
    c.accept(PassTime())
    assert c.job("b1").children.made == 10
    assert c.job("a1").children.made < 9_999


@pytest.mark.parametrize("again", [Action.RESUME, Action.REQUEUE])
def test_what_was_done_last_to_an_array_is_done_last_to_each_child(c, again):
    c.submit(big(499), "a1")
    [*passes(c)]
    if again is Action.REQUEUE:
        c.accept(ControlJob(job_id="a1", action=Action.SUSPEND))
        c.accept(ControlJob(job_id="a1", action=Action.RESUME))
    else:
        c.accept(ControlJob(job_id="a1", action=Action.SUSPEND))
    c.accept(ControlJob(job_id="a1", action=again))
    kinds = [step.kind for step in c.state.follow_ups["a1"].steps]
    assert kinds[0] is FollowUpKind.SUSPEND
    [*passes(c)]
    states = {job.state for job in c.state.jobs.values() if job.parent}
    assert states == {JobState.PENDING}
    c.accept(ControlJob(job_id="a1", action=Action.SUSPEND))
    c.cancel("a1")
    assert [step.kind for step in c.state.follow_ups["a1"].steps] == [FollowUpKind.CANCEL]
    [*passes(c)]
    assert c.job("a1").state is JobState.CANCELLED


def test_a_restored_state_goes_on_with_what_is_left_in_the_same_order(c):
    c.submit(big(999, parallelism=900), "a1")
    for n in range(3):
        c.submit(spec(f"array-{n}", array=Array(last=499, step=1)), f"b{n}")
    c.cancel("b1")
    twin = restore(c.state.freeze())
    while c.state.follow_ups:
        command = Command(body=PassTime(), at_ms=c.state.clock_ms + 1)
        assert apply(c.state, command) == apply(twin, command)
        assert c.state.digest() == twin.digest()
    assert check(c.state) == []


def test_a_job_that_has_ended_is_kept_until_those_that_waited_know(c):
    c.submit(spec("first"), "j0")
    for n in range(200):
        wanted = spec(f"then-{n}", after=(Dependency(job="j0", condition=Condition.ANY),))
        c.submit(wanted, f"t{n}")
    c.place("j0", "n1")
    for rank in range(2):
        c.report("j0", rank, TaskState.SUCCEEDED, 0)
    assert "j0" in c.state.follow_ups
    assert c.accept(DropFinishedJobs(keep=0, ended_before_ms=c.state.clock_ms + 1)).unchanged
    [*passes(c)]
    assert not c.accept(DropFinishedJobs(keep=0, ended_before_ms=c.state.clock_ms + 1)).unchanged
    assert all(not c.job(f"t{n}").waits_for for n in range(200))


def test_below_the_level_all_is_done_at_once():
    state = ClusterState(feature_level=FeatureLevel.FIRST)
    for body in (*_queue(), SubmitJob(job_id="a1", spec=big(2999, parallelism=2000))):  # type: ignore[arg-type]
        apply(state, Command(body=body, at_ms=1))
    assert (state.jobs["a1"].children.live, state.follow_ups) == (2000, {})
    apply(state, Command(body=CancelJob(job_id="a1"), at_ms=2))
    assert (state.jobs["a1"].state, state.follow_ups) == (JobState.CANCELLED, {})


def _queue() -> list[Body]:
    return [command.body for command in Cluster().log]


@pytest.fixture
def no_collection() -> Iterator[None]:
    """The collector would look at all that other tests of this process have left."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
def test_no_command_takes_long_however_large_the_family():
    """On this machine each takes 5 to 20 ms; done at once, the cancel of either family took seconds."""
    state = Cluster().state
    slowest = 0.0

    def do(body: Body) -> None:
        nonlocal slowest
        began = time.process_time()
        apply(state, Command(body=body, at_ms=state.clock_ms + 1))
        slowest = max(slowest, time.process_time() - began)

    do(SubmitJob(job_id="a1", spec=big(99_999, parallelism=10_000)))  # type: ignore[arg-type]
    do(SubmitJob(job_id="j0", spec=spec("job-0")))
    for n in range(1, 10_000):
        wanted = spec(f"job-{n}", after=(Dependency(job=f"j{n - 1}", condition=Condition.SUCCESS),))
        do(SubmitJob(job_id=f"j{n}", spec=wanted))
    while state.follow_ups:
        do(PassTime())
    for job in ("a1", "j0"):
        do(CancelJob(job_id=job))
    while state.follow_ups:
        do(PassTime())
    assert state.jobs["a1"].children.cancelled == 10_000
    assert slowest < 0.5
