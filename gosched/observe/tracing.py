"""Spans as gosched makes them, and where they go. OpenTelemetry is imported only where a collector is configured.

Invariant: to put a span never waits and never fails; what cannot be sent is dropped.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from gosched.config.settings import Settings
from gosched.programs import missing_package

Value = str | int | float | bool | tuple[str, ...]

MS = 1_000_000  # nanoseconds


class SpanKind(Enum):
    """OpenTelemetry's kinds, those that are used here."""

    INTERNAL = "internal"
    SERVER = "server"
    CLIENT = "client"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanEvent:
    """Something that happened within a span."""

    at_ns: int
    name: str
    attributes: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A span that has ended, and whose trace is sampled."""

    #: 32 hexadecimal digits.
    trace_id: str
    #: 16 hexadecimal digits.
    span_id: str
    #: Of the span that it is part of; empty: it is the root.
    parent_id: str = ""
    name: str
    kind: SpanKind = SpanKind.INTERNAL
    #: Since 1970.
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Value] = field(default_factory=dict)
    #: In order of time.
    events: tuple[SpanEvent, ...] = ()
    #: Spans of other traces, as (trace id, span id).
    links: tuple[tuple[str, str], ...] = ()
    #: What went wrong; None: nothing did.
    error: str | None = None


class Spans(Protocol):
    """Where spans go."""

    def put(self, span: Span) -> None: ...

    def close(self) -> None:
        """Send what is left, for a moment at most."""
        ...


def open_spans(settings: Settings, *, part: str, instance: str, version: str) -> Spans | None:
    """Return where this process sends its spans; None: it is not to trace. Raises ConfigError where the extra is not
    installed. `part`: master or agent."""
    tracing = settings.tracing
    if not tracing.endpoint:
        return None
    try:
        from gosched.observe.tracing_otlp import OtlpSpans
    except ModuleNotFoundError as error:
        if not (line := missing_package(error, "otel")):
            raise
        raise settings.error("tracing.endpoint", f"tracing.endpoint: {line}") from None
    resource = {
        "service.namespace": "gosched",
        "service.name": f"gosched-{part}",
        "service.instance.id": instance,
        "service.version": version,
    }
    return OtlpSpans(tracing.url, dict(tracing.headers), {**resource, **dict(tracing.attributes)})


def now_ns() -> int:
    return time.time_ns()
