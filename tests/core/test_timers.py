"""When something is due for a job, and in which order it comes up."""

from dataclasses import replace
from random import Random

import pytest

from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.records.node import Node
from gosched.core.resources import ZERO
from gosched.core.spec.array import Array
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.core.state.timers import TimerKind, Timers, TimerSubject, due_ms

GROUPS = (TaskGroup(name="worker", count=1),)


def job(job_id: str = "j1", *, spec: dict[str, object] | None = None, **more: object) -> Job:
    given = {"gang": GangPolicy(min_tasks=1), **(spec or {})}
    made = JobSpec(name="train", queue="default", groups=GROUPS, **given)  # type: ignore[arg-type]
    return Job(**{"id": job_id, "spec": made, "sequence": 1, "submitted_at_ms": 1000, **more})  # type: ignore[arg-type]


def of_job(job_id: str) -> TimerSubject:
    return TimerSubject(TimerKind.JOB, job_id)


PATIENT = {"gang": GangPolicy(min_tasks=1, wait_ms=50)}
RUNNING = {"state": JobState.RUNNING, "placed_at_ms": 2000, "started_at_ms": 2000}


@pytest.mark.parametrize(
    ("wanted", "spec", "fields"),
    [
        (0, {}, {}),
        (2300, {"timeout_ms": 300}, RUNNING),
        (0, {"timeout_ms": 300}, {}),
        (0, {"timeout_ms": 300}, {**RUNNING, "intent": JobIntent.RESTART}),
        (0, {"timeout_ms": 300}, {**RUNNING, "state": JobState.SUCCEEDED}),
        (0, {"timeout_ms": 300, "array": Array(last=1, step=1)}, RUNNING),
        (1050, PATIENT, {}),
        (1250, PATIENT, {"not_before_ms": 1200}),
        (0, PATIENT, {"held": True}),
        (0, PATIENT, {"waits_for": (Dependency(job="j0", condition=Condition.ANY),)}),
        (0, PATIENT, {"started_at_ms": 1001}),
        (0, PATIENT, {"state": JobState.SUSPENDED}),
        (1400, {"deadline_in_ms": 400}, {}),
        (7, {"deadline_at_ms": 7}, RUNNING),
        (2300, {"deadline_in_ms": 4000, "timeout_ms": 300}, RUNNING),
        (0, {"deadline_in_ms": 400}, {"deadline_missed": True}),
        (0, {"deadline_in_ms": 400}, {"state": JobState.FAILED}),
        (0, {"deadline_in_ms": 400, "cron": "* * * * *"}, {}),
        (1400, {"deadline_in_ms": 400, "array": Array(last=1, step=1)}, {}),
        (6000, {"array": Array(last=1, step=1)}, {"not_before_ms": 6000}),
        (0, {}, {"not_before_ms": 6000}),
    ],
)
def test_what_is_due_first(wanted, spec, fields):
    assert due_ms(job(spec=spec, **fields)) == wanted


def test_jobs_come_up_by_moment_then_by_id_and_not_before_it():
    timers = Timers()
    for job_id, moment in (("c", 5), ("b", 9), ("a", 9), ("d", 0)):
        timers.put_job(job(job_id, spec={"deadline_at_ms": moment}))
    assert timers.next_ms() == 5
    assert timers.pop_due(4) is None
    assert [timers.pop_due(9) for _ in range(4)] == [of_job("c"), of_job("a"), of_job("b"), None]
    assert timers.next_ms() == 0


def test_the_last_put_counts_and_a_dropped_job_never_comes_up():
    timers = Timers()
    one = job(spec={"deadline_at_ms": 5})
    timers.put_job(one)
    timers.put_job(job(spec={"deadline_at_ms": 9}))
    timers.put_job(job("j2", spec={"deadline_at_ms": 3}))
    timers.drop_job("j2")
    assert (timers.next_ms(), timers.pop_due(8)) == (9, None)
    timers.put_job(replace(one, deadline_missed=True))
    assert (timers.next_ms(), timers.pop_due(99)) == (0, None)
    timers.put_job(one)
    assert timers.pop_due(5) == of_job("j1")


def test_nodes_come_up_when_their_drain_is_over_and_are_nobody_elses_namesakes():
    timers = Timers()
    node = Node(
        id="x",
        name="x",
        address="a",
        capacity=ZERO,
        incarnation="i",
        registered_at_ms=1,
        changed_at_ms=1,
        drain_by_ms=5,
    )
    timers.put_node(node)
    timers.put_job(job("x", spec={"deadline_at_ms": 5}))
    assert (timers.next_ms(), timers.pop_due(4)) == (5, None)
    assert [timers.pop_due(5) for _ in range(3)] == [of_job("x"), TimerSubject(TimerKind.NODE, "x"), None]
    timers.put_node(node)
    timers.put_node(replace(node, drain_by_ms=0))
    assert timers.next_ms() == 0


def test_any_puts_and_drops_leave_what_a_plain_search_finds():
    r = Random(4)
    timers, due = Timers(), {}
    for _ in range(3000):
        job_id, moment = f"j{r.randrange(40)}", r.randrange(1, 500)
        if r.random() < 0.3:
            timers.drop_job(job_id)
            due.pop(job_id, None)
        else:
            timers.put_job(job(job_id, spec={"deadline_at_ms": moment}))
            due[job_id] = moment
        assert timers.next_ms() == min(due.values(), default=0)
        if r.random() < 0.2:
            first = min(due, key=lambda j: (due[j], j), default=None)
            expected = first if first is not None and due[first] <= 250 else None
            assert timers.pop_due(250) == (of_job(expected) if expected else None)
            due.pop(expected, None)
    assert len(timers._heap) <= 2 * len(timers._due) + 64
