"""A job as users see it, once or as a stream of changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from gosched.api.details import JobDetail, WaitLine
from gosched.core.records.job import Job
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.kept_jobs import KeptGroup, KeptKind
from gosched.master.base.errors import not_found, unavailable
from gosched.master.base.job_changes import JobChanges
from gosched.master.base.leadership import Leadership
from gosched.master.jobs.expected_ends import expected_end
from gosched.master.jobs.wait_reasons import wait_reason
from gosched.master.planning.cycles import Cycles
from gosched.replication.interface import Replication
from gosched.scheduling import Explanation

COALESCE_S = 0.05  # between two views of one stream
FAILED_SHOWN = 10  # elements of an array


def job_view(state: ClusterState, job: Job, explanations: Mapping[str, Explanation]) -> JobDetail:
    end = expected_end(state, job)
    failed = state.kept.newest(KeptGroup(KeptKind.FAILED, job.id), FAILED_SHOWN) if job.children.failed else ()
    return JobDetail(
        job=job,
        tasks=tuple(state.tasks_of(job)),
        explanation=_wait_line(state, job, explanations.get(job.id)),
        revision=state.revision,
        failed_elements=tuple([state.jobs[element].spec.name for element in failed]),
        expected_end_ms=end.expected_ms,
        likely_end_ms=end.likely_ms,
    )


async def watch_job(
    replication: Replication, leadership: Leadership, changes: JobChanges, cycles: Cycles, job_id: str
) -> AsyncIterator[JobDetail]:
    """Yield the job at each change until it has ended. Raises ApiError when this master stops leading, so that the
    client goes on with another one."""
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


def _wait_line(state: ClusterState, job: Job, why: Explanation | None) -> WaitLine | None:
    if why is not None and job.id in state.pending:
        return WaitLine(why.code, why.message)
    known = wait_reason(state, job)
    return WaitLine(*known) if known else None
