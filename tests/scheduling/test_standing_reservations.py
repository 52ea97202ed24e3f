"""Nodes that are kept for a gang which has waited long, where nothing tells when it could start."""

from __future__ import annotations

import pytest

from gosched.scheduling import Policy
from tests.scheduling.support.tables import begin, check
from tests.sim_cluster.support import by_name, job, nodes, simulated

AT_ONCE = Policy(max_wait_ms=0)
NODES = """
        nodes
          a  4cpu
          b  4cpu
          c  4cpu
"""


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ("", "job RESERVED"),
        ("timeout=20m", "job b"),
        ("timeout=21m", "job RESERVED"),
        ("yields cheap", "job RESERVED"),
    ],
    ids=["it tells no end", "it ends before", "it ends later", "nobody would evict it for a guess"],
)
def test_what_may_start_on_nodes_that_are_kept(job: str, expected: str) -> None:
    """`run` has run for 20 minutes: that it does so again is the guess."""
    kept = "big INSUFFICIENT @20m a b"
    check(
        f"""
        nodes
          a  4cpu
          b  4cpu
        jobs
          run  since=20m : 1x 4cpu  on a
          big  : 2x 4cpu
          job  {job} : 1x 4cpu
        plan
          {expected if "RESERVED" not in expected else kept}
          {kept if "RESERVED" not in expected else expected}
        """,
        AT_ONCE,
    )


def test_a_job_of_higher_priority_starts_on_nodes_that_are_kept() -> None:
    world = begin(f"""{NODES}
        jobs
          run  since=20m : 1x 4cpu  on a
          big  : 3x 4cpu
    """)
    world.expect("big INSUFFICIENT @20m a b c", AT_ONCE)
    world.submit(["small", ":", "1x", "4cpu"])
    world.submit(["high", "priority=9", ":", "1x", "4cpu"])
    world.expect("high b\nbig INSUFFICIENT @20m a b c\nsmall RESERVED", AT_ONCE)


def test_no_nodes_are_kept_before_its_time() -> None:
    """Jobs that wait here came ten hours ago."""
    text = f"""{NODES}
        jobs
          run  since=20m : 1x 4cpu  on a
          big  : 3x 4cpu
          job  : 1x 4cpu
    """
    patient = Policy(max_wait_ms=11 * 3_600_000)
    plan = begin(text).expect("job b\nbig INSUFFICIENT", patient)
    assert plan.wake_at_ms - plan.planned_at_ms == pytest.approx(3_600_000, abs=1000)
    begin(text).expect("big INSUFFICIENT @20m a b c\njob RESERVED", Policy(max_wait_ms=9 * 3_600_000))


def test_a_start_that_is_in_sight_is_reserved_as_ever() -> None:
    world = begin(f"""{NODES}
        jobs
          run  timeout=1h since=20m : 1x 4cpu  on a
          big  : 3x 4cpu
    """)
    plan = world.expect("big INSUFFICIENT @40m a b c", AT_ONCE)
    assert not plan.reservations[0].standing


def test_the_nodes_stay_the_same_while_the_guess_is_put_off() -> None:
    world = begin(f"""{NODES}
        jobs
          old  since=40m : 1x 4cpu  on a
          new  since=20m : 1x 4cpu  on b
          run  since=30m : 1x 4cpu  on c
          big  : 2x 4cpu
    """)
    world.expect("big INSUFFICIENT @30m b c", AT_ONCE)
    world.go("10m")
    world.expect("big INSUFFICIENT @30m b c", AT_ONCE)
    world.go("30m")  # b and c have run 50 and 60 minutes, and a 70: it is no better
    world.expect("big INSUFFICIENT @90m b c", AT_ONCE)
    world.end("new")
    world.expect("big INSUFFICIENT @90m b c", AT_ONCE)
    world.end("run")
    world.expect("big b c", AT_ONCE)


def test_other_nodes_are_taken_when_one_is_lost() -> None:
    world = begin(f"""{NODES}
        jobs
          run   since=20m : 1x 4cpu  on a
          more  since=30m : 1x 4cpu  on c
          big  : 2x 4cpu
    """)
    world.expect("big INSUFFICIENT @20m a b", AT_ONCE)
    world.kill("b")
    world.expect("big INSUFFICIENT @30m a c", AT_ONCE)


def test_the_gang_starts_elsewhere_if_it_fits_there_first() -> None:
    world = begin(f"""{NODES}
        jobs
          one  since=10m : 1x 4cpu  on a
          two  since=20m : 1x 4cpu  on b
          run  since=30m : 1x 4cpu  on c
          big  : 1x 4cpu
    """)
    world.expect("big INSUFFICIENT @10m a", AT_ONCE)
    world.end("run")
    world.expect("big c", AT_ONCE)
    world.submit(["next", ":", "1x", "4cpu"])
    world.end("one")
    world.expect("next a", AT_ONCE)


def test_one_gang_at_a_time_has_nodes_kept_for_it() -> None:
    check(
        """
        nodes
          a  4cpu
          b  4cpu
          c  4cpu
          d  4cpu
        jobs
          r1  since=1m : 1x 4cpu  on a
          r2  since=2m : 1x 4cpu  on b
          r3  since=3m : 1x 4cpu  on c
          r4  since=4m : 1x 4cpu  on d
          x   : 2x 4cpu
          y   : 2x 4cpu
          z   : 2x 4cpu
        plan
          x  INSUFFICIENT @2m a b
          y  INSUFFICIENT
          z  INSUFFICIENT
        """,
        AT_ONCE,
    )


@pytest.mark.parametrize(("patience_s", "by_s"), [(0, 220), (1800, 2000)])
def test_a_wide_gang_starts_though_nobody_states_a_duration(patience_s: int, by_s: int) -> None:
    """Four long jobs hold four nodes, a gang wants all of them, and 200 small jobs come after it."""
    jobs = [job(0, 100 + 40 * i, cpus=4, name=f"f{i}") for i in range(4)]
    jobs.append(job(5, 300, tasks=4, cpus=4, name="wide"))
    jobs += [job(6 + 5 * i, 120, cpus=2, name=f"s{i}") for i in range(200)]
    records = by_name(simulated(jobs, nodes(4), policy=Policy(max_wait_ms=patience_s * 1000)))
    assert records["wide"].start_ms is not None
    assert records["wide"].start_ms <= by_s * 1000


def test_a_start_that_comes_in_sight_is_reserved_in_its_place() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          run  since=9h : 1x 4cpu  on a
          old  timeout=1h since=50m : 1x 4cpu  on b
          big  : 2x 4cpu
    """)
    world.expect("big INSUFFICIENT @9h a b", AT_ONCE)
    world.end("run")
    world.submit(["next", "timeout=1h", ":", "1x", "4cpu"])
    plan = world.expect("big INSUFFICIENT @10m a b\nnext RESERVED", AT_ONCE)
    assert [made.standing for made in plan.reservations if made.job_id == "big"] == [False]


def test_a_queue_takes_back_its_guarantee_on_nodes_that_are_kept() -> None:
    world = begin("""
        queues
          a  capacity
          g  capacity guaranteed cpu=8
        nodes
          n  4cpu
          o  4cpu
        jobs
          r1   a yields since=9h : 1x 4cpu  on n
          r2   a yields since=9h : 1x 4cpu  on o
          big  a never : 2x 4cpu
    """)
    world.expect("big INSUFFICIENT @9h n o", AT_ONCE)
    world.submit(["g1", "g", ":", "1x", "4cpu"])
    world.expect("g1 n | reclaim r1\nbig INSUFFICIENT @9h n o", AT_ONCE)


def test_no_nodes_are_kept_for_what_seems_to_run_for_ever() -> None:
    world = begin("""
        nodes
          a  4cpu
        jobs
          service  since=9h : 1x 1cpu  on a
          big      : 1x 4cpu
    """)
    world.expect("big INSUFFICIENT @9h a", AT_ONCE)
    world.go("10h")
    world.expect("big INSUFFICIENT @29h a", AT_ONCE)
    world.go("30h")
    world.expect("big INSUFFICIENT", AT_ONCE)
    world.submit(["small", ":", "1x", "3cpu"])
    world.expect("small a\nbig INSUFFICIENT", AT_ONCE)


def test_a_gang_that_was_evicted_waits_from_then_on() -> None:
    world = begin("""
        nodes
          a  4cpu
        jobs
          low   yields since=9h : 1x 4cpu  on a
          high  priority=9 : 1x 4cpu
    """)
    patient = Policy(max_wait_ms=1_800_000)
    world.expect("high a | preempt low", patient)
    world.stop()
    world.go("1m")
    world.expect("low INSUFFICIENT", patient)
    world.go("32m")
    world.expect("low INSUFFICIENT @64m a", patient)
