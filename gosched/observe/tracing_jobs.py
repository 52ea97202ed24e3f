"""The spans of jobs that follow from the log: job, attempt, queue wait, and the run of a task whose node is lost.

Each master makes all of them from the log as it applies it, so that they are the same on each; the one that leads
sends them. One that takes over first sends those that ended within REPEAT_S before: the master before may not have sent
them, or they arrive twice, the same. What follows no log, such as a cycle, is made in `tracing_leader`.

Invariant: after a snapshot, which has no past, the beginning of an attempt is the earliest moment that the state knows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from gosched.core.events import EpochOpened, Event, JobChanged, TaskChanged, WaitReasonNoted
from gosched.core.reasons import BY_ORDER, Reason
from gosched.core.records.job import Job, JobState
from gosched.core.records.task import TaskState
from gosched.core.state.cluster_state import ClusterState
from gosched.core.trace_context import JobTrace, attempt_span_id, job_trace, own_trace, run_span_id, span_id
from gosched.observe.tracing import MS, Span, SpanEvent, Spans, Value

REPEAT_S = 15  # more than it takes to elect another leader, and to send a batch
MAX_KEPT = 8192  # spans of the last REPEAT_S, on a master that does not lead
MAX_REASONS = 32  # of one wait; the newest
MAX_LOST_RUNS = 64  # spans of one attempt's tasks whose node is lost
MAX_DISPATCHES = 32  # spans of one attempt's start orders, each to one node


@dataclass(slots=True)
class _Attempt:
    """The attempt that a live job is at."""

    number: int
    began_ms: int
    #: 0: it waits.
    placed_ms: int = 0
    #: Why it waited; the newest MAX_REASONS.
    reasons: tuple[SpanEvent, ...] = ()
    lost_runs: int = 0


class JobTraces:
    """Makes spans of what happens to jobs, on each master alike."""

    def __init__(self, spans: Spans, member_id: str) -> None:
        self._spans = spans
        self._member_id = member_id
        self._leads = False
        self._attempts: dict[str, _Attempt] = {}  # by the id of the live, sampled job
        self._kept: deque[Span] = deque(maxlen=MAX_KEPT)

    def reset(self, state: ClusterState) -> None:
        """Begin anew from a state that did not come from the log."""
        self._leads = False
        self._kept.clear()
        self._attempts = {
            job.id: _Attempt(job.attempt, _known_beginning_ms(job, state), job.placed_at_ms)
            for job in state.jobs.values()
            if not job.state.is_final and job_trace(job).sampled
        }

    def take(self, state: ClusterState, at_ms: int, events: Iterable[Event]) -> None:
        """Follow the events of a command; `at_ms` is its stamp, and `state` the one after it or later."""
        at_ms = min(at_ms or state.clock_ms, state.clock_ms)
        for event in events:
            if isinstance(event, JobChanged):
                self._take_job(state, at_ms, event)
            elif isinstance(event, TaskChanged):
                if event.after is TaskState.LOST and event.reason == Reason.NODE_LOST:
                    self._lose(state, at_ms, event)
            elif isinstance(event, WaitReasonNoted):
                self._note_reason(at_ms, event)
            elif isinstance(event, EpochOpened):
                self._lead(event.leader == self._member_id, at_ms)

    def _note_reason(self, at_ms: int, event: WaitReasonNoted) -> None:
        attempt = self._attempts.get(event.job_id)
        if attempt is not None and not attempt.placed_ms:
            about: dict[str, Value] = {"gosched.reason": event.code, "gosched.explanation": event.message}
            noted = SpanEvent(at_ns=at_ms * MS, name="waits", attributes=about)
            attempt.reasons = (*attempt.reasons, noted)[-MAX_REASONS:]

    def _lead(self, leads: bool, at_ms: int) -> None:
        if leads and not self._leads:
            for span in self._kept:
                if span.end_ns >= (at_ms - REPEAT_S * 1000) * MS:
                    self._spans.put(span)
        self._leads = leads
        self._kept.clear()

    def _put(self, span: Span) -> None:
        if self._leads:
            self._spans.put(span)
        else:
            self._kept.append(span)

    def _take_job(self, state: ClusterState, at_ms: int, event: JobChanged) -> None:
        job = state.jobs.get(event.job_id)
        if job is None:  # forgotten in the same entry
            self._attempts.pop(event.job_id, None)
            return
        if event.before is JobState.UNSPECIFIED:
            if job_trace(job).sampled:
                self._attempts[job.id] = _Attempt(1, at_ms)
            return
        attempt = self._attempts.get(job.id)
        if attempt is None:
            return
        trace = job_trace(job)
        if not job.spec.is_parent:
            self._take_attempt(state, at_ms, event, attempt, trace)
        if event.after.is_final:
            del self._attempts[job.id]
            self._put(_job_span(job, trace))

    def _take_attempt(
        self, state: ClusterState, at_ms: int, event: JobChanged, attempt: _Attempt, trace: JobTrace
    ) -> None:
        job = state.jobs[event.job_id]
        if event.after is JobState.RUNNING:
            if not attempt.placed_ms:
                attempt.placed_ms = at_ms
                self._put(_wait_span(job, trace, attempt, at_ms, placed=True))
        elif event.before is JobState.RUNNING or event.after.is_final:
            if not attempt.placed_ms:
                self._put(_wait_span(job, trace, attempt, at_ms, placed=False))
            self._put(_attempt_span(state, job, trace, attempt, at_ms, event))
            self._attempts[job.id] = _Attempt(attempt.number + 1, at_ms)

    def _lose(self, state: ClusterState, at_ms: int, event: TaskChanged) -> None:
        """Make the span of a run whose agent cannot tell of it any more: it may have spans of the task below it."""
        job, attempt = state.jobs.get(event.job_id), self._attempts.get(event.job_id)
        if job is None or attempt is None or event.before is TaskState.PLACED or attempt.lost_runs >= MAX_LOST_RUNS:
            return
        attempt.lost_runs += 1
        about: dict[str, Value] = {
            "gosched.job.id": job.id,
            "gosched.task.id": event.task_id,
            "gosched.task.state": event.after.name,
            "gosched.node.id": event.node_id,
            "gosched.reason": event.reason,
        }
        self._put(
            Span(
                trace_id=job_trace(job).trace_id,
                span_id=run_span_id(event.allocation_id),
                parent_id=attempt_span_id(job.id, attempt.number),
                name="run",
                start_ns=(attempt.placed_ms or at_ms) * MS,
                end_ns=at_ms * MS,
                attributes=about,
                error=event.reason,
            )
        )


def _known_beginning_ms(job: Job, state: ClusterState) -> int:
    if job.attempt == 1:
        return job.submitted_at_ms
    return job.placed_at_ms or state.clock_ms


def _about(job: Job) -> dict[str, Value]:
    return {
        "gosched.job.id": job.id,
        "gosched.job.name": job.spec.name,
        "gosched.queue": job.spec.queue,
        "gosched.tenant": job.spec.tenant,
    }


def _job_span(job: Job, trace: JobTrace) -> Span:
    about = _about(job) | {
        "gosched.job.state": job.state.name,
        "gosched.job.attempts": job.attempt,
        "gosched.job.tasks": job.spec.task_count,
    }
    if job.user:
        about["user.name"] = job.user
    if job.exit_code is not None:
        about["process.exit.code"] = job.exit_code
    if job.reason:
        about["gosched.reason"] = job.reason
    made_by = own_trace(job.parent) if job.parent else None
    return Span(
        trace_id=trace.trace_id,
        span_id=trace.span_id,
        parent_id=trace.parent_id,
        name="job",
        start_ns=job.submitted_at_ms * MS,
        end_ns=job.ended_at_ms * MS,
        attributes=about,
        links=((made_by.trace_id, made_by.span_id),) if made_by else (),
        error=": ".join(filter(None, (job.reason, job.detail))) if job.state is JobState.FAILED else None,
    )


def _wait_span(job: Job, trace: JobTrace, attempt: _Attempt, at_ms: int, *, placed: bool) -> Span:
    return Span(
        trace_id=trace.trace_id,
        span_id=span_id("queue wait", job.id, attempt.number),
        parent_id=attempt_span_id(job.id, attempt.number),
        name="queue wait",
        start_ns=attempt.began_ms * MS,
        end_ns=at_ms * MS,
        attributes={**_about(job), "gosched.attempt": attempt.number, "gosched.placed": placed},
        events=attempt.reasons,
    )


def _attempt_span(
    state: ClusterState, job: Job, trace: JobTrace, attempt: _Attempt, at_ms: int, event: JobChanged
) -> Span:
    """`job` may be at its next attempt already; its tasks are still said to be where they were."""
    about = _about(job) | {"gosched.attempt": attempt.number, "gosched.attempt.placed": bool(attempt.placed_ms)}
    if attempt.placed_ms:
        nodes = len({task.node_id for task in state.tasks_of(job) if task.node_id})
        about["gosched.attempt.nodes"] = nodes
        if nodes > MAX_DISPATCHES:
            about["gosched.dispatch.spans_left_out"] = nodes - MAX_DISPATCHES
    if event.reason:
        about["gosched.reason"] = event.reason
    again = event.after is JobState.PENDING and bool(event.reason) and event.reason not in BY_ORDER
    return Span(
        trace_id=trace.trace_id,
        span_id=attempt_span_id(job.id, attempt.number),
        parent_id=trace.span_id,
        name="attempt",
        start_ns=attempt.began_ms * MS,
        end_ns=at_ms * MS,
        attributes=about,
        error=event.reason if again or event.after is JobState.FAILED else None,
    )
