"""The trace that a submission continues: the current span of OpenTelemetry, else TRACEPARENT of the environment.

OpenTelemetry is not imported here. Where a span is current, its API is there already; where it is not, a process that
traces nothing pays nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gosched.core.trace_context import HEADER, TraceContext, parse_traceparent

API = "opentelemetry.trace"  # the module, where something has imported it
_SAMPLED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitSpan:
    """The span of a submission, if one is recorded, and the context that goes with the call."""

    #: None: there is none.
    context: TraceContext | None
    #: OpenTelemetry's; None: it is not loaded.
    span: Any = None

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return ((HEADER, self.context.traceparent),) if self.context is not None else ()

    def took(self, job_id: str) -> None:
        if self.span is not None:
            self.span.set_attribute("gosched.job.id", job_id)


@contextmanager
def submit_span(job_names: Sequence[str]) -> Iterator[SubmitSpan]:
    """Record a span `submit` of the jobs of one call by the process's own tracer, if it has one, and yield what goes
    with the call."""
    inherited = parse_traceparent(os.environ.get("TRACEPARENT", ""))
    api = sys.modules.get(API)
    if api is None:
        yield SubmitSpan(context=inherited)
        return
    within = None  # the current span
    if inherited is not None and not api.get_current_span().get_span_context().is_valid:
        within = api.set_span_in_context(api.NonRecordingSpan(_told(api, inherited)))
    tracer = api.get_tracer("gosched.client")
    attributes = {"gosched.job.name": job_names[0]} if len(job_names) == 1 else {"gosched.jobs": len(job_names)}
    with tracer.start_as_current_span("submit", within, api.SpanKind.CLIENT, attributes) as span:
        yield SubmitSpan(context=_context(span.get_span_context()), span=span)


def _told(api: Any, context: TraceContext) -> Any:
    flags = api.TraceFlags(_SAMPLED if context.sampled else 0)
    return api.SpanContext(int(context.trace_id, 16), int(context.span_id, 16), is_remote=True, trace_flags=flags)


def _context(found: Any) -> TraceContext | None:
    if not found.is_valid:
        return None
    return TraceContext(
        trace_id=f"{found.trace_id:032x}", span_id=f"{found.span_id:016x}", sampled=bool(found.trace_flags & _SAMPLED)
    )
