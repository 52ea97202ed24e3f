"""The spans of a task on its node: `start`, from its order until it runs, and `run`, until it has ended.

Its order names the trace: TRACEPARENT is the span `run`, below which the task's own spans are. An agent that adopts a
task sends its `run` at the end; one that is started again before the masters know of an end sends it once more, the
same.

Invariant: a task that is not sampled makes no span.
"""

from __future__ import annotations

from gosched.agent.tasks.task import Task
from gosched.core.commands.nodes import TaskReport
from gosched.core.records.task import TaskState
from gosched.core.trace_context import TraceContext, attempt_span_id, parse_traceparent, span_id
from gosched.observe.tracing import MS, Span, SpanEvent, Spans, Value


class TaskTraces:
    def __init__(self, spans: Spans, node_id: str) -> None:
        self._spans = spans
        self._node_id = node_id

    def started(self, task: Task) -> None:
        """Make the span of a start that has succeeded. Where an earlier agent got the order, it is not known when."""
        context = _context(task)
        if context is not None and task.ordered_at_ms:
            self._spans.put(self._start_span(task, context, task.started_at_ms, None))

    def ended(self, task: Task) -> None:
        """Make the span of a run that has ended, or of a start that has failed."""
        context, ending = _context(task), task.ending
        if context is None or ending is None:
            return
        started_at_ms = task.started_at_ms or ending.started_at_ms
        if started_at_ms:
            self._spans.put(self._run_span(task, context, ending, started_at_ms))
        elif task.ordered_at_ms:
            self._spans.put(self._start_span(task, context, ending.ended_at_ms, _error(ending)))

    def _start_span(self, task: Task, context: TraceContext, until_ms: int, error: str | None) -> Span:
        return Span(
            trace_id=context.trace_id,
            span_id=span_id("start", task.order.allocation_id),
            parent_id=_attempt(task),
            name="start",
            start_ns=task.ordered_at_ms * MS,
            end_ns=until_ms * MS,
            attributes=self._about(task),
            events=tuple([SpanEvent(at_ns=at_ns, name=name) for name, at_ns in task.steps]),
            error=error,
        )

    def _run_span(self, task: Task, context: TraceContext, ending: TaskReport, started_at_ms: int) -> Span:
        about = self._about(task) | {"gosched.task.state": ending.state.name}
        if ending.exit_code is not None:
            about["process.exit.code"] = ending.exit_code
        if ending.reason:
            about["gosched.reason"] = ending.reason
        return Span(
            trace_id=context.trace_id,
            span_id=context.span_id,
            parent_id=_attempt(task),
            name="run",
            start_ns=started_at_ms * MS,
            end_ns=ending.ended_at_ms * MS,
            attributes=about,
            error=_error(ending),
        )

    def _about(self, task: Task) -> dict[str, Value]:
        order = task.order
        about: dict[str, Value] = {
            "gosched.job.id": order.job_id,
            "gosched.task.id": order.task_id,
            "gosched.allocation.id": order.allocation_id,
            "gosched.node.id": self._node_id,
            "gosched.runtime": order.runtime.name.lower(),
        }
        if order.image:
            about["container.image.name"] = order.image
        return about


def _context(task: Task) -> TraceContext | None:
    """Return the task's place in its trace; None: it has none, or is not sampled."""
    context = parse_traceparent(dict(task.order.env).get("TRACEPARENT", ""))
    return context if context is not None and context.sampled else None


def _attempt(task: Task) -> str:
    return attempt_span_id(task.order.job_id, dict(task.order.env).get("GOSCHED_ATTEMPT", "1"))


def _error(ending: TaskReport) -> str | None:
    """Return what went wrong. A task that was ended by order has not failed."""
    if ending.state not in (TaskState.FAILED, TaskState.LOST):
        return None
    return ": ".join(filter(None, (ending.reason, ending.detail))) or ending.state.name
