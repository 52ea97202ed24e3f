"""What tasks used and held is charged to their job and its tenant."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gosched.core.commands.nodes import ReportTasks, TaskReport
from gosched.core.limits import MAX_AMOUNT, MAX_JOB_DEMAND
from gosched.core.records.job import JobState
from gosched.core.records.task import TaskState
from gosched.core.records.usage import NO_USAGE, NOTHING_SPENT, Spent, Usage
from gosched.core.resources import Resources
from gosched.core.spec.array import Array
from tests.state_machine.cluster import Cluster, gang, group, retrying, spec

T = TaskState
USED = Usage(
    cpu_ms=700, throttled_ms=3, memory_bytes=5, memory_peak_bytes=9, read_bytes=1, written_bytes=2, oom_kills=1
)
HELD = Resources(cpu_millis=1000, memory_bytes=(100 << 20) + 7, gpu_millis=2000)
WORKER = replace(group(), resources=HELD)


@pytest.fixture
def c() -> Cluster:
    made = Cluster()
    made.node("n1", gpus=4)
    return made


def start(c: Cluster, wanted=None, job_id: str = "j1") -> int:
    """One task with two GPUs, and when it was placed."""
    c.submit(wanted or spec("train", WORKER), job_id)
    assert c.plan(gang(c.job(job_id), "n1", gpus=((0, 1),))) == ()
    return c.job(job_id).placed_at_ms


def end(c: Cluster, state: TaskState = T.SUCCEEDED, job_id: str = "j1", *, at_ms: int = 0, **more: object) -> None:
    (task,) = c.tasks(job_id)
    seen = TaskReport(allocation_id=task.allocation_id, state=state, exit_code=0, **more)  # type: ignore[arg-type]
    c.accept(ReportTasks(node_id="n1", incarnation="b1", reports=(seen,)), at_ms=at_ms)


def test_an_end_leaves_the_usage_with_the_task_and_charges_job_and_tenant(c):
    placed = start(c)
    begin, over = placed + 1000, placed + 11_500
    end(c, at_ms=placed + 20_000, started_at_ms=begin, ended_at_ms=over, usage=USED)
    spent = Spent(cpu_ms=700, gpu_milli_s=21_000, memory_mib_s=1050)
    assert c.tasks("j1")[0].usage == replace(USED, memory_bytes=0)
    assert (c.job("j1").spent, c.state.tenants["default"].spent) == (spent, spent)


def test_every_start_is_charged_and_the_task_keeps_the_usage_of_the_newest(c):
    for start_number in (1, 2):
        placed = start(c, retrying("train", WORKER)) if start_number == 1 else again(c)
        more = {"started_at_ms": placed, "ended_at_ms": placed + 1000, "usage": USED}
        end(c, T.FAILED, at_ms=placed + 1000, **more)
    assert (c.job("j1").attempt, c.tasks("j1")[0].usage) == (3, NO_USAGE)
    spent = Spent(cpu_ms=1400, gpu_milli_s=4000, memory_mib_s=200)
    assert (c.job("j1").spent, c.state.tenants["default"].spent) == (spent, spent)


def again(c: Cluster) -> int:
    assert c.plan(gang(c.job("j1"), "n1", gpus=((0, 1),))) == ()
    return c.job("j1").placed_at_ms


@pytest.mark.parametrize(
    ("begin", "over", "held_s"),
    [
        (None, 5000, 0),
        (-5000, 5000, 5),
        (1000, 5000, 4),
        (1000, 1 << 60, 9),
        (4000, 1000, 0),
        (1 << 60, 1 << 61, 0),
        (2000, None, 8),
    ],
    ids=[
        "it never started",
        "a clock that is behind: not before it was placed",
        "as reported",
        "a clock that is ahead: not after now",
        "an end before the start",
        "a start to come",
        "no end was reported: now",
    ],
)
def test_a_nodes_clock_charges_nobody_for_more_than_can_be_true(c, begin, over, held_s):
    """Moments after the placement; the report comes 10 s after it."""
    c.state.clock_ms = 100_000
    placed = start(c)
    began, ended = (0 if moment is None else placed + moment for moment in (begin, over))
    end(c, at_ms=placed + 10_000, started_at_ms=began, ended_at_ms=ended)
    assert c.job("j1").spent == Spent(gpu_milli_s=2000 * held_s, memory_mib_s=100 * held_s)


def test_usage_that_cannot_be_is_cut_and_sums_stay_in_64_bits(c):
    mad = Usage(cpu_ms=1 << 62, throttled_ms=-1, memory_peak_bytes=-5, oom_kills=-(1 << 62))
    start(c)
    c.state.put_tenant(replace(c.state.tenants["default"], spent=Spent(cpu_ms=MAX_JOB_DEMAND - 1)))
    end(c, usage=mad)
    assert c.tasks("j1")[0].usage == Usage(cpu_ms=MAX_AMOUNT)
    assert (c.job("j1").spent.cpu_ms, c.state.tenants["default"].spent.cpu_ms) == (MAX_AMOUNT, MAX_JOB_DEMAND)


def test_what_a_live_task_reports_is_not_charged(c):
    start(c)
    end(c, T.RUNNING, started_at_ms=1, usage=USED)
    assert (c.tasks("j1")[0].usage, c.job("j1").spent) == (NO_USAGE, NOTHING_SPENT)


def test_a_lost_task_is_charged_until_its_node_is_known_to_be_dead(c):
    placed = start(c)
    end(c, T.RUNNING, started_at_ms=placed)
    c.state.clock_ms = placed + 2999
    c.die("n1")
    assert c.job("j1").spent == Spent(gpu_milli_s=6000, memory_mib_s=300)


def test_an_array_has_spent_what_its_elements_have_and_the_tenant_pays_once(c):
    c.submit(spec("sweep", WORKER, array=Array(last=1, step=1)), "a")
    for child in ("a.0", "a.1"):
        assert c.plan(gang(c.job(child), "n1", gpus=((0, 1),))) == ()
        end(c, job_id=child, usage=USED)
    assert c.job("a").state is JobState.SUCCEEDED
    assert (c.job("a").spent.cpu_ms, c.state.tenants["default"].spent.cpu_ms) == (1400, 1400)
