"""Reserved starts of blocked gangs, and what may run before and beside them."""

from __future__ import annotations

import pytest

from gosched.core.commands.jobs import CancelJob
from gosched.core.records.job import JobState
from gosched.scheduling import Policy
from gosched.scheduling.backfill.reserved_starts import ReservedStarts
from gosched.scheduling.policy import ALL
from tests.scheduling.support.tables import World, begin, check

EASY = Policy(reservations=1)
CONSERVATIVE = Policy(reservations=ALL)


@pytest.mark.parametrize(
    ("backfill", "expected"),
    [
        ("timeout=50m : 1x 4cpu", "job b"),
        ("timeout=51m : 1x 4cpu", "job RESERVED"),
        ("estimate=10m : 1x 4cpu", "job RESERVED"),
        (": 1x 4cpu", "job RESERVED"),
        (": 1x 1cpu role=c", "job c"),
        ("yields : 1x 4cpu", "job RESERVED"),
        ("yields cheap : 1x 4cpu", "job b until=50m"),
        ("yields signal : 1x 4cpu", "job b until=50m"),
        ("yields estimate=10m : 1x 4cpu", "job RESERVED"),
        ("yields timeout=10m : 1x 4cpu", "job b"),
        ("stays : 1x 4cpu", "job RESERVED"),
    ],
    ids=[
        "it ends just when the gang starts",
        "it ends later",
        "an estimate is no promise",
        "it has no limit",
        "it does not touch the reserved nodes",
        "it yields, but its work would be lost",
        "little is lost, so it starts on the condition that it goes",
        "its work is saved, so it does, too",
        "an estimate binds nobody, and its work would be lost if it is wrong",
        "it yields, but need not",
        "it would have to go, and cannot",
    ],
)
def test_what_may_start_beside_a_reserved_start(backfill: str, expected: str) -> None:
    promised = "big INSUFFICIENT @50m a b"
    check(
        f"""
        nodes
          a  4cpu
          b  4cpu
          c  1cpu role=c
        jobs
          run  timeout=1h since=10m : 1x 4cpu  on a
          big  : 2x 4cpu
          job  {backfill}
        plan
          {promised if expected.startswith("job RESERVED") else expected}
          {expected if expected.startswith("job RESERVED") else promised}
        """,
        EASY,
    )


def test_an_open_job_may_use_a_reserved_node_as_far_as_the_reservation_leaves_room() -> None:
    check_what_a_reservation_leaves()


def test_a_planner_that_forgets_what_it_gave_away_of_a_reserved_node_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ReservedStarts, "record_start", lambda *args: None)
    with pytest.raises(AssertionError, match=r"^the plan is"):
        check_what_a_reservation_leaves()


def check_what_a_reservation_leaves() -> None:
    check(
        """
        nodes
          a  4cpu
          b  4cpu
        jobs
          run    timeout=1h since=10m : 1x 4cpu  on a
          big    : 2x 3cpu
          small  : 1x 1cpu
          other  : 1x 1cpu
        plan
          small  b
          big    INSUFFICIENT  @50m a b
          other  RESERVED  @50m a
        """
    )


def test_a_job_of_a_minute_is_not_started_on_a_condition() -> None:
    """It would be evicted as soon as it has begun."""
    check("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          run  timeout=1h since=3541s : 1x 4cpu  on a
          big  : 2x 4cpu
          job  yields cheap : 1x 4cpu
        plan
          big  INSUFFICIENT  @59s a b
          job  RESERVED
    """)


def test_easy_backfill_promises_the_first_blocked_gang_alone_and_conservative_backfill_all() -> None:
    table = """
        nodes
          a  4cpu
          b  4cpu
        jobs
          run   timeout=1h since=10m : 1x 4cpu  on a
          one   timeout=1h : 2x 4cpu
          two   timeout=1h : 2x 4cpu
          three timeout=1h : 2x 4cpu
        plan
          one    INSUFFICIENT  @50m a b
          two    INSUFFICIENT  {two}
          three  INSUFFICIENT  {three}
    """
    check(table.format(two="", three=""), EASY)
    check(table.format(two="@110m a b", three=""), Policy(reservations=2))
    check(table.format(two="@110m a b", three="@170m a b"), CONSERVATIVE)


def test_with_easy_backfill_the_second_in_line_may_be_delayed_and_with_conservative_backfill_it_is_not() -> None:
    table = """
        nodes
          a  4cpu role=a
          b  4cpu role=a
          c  4cpu role=c
        jobs
          runa  timeout=1h since=10m : 1x 4cpu  on a
          runc  timeout=30m since=10m : 1x 2cpu  on c
          one   timeout=1h : 2x 4cpu role=a
          two   timeout=1h : 1x 4cpu role=c
          job   : 1x 2cpu role=c
    """
    begin(table).expect("job c\none INSUFFICIENT @50m a b\ntwo INSUFFICIENT", EASY)
    begin(table).expect("one INSUFFICIENT @50m a b\ntwo INSUFFICIENT @20m c\njob RESERVED @80m c", CONSERVATIVE)


def test_a_reserved_start_is_kept_though_others_would_like_its_room_and_comes_when_it_has_come() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          run  timeout=1h since=10m : 1x 4cpu  on a
          big  : 2x 4cpu
    """)
    world.expect("big INSUFFICIENT @50m a b", EASY)
    for minute in (1, 2, 3):
        world.go(f"{minute}m")
        world.submit(f"job{minute} : 1x 4cpu".split())
        world.expect("big INSUFFICIENT @50m a b\n" + "\n".join(f"job{i} RESERVED" for i in range(1, minute + 1)), EASY)
    world.go("50m")
    world.stop()
    world.expect("big a b\njob1 INSUFFICIENT\njob2 INSUFFICIENT\njob3 INSUFFICIENT", EASY)


def test_a_higher_priority_that_may_evict_the_gang_may_take_its_reserved_room_and_others_not() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          run   timeout=1h since=10m : 1x 4cpu  on a
          big   yields : 2x 4cpu
    """)
    world.expect("big INSUFFICIENT @50m a b", EASY)
    world.submit(["never", "never", "priority=9", ":", "1x", "4cpu"])
    world.submit(["top", "priority=9", ":", "1x", "4cpu"])
    plan = world.expect("top b\nnever RESERVED\nbig INSUFFICIENT", EASY)
    assert plan.withdrawn == ["big"]
    world.expect("never INSUFFICIENT @50m a\nbig INSUFFICIENT", EASY)


def test_a_promised_start_comes_earlier_once_room_comes_earlier() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          one   timeout=1h since=10m : 1x 4cpu  on a
          two   timeout=2h since=10m : 1x 4cpu  on b
          big   : 2x 4cpu
    """)
    world.expect("big INSUFFICIENT @110m a b", EASY)
    world.go("1m")
    world.end("two")
    world.expect("big INSUFFICIENT @50m a b", EASY)
    world.end("one")
    world.expect("big a b", EASY)


def test_the_loss_of_a_node_moves_a_promised_start_and_room_elsewhere_takes_it_over() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
          c  4cpu
        jobs
          one    timeout=1h since=10m : 1x 4cpu  on a
          two    timeout=1h since=10m : 1x 4cpu  on b
          three  timeout=3h since=10m : 1x 4cpu  on c
          big    : 2x 4cpu
    """)
    world.expect("big INSUFFICIENT @50m a b", EASY)
    world.kill("b")
    world.expect("big INSUFFICIENT @170m a c", EASY)


def test_a_promise_is_withdrawn_when_no_start_is_in_sight_any_more() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          one   timeout=1h since=10m : 1x 4cpu  on a
          big   : 2x 4cpu
    """)
    world.expect("big INSUFFICIENT @50m a b", EASY)
    world.kill("b")
    plan = world.expect("big INSUFFICIENT", EASY)
    assert plan.withdrawn == ["big"]
    assert world.state.reservations == {}


def test_of_two_promises_that_cannot_both_be_kept_the_older_one_is() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          one    timeout=1h since=10m : 1x 4cpu  on a
          two    timeout=1h since=10m : 1x 4cpu  on b
          late   timeout=1h : 1x 4cpu
          early  timeout=1h : 1x 4cpu
        reservations
          late   50m  a  made=1m
          early  50m  b  made=5m
    """)
    world.kill("b")
    world.expect("early INSUFFICIENT @50m a\nlate INSUFFICIENT @110m a", Policy())


def test_what_runs_on_condition_is_evicted_for_the_reserved_start_when_it_comes() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          run   timeout=1h since=10m : 1x 4cpu  on a
          big   : 2x 4cpu
          fill  yields cheap : 2x 2cpu
    """)
    plan = world.expect("fill b b until=50m\nbig INSUFFICIENT @50m a b", EASY)
    assert plan.wake_at_ms is not None
    world.go("49m")
    world.expect("big INSUFFICIENT @50m a b", EASY)
    world.go("50m")
    world.end("run")
    world.expect("big a b | backfill fill", EASY)
    world.stop()
    assert world.state.jobs["big"].state is JobState.RUNNING
    assert world.state.jobs["fill"].state is JobState.PENDING
    assert world.state.jobs["fill"].restarts == 0


def test_a_job_on_condition_may_stay_if_the_reserved_gang_never_needs_its_room() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          run   timeout=1h since=10m : 1x 4cpu  on a
          big   : 2x 4cpu
          fill  yields cheap : 1x 4cpu
    """)
    world.expect("fill b until=50m\nbig INSUFFICIENT @50m a b", EASY)
    world.submit(["other", ":", "1x", "1cpu"])
    _cancel(world, "big")
    world.go("55m")
    world.end("run")
    world.expect("other a", EASY)
    assert world.state.jobs["fill"].state is JobState.RUNNING


def test_what_was_told_to_leave_for_a_fence_is_room_that_comes_for_others() -> None:
    """The fence of high needs 2 of the 4 CPUs that low gives up after its grace."""
    world = begin("""
        nodes
          a  4cpu
        jobs
          low   yields grace=5m since=1h : 1x 4cpu  on a
          high  priority=9 : 1x 2cpu
          next  : 1x 2cpu
    """)
    world.expect("high a | preempt low\nnext INSUFFICIENT @5m a", EASY)
    world.expect("next INSUFFICIENT @5m a", EASY)


def _cancel(world: World, job_id: str) -> None:
    world.do(CancelJob(job_id=job_id))
