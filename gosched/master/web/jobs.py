"""The page of jobs: those that wait first, with the reason and the estimated start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gosched.api.explanation import JobWait
from gosched.core.records.job import Job, JobState
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.access import Wording
from gosched.master.jobs.wait_reasons import wait_reason
from gosched.master.web.job_filter import LISTED, SORTS, BadFilter, JobFilter, read_filter
from gosched.master.web.page import Asked
from gosched.master.web.sources import Sources
from gosched.wire.codec import to_record
from gosched.wire.v1 import scheduler_pb2

MAX_PAGE = 1_000_000
_QUEUES_SHOWN = 500  # as suggestions of the filter


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job in the list."""

    job: Job
    state: JobState
    #: Why it waits, or ended as it did; a code. Empty: there is none.
    code: str
    #: The same in one line; may be empty.
    message: str
    #: The estimated start; 0: unknown, or it does not wait.
    start_ms: int
    #: That start is reserved.
    reserved: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCount:
    """How many jobs of the filter are in a state."""

    state: JobState
    jobs: int
    #: The filter shows this state alone.
    chosen: bool
    #: Of the list that shows it alone, or all again.
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsView:
    """The list of jobs."""

    rows: tuple[JobRow, ...]
    counts: tuple[StateCount, ...]
    filter: JobFilter
    #: Why the address was not understood; empty: it was.
    problem: str
    page: int
    pages: int
    #: Jobs that the filter shows, and that the cluster keeps.
    found: int
    jobs: int
    queues: tuple[str, ...]
    sorts: tuple[str, ...] = SORTS


async def jobs_page(sources: Sources, asked: Asked) -> JobsView:
    """Return the list that the address asks for."""
    try:
        chosen, problem = read_filter(asked.query, sources.now_ms()), ""
    except BadFilter as error:
        chosen, problem = JobFilter(), str(error)
    chosen = replace(chosen, viewer=sources.access.viewer(asked.caller), sees=asked.sees)
    state = sources.state
    order = await sources.job_lists.order(state, chosen)
    page = min(asked.query.number("page", 1, least=1, most=MAX_PAGE), order.pages)
    shown = [state.jobs[job_id] for job_id in order.page(page) if job_id in state.jobs]
    waiting = [job.id for job in shown if job.id in state.pending]
    waits = await _waits(sources, waiting, asked)
    return JobsView(
        rows=tuple([_row(sources.state, job, waits, asked.words) for job in shown]),
        counts=tuple([_count(asked, chosen, one, order.counts[one]) for one in LISTED]),
        filter=chosen,
        problem=problem,
        page=page,
        pages=order.pages,
        found=len(order.ids),
        jobs=len(sources.state.jobs) if asked.sees is None else sum(order.counts.values()),
        queues=tuple(sorted(sources.state.queues)[:_QUEUES_SHOWN]),
    )


async def _waits(sources: Sources, job_ids: Sequence[str], asked: Asked) -> Mapping[str, JobWait]:
    """Return why jobs wait, as far as the leader tells."""
    if not job_ids:
        return {}
    told = await sources.ask("ListWaits", scheduler_pb2.ListWaitsRequest(jobs=job_ids), asked.caller)
    return {wait.job_id: to_record(wait, JobWait) for wait in told.waits} if told else {}


def _row(state: ClusterState, job: Job, waits: Mapping[str, JobWait], words: Wording) -> JobRow:
    reserved = state.reservations.get(job.id)
    code, message, start_ms = job.reason, job.detail, reserved.start_ms if reserved else 0
    if job.id in waits:
        wait = waits[job.id]
        code, message, start_ms = wait.code, wait.message, start_ms or wait.start_ms
    elif (known := wait_reason(state, job)) is not None:
        code, message = known
    return JobRow(
        job=job,
        state=job.shown_state,
        code=code,
        message=words(message),
        start_ms=start_ms if not job.state.is_final else 0,
        reserved=reserved is not None,
    )


def _count(asked: Asked, chosen: JobFilter, state: JobState, jobs: int) -> StateCount:
    alone = chosen.states == (state,)
    url = asked.query.link("/jobs", state="" if alone else state.name.lower(), page="")
    return StateCount(state=state, jobs=jobs, chosen=alone, url=url)
