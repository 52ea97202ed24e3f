"""Starts the runs of schedules when they are due.

Invariant: it costs what schedules there are, not what jobs there are. Runs that were missed, while no master led or the
schedule was held, are made up for by one run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

import structlog

from gosched.config.cron import next_run_ms
from gosched.core.commands.jobs import RunSchedule
from gosched.core.events import Event, JobChanged
from gosched.core.outcome import Rejected
from gosched.core.records.job import Job, JobState
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.clock import Clock
from gosched.master.base.errors import ApiError
from gosched.master.base.ids import new_job_id
from gosched.master.base.proposals import Proposals
from gosched.observe.faults import Faults
from gosched.replication.interface import Replication

CHECK_S = 1.0

log = structlog.get_logger()


class Schedules:
    def __init__(self, replication: Replication, proposals: Proposals, clock: Clock, faults: Faults) -> None:
        self._replication = replication
        self._proposals = proposals
        self._clock = clock
        self._faults = faults
        self._live: dict[str, str] = {}  # by job id; what was last said about a run that could not be started

    @property
    def live(self) -> Collection[str]:
        """Return the ids of the schedules that may have runs yet."""
        return self._live.keys()

    def reset(self) -> None:
        self._live = {job.id: "" for job in self._state.jobs.values() if _is_live(job)}

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, JobChanged):
                job = self._state.jobs.get(event.job_id)
                if job is not None and _is_live(job):
                    self._live.setdefault(job.id, "")
                else:
                    self._live.pop(event.job_id, None)

    async def run(self, epoch: int) -> None:
        """Start runs until it is cancelled."""
        while True:
            now_ms = max(self._clock.now_ms(), self._state.clock_ms)
            for job_id in [*self._live]:
                try:
                    job = self._state.jobs[job_id]
                    if _is_due(job, now_ms):
                        await self._start(job, now_ms, epoch)
                except ApiError:  # the lead is lost
                    raise
                except Exception as error:  # a bug that one schedule meets
                    self._faults.caught("schedules", error)
            await asyncio.sleep(CHECK_S)

    async def _start(self, job: Job, now_ms: int, epoch: int) -> None:
        try:
            following = first_run_ms(job.spec.cron, job.spec.timezone, now_ms)
        except ValueError as error:  # another master may know the time zone
            self._complain(job, str(error))
            return
        command = RunSchedule(
            job_id=job.id,
            child_id=new_job_id(now_ms),
            due_at_ms=job.children.next_run_at_ms,
            next_run_at_ms=following,
        )
        outcome = await self._proposals.propose(command, epoch=epoch)
        self._complain(job, outcome.detail if isinstance(outcome, Rejected) else "")

    def _complain(self, job: Job, why: str) -> None:
        """Log a reason once, not at every try."""
        if why and self._live.get(job.id) not in (None, why):
            log.warning(
                "a run of a schedule is not started; it is tried again", job=job.id, name=job.spec.name, why=why
            )
        if job.id in self._live:
            self._live[job.id] = why

    @property
    def _state(self) -> ClusterState:
        return self._replication.state


def first_run_ms(cron: str, timezone: str, after_ms: int) -> int:
    """Return the first moment after `after_ms`. Raises ValueError with one line."""
    moment = next_run_ms(cron, timezone or "UTC", after_ms)
    if moment is None:
        raise ValueError(f"schedule.cron {cron[:64]!a} names no moment in the next 50 years")
    return moment


def _is_live(job: Job) -> bool:
    return bool(job.spec.cron) and not job.state.is_final


def _is_due(job: Job, now_ms: int) -> bool:
    waits = job.held or job.waits_for or job.state is JobState.SUSPENDED
    return not waits and job.children.next_run_at_ms <= now_ms
