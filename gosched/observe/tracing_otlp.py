"""Sends spans to a collector over OTLP/HTTP, by OpenTelemetry's SDK. The only module of the daemons that imports it.

Invariant: a collector that is slow, gone or refuses costs dropped spans and one line of the log until it answers
again; never a wait of the caller, and never more memory than MAX_QUEUED spans.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags
from opentelemetry.trace import SpanKind as OtelKind

from gosched.observe.tracing import Span, SpanKind

MAX_QUEUED = 8192  # spans that wait for the collector, about 1 KiB each; the oldest beyond them are dropped
BATCH = 512
DELAY_S = 1.0
SEND_S = 5.0  # for one batch, with repeats
CLOSE_S = 1.0

_KINDS = {SpanKind.INTERNAL: OtelKind.INTERNAL, SpanKind.SERVER: OtelKind.SERVER, SpanKind.CLIENT: OtelKind.CLIENT}
_SCOPE = InstrumentationScope("gosched")
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)

log = structlog.get_logger()


class OtlpSpans:
    """Spans on their way to a collector."""

    def __init__(self, url: str, headers: Mapping[str, str], attributes: Mapping[str, str]) -> None:
        exporter = OTLPSpanExporter(endpoint=url, headers=dict(headers) or None, timeout=SEND_S)
        self._begin(_OneLine(exporter, url), attributes)

    @classmethod
    def to(cls, exporter: SpanExporter, attributes: Mapping[str, str]) -> OtlpSpans:
        """Return spans that go to another exporter, for tests."""
        spans = cls.__new__(cls)
        spans._begin(exporter, attributes)
        return spans

    def _begin(self, exporter: SpanExporter, attributes: Mapping[str, str]) -> None:
        _silence_the_sdk()
        self._exporter = exporter
        self._resource = Resource.create(dict(attributes))
        self._queue = BatchSpanProcessor(
            exporter, max_queue_size=MAX_QUEUED, schedule_delay_millis=DELAY_S * 1000, max_export_batch_size=BATCH
        )

    def put(self, span: Span) -> None:
        self._queue.on_end(readable(span, self._resource))

    def close(self) -> None:
        """Send what is left. A collector that does not answer is not waited for: the thread ends with the process."""
        last = threading.Thread(target=self._queue.shutdown, daemon=True)
        last.start()
        last.join(CLOSE_S)
        if last.is_alive():
            self._exporter.shutdown()


class _OneLine(SpanExporter):
    """An exporter that says once that spans are dropped, and once that they are sent again."""

    def __init__(self, exporter: SpanExporter, url: str) -> None:
        self._exporter = exporter
        self._url = url
        self._dropped = 0  # spans, since the collector took the last ones

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS and self._dropped:
            log.info("spans are taken again", collector=self._url, dropped=self._dropped)
            self._dropped = 0
        elif result is not SpanExportResult.SUCCESS:
            if not self._dropped:
                log.warning("the collector takes no spans: they are dropped until it does", collector=self._url)
            self._dropped += len(spans)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


def readable(span: Span, resource: Resource) -> ReadableSpan:
    """Return the span as OpenTelemetry's SDK has it."""
    return ReadableSpan(
        name=span.name,
        context=_context(span.trace_id, span.span_id),
        parent=_context(span.trace_id, span.parent_id) if span.parent_id else None,
        resource=resource,
        attributes=span.attributes,
        events=[Event(each.name, each.attributes, each.at_ns) for each in span.events],
        links=[Link(_context(*link)) for link in span.links],
        kind=_KINDS[span.kind],
        status=Status(StatusCode.ERROR, span.error) if span.error is not None else Status(),
        start_time=span.start_ns,
        end_time=max(span.start_ns, span.end_ns),
        instrumentation_scope=_SCOPE,
    )


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=_SAMPLED)


def _silence_the_sdk() -> None:
    """Keep the SDK from a line for each try: this module says what matters."""
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)
