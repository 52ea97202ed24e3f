"""Windows that people made: maintenance, and nodes kept for some."""

from __future__ import annotations

import pytest

from gosched.core.records.job import JobState
from tests.scheduling.support.tables import begin, check


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ("timeout=30m", "job a"),
        ("timeout=31m", "job RESERVED @1h a"),
        ("", "job RESERVED @1h a"),
        ("yields", "job RESERVED @1h a"),
        ("yields cheap", "job a until=30m"),
        ("stays", "job RESERVED @1h a"),
    ],
    ids=[
        "it ends before",
        "it would not end before",
        "it has no limit",
        "it yields",
        "it yields cheaply",
        "it would not yield",
    ],
)
def test_what_may_start_before_a_window_begins(job: str, expected: str) -> None:
    check(f"""
        nodes
          a  4cpu
        jobs
          job  {job} : 1x 4cpu
        windows
          fix  a from=30m to=1h
        plan
          {expected}
    """)


def test_while_a_window_is_open_nobody_starts_on_its_nodes_and_the_others_are_used() -> None:
    check("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          one  timeout=1m : 1x 4cpu
          two  timeout=1m : 1x 4cpu
        windows
          fix  a from=0s
        plan
          one  b
          two  RESERVED  @1m b
    """)


def test_a_window_that_has_ended_or_whose_nodes_a_job_does_not_want_is_nothing_to_it() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu role=b
        jobs
          one  : 1x 4cpu role=b
          two  : 1x 4cpu
        windows
          fix  a from=0s to=10m
    """)
    world.expect("one b\ntwo RESERVED @10m a")
    world.go("10m")
    world.expect("two a")


@pytest.mark.parametrize(
    ("users", "inside", "outside"), [("for=x", "x1", "t1"), ("tenant=t", "t1", "x1")], ids=["queue", "tenant"]
)
def test_its_users_start_in_a_window_and_others_do_not(users: str, inside: str, outside: str) -> None:
    check(f"""
        queues
          x    fair
          x.u  fair
          y    fair
        nodes
          a  9cpu
        jobs
          x1  x.u : 1x 1cpu
          t1  y tenant=t : 1x 1cpu
          y1  y : 1x 1cpu
        windows
          own  a from=0s {users}
        plan
          {inside}   a
          {outside}  RESERVED
          y1  RESERVED
    """)


def test_who_stands_in_a_window_that_begins_is_evicted_in_time_to_save_himself() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          run    yields grace=5m since=10m : 1x 4cpu  on a
          other  yields grace=5m since=10m : 1x 4cpu  on b
        windows
          fix  a from=30m to=1h
    """)
    plan = world.expect("")
    assert plan.wake_at_ms == world.state.clock_ms + 25 * 60_000
    world.go("24m")
    world.expect("")
    world.go("25m")
    world.expect("- | window run")
    world.stop()
    assert world.state.jobs["run"].state is JobState.PENDING
    world.expect("run RESERVED @1h a")
    world.go("1h")
    world.expect("run a")


@pytest.mark.parametrize(
    "job", ["timeout=40m since=10m", "stays since=10m", "since=10m"], ids=["it ends before", "it stays", "no restart"]
)
def test_who_ends_before_a_window_or_cannot_be_evicted_is_left_alone(job: str) -> None:
    world = begin(f"""
        nodes
          a  4cpu
        jobs
          run  {job} : 1x 4cpu  on a
        windows
          fix  a from=30m
    """)
    world.go("29m")
    world.expect("")


def test_no_min_runtime_protects_from_a_window_that_was_known() -> None:
    check("""
        nodes
          a  4cpu
        jobs
          run  yields min_runtime=9h since=10m : 1x 4cpu  on a
        windows
          fix  a from=0s
        plan
          -  | window run
    """)


def test_users_of_a_window_stay_in_it() -> None:
    check("""
        queues
          x  fair
          y  fair
        nodes
          a  4cpu
        jobs
          x1  x yields since=10m : 1x 2cpu  on a
          y1  y yields since=10m : 1x 2cpu  on a
        windows
          own  a from=0s for=x
        plan
          -  | window y1
    """)


def test_nobody_is_evicted_for_a_gang_on_nodes_that_a_window_closes_to_it() -> None:
    check("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          one   stays since=1m : 1x 4cpu  on a
          two   yields since=1h : 1x 4cpu  on b
          high  priority=9 : 1x 4cpu
        windows
          fix  b from=30m
        plan
          high  INSUFFICIENT
    """)


def test_a_reserved_start_runs_into_no_window() -> None:
    check("""
        nodes
          a  4cpu
        jobs
          run    timeout=20m since=10m : 1x 4cpu  on a
          short  timeout=20m : 1x 4cpu
          long   timeout=30m : 1x 4cpu
        windows
          fix  a from=30m to=1h
        plan
          short  INSUFFICIENT  @10m a
          long   INSUFFICIENT  @1h a
    """)


def test_two_windows_that_overlap_both_hold() -> None:
    check("""
        nodes
          a  4cpu
        jobs
          job  timeout=5m : 1x 4cpu
        windows
          one  a from=0s to=20m
          two  a from=10m to=30m
        plan
          job  RESERVED  @30m a
    """)
