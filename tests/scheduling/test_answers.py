"""Why a job waits, from when on it might run, what would start it, and what a job would do if it were submitted."""

from __future__ import annotations

import pytest

from gosched.core.commands.cluster import SetQueues
from gosched.scheduling import Policy
from gosched.scheduling.explain.explanation import Explanation
from gosched.scheduling.queries.explain_on_request import explain_on_request
from gosched.scheduling.queries.what_if import WhatIfPlan, what_if
from tests.scheduling.support import notation, tables
from tests.scheduling.support.notation import moment
from tests.scheduling.support.tables import World, begin

RACKS = Policy(topology=("zone", "rack"))


def why(world: World, job_id: str, policy: Policy = RACKS) -> Explanation:
    found = explain_on_request(world.builder.view(world.state), policy, job_id, world.state.clock_ms, tables.SEED)
    assert found is not None
    return found


def test_a_job_is_told_when_it_would_start_and_who_holds_its_place_until_then() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          one    timeout=1h since=10m : 1x 3cpu  on a
          two    estimate=1h since=20m : 1x 1cpu  on a
          three  since=10m : 1x 4cpu  on b
          late   : 1x 4cpu
    """)
    told = why(world, "late")
    assert moment(told.start_ms) == "50m"
    assert told.start_from.startswith("estimated")
    assert [(h.job_id, moment(h.until_ms), h.held) for h in told.holders] == [
        ("two", "40m", (("cpu", 1000),)),
        ("one", "50m", (("cpu", 3000),)),
    ]


def test_a_job_with_a_reserved_start_is_told_that_one() -> None:
    world = begin("""
        nodes
          a  4cpu
        jobs
          one   timeout=1h since=10m : 1x 4cpu  on a
          late  timeout=5m : 1x 4cpu
    """)
    world.expect("late INSUFFICIENT @50m a")
    told = why(world, "late")
    assert (moment(told.start_ms), told.start_from) == ("50m", "reserved")


def test_where_nobody_knows_an_end_no_start_is_told() -> None:
    world = begin("""
        nodes
          a  4cpu
        jobs
          one   since=10m : 1x 4cpu  on a
          late  : 1x 4cpu
    """)
    assert why(world, "late").start_ms == 0


def test_an_elastic_job_that_wants_more_tasks_is_not_told_that_it_holds_itself_up() -> None:
    world = begin("""
        nodes
          a  4cpu
        jobs
          other  : 1x 2cpu  on a
          grows  : 1..4x 2cpu  on a
    """)
    assert [holder.job_id for holder in why(world, "grows").holders] == ["other"]


@pytest.mark.parametrize(
    ("job", "change", "changed"),
    [
        ("4x 2cpu in:rack", "if its topology were preferred instead of required", "4x 2cpu near:rack"),
        ("1x 1cpu disk=ssd", "without its node_selector", "1x 1cpu"),
        ("1x 1gpu:h100", "with GPUs of any model", "1x 1gpu"),
        ("9x 1cpu", "with 8 of its 9 tasks", "8x 1cpu"),
        ("1x 5cpu", "", ""),
    ],
)
def test_the_smallest_change_is_one_with_which_the_job_starts(job: str, change: str, changed: str) -> None:
    world = begin(f"""
        nodes
          a  4cpu 1gpu:a100 zone=z rack=r1
          b  4cpu zone=z rack=r2
        jobs
          j  {job}
    """)
    told = why(world, "j")
    assert told.change == (f"it would start now {change}" if change else "")
    assert [gang.job_id for gang in world.plan(RACKS).gangs] == []
    if changed:
        world.submit(["other", ":", *changed.split()])
        assert [gang.job_id for gang in world.plan(RACKS).gangs] == ["other"]


def test_a_shorter_limit_that_would_let_the_job_start_before_a_promise_is_told() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          run  timeout=1h since=10m : 1x 4cpu  on a
          big  : 2x 4cpu
          job  : 1x 4cpu
    """)
    world.expect("big INSUFFICIENT @50m a b\njob RESERVED", Policy(reservations=1))
    told = why(world, "job")
    assert (told.code, told.change) == ("RESERVED", "it would start now with a timeout of at most 50m")
    world.submit(["other", "timeout=3000s", ":", "1x", "4cpu"])
    assert [gang.job_id for gang in world.plan(Policy(reservations=1)).gangs] == ["other"]


def test_a_higher_priority_that_would_start_the_job_is_told_with_whom_it_would_replace() -> None:
    world = begin("""
        nodes
          a  4cpu
        jobs
          low  yields priority=3 since=10m : 1x 4cpu  on a
          job  : 1x 4cpu
    """)
    assert why(world, "job").change == "it would start with priority 4, evicting low"
    world.submit(["other", "priority=4", ":", "1x", "4cpu"])
    world.expect("other a | preempt low\njob INSUFFICIENT")


@pytest.mark.parametrize(("tasks", "code"), [("1x 5cpu", "NODE_TOO_SMALL"), ("5x 1cpu", "INSUFFICIENT")])
def test_no_job_is_named_where_none_is_in_the_way(tasks: str, code: str) -> None:
    world = begin(f"""
        nodes
          a  4cpu
        jobs
          one  timeout=1h since=10m : 1x 3cpu  on a
          big  : {tasks}
    """)
    told = why(world, "big")
    assert (told.code, told.holders, told.start_ms) == (code, (), 0)


def test_the_limit_that_holds_a_job_is_told_whatever_room_there_is() -> None:
    world = begin("""
        queues
          q  fifo limit cpu=2
        nodes
          a  4cpu
        jobs
          job  : 1x 3cpu
    """)
    assert why(world, "job").limit == "queue q: the job needs 3 CPUs, its limit is 2: waiting does not help"
    world.do(SetQueues(queues=(notation.queue(["q", "fifo"]),)))
    assert "it fits now" in why(world, "job").message


def asked(world: World, *jobs: str, policy: Policy | None = None) -> WhatIfPlan:
    before = world.state.digest()
    specs = [notation.job(words.split()) for words in jobs]
    answer = what_if(world.builder.view(world.state), policy or Policy(), specs, world.state.clock_ms, tables.SEED)
    assert world.state.digest() == before
    return answer


BUSY = """
        nodes
          a  4cpu
          b  4cpu
        jobs
          run  yields timeout=1h since=10m : 1x 4cpu  on a
          big  never timeout=1h : 2x 4cpu
"""


def test_a_job_that_is_not_submitted_yet_is_told_what_it_would_do_and_nothing_is_changed() -> None:
    world = begin(BUSY)
    world.expect("big INSUFFICIENT @50m a b")
    (starts,) = asked(world, "x timeout=50m : 1x 4cpu").jobs
    assert starts.placement is not None
    assert (starts.outcome, [task.node_id for task in starts.placement.tasks]) == ("starts", ["b"])
    (waits,) = asked(world, "x priority=9 timeout=1h : 2x 4cpu").jobs
    assert (waits.outcome, moment(waits.start_ms)) == ("waits", "110m")


def test_victims_of_a_job_that_is_not_submitted_yet_are_told() -> None:
    world = begin("""
        nodes
          a  4cpu
        jobs
          run  yields timeout=1h since=10m : 1x 4cpu  on a
    """)
    (job,) = asked(world, "x priority=9 : 1x 4cpu").jobs
    assert job.outcome == "starts_after_evictions"
    assert job.placement is not None
    assert [eviction.job_id for eviction in job.placement.evictions] == ["run"]


def test_what_others_would_lose_is_told() -> None:
    """big waits for a, and keeps b; x, which may evict it once it runs, takes b."""
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          run  stays timeout=1h since=10m : 1x 4cpu  on a
          big  yields timeout=1h : 2x 4cpu
    """)
    world.expect("big INSUFFICIENT @50m a b")
    ((job_id, before, after),) = asked(world, "x priority=9 timeout=2h : 1x 4cpu").moved
    assert (job_id, moment(before), moment(after)) == ("big", "50m", "2h")
    assert asked(world, "x timeout=2h : 1x 4cpu").moved == ()


def test_jobs_that_are_asked_about_together_share_the_room() -> None:
    world = begin("nodes\n  a  4cpu")
    answer = asked(world, "x : 1x 3cpu", "y : 1x 3cpu", "z : 1x 1cpu")
    assert [job.outcome for job in answer.jobs] == ["starts", "waits", "starts"]
