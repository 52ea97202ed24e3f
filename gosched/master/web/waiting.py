"""The jobs that wait longest, and why.

Invariant: what is shown costs the same, however many jobs wait.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import islice

from gosched.core.records.job import Job
from gosched.core.sharing import Amounts, add_to, charge_of
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.callers import Caller
from gosched.master.web.page import Asked, Shows
from gosched.master.web.sources import Sources
from gosched.wire.v1 import scheduler_pb2

MOST_LOOKED_AT = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """A job that waits for a place."""

    id: str
    name: str
    queue: str
    tasks: int
    #: Of all its tasks.
    wants: Amounts
    submitted_at_ms: int
    #: Empty: not known yet.
    code: str
    message: str
    #: 0: no start is reserved.
    start_ms: int


async def longest_waiting(sources: Sources, asked: Asked, most: int) -> tuple[WaitingJob, ...]:
    """Return the jobs that have been ready to start for longest."""
    jobs = waiting_first(sources.state, most, asked.shows)
    reasons = await asyncio.gather(*[_reason(sources, job.id, asked.caller) for job in jobs])
    state = sources.state
    return tuple(
        [_row(state, job, code, asked.words(message)) for job, (code, message) in zip(jobs, reasons, strict=True)]
    )


def waiting_first(state: ClusterState, most: int, shows: Shows = lambda job: True) -> list[Job]:
    """Return jobs in the order in which they became ready to start, of the first MOST_LOOKED_AT."""
    waiting = (state.jobs[job_id] for job_id in islice(state.pending, MOST_LOOKED_AT))
    return list(islice(filter(shows, waiting), most))


async def _reason(sources: Sources, job_id: str, caller: Caller) -> tuple[str, str]:
    noted = sources.reasons().get(job_id)
    if noted is not None:
        return noted.code, noted.message
    answer = await sources.ask("GetJob", scheduler_pb2.GetJobRequest(job=job_id), caller)
    return (answer.explanation.code, answer.explanation.message) if answer is not None else ("", "")


def _row(state: ClusterState, job: Job, code: str, message: str) -> WaitingJob:
    wants: Amounts = {}
    for group in job.spec.groups:
        add_to(wants, charge_of(group.resources), group.count)
    reservation = state.reservations.get(job.id)
    return WaitingJob(
        id=job.id,
        name=job.spec.name,
        queue=job.spec.queue,
        tasks=job.spec.task_count,
        wants=wants,
        submitted_at_ms=job.submitted_at_ms,
        code=code,
        message=message,
        start_ms=reservation.start_ms if reservation else 0,
    )
