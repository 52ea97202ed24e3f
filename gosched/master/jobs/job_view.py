"""A job as users see it, once or as a stream of changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from gosched.core.records.job import Job
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.kept_jobs import KeptGroup, KeptKind
from gosched.master.base.errors import not_found, unavailable
from gosched.master.base.job_changes import JobChanges
from gosched.master.base.leadership import Leadership
from gosched.master.jobs.wait_reasons import why_unplanned
from gosched.master.planning.cycles import Cycles
from gosched.replication.interface import Replication
from gosched.scheduling import Explanation
from gosched.wire.codec import fill
from gosched.wire.v1 import scheduler_pb2

COALESCE_S = 0.05  # between two views of one stream
FAILED_SHOWN = 10  # elements of an array


def job_view(state: ClusterState, job: Job, explanations: Mapping[str, Explanation]) -> scheduler_pb2.JobView:
    view = scheduler_pb2.JobView(revision=state.revision)
    fill(job, view.job)
    for task in state.tasks_of(job):
        fill(task, view.tasks.add())
    why = explanations.get(job.id)
    if why is not None and job.id in state.pending:
        view.explanation.code, view.explanation.message = why.code, why.message
    elif (unplanned := why_unplanned(state, job)) is not None:
        view.explanation.code, view.explanation.message = unplanned
    if job.children.failed:
        failed = state.kept.newest(KeptGroup(KeptKind.FAILED, job.id), FAILED_SHOWN)
        view.failed_elements.extend([state.jobs[element].spec.name for element in failed])
    return view


async def watch_job(
    replication: Replication, leadership: Leadership, changes: JobChanges, cycles: Cycles, job_id: str
) -> AsyncIterator[scheduler_pb2.JobView]:
    """Ends with the job; raises ApiError when this master stops leading, so that the client goes on elsewhere."""
    epoch = leadership.epoch
    with changes.of(job_id) as changed:
        while True:
            changed.clear()
            job = replication.state.jobs.get(job_id)
            if job is None:
                raise not_found(f"job {job_id} has been forgotten: it ended long ago")
            yield job_view(replication.state, job, cycles.explanations)
            if job.state.is_final:
                return
            await asyncio.sleep(COALESCE_S)
            await changed.wait()
            if leadership.epoch != epoch:
                raise unavailable("this master does not lead any more; ask again")
