"""Submissions: the command of a spec, with the slot that keeps its deadline, and the first run of a schedule.

Invariant: a slot is looked for and committed under one lock, so that no two submissions get the same one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gosched.core.commands.jobs import SubmitJob
from gosched.core.records.job import Job
from gosched.core.rules.jobs import check_job
from gosched.core.spec.job_spec import JobSpec, OnMiss
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.clock import Clock, utc
from gosched.master.base.errors import invalid, unavailable, unmet
from gosched.master.base.ids import new_job_id
from gosched.master.jobs.schedules import first_run_ms
from gosched.master.planning.cycles import Cycles
from gosched.replication.interface import Replication
from gosched.scheduling.queries.deadline_admission import Admission, admit
from gosched.state_machine.children import live_namesake
from gosched.state_machine.queues import submission_refusal

SUBMISSIONS = ""  # asks for them, one at a time; no caller has this name
WAIT_S = 10.0  # for the submissions with deadlines that came before


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A command to propose, and what its user should know."""

    command: SubmitJob
    #: One line about a deadline for which no slot is kept; empty: one is kept, or it has none.
    warning: str = ""


class Admissions:
    def __init__(self, replication: Replication, cycles: Cycles, clock: Clock) -> None:
        self._replication = replication
        self._cycles = cycles
        self._clock = clock
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def submission(self, spec: JobSpec) -> AsyncIterator[Submission]:
        """Give the command, to be applied before the block ends. Raises ApiError for a deadline that must be kept and
        cannot be."""
        if spec.cron or not (spec.deadline_at_ms or spec.deadline_in_ms):
            yield Submission(command=self.plain(spec))
        else:
            job_id = new_job_id(self._clock.now_ms())
            await self._locked()
            try:
                if not _may_be_new(self._state, spec):
                    yield Submission(command=SubmitJob(job_id=job_id, spec=spec))
                else:
                    yield await self._admitted(job_id, spec)
            finally:
                self._lock.release()

    def plain(self, spec: JobSpec) -> SubmitJob:
        """Return the command of a spec that needs no slot: a schedule, or a job without a deadline. Raises ApiError."""
        next_run_at_ms = self._first_run(spec) if spec.cron else 0
        return SubmitJob(job_id=new_job_id(self._clock.now_ms()), spec=spec, next_run_at_ms=next_run_at_ms)

    async def obstacle(self, spec: JobSpec, caller: str) -> str:
        """Return why no slot would be kept for its deadline if the job were submitted now; empty: one would be, or it
        has no deadline. Raises ApiError when the planner has no time for it."""
        if spec.cron or not (spec.deadline_at_ms or spec.deadline_in_ms):
            return ""
        return _unforeseen(spec) or _line(await self._asked(new_job_id(self._clock.now_ms()), spec, caller))

    async def _locked(self) -> None:
        try:
            async with asyncio.timeout(WAIT_S):
                await self._lock.acquire()
        except TimeoutError:
            raise unavailable("too many jobs with deadlines are being submitted at once; try again") from None

    async def _admitted(self, job_id: str, spec: JobSpec) -> Submission:
        unforeseen = _unforeseen(spec)
        if unforeseen:
            return _without_promise(job_id, spec, unforeseen)
        found = await self._asked(job_id, spec, SUBMISSIONS)
        if found.reservation is None:
            return _without_promise(job_id, spec, _line(found))
        return Submission(command=SubmitJob(job_id=job_id, spec=spec, reservation=(found.reservation,)))

    async def _asked(self, job_id: str, spec: JobSpec, caller: str) -> Admission:
        state = self._state
        now_ms = max(self._clock.now_ms(), state.clock_ms)
        job = Job(id=job_id, spec=spec, sequence=state.next_sequence, submitted_at_ms=now_ms)
        return await self._cycles.queries.ask(
            lambda view, policy, at_ms, seed: admit(view, policy, job, at_ms, seed), caller
        )

    def _first_run(self, spec: JobSpec) -> int:
        try:
            return first_run_ms(spec.cron, spec.timezone, max(self._clock.now_ms(), self._state.clock_ms))
        except ValueError as error:
            raise invalid(str(error)) from error

    @property
    def _state(self) -> ClusterState:
        return self._replication.state


def _may_be_new(state: ClusterState, spec: JobSpec) -> bool:
    """Return False if the state machine refuses the job anyway, or finds it there already."""
    if live_namesake(state, spec.tenant, spec.name) is not None:
        return False
    return check_job(spec, state.feature_level) is None and submission_refusal(state, spec) is None


def _unforeseen(spec: JobSpec) -> str:
    why = "the job waits for other jobs" if spec.after else ""
    if spec.is_parent:
        why = "only the elements of an array are planned, one by one"
    elif spec.hold:
        why = "the job is held"
    return f"no start is reserved for the deadline: {why}" if why else ""


def _without_promise(job_id: str, spec: JobSpec, why: str) -> Submission:
    if spec.on_miss is OnMiss.REFUSE:
        raise unmet(refusal(why))
    return Submission(command=SubmitJob(job_id=job_id, spec=spec), warning=why)


def refusal(why: str) -> str:
    """Return the error for a job that must keep its deadline and cannot."""
    return f"{why} (deadline.on_miss is refuse)"


def _line(found: Admission) -> str:
    """Return one line about the deadline; empty for a job that is admitted."""
    if found.reservation is not None:
        return ""
    parts = [f"no start can be reserved for the deadline: {found.problem}"]
    if found.earliest_ms:
        parts.append(f"its earliest possible end is {utc(found.earliest_ms)}")
    if found.largest:
        parts.append(f"a gang of {found.largest} of its tasks would be in time")
    if found.priority:
        parts.append(f"priority {found.priority} would start it at once")
    return "; ".join(parts)
