"""Any course of commands over arrays, schedules, dependencies, holds and timers leaves a state in which all of them
agree; each thing that is claimed is found missing when the code that sees to it is taken out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

import pytest

from gosched.core.commands.cluster import PassTime, SetQueues
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import Action, CancelJob, ControlJob, DropFinishedJobs, RunSchedule, SubmitJob
from gosched.core.commands.nodes import MarkNodeDead, RemoveNode, ReportTasks, TaskReport
from gosched.core.commands.plans import CommitPlan, GangPlacement
from gosched.core.events import CommandFailed, DeadlineMissed, JobChanged
from gosched.core.features import FeatureLevel
from gosched.core.invariants.check_state import check
from gosched.core.outcome import Accepted
from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.records.queue import Queue
from gosched.core.records.task import TaskState
from gosched.core.spec.array import Array
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.job_spec import Overlap
from gosched.core.spec.policies import GangPolicy, MemberFailure, RetryPolicy
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.restore import restore
from gosched.core.state.tables import TABLES
from gosched.state_machine import (
    MachineBug,
    apply,
    children,
    dependencies,
    follow_ups,
    gangs,
    jobs,
    retention,
    timeouts,
)
from tests.state_machine.cluster import ALL_CAUSES, gang, group, registration, spec

T = TaskState
SEEDS, STEPS = range(12), 400


def submit(r: Random, state: ClusterState, n: int) -> Body:
    tasks = group(count=r.choice((1, 2, 3)), cpus=0, min_count=r.choice((0, 1)))
    failure = r.choice((MemberFailure.RESTART_GANG, MemberFailure.FAIL_JOB, MemberFailure.CONTINUE))
    earlier = r.sample([*state.jobs], min(2, len(state.jobs))) if r.random() < 0.4 else []
    conditions = (Condition.SUCCESS, Condition.FAILURE, Condition.ANY)
    wanted = spec(
        r.choice("abcdef") + r.choice(("", "", ".0", ".1")),
        tasks,
        gang=GangPolicy(min_tasks=tasks.floor, wait_ms=r.choice((0, 0, 30)), on_member_failure=failure),
        retry=RetryPolicy(max_restarts=r.choice((0, 2)), backoff_ms=r.choice((0, 3)), when=ALL_CAUSES),
        after=tuple(Dependency(job=job, condition=r.choice(conditions)) for job in earlier),
        hold=r.random() < 0.1,
        timeout_ms=r.choice((0, 0, 8)),
        deadline_in_ms=r.choice((0, 0, 0, 25)),
    )
    if state.feature_level >= FeatureLevel.BOUNDED:
        wanted = replace(wanted, begin_in_ms=r.choice((0, 0, 0, 12)))
    if r.random() < 0.3:
        last, parallelism, failures = r.randrange(6), r.choice((0, 1, 2)), r.choice((-1, 0, 1))
        wanted = replace(wanted, array=Array(last=last, step=1, parallelism=parallelism, max_failures=failures))
    if r.random() < 0.15:
        wanted = replace(wanted, cron="@daily", timezone="UTC", overlap=r.choice([*Overlap]), begin_in_ms=0)
    return SubmitJob(job_id=f"j{n}", spec=wanted, next_run_at_ms=state.clock_ms + r.randrange(1, 10))


def run_schedule(r: Random, state: ClusterState, n: int) -> Body:
    schedules = [job for job in state.jobs.values() if job.spec.cron and not job.state.is_final]
    if not schedules:
        return PassTime()
    job = r.choice(schedules)
    due = job.children.next_run_at_ms
    return RunSchedule(job_id=job.id, child_id=f"j{n}", due_at_ms=due, next_run_at_ms=due + r.randrange(1, 10))


def plan(r: Random, state: ClusterState, n: int) -> Body:
    chosen = [state.jobs[j] for j in r.sample([*state.pending], min(4, len(state.pending)))]
    return CommitPlan(revision=0, gangs=tuple(_placed(r, state, job) for job in chosen))


def _placed(r: Random, state: ClusterState, job: Job) -> GangPlacement:
    ranks = [task.rank for task in state.tasks_of(job) if task.state is T.PENDING][: r.choice((1, 9, 9))]
    return gang(job, *[r.choice(("n1", "n2")) for _ in ranks], ranks=ranks)


def report(r: Random, state: ClusterState, n: int) -> Body:
    node = r.choice(("n1", "n2"))
    held = [*state.node_allocations.get(node, ())]
    ends = (T.RUNNING, T.SUCCEEDED, T.SUCCEEDED, T.FAILED, T.KILLED)
    reports = [TaskReport(allocation_id=a, state=r.choice(ends)) for a in r.sample(held, min(3, len(held)))]
    return ReportTasks(node_id=node, incarnation="b1", reports=tuple(reports))


def control(r: Random, state: ClusterState, n: int) -> Body:
    return ControlJob(job_id=_live(r, state), action=r.choice([a for a in Action if a is not Action.SCALE]))


def cancel(r: Random, state: ClusterState, n: int) -> Body:
    return CancelJob(job_id=_live(r, state))


def _live(r: Random, state: ClusterState) -> str:
    return r.choice([job.id for job in state.jobs.values() if not job.state.is_final] or ["none"])


def world(r: Random, state: ClusterState, n: int) -> Body:
    node = r.choice(("n1", "n2"))
    bodies = (MarkNodeDead(node_id=node, incarnation="b1"), registration(node), registration(node),
              DropFinishedJobs(keep=r.choice((0, 5, 20)), ended_before_ms=0))  # fmt: skip
    removed = RemoveNode(node_id=node)
    return removed if state.feature_level >= FeatureLevel.BOUNDED and r.random() < 0.1 else r.choice(bodies)


def pass_time(r: Random, state: ClusterState, n: int) -> Body:
    return PassTime()


KINDS: tuple[Callable[[Random, ClusterState, int], Body], ...] = (
    *[submit] * 4, *[plan] * 6, *[report] * 10, *[control] * 3, cancel, *[world] * 3, *[run_schedule] * 2,
    *[pass_time] * 3)  # fmt: skip


def problems(state: ClusterState, body: Body) -> Iterator[str]:
    for job in state.jobs.values():
        if job.state.is_final:
            continue
        if job.started_at_ms and job.started_at_ms < job.begin_ms:
            yield f"{job.id} has started before its begin"
        ended = [w.job for w in job.waits_for if w.job not in state.jobs or state.jobs[w.job].state.is_final]
        if any(other not in state.follow_ups for other in ended):
            yield f"{job.id} waits for a job that has ended"
        if job.spec.is_parent:
            yield from parent_problems(state, job)
    if isinstance(body, PassTime):
        for job in state.jobs.values():
            ran_ms = state.clock_ms - job.placed_at_ms
            runs = job.state is JobState.RUNNING and job.intent is JobIntent.RUN and not job.spec.is_parent
            if runs and 0 < job.spec.timeout_ms <= ran_ms:
                yield f"{job.id} runs beyond its timeout"


def parent_problems(state: ClusterState, job: Job) -> Iterator[str]:
    count = job.children
    live = [child for child in state.jobs.values() if child.parent == job.id and not child.state.is_final]
    if len(live) != count.live or count.made != count.live + count.succeeded + count.failed + count.cancelled:
        yield f"{job.id} counts {count}, {len(live)} live"
    if count.live > children.max_live_children(job.spec, state.feature_level):
        yield f"{job.id} has {count.live} live children"
    may_make = job.state in (JobState.PENDING, JobState.RUNNING) and job.intent is JobIntent.RUN
    if job.spec.cron or job.held or job.waits_for or not may_make:
        return
    if not (count.live or job.not_before_ms or job.id in state.follow_ups):
        yield f"{job.id} is stuck"
    if 0 <= job.spec.array.max_failures < count.failed:
        yield f"{job.id} goes on after {count.failed} failures"


def course(seed: int, seen: Counter[str]) -> None:
    """One course of commands, on a state and on a twin that is restored now and then. Raises AssertionError."""
    r = Random(seed)
    state = ClusterState()
    opening = (SetQueues(queues=(Queue(path="default"),)), registration("n1"), registration("n2"))
    for body in opening:
        apply(state, Command(body=body, at_ms=1))
    twin = restore(state.freeze())
    for n in range(STEPS):
        body = r.choice(KINDS)(r, state, n)
        command = Command(body=body, at_ms=state.clock_ms + r.choice((0, 1, 1, 3)))
        outcome, events = apply(state, command)
        assert (outcome, events) == apply(twin, command), (seed, n)
        assert [*check(state), *problems(state, body)] == [], (seed, n, body)
        if n % 50 == 0:
            assert state.digest() == twin.digest(), (seed, n)
            # Masters compare digests of parts, which are cut by the order of the tables.
            assert all([*table.items(state)] == [*table.items(twin)] for table in TABLES), (seed, n)
            twin = restore(state.freeze())
        seen[f"{type(body).__name__} {isinstance(outcome, Accepted)}"] += 1
        seen["later"] += bool(state.follow_ups)
        for event in events:
            assert not isinstance(event, CommandFailed), (seed, n, event.trace)
            if isinstance(event, JobChanged):
                seen[event.reason or event.after.name] += 1
            elif isinstance(event, DeadlineMissed):
                seen["DEADLINE_MISSED"] += 1


def courses() -> Counter[str]:
    """What was seen, and how often."""
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        course(seed, seen)
    return seen


@pytest.fixture(autouse=True)
def _a_small_cluster(monkeypatch):
    monkeypatch.setattr(children, "MAX_LIVE_JOBS", 80)
    monkeypatch.setattr(children, "LOOK_AGAIN_MS", 20)


@pytest.fixture
def _small_steps(monkeypatch):
    """Nothing is finished by the command that it follows from, and few elements are kept."""
    for name, value in (("STEPS_AT_ONCE", 1), ("STEPS_PER_TICK", 2), ("TURN", 1)):
        monkeypatch.setattr(follow_ups, name, value)
    monkeypatch.setattr(retention, "KEPT_ELEMENTS", 1)
    monkeypatch.setattr(retention, "MAX_FORGOTTEN_AT_ONCE", 3)


@pytest.mark.usefixtures("_small_steps")
def test_the_same_holds_when_what_follows_is_spread_over_many_commands():
    seen = courses()
    assert min(seen[what] for what in ("SUCCEEDED", "SUSPENDED", "DEPENDENCY_FAILED", "ELEMENTS_FAILED", "later")) > 2


def test_any_course_of_commands_leaves_jobs_that_agree_with_each_other():
    seen = courses()
    wanted = ("SUCCEEDED", "SUSPENDED", "REQUEUED", "TIMEOUT", "GANG_WAIT_TIMEOUT", "DEADLINE_MISSED", "REPLACED",
              "DEPENDENCY_FAILED", "ELEMENTS_FAILED", "NODE_LOST", "CANCELLED", "RunSchedule True",
              "RemoveNode True")  # fmt: skip
    assert {what: seen[what] for what in wanted if seen[what] < 3} == {}


def _no_dependent_is_released(monkeypatch):
    monkeypatch.setattr(dependencies, "dependency_ended", lambda *_: None)


def _children_are_not_counted(monkeypatch):
    monkeypatch.setattr(children, "child_ended", lambda *_: None)


def _an_array_never_ends(monkeypatch):
    monkeypatch.setattr(children, "conclude", lambda *_: None)


def _failures_do_not_count(monkeypatch):
    monkeypatch.setattr(children, "_failed", lambda parent: parent)


def _no_child_is_too_many(monkeypatch):
    monkeypatch.setattr(children, "cluster_bound_problem", lambda *_: "")
    monkeypatch.setattr(children, "_child_problem", lambda *_: "")


def _any_gang_goes_on(monkeypatch):
    monkeypatch.setattr(gangs, "_goes_on", lambda *_: True)


def _time_stands_still(monkeypatch):
    monkeypatch.setattr(timeouts, "_due", lambda *_: None)


def _dependencies_are_not_looked_up(monkeypatch):
    monkeypatch.setattr(jobs, "unmet", lambda state, spec, *_: spec.after)


@pytest.mark.parametrize(
    "fault",
    [
        _no_dependent_is_released,
        _children_are_not_counted,
        _an_array_never_ends,
        _failures_do_not_count,
        _no_child_is_too_many,
        _any_gang_goes_on,
        _time_stands_still,
        _dependencies_are_not_looked_up,
    ],
)
def test_the_property_finds_a_seeded_fault(monkeypatch, fault):
    fault(monkeypatch)
    with pytest.raises((AssertionError, MachineBug)):
        courses()
