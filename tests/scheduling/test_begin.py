"""Jobs that begin later: they start at their begin, and before it nothing is held, evicted or shared for them."""

from __future__ import annotations

from gosched.scheduling.policy import Policy
from gosched.scheduling.queries.explain_on_request import explain_on_request
from tests.scheduling.support.notation import NOW_MS
from tests.scheduling.support.tables import begin, check

HOUR_MS = 3_600_000


def test_a_job_starts_at_its_begin_and_names_it_as_the_time_to_wake_up() -> None:
    world = begin("""
        nodes
          a  4cpu
        jobs
          late  begin=1h : 1x 4cpu
          soon  begin=30m : 1x 1cpu
          now   timeout=20m : 1x 1cpu
    """)
    plan = world.expect("now a\nlate BEGIN it does not begin before @1h\nsoon BEGIN @30m")
    assert plan.wake_at_ms == NOW_MS + HOUR_MS // 2
    world.go("30m")
    world.stop()
    world.end("now")
    world.expect("soon a\nlate BEGIN @1h")


def test_before_its_begin_nothing_is_reserved_for_a_job_and_no_other_has_to_end_by_then() -> None:
    check(
        """
        nodes
          a  4cpu
        jobs
          run    timeout=2h since=10m : 1x 2cpu  on a
          large  begin=1h priority=9 : 1x 4cpu
          small  : 1x 2cpu
        plan
          small  a
          large  BEGIN  @1h
        """,
        Policy(reservations=4),
    )


def test_before_its_begin_no_job_is_evicted_for_a_job() -> None:
    world = begin("""
        nodes
          a  4cpu
        jobs
          low   yields since=2h : 1x 4cpu  on a
          high  begin=1h priority=9 : 1x 4cpu
    """)
    world.expect("high BEGIN @1h")
    world.go("1h")
    world.expect("high a | preempt low")


def shares_of_two_queues() -> dict[str, int]:
    world = begin("""
        queues
          x  fair
          y  fair
        nodes
          a  8cpu
        jobs
          late  x begin=1h : 1x 8cpu
          now   y : 1x 8cpu
    """)
    shares = world.plan(Policy()).shares
    return {path: shares[path].get("cpu", 0) for path in ("x", "y")}


def test_a_job_that_begins_later_takes_nothing_from_the_share_of_another_queue() -> None:
    assert shares_of_two_queues() == {"x": 0, "y": 8000}


def test_what_a_request_explains_is_the_begin_and_not_that_the_job_would_fit_now() -> None:
    world = begin("""
        nodes
          a  4cpu
        jobs
          late  begin=1h : 1x 4cpu
    """)
    view = world.builder.view(world.state)
    why = explain_on_request(view, Policy(), "late", NOW_MS)
    assert why is not None
    assert (why.code, why.start_ms, why.start_from) == ("BEGIN", NOW_MS + HOUR_MS, "its begin")
    assert why.message == "it does not begin before 1970-01-01T11:00:00Z"
    why = explain_on_request(view, Policy(), "late", NOW_MS + HOUR_MS)
    assert why is not None
    assert why.code == "QUEUED"
