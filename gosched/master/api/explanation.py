"""All that is known of why a job waits, or of where it runs.

Rule: what the newest cycle saw is told, and more only where it had no time; a job that no cycle has looked at yet is
said to be one.
"""

from __future__ import annotations

from collections import Counter

from gosched.core.records.job import JobState
from gosched.core.state.cluster_state import ClusterState
from gosched.master.api.status import StatusReader
from gosched.master.base.errors import not_found
from gosched.master.jobs.wait_reasons import why_unplanned
from gosched.master.planning.cycles import Cycles
from gosched.scheduling import Explanation
from gosched.wire.codec import fill
from gosched.wire.v1 import scheduler_pb2


async def explain_job(
    state: ClusterState, job_id: str, cycles: Cycles, status: StatusReader
) -> scheduler_pb2.JobExplanation:
    """Raises ApiError when the planner has no time for it."""
    why = await cycles.explanation(job_id) if job_id in state.pending else None
    job = state.jobs.get(job_id)
    if job is None:
        raise not_found(f"job {job_id} has been forgotten: it ended long ago")
    answer = scheduler_pb2.JobExplanation(revision=state.revision, queue=status.queue(job.spec.queue))
    fill(job, answer.job)
    if job.id in state.pending and why is not None:
        fill_explanation(why, answer)
        answer.position = cycles.position(job.id)
    elif (unplanned := why_unplanned(state, job)) is not None:
        answer.code, answer.message = unplanned
    elif job.state is JobState.PENDING:
        answer.message = "no cycle has looked at it yet"
    tasks = Counter(task.node_id for task in state.tasks_of(job) if task.state.is_active)
    for node_id, count in sorted(tasks.items()):
        answer.nodes.add(node_id=node_id, tasks=count)
    return answer


def fill_explanation(why: Explanation, answer: scheduler_pb2.JobExplanation) -> None:
    answer.code, answer.message, answer.limit, answer.nearest = why.code, why.message, why.limit, why.nearest
    for name, nodes in why.refused:
        answer.refused.add(filter=name, nodes=nodes)
    answer.start_ms, answer.start_from, answer.change = why.start_ms, why.start_from, why.change
    for holder in why.holders:
        answer.holders.add(
            job_id=holder.job_id,
            name=holder.name,
            queue=holder.queue,
            held=dict(holder.held),
            until_ms=holder.until_ms,
        )
    for victim in why.victims:
        answer.victims.add(
            job_id=victim.job_id,
            name=victim.name,
            tasks=victim.tasks,
            whole=victim.whole,
            cause=victim.cause.name.lower(),
            lost_ms=victim.lost_ms,
        )
