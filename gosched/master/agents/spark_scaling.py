"""Dynamic allocation: as many executors of a Spark application are wanted as it has work for.

Invariant: what an application says moves its own job alone, within that job's bounds, and stops nothing that runs.
Spark itself lets executors go that are idle, and then their workers give their places back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import structlog

from gosched.core.commands.jobs import Action, ControlJob
from gosched.core.outcome import Rejected
from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.task_group import SPARK_WORKER, TaskGroup
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.proposals import Proposals
from gosched.wire.v1 import node_pb2


async def scale_applications(
    proposals: Proposals,
    state: ClusterState,
    node_id: str,
    said: Mapping[str, node_pb2.SparkProgress],
    epoch: int,
) -> None:
    """Scale the jobs whose drivers run on the node. `said`: by allocation. Raises ApiError."""
    for command in _changes(state, node_id, said):
        outcome = await proposals.propose(command, epoch=epoch)
        if isinstance(outcome, Rejected):
            structlog.get_logger().info("an application is not scaled", job=command.job_id, why=outcome.detail)


def _changes(state: ClusterState, node_id: str, said: Mapping[str, node_pb2.SparkProgress]) -> Iterator[ControlJob]:
    for allocation_id, progress in said.items():
        allocation = state.allocations.get(allocation_id)
        if allocation is None or allocation.node_id != node_id or not progress.HasField("executors"):
            continue
        job = state.jobs[allocation.job_id]
        runs = job.state is JobState.RUNNING and job.intent is JobIntent.RUN
        if runs and scales_itself(job.spec) and (wanted := _wanted(job, progress.executors)) != job.wanted:
            yield ControlJob(job_id=job.id, action=Action.SCALE, tasks=wanted)


def scales_itself(spec: JobSpec) -> bool:
    """Return whether the job is an application of Spark whose executors come and go."""
    return bool(spec.gang.initial_tasks) and any(_is_of_workers(group) for group in spec.groups)


def _is_of_workers(group: TaskGroup) -> bool:
    return group.command[:1] == (SPARK_WORKER,)


def _wanted(job: Job, executors: int) -> int:
    """Return how many tasks the job wants: those in their places at least, for Spark alone knows which are idle."""
    others = sum(group.count for group in job.spec.groups if not _is_of_workers(group))
    wanted = max(others + executors, job.active)
    return max(job.spec.gang.min_tasks, min(wanted, job.spec.task_count))
