"""The W3C trace context of a job, and where its spans are in the trace.

Invariant: the ids follow from the job alone, so that spans made by different processes, and by the masters before and
after a failover, fit together without a word between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gosched.core.records.job import Job

HEADER = "traceparent"  # of HTTP, metadata of gRPC
CACHED = 1024  # ids that are asked for again within moments

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_MAX_LENGTH = 512  # of a version that is not known yet
_SAMPLED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """A span of a trace, as it is told to others. What `tracestate` says beside it is dropped."""

    #: 32 hexadecimal digits, not all 0.
    trace_id: str
    #: 16 hexadecimal digits, not all 0.
    span_id: str
    #: Whether the spans of the trace are recorded.
    sampled: bool

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTrace:
    """Where the spans of a job are."""

    trace_id: str
    #: Of the span from its submission to its end.
    span_id: str
    #: Of the caller's span that it was submitted in; empty: it came with none.
    parent_id: str = ""
    #: Whether the spans are recorded.
    sampled: bool = True

    @property
    def context(self) -> TraceContext:
        return TraceContext(trace_id=self.trace_id, span_id=self.span_id, sampled=self.sampled)


def parse_traceparent(text: str) -> TraceContext | None:
    """Return the context of a W3C `traceparent`; None for one that is malformed, which is ignored as if there were
    none. A later version is read as version 00, as the specification asks."""
    found = _TRACEPARENT.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    return TraceContext(trace_id=trace_id, span_id=span_id, sampled=bool(int(flags, 16) & _SAMPLED))


def context_of_call(metadata: Iterable[tuple[str, str | bytes]] | None) -> TraceContext | None:
    """Return the context that a call came with; None: none, or more than one, which counts as malformed."""
    given = [value for key, value in metadata or () if key == HEADER]
    return parse_traceparent(given[0]) if len(given) == 1 and isinstance(given[0], str) else None


def span_id(kind: str, *of: object) -> str:
    """Return the id of the span of this kind, of these ids and numbers."""
    return blake2b(" ".join([kind, *map(str, of)]).encode(), digest_size=8).hexdigest()


def run_span_id(allocation_id: str) -> str:
    """Return the id of the span of one start of a task: the parent of what the task itself records."""
    return blake2b(allocation_id.encode(), digest_size=8).hexdigest()


@lru_cache(CACHED)
def attempt_span_id(job_id: str, attempt: int | str) -> str:
    return span_id("attempt", job_id, attempt)


@lru_cache(CACHED)
def own_trace(job_id: str, *, sampled: bool = True) -> JobTrace:
    """Return the trace of a job that came with no context."""
    trace_id = blake2b(job_id.encode(), digest_size=16).hexdigest()
    return JobTrace(trace_id=trace_id, span_id=span_id("job", job_id), sampled=sampled)


def job_trace(job: Job) -> JobTrace:
    """Return the trace of a job: its caller's, or one of its own. What an array or a schedule makes has a trace of its
    own, so that none grows without end; it is sampled as its parent is."""
    own = own_trace(job.id)
    given = parse_traceparent(job.traceparent) if job.traceparent else None
    if given is None:
        return own
    if job.parent or given.trace_id == own.trace_id:
        return own_trace(job.id, sampled=given.sampled)
    return JobTrace(trace_id=given.trace_id, span_id=own.span_id, parent_id=given.span_id, sampled=given.sampled)
