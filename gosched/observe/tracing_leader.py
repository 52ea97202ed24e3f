"""The spans of what a leader does for a job, beside the log: it takes a submission, plans, commits, dispatches.

Only the master that did it knows of it, so these spans are leaves, or below leaves: where a leader dies before it has
sent them, no other span lacks its parent.

Invariant: a cycle makes at most MAX_CYCLE_SPANS pairs of spans, an attempt at most MAX_DISPATCHES of dispatch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from gosched.core.commands.plans import GangPlacement
from gosched.core.records.job import Job
from gosched.core.state.cluster_state import ClusterState
from gosched.core.trace_context import TraceContext, attempt_span_id, job_trace, own_trace, span_id
from gosched.observe.tracing import Span, SpanKind, Spans, Value, now_ns
from gosched.observe.tracing_jobs import MAX_DISPATCHES

MAX_CYCLE_SPANS = 256  # gangs of one cycle that have its span in their traces
MAX_ATTEMPTS_COUNTED = 1024  # attempts whose dispatches are counted; the newest

_RPC: Mapping[str, Value] = {"rpc.system": "grpc", "rpc.service": "gosched.v1.SchedulerService"}


def submission_context(job_id: str, caller: TraceContext | None, sample: float) -> TraceContext | None:
    """Return the context that is stored with a job: its caller's; else its own where it is not sampled; None: its own,
    and sampled. `sample`: the share of traces that are."""
    if caller is not None:
        return caller
    own = own_trace(job_id, sampled=False)
    return None if int(own.trace_id[16:], 16) < sample * (1 << 64) else own.context


@dataclass(slots=True, kw_only=True)
class Submission:
    """A submission while it is under way. Costs two looks at the clock where nothing is traced."""

    #: None: it came with none.
    caller: TraceContext | None
    began_ns: int
    #: Of the service: one job, or a batch.
    method: str
    #: How many are submitted.
    jobs: int
    #: When its command was proposed; 0: not yet, or it is a batch, which has many.
    proposed_ns: int = 0
    #: That it made or met; None: none yet.
    job: Job | None = None
    #: It met a job that was there already.
    unchanged: bool = False

    def propose(self) -> None:
        self.proposed_ns = now_ns()

    def taken(self, job: Job | None, *, unchanged: bool) -> None:
        self.job, self.unchanged = job, unchanged


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """A cycle that has committed its plan."""

    epoch: int
    #: Of the state that was planned.
    revision: int
    began_ns: int
    planned_ns: int
    committed_ns: int
    #: Gangs that were not placed.
    waiting: int
    #: No part of the plan was refused.
    accepted: bool


class LeaderTraces:
    """Makes spans of what this master does as the leader."""

    def __init__(self, spans: Spans, *, sample: float) -> None:
        #: The share of the jobs without a caller's context that are traced.
        self.sample = sample
        self._spans = spans
        self._dispatches: Counter[str] = Counter()  # by the attempt's span

    def submitted(self, submission: Submission, error: str | None) -> None:
        """Make the span of a submission that has ended, in its caller's trace, else in the job's."""
        job, caller = submission.job, submission.caller
        trace = job_trace(job) if job is not None else None
        where = caller or (trace and trace.context)
        if where is None or not where.sampled:
            return
        method = submission.method
        about: dict[str, Value] = {**_RPC, "rpc.method": method, "gosched.jobs": submission.jobs}
        if job is not None:
            about |= {"gosched.job.id": job.id, "gosched.job.name": job.spec.name}
            about["gosched.unchanged"] = submission.unchanged
        ended_ns = now_ns()
        call = Span(
            trace_id=where.trace_id,
            span_id=span_id(method, where.span_id, submission.began_ns),
            parent_id=where.span_id,
            name=method,
            kind=SpanKind.SERVER,
            start_ns=submission.began_ns,
            end_ns=ended_ns,
            attributes=about,
            links=((trace.trace_id, trace.span_id),) if trace and trace.trace_id != where.trace_id else (),
            error=error,
        )
        self._spans.put(call)
        if submission.proposed_ns:
            self._spans.put(
                Span(
                    trace_id=call.trace_id,
                    span_id=span_id("commit", call.span_id),
                    parent_id=call.span_id,
                    name="commit",
                    start_ns=submission.proposed_ns,
                    end_ns=ended_ns,
                    error=error,
                )
            )

    def planned(self, state: ClusterState, gangs: Sequence[GangPlacement], cycle: Cycle) -> None:
        """Make the spans of a cycle, in the trace of each gang that it placed."""
        about: dict[str, Value] = {
            "gosched.epoch": cycle.epoch,
            "gosched.revision": cycle.revision,
            "gosched.cycle.gangs_placed": len(gangs),
            "gosched.cycle.tasks_placed": sum(len(gang.tasks) for gang in gangs),
            "gosched.cycle.gangs_waiting": cycle.waiting,
            "gosched.cycle.plan_ms": (cycle.planned_ns - cycle.began_ns) / 1e6,
        }
        if len(gangs) > MAX_CYCLE_SPANS:
            about["gosched.cycle.spans_left_out"] = len(gangs) - MAX_CYCLE_SPANS
        for gang in gangs[:MAX_CYCLE_SPANS]:
            job = state.jobs.get(gang.job_id)
            if job is not None and job_trace(job).sampled:
                for span in _cycle_spans(job, gang, cycle, about):
                    self._spans.put(span)

    def dispatched(
        self, state: ClusterState, node_id: str, allocation_ids: Iterable[str], began_ns: int, error: str | None = None
    ) -> None:
        """Make the span of start orders to a node, for each job of which there are some."""
        tasks: Counter[tuple[str, int]] = Counter()
        for allocation_id in allocation_ids:
            allocation = state.allocations.get(allocation_id)
            if allocation is not None:
                tasks[allocation.job_id, state.tasks[allocation.task_id].attempt] += 1
        for (job_id, attempt), count in tasks.items():
            trace, parent = job_trace(state.jobs[job_id]), attempt_span_id(job_id, attempt)
            if trace.sampled and self._counts(parent):
                about: dict[str, Value] = {"gosched.node.id": node_id, "gosched.tasks": count, "gosched.job.id": job_id}
                self._spans.put(
                    Span(
                        trace_id=trace.trace_id,
                        span_id=span_id("dispatch", parent, node_id, began_ns),
                        parent_id=parent,
                        name="dispatch",
                        kind=SpanKind.CLIENT,
                        start_ns=began_ns,
                        end_ns=now_ns(),
                        attributes=about,
                        error=error,
                    )
                )

    def _counts(self, attempt: str) -> bool:
        """Count a dispatch of the attempt; return whether it is to have a span."""
        if attempt not in self._dispatches and len(self._dispatches) >= MAX_ATTEMPTS_COUNTED:
            del self._dispatches[next(iter(self._dispatches))]
        self._dispatches[attempt] += 1
        return self._dispatches[attempt] <= MAX_DISPATCHES


@contextmanager
def submission(
    traces: LeaderTraces | None, caller: TraceContext | None, *, method: str = "SubmitJob", jobs: int = 1
) -> Iterator[Submission]:
    """Follow a submission to its end, whatever that is."""
    under_way = Submission(caller=caller, began_ns=now_ns(), method=method, jobs=jobs)
    error: str | None = None
    try:
        yield under_way
    except BaseException as problem:  # one that its caller cancels, too
        error = str(problem) or type(problem).__name__
        raise
    finally:
        if traces is not None:
            traces.submitted(under_way, error)


def _cycle_spans(job: Job, gang: GangPlacement, cycle: Cycle, about: Mapping[str, Value]) -> tuple[Span, Span]:
    trace, parent = job_trace(job), attempt_span_id(job.id, gang.attempt)
    whole = span_id("schedule cycle", parent, cycle.epoch, cycle.revision)
    own: dict[str, Value] = {"gosched.job.id": job.id, "gosched.tasks": len(gang.tasks)}
    if gang.evictions:
        own["gosched.evictions"] = len(gang.evictions)
    return (
        Span(
            trace_id=trace.trace_id,
            span_id=whole,
            parent_id=parent,
            name="schedule cycle",
            start_ns=cycle.began_ns,
            end_ns=cycle.committed_ns,
            attributes={**about, **own},
        ),
        Span(
            trace_id=trace.trace_id,
            span_id=span_id("commit plan", whole),
            parent_id=whole,
            name="commit plan",
            start_ns=cycle.planned_ns,
            end_ns=cycle.committed_ns,
            attributes={**own, "gosched.plan.accepted": cycle.accepted},
        ),
    )
