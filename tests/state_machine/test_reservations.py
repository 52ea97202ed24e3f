"""Reservations: the starts that pending jobs were promised, made and changed by plans."""

from dataclasses import replace

import pytest

from gosched.core.commands.jobs import Action, ControlJob
from gosched.core.commands.plans import CommitPlan
from gosched.core.events import ReservationChanged
from gosched.core.records.job import JobState
from gosched.core.records.reservation import Reservation, Share
from gosched.core.records.task import TaskState
from gosched.core.state.cluster_state import restore
from tests.state_machine.cluster import Cluster, gang, group, retrying, spec
from tests.state_machine.test_evictions import evict, forced, leave, low


@pytest.fixture
def c() -> Cluster:
    """Job j of two tasks waits; it was promised n1 at 5 s."""
    cluster = Cluster()
    cluster.node("n1")
    cluster.node("n2")
    cluster.submit(retrying("train"), "j")
    assert promise(cluster, PROMISED) == ()
    return cluster


PROMISED = Reservation(
    job_id="j",
    attempt=1,
    start_ms=5000,
    end_ms=9000,
    shares=(Share(group="worker", node_id="n1", count=2),),
    made_at_ms=4,
)
GONE = ReservationChanged(job_id="j", start_ms=0)


def promise(c: Cluster, *reservations: Reservation, withdrawn: tuple[str, ...] = ()) -> tuple[str, ...]:
    plan = CommitPlan(revision=0, gangs=(), reservations=reservations, withdrawn=withdrawn)
    return tuple(refusal.detail for refusal in c.accept(plan).refusals)


def test_a_plan_makes_a_promise_and_says_so(c):
    assert c.state.reservations == {"j": PROMISED}
    assert c.events == (ReservationChanged(job_id="j", start_ms=5000),)


def test_the_same_promise_again_changes_nothing(c):
    assert promise(c, replace(PROMISED, made_at_ms=99)) == ()
    assert (c.events, c.state.reservations["j"].made_at_ms) == ((), 4)


def test_a_promise_may_change_and_be_withdrawn(c):
    promise(c, replace(PROMISED, start_ms=4000))
    assert c.events == (ReservationChanged(job_id="j", start_ms=4000),)
    promise(c, withdrawn=("j", "nope"))
    assert (c.events, c.state.reservations) == ((GONE,), {})


WRONG = [
    (replace(PROMISED, job_id="nope"), "no such job"),
    (replace(PROMISED, attempt=2), "is PENDING at attempt 1"),
    (replace(PROMISED, start_ms=0), "from 0"),
    (replace(PROMISED, end_ms=5000), "from 5000 to 5000 ms"),
    (replace(PROMISED, shares=()), "room for 0 tasks of group worker, 2 start together"),
]
SHARE = PROMISED.shares[0]
WRONG_SHARES = [
    ((replace(SHARE, node_id="n9"),), "no node 'n9'"),
    ((replace(SHARE, group="ps"),), "group 'ps'"),
    ((replace(SHARE, count=0),), "0 tasks"),
    ((replace(SHARE, count=3),), "room for 3 tasks"),
    ((replace(SHARE, count=1), replace(SHARE, count=1)), "twice on one node"),
]


@pytest.mark.parametrize(("wrong", "why"), [*WRONG, *((replace(PROMISED, shares=s), why) for s, why in WRONG_SHARES)])
def test_a_promise_that_makes_no_sense_is_refused_and_the_old_one_stays(c, wrong, why):
    (detail,) = promise(c, wrong)
    assert why in detail
    assert c.state.reservations == {"j": PROMISED}


def test_it_is_forgotten_when_the_job_starts(c):
    c.place("j", "n2")
    assert GONE in c.events
    assert c.state.reservations == {}
    (detail,) = promise(c, PROMISED)
    assert "the job is RUNNING" in detail


def test_it_is_forgotten_when_room_is_made_for_the_job(c):
    c.submit(low("low", group(count=4)), "v")
    c.place("v", "n1")
    c.submit(spec("first", group(count=4), priority=5), "p")
    promise(c, replace(PROMISED, job_id="p", shares=(replace(SHARE, count=4),)))
    assert c.plan(forced(c, "p", evict(c.job("v")))) == ()
    assert list(c.state.reservations) == ["j"]
    leave(c, "v")
    assert c.job("p").state is JobState.RUNNING


@pytest.mark.parametrize("action", [Action.HOLD, Action.SUSPEND])
def test_it_is_forgotten_when_the_job_waits_no_more(c, action):
    c.accept(ControlJob(job_id="j", action=action))
    assert GONE in c.events
    assert c.state.reservations == {}


def test_it_is_forgotten_when_the_job_ends(c):
    c.cancel("j")
    assert GONE in c.events


def test_a_plan_that_starts_the_job_cannot_promise_it_another_start(c):
    start = CommitPlan(revision=0, gangs=(gang(c.job("j"), "n2"),), reservations=(replace(PROMISED, start_ms=7000),))
    (refusal,) = c.accept(start).refusals
    assert "reservation refused" in refusal.detail
    assert c.job("j").state is JobState.RUNNING


def deadline(c: Cluster) -> Reservation:
    """Job d must be done at 9 s, takes 2 s, and was promised a start at 6 s."""
    c.submit(spec("due", group(), deadline_at_ms=9000, timeout_ms=2000), "d")
    promised = replace(PROMISED, job_id="d", start_ms=6000, shares=(replace(SHARE, count=1),), for_deadline=True)
    promise(c, promised)
    return promised


def test_a_promised_deadline_that_is_withdrawn_is_broken(c):
    deadline(c)
    promise(c, withdrawn=("d",))
    assert c.events == (ReservationChanged(job_id="d", start_ms=0, broken=True),)


def test_a_promised_deadline_is_broken_once_by_a_start_that_is_too_late_for_it(c):
    promised = deadline(c)
    for start_ms, broken in [(7000, False), (7001, True), (7500, False), (3000, False)]:
        promise(c, replace(promised, start_ms=start_ms))
        assert c.events == (ReservationChanged(job_id="d", start_ms=start_ms, broken=broken),)


def test_a_job_that_waits_again_has_no_promise_of_its_last_attempt(c):
    c.place("j", "n2")
    c.report("j", 0, TaskState.FAILED, 1)
    c.report("j", 1, TaskState.KILLED)
    (detail,) = promise(c, PROMISED)
    assert "at attempt 2 and does not wait for a start at 1" in detail
    assert promise(c, replace(PROMISED, attempt=2)) == ()


def test_a_restored_state_keeps_its_promises(c):
    assert restore(c.state.freeze()).reservations == {"j": PROMISED}
