"""All that is known of why a job waits, or of where it runs.

Invariant: what the newest cycle saw is told, and more only where it had no time; a job that no cycle has looked at yet
is said to be one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gosched.api.explanation import JobExplanation, JobWait, NodeTasks, WaitExplanation
from gosched.core.records.job import JobState
from gosched.core.state.cluster_state import ClusterState
from gosched.master.api.status import StatusReader
from gosched.master.base.errors import not_found
from gosched.master.jobs.expected_ends import expected_end
from gosched.master.jobs.wait_reasons import wait_reason
from gosched.master.planning.cycles import Cycles

MAX_WAITS = 1000  # jobs that are asked for together


async def explain_job(
    state: ClusterState, job_id: str, cycles: Cycles, status: StatusReader, caller: str
) -> JobExplanation:
    """Raises ApiError when the planner has no time for it."""
    why: WaitExplanation | None = await cycles.explanation(job_id, caller) if job_id in state.pending else None
    job = state.jobs.get(job_id)
    if job is None:
        raise not_found(f"job {job_id} has been forgotten: it ended long ago")
    position = 0
    if job.id in state.pending and why is not None:
        position = cycles.position(job.id)
    elif (bug := cycles.bug(job.id)) is not None:
        why = bug
    elif (known := wait_reason(state, job)) is not None:
        why = WaitExplanation(code=known[0], message=known[1])
    else:
        why = WaitExplanation(
            message="no scheduling cycle has considered it yet" if job.state is JobState.PENDING else ""
        )
    end = expected_end(state, job)
    return why.of_job(
        job,
        position=position,
        nodes=node_tasks(task.node_id for task in state.tasks_of(job) if task.state.is_active),
        queue=status.queue(job.spec.queue),
        revision=state.revision,
        expected_end_ms=end.expected_ms,
        likely_end_ms=end.likely_ms,
    )


def job_waits(state: ClusterState, job_ids: Iterable[str], cycles: Cycles) -> list[JobWait]:
    """Return why these jobs wait, as the newest cycle saw them; those that it did not look at are left out."""
    found = [(job_id, cycles.explanations.get(job_id)) for job_id in job_ids if job_id in state.pending]
    return [
        JobWait(job_id=job_id, code=why.code, message=why.message, start_ms=why.start_ms)
        for job_id, why in found
        if why is not None
    ]


def node_tasks(node_ids: Iterable[str]) -> tuple[NodeTasks, ...]:
    """Return how many tasks each node has, by id, for the nodes of single tasks."""
    return tuple([NodeTasks(node_id, count) for node_id, count in sorted(Counter(node_ids).items())])
