"""Deadlines: who goes first when slack runs short, and promises that were made for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from gosched.core.events import Event, ReservationChanged
from gosched.scheduling import Policy
from gosched.scheduling.backfill import reserved_starts
from gosched.scheduling.backfill.reserved_starts import ReservedStart
from gosched.scheduling.snapshot.task_requests import PendingGang
from tests.scheduling.support import notation
from tests.scheduling.support.tables import World, begin, check


@pytest.mark.parametrize("algorithm", ["binpack", "spread", "gang", "priority", "deadline"])
def test_a_gang_that_is_about_to_miss_its_deadline_goes_before_others_of_its_queue(algorithm: str) -> None:
    check(
        """
        nodes
          a  4cpu
        jobs
          run    since=1m : 1x 3cpu  on a
          first  : 1x 1cpu
          soon   due=1h timeout=50m : 1x 1cpu
        plan
          soon   a
          first  INSUFFICIENT  @50m a
        """,
        Policy.of(algorithm),
    )


def test_the_earliest_deadline_goes_first_among_those_that_are_about_to_miss_theirs() -> None:
    check("""
        nodes
          a  4cpu
        jobs
          run    since=1m : 1x 3cpu  on a
          later  due=61m timeout=1h : 1x 1cpu
          soon   due=60m timeout=50m : 1x 1cpu
        plan
          soon   a
          later  INSUFFICIENT  @50m a
    """)


@pytest.mark.parametrize(
    "due", ["due=10h timeout=10m", "due=-1m timeout=10m"], ids=["there is time", "it is too late anyway"]
)
def test_a_deadline_that_is_far_or_has_passed_hurries_nobody(due: str) -> None:
    check(f"""
        nodes
          a  4cpu
        jobs
          run    since=1m : 1x 3cpu  on a
          first  : 1x 1cpu
          due    {due} : 1x 1cpu
        plan
          first  a
          due    INSUFFICIENT
    """)


def test_a_deadline_is_met_within_fair_shares() -> None:
    """x holds more than its half; its deadline does not take y's turn."""
    check("""
        queues
          x  fair
          y  fair
        nodes
          a  4cpu
        jobs
          run   x since=1m : 1x 3cpu  on a
          soon  x due=1h timeout=50m : 1x 1cpu
          own   y : 1x 1cpu
        plan
          own   a
          soon  INSUFFICIENT
    """)


def test_a_start_that_was_promised_for_a_deadline_is_kept_against_everybody() -> None:
    check_a_deadline_is_kept_against_everybody()


def test_a_planner_that_lets_priorities_break_deadlines_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    outranks = reserved_starts._outranks

    def mutated(gang: PendingGang, reserved: ReservedStart) -> bool:
        return outranks(gang, ReservedStart(reserved.gang, replace(reserved.reservation, for_deadline=False)))

    monkeypatch.setattr(reserved_starts, "_outranks", mutated)
    with pytest.raises(AssertionError, match=r"^the plan is"):
        check_a_deadline_is_kept_against_everybody()


def check_a_deadline_is_kept_against_everybody() -> None:
    world = begin("""
        nodes
          a  4cpu
        jobs
          run   timeout=1h since=10m : 1x 2cpu  on a
          due   yields due=3h timeout=1h : 1x 4cpu
          high  priority=9 : 1x 2cpu
        reservations
          due  50m a made=1m deadline
    """)
    world.expect("high RESERVED @110m a\ndue INSUFFICIENT @50m a")
    assert world.state.reservations["due"].for_deadline
    world.go("50m")
    world.stop()
    world.expect("due a\nhigh INSUFFICIENT @110m a")


def test_a_promise_for_a_deadline_takes_none_of_the_places_of_blocked_gangs() -> None:
    check(
        """
        nodes
          a  4cpu
          b  4cpu
        jobs
          run   timeout=1h since=10m : 2x 4cpu  on a b
          due   due=3h timeout=1h : 1x 4cpu
          head  timeout=1h : 1x 4cpu
          next  timeout=1h : 2x 4cpu
        reservations
          due  50m a made=1m deadline
        plan
          due   INSUFFICIENT  @50m a
          head  INSUFFICIENT  @50m b
          next  INSUFFICIENT
        """,
        Policy(reservations=1),
    )


def test_when_a_node_is_lost_the_newest_promise_is_broken_and_said_to_be() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          run1   timeout=1h since=10m : 1x 4cpu  on a
          run2   timeout=1h since=10m : 1x 4cpu  on b
          newer  due=2h timeout=1h : 1x 4cpu
          older  due=2h timeout=1h : 1x 4cpu
        reservations
          older  50m  b  made=5m deadline
          newer  50m  a  made=1m deadline
    """)
    seen = _reservation_events(world)
    world.kill("b")
    world.expect("older INSUFFICIENT @50m a\nnewer INSUFFICIENT @110m a")
    assert [(event.job_id, event.broken) for event in seen] == [("older", False), ("newer", True)]


def test_a_promise_that_was_broken_is_mended_when_there_is_room_again() -> None:
    world = begin("""
        nodes
          a  4cpu
        jobs
          run1   timeout=1h since=10m : 1x 4cpu  on a
          newer  due=2h timeout=1h : 1x 4cpu
          older  due=2h timeout=1h : 1x 4cpu
        reservations
          older  50m   a  made=5m deadline
          newer  110m  a  made=1m deadline
    """)
    world.do(notation.node(["b", "4cpu"]))
    world.expect("older b\nnewer INSUFFICIENT @50m a")


def _reservation_events(world: World) -> list[ReservationChanged]:
    seen: list[ReservationChanged] = []
    follow = world._follow

    def listen(events: Sequence[Event]) -> None:
        seen.extend([event for event in events if isinstance(event, ReservationChanged)])
        follow(events)

    world._follow = listen  # type: ignore[method-assign]
    return seen
