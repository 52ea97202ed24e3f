"""Follows the applied log, and hands what it makes to the store and to those that watch.

It also knows why jobs wait, and since when: of a pending job what was noted in the log, the same on each master, so a
new leader does not note it again; and that a job is held, suspended or frozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gosched.core.commands.jobs import Action, ControlJob
from gosched.core.events import Event, JobChanged, JobFrozen, WaitReasonNoted
from gosched.core.outcome import Accepted
from gosched.core.reasons import WaitReason
from gosched.core.records.job import Job, JobState
from gosched.core.state.cluster_state import ClusterState
from gosched.master.history.database import Database
from gosched.master.history.derive import derive
from gosched.master.history.feed import Feed
from gosched.master.history.job_events import WAITS
from gosched.master.history.kinds import Kind
from gosched.master.history.rows import EVENTS
from gosched.master.history.store import HistoryStore
from gosched.observe.faults import Faults
from gosched.replication.interface import AppliedBatch, AppliedCommand, Replication

# The newest of these tells whether a job still waits for the reason that was noted last.
_OF_WAITING = (
    Kind.JOB_QUEUED,
    Kind.JOB_HELD,
    Kind.JOB_SUSPENDED,
    Kind.JOB_FROZEN,
    Kind.JOB_SUBMITTED,
    Kind.JOB_PLACED,
    Kind.JOB_RETRIED,
    Kind.JOB_REQUEUED,
    Kind.JOB_RELEASED,
    Kind.JOB_RESUMED,
)
_CODES: Mapping[str, WaitReason] = {
    Kind.JOB_HELD: WaitReason.HELD,
    Kind.JOB_SUSPENDED: WaitReason.SUSPENDED,
    Kind.JOB_FROZEN: WaitReason.SUSPENDED,
}


@dataclass(frozen=True, slots=True)
class NotedReason:
    """Why a job waits, as it was noted last."""

    code: str
    message: str
    at_ms: int


class Recorder:
    """`reasons`: by the job's id, for jobs that live only."""

    def __init__(self, replication: Replication, store: HistoryStore, feed: Feed, faults: Faults) -> None:
        self._replication = replication
        self._store = store
        self._feed = feed
        self._faults = faults
        self._reasons: dict[str, NotedReason] = {}
        replication.observe(self._take)
        replication.follow(self._on_batch)

    @property
    def reasons(self) -> Mapping[str, NotedReason]:
        return self._reasons

    def begin(self) -> None:
        """Begin where the store ends; to be called before the log is read."""
        self._feed.reset(self._store.span.last)

    async def load_reasons(self) -> None:
        """Take the reasons of jobs that wait from the store: a snapshot does not have them."""
        for job_id, reason in (await self._store.read(_noted)).items():
            if _holds(reason, self._replication.state.jobs.get(job_id)):
                self._reasons.setdefault(job_id, reason)

    def _take(self, state: ClusterState, applied: AppliedCommand) -> None:
        with self._faults.guarded("wait reasons in history"):
            for event in applied.events:
                self._note(event, applied.at_ms)
            self._note_hold(state, applied)
        if state.cluster_id != self._store.cluster:
            self._belong_to(state.cluster_id)
        if applied.revision <= self._store.span.last:
            return  # it is written already
        derived = None
        with self._faults.guarded("history"):  # it then lacks what the command did
            derived = derive(state, applied)
        self._store.put(applied.revision, derived)
        self._feed.add(applied.revision, derived.events if derived else ())

    def _belong_to(self, cluster_id: str) -> None:
        """Begin anew with a file of another cluster; a state that names no cluster may be any."""
        if cluster_id:
            last = self._store.span.last
            self._store.belong_to(cluster_id)
            if self._store.span.last < last:
                self._feed.reset(self._store.span.last)

    def _note(self, event: Event, at_ms: int) -> None:
        if isinstance(event, WaitReasonNoted):
            self._reasons[event.job_id] = NotedReason(event.code, event.message, at_ms)
        elif isinstance(event, JobChanged):
            self._reasons.pop(event.job_id, None)
            if event.after is JobState.SUSPENDED:
                self._reasons[event.job_id] = NotedReason(WaitReason.SUSPENDED, "", at_ms)
        elif isinstance(event, JobFrozen):
            self._reasons.pop(event.job_id, None)
            if event.frozen:
                self._reasons[event.job_id] = NotedReason(WaitReason.SUSPENDED, "", at_ms)

    def _note_hold(self, state: ClusterState, applied: AppliedCommand) -> None:
        """Note that a job that waits is held: no event of the state tells."""
        body, outcome = applied.command.body, applied.outcome
        if not isinstance(body, ControlJob) or not isinstance(outcome, Accepted) or outcome.unchanged:
            return
        job = state.jobs.get(outcome.subject)
        if job is None or job.state is not JobState.PENDING:
            return
        if body.action is Action.HOLD:
            self._reasons[job.id] = NotedReason(WaitReason.HELD, "", applied.at_ms)
        elif body.action is Action.RELEASE:
            self._reasons.pop(job.id, None)

    def _on_batch(self, batch: AppliedBatch) -> None:
        if batch.reset:
            state = self._replication.state
            self._belong_to(state.cluster_id)
            self._reasons = {
                job_id: why for job_id, why in self._reasons.items() if _holds(why, state.jobs.get(job_id))
            }
            self._store.skip_to(state.revision)
            self._feed.reset(max(state.revision, self._store.span.last))


def _holds(reason: NotedReason, job: Job | None) -> bool:
    """Return whether a job may still wait for this reason."""
    if job is None:
        return False
    if reason.code == WaitReason.SUSPENDED:
        return job.shown_state is JobState.SUSPENDED
    return job.state is JobState.PENDING and (job.held or reason.code != WaitReason.HELD)


def _noted(database: Database) -> Mapping[str, NotedReason]:
    kinds = ", ".join(f"'{kind}'" for kind in _OF_WAITING)
    query = (
        f"SELECT job_id, kind, code, message, at_ms, max(revision * 1000000 + number) FROM {EVENTS.name}"
        f" WHERE kind IN ({kinds}) GROUP BY job_id"
    )
    rows = database.read(query)
    return {
        job_id: NotedReason(_CODES.get(kind) or code, message.removeprefix(WAITS), at_ms)
        for job_id, kind, code, message, at_ms, _ in rows
        if kind == Kind.JOB_QUEUED or kind in _CODES
    }
