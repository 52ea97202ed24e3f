"""Desired against observed, state by state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gosched.core.commands.cluster import SetQueues
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import CancelJob, SubmitJob
from gosched.core.commands.nodes import RegisterNode, ReportTasks, TaskReport
from gosched.core.commands.plans import CommitPlan, GangPlacement
from gosched.core.outcome import Accepted
from gosched.core.reasons import Reason
from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.job import JobIntent
from gosched.core.records.queue import Queue
from gosched.core.records.task import TaskState as T
from gosched.core.records.usage import NO_USAGE, Usage
from gosched.core.resources import Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy, Preemption
from gosched.core.spec.task_group import Framework, TaskGroup
from gosched.core.state.cluster_state import ClusterState
from gosched.master.agents.orders import Orders
from gosched.master.agents.reconcile import compare
from gosched.state_machine import apply

A = "j/g/0.1"


def cluster(state: T, framework: Framework = Framework.NONE) -> ClusterState:
    """A job of two tasks on two nodes, its first one in `state`."""
    group = TaskGroup(
        name="g",
        count=2,
        command=("x",),
        resources=Resources(gpu_millis=2000),
        env=(("OWN", "kept"),),
        framework=framework,
    )
    spec = JobSpec(name="n", queue="default", gang=GangPolicy(min_tasks=2), groups=(group,))
    made = ClusterState()
    tasks = (TaskPlacement(rank=0, node_id="a", gpus=(1, 3)), TaskPlacement(rank=1, node_id="b", gpus=(0, 1)))
    commands: list[Body] = [
        SetQueues(queues=(Queue(path="default"),)),
        *(
            RegisterNode(node_id=n, name=n, address=f"host-{n}:7", incarnation="i", capacity=Resources(gpu_millis=4000))
            for n in "ab"
        ),
        SubmitJob(job_id="j", spec=spec),
        CommitPlan(revision=0, gangs=(GangPlacement(job_id="j", attempt=1, tasks=tasks),)),
    ]
    if state in (T.STARTING, T.RUNNING):
        report = TaskReport(allocation_id=A, state=state)
        commands.append(ReportTasks(node_id="a", incarnation="i", reports=(report,)))
    if state is T.STOPPING:
        commands.append(CancelJob(job_id="j"))
    for body in commands:
        assert isinstance(apply(made, Command(body=body))[0], Accepted)
    assert made.tasks["j/g/0"].state is state
    return made


def seen(state: T) -> TaskReport:
    return TaskReport(allocation_id=A, state=state)


def test_only_a_placed_task_that_was_not_seen_is_started() -> None:
    assert compare(cluster(T.PLACED), "a", []).start == [A]
    for state in (T.STARTING, T.RUNNING, T.STOPPING):
        assert not compare(cluster(state), "a", [], [A]).start
    for observed in (T.STARTING, T.RUNNING, T.STOPPING, T.SUCCEEDED, T.FAILED, T.KILLED):
        assert not compare(cluster(T.PLACED), "a", [seen(observed)]).start


@pytest.mark.parametrize("state", [T.STARTING, T.RUNNING])
def test_a_task_is_lost_only_when_two_heartbeats_in_a_row_do_not_name_it(state: T) -> None:
    first = compare(cluster(state), "a", [])
    assert (first.missing, first.reports) == ([A], [])
    second = compare(cluster(state), "a", [], first.missing)
    assert [r.state for r in second.reports] == [T.LOST]


@pytest.mark.parametrize(
    ("state", "observed", "news"),
    [
        (T.PLACED, T.STARTING, True),
        (T.PLACED, T.RUNNING, True),
        (T.STARTING, T.STARTING, False),
        (T.RUNNING, T.STARTING, False),
        (T.RUNNING, T.RUNNING, False),
        (T.RUNNING, T.STOPPING, False),
        (T.RUNNING, T.FAILED, True),
        (T.STOPPING, T.RUNNING, False),
        (T.STOPPING, T.KILLED, True),
    ],
)
def test_only_news_is_reported(state: T, observed: T, news: bool) -> None:
    assert bool(compare(cluster(state), "a", [seen(observed)]).reports) is news


def test_a_task_to_be_stopped_is_told_so_until_the_agent_stops_it() -> None:
    assert compare(cluster(T.STOPPING), "a", [seen(T.RUNNING)]).stop == [A]
    assert compare(cluster(T.STOPPING), "a", []).stop == [A]
    assert compare(cluster(T.STOPPING), "a", [seen(T.STOPPING)]).stop == []


@pytest.mark.parametrize("state", [T.STARTING, T.RUNNING, T.STOPPING])
def test_a_checkpoint_is_news_once_and_for_its_whole_job(state: T) -> None:
    made = cluster(state)
    saved = replace(seen(state), checkpoint_at_ms=50_000)
    assert compare(made, "a", [saved]).reports == [saved]
    made.put_job(replace(made.jobs["j"], checkpoint_at_ms=50_000))
    assert compare(made, "a", [saved]).reports == []
    assert compare(made, "a", [replace(saved, checkpoint_at_ms=50_999)]).reports == [], "at most one a second"
    assert len(compare(made, "a", [replace(saved, checkpoint_at_ms=51_000)]).reports) == 1


def test_a_task_that_saves_itself_is_told_when_nobody_needs_it_any_more() -> None:
    made = cluster(T.STOPPING)
    saving = replace(seen(T.STOPPING), reason=Reason.SAVING)
    assert compare(made, "a", [saving]).stop == [A], "the job is cancelled"
    preemption = Preemption(checkpoint_signal=10, grace_ms=1000)
    spec = replace(made.jobs["j"].spec, preemption=preemption)
    made.put_job(replace(made.jobs["j"], spec=spec, intent=JobIntent.RESTART))
    assert compare(made, "a", [saving]).stop == []


@pytest.mark.parametrize("state", [T.STARTING, T.RUNNING])
def test_a_task_is_frozen_or_thawed_until_it_is_seen_as_its_job_should_be(state: T) -> None:
    made = cluster(state)
    thaw = compare(made, "a", [replace(seen(state), frozen=True)])
    assert (thaw.freeze, thaw.thaw) == ([], [A])
    made.put_job(replace(made.jobs["j"], frozen=True))
    freeze = compare(made, "a", [seen(state)])
    assert (freeze.freeze, freeze.thaw) == ([A], [])
    settled = compare(made, "a", [replace(seen(state), frozen=True)])
    assert (settled.freeze, settled.thaw, settled.reports) == ([], [], [])


def test_a_task_that_stops_is_neither_frozen_nor_thawed() -> None:
    frozen = cluster(T.RUNNING)
    frozen.put_job(replace(frozen.jobs["j"], frozen=True))
    for made, observed in ((cluster(T.STOPPING), T.RUNNING), (cluster(T.STOPPING), T.STOPPING), (frozen, T.STOPPING)):
        for still in (True, False):
            verdict = compare(made, "a", [replace(seen(observed), frozen=still)])
            assert (verdict.freeze, verdict.thaw) == ([], [])


def test_usage_gets_into_the_log_with_the_end_of_a_task_and_not_before() -> None:
    used = Usage(cpu_ms=7, memory_bytes=1)
    (started,) = compare(cluster(T.PLACED), "a", [replace(seen(T.RUNNING), usage=used, frozen=True)]).reports
    assert (started.usage, started.frozen) == (NO_USAGE, False)
    (ended,) = compare(cluster(T.RUNNING), "a", [replace(seen(T.FAILED), usage=used, blames_node=True)]).reports
    assert (ended.usage, ended.blames_node) == (used, True)


def test_what_belongs_to_another_node_is_a_leftover_or_forgotten() -> None:
    assert compare(cluster(T.RUNNING), "b", [seen(T.RUNNING)]).leftovers == [A]
    assert compare(cluster(T.RUNNING), "b", [seen(T.SUCCEEDED)]).forget == [A]


def test_an_order_is_whole_and_the_same_from_every_leader() -> None:
    state = cluster(T.PLACED, Framework.TORCH)
    order = Orders().start(state, state.allocations[A])
    assert order == Orders().start(state, state.allocations[A])
    env = dict(order.env)
    assert env["OWN"] == "kept"
    assert env["GOSCHED_NODE"] == "a"
    assert env["GOSCHED_HOSTS"] == "host-a,host-b"
    assert env["CUDA_VISIBLE_DEVICES"] == "1,3"
    assert list(order.gpus) == [1, 3]
    assert env["TRACEPARENT"].count("-") == 3
    assert (env["RANK"], env["LOCAL_RANK"], env["WORLD_SIZE"], env["MASTER_ADDR"]) == ("0", "0", "2", "host-a")
    assert env["MASTER_PORT"] == env["GOSCHED_PORT"] == str(state.jobs["j"].port)
    assert (order.port, Orders().start(state, state.allocations["j/g/1.1"]).port) == (state.jobs["j"].port, 0)
    assert (env["PET_NNODES"], env["PET_NPROC_PER_NODE"]) == ("2", "2")
    other = dict(Orders().start(state, state.allocations["j/g/1.1"]).env)
    assert (other["RANK"], other["MASTER_PORT"]) == ("1", env["MASTER_PORT"])
