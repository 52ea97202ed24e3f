"""The running counts against a recount, along a story with every kind of change."""

from __future__ import annotations

from dataclasses import replace

from gosched.core.commands.cluster import SetQueues
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import Action, CancelJob, ControlJob, DropFinishedJobs, SubmitJob
from gosched.core.commands.nodes import MarkNodeDead, RegisterNode, ReportTasks, TaskReport
from gosched.core.commands.plans import CommitPlan, GangPlacement
from gosched.core.outcome import Accepted
from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.job import JobState
from gosched.core.records.node import NodeState
from gosched.core.records.queue import Queue
from gosched.core.records.task import TaskState
from gosched.core.resources import Resources
from gosched.core.sharing import as_map
from gosched.core.spec.array import Array
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy, RetryCause, RetryPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.core.state.cluster_state import ClusterState
from gosched.observe.counts import ClusterCounts
from gosched.state_machine import apply

ONE = Resources(cpu_millis=1000)


def _spec(name: str) -> JobSpec:
    return JobSpec(
        name=name,
        queue="default",
        gang=GangPolicy(min_tasks=2),
        groups=(TaskGroup(name="g", count=2, resources=ONE, command=("x",)),),
        retry=RetryPolicy(max_restarts=1, when=(RetryCause.NODE_LOST, RetryCause.FAILED)),
    )


def _placed(job_id: str, attempt: int) -> CommitPlan:
    tasks = tuple(TaskPlacement(rank=rank, node_id="n") for rank in range(2))
    return CommitPlan(revision=0, gangs=(GangPlacement(job_id=job_id, attempt=attempt, tasks=tasks),))


def _ended(job_id: str, attempt: int, state: TaskState) -> ReportTasks:
    reports = tuple(TaskReport(allocation_id=f"{job_id}/g/{i}.{attempt}", state=state) for i in range(2))
    return ReportTasks(node_id="n", incarnation="i", reports=reports)


NODE = RegisterNode(node_id="n", name="n", address="h:1", incarnation="i", capacity=ONE.times(8))
STORY: tuple[Body, ...] = (
    SetQueues(queues=(Queue(path="default"),)),
    NODE,
    SubmitJob(job_id="a", spec=_spec("a")),
    SubmitJob(job_id="b", spec=_spec("b")),
    _placed("a", 1),
    _placed("b", 1),
    _ended("a", 1, TaskState.SUCCEEDED),
    _ended("b", 1, TaskState.FAILED),
    _placed("b", 2),
    ControlJob(job_id="b", action=Action.FREEZE),
    ControlJob(job_id="b", action=Action.RESUME),
    ControlJob(job_id="b", action=Action.FREEZE),
    MarkNodeDead(node_id="n", incarnation="i"),
    NODE,
    CancelJob(job_id="b"),
    DropFinishedJobs(keep=0, ended_before_ms=0),
)


def test_counts_kept_by_events_equal_a_recount_after_every_command() -> None:
    state, kept = ClusterState(), ClusterCounts()
    seen, frozen = set(), 0
    for body in STORY:
        outcome, events = apply(state, Command(body=body, at_ms=state.clock_ms + 1))
        assert isinstance(outcome, Accepted), (body, outcome)
        kept.take(state, events)
        recount = ClusterCounts()
        recount.reset(state)
        for job_state in (s for s in JobState if s):
            assert kept.jobs_in("default", job_state) == recount.jobs_in("default", job_state), (body, job_state)
        for node_state in (s for s in NodeState if s):
            assert kept.nodes[node_state] == recount.nodes[node_state], (body, node_state)
        wanted = [as_map(counts.demand.get("default", {})) for counts in (kept, recount)]
        assert wanted[0] == wanted[1], body
        seen.add(dict(wanted[0]).get("cpu", 0))
        frozen |= kept.jobs_in("default", JobState.SUSPENDED)
    assert (seen, frozen) == ({0, 2000, 4000}, 1)


def test_a_job_that_comes_and_goes_within_one_batch_leaves_no_demand() -> None:
    state, kept = ClusterState(), ClusterCounts()
    events = []
    for body in (STORY[0], SubmitJob(job_id="a", spec=_spec("a")), CancelJob(job_id="a"), STORY[-1]):
        _, more = apply(state, Command(body=body, at_ms=state.clock_ms + 1))
        events += more
    assert not state.jobs
    kept.take(state, events)
    assert as_map(kept.demand.get("default", {})) == ()


def test_an_array_asks_for_nothing_its_elements_do() -> None:
    state, kept = ClusterState(), ClusterCounts()
    array = replace(_spec("sweep"), array=Array(last=99, step=1, parallelism=3))
    for body in (STORY[0], SubmitJob(job_id="sweep", spec=array)):
        _, events = apply(state, Command(body=body, at_ms=state.clock_ms + 1))
        kept.take(state, events)
    assert kept.demand["default"]["cpu"] == 3 * 2 * 1000
    recount = ClusterCounts()
    recount.reset(state)
    assert recount.demand == kept.demand
