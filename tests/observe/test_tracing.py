"""Spans on their way: what a collector gets, what one that is gone costs, and that nothing is loaded unless asked."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind as OtelKind
from opentelemetry.trace import StatusCode

from gosched.config import AgentSettings, ConfigError, MasterSettings
from gosched.observe import tracing_otlp
from gosched.observe.tracing import Span, SpanEvent, SpanKind, open_spans
from gosched.observe.tracing_otlp import OtlpSpans
from tests.otlp import Collector, otlp_receiver

LIMIT_S = 30.0
TRACE, ONE, TWO = "0" * 31 + "1", "0" * 15 + "1", "0" * 15 + "2"


def span(**more: Any) -> Span:
    return Span(**({"trace_id": TRACE, "span_id": TWO, "name": "run", "start_ns": 10, "end_ns": 20} | more))


@pytest.fixture
def collector() -> Iterator[tuple[type[Collector], str]]:
    with otlp_receiver() as found:
        yield found


def test_a_span_is_told_as_opentelemetry_has_it() -> None:
    exporter = InMemorySpanExporter()
    spans = OtlpSpans.to(exporter, {"service.name": "gosched-master"})
    event = SpanEvent(at_ns=15, name="waits", attributes={"gosched.reason": "QUOTA"})
    spans.put(span(parent_id=ONE, kind=SpanKind.SERVER, events=(event,), links=((TRACE, ONE),), error="NODE_LOST"))
    spans.close()
    (made,) = exporter.get_finished_spans()
    assert made.context is not None
    assert made.parent is not None
    assert (made.context.trace_id, made.context.span_id, made.parent.span_id) == (1, 2, 1)
    assert (made.kind, made.status.status_code, made.status.description) == (
        OtelKind.SERVER,
        StatusCode.ERROR,
        "NODE_LOST",
    )
    assert (made.start_time, made.end_time, made.events[0].timestamp) == (10, 20, 15)
    assert made.resource.attributes["service.name"] == "gosched-master"


def test_settings_decide_where_spans_go_and_as_whose(collector: tuple[type[Collector], str]) -> None:
    receiver, url = collector
    tracing = {"endpoint": url, "headers": {"x-key": "k"}, "attributes": {"deployment.environment.name": "test"}}
    settings = AgentSettings.model_validate({"tracing": tracing})
    spans = open_spans(settings, part="agent", instance="n1", version="9")
    assert spans is not None
    spans.put(span())
    spans.close()
    (request,) = receiver.got
    (resource,) = request.resource_spans
    about = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
    assert about["service.name"] == "gosched-agent"
    assert about["service.instance.id"] == "n1"
    assert about["deployment.environment.name"] == "test"
    assert resource.scope_spans[0].spans[0].name == "run"
    assert receiver.heads[0]["x-key"] == "k"


def test_a_collector_that_is_gone_costs_dropped_spans_one_line_and_no_wait(
    collector: tuple[type[Collector], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, url = collector
    lines: list[tuple[str, dict[str, Any]]] = []

    class Log:
        def warning(self, event: str, **about: Any) -> None:
            lines.append((event, about))

        info = warning

    monkeypatch.setattr(tracing_otlp, "log", Log())
    monkeypatch.setattr(tracing_otlp, "SEND_S", 0.2)
    monkeypatch.setattr(tracing_otlp, "DELAY_S", 0.02)
    receiver.status = 503
    spans = OtlpSpans(url + "/v1/traces", {}, {})
    began = time.monotonic()
    for _ in range(3 * tracing_otlp.MAX_QUEUED):
        spans.put(span())
    assert time.monotonic() - began < LIMIT_S / 2
    assert len(spans._queue._batch_processor._queue) <= tracing_otlp.MAX_QUEUED
    ends = time.monotonic() + LIMIT_S
    while len(spans._queue._batch_processor._queue) and time.monotonic() < ends:
        time.sleep(0.02)
    assert [event for event, _ in lines] == ["the collector takes no spans: they are dropped until it does"]
    receiver.status = 200
    spans.put(span())
    while not receiver.got and time.monotonic() < ends:
        time.sleep(0.02)
    spans.close()
    assert [event for event, _ in lines][1:] == ["spans are taken again"]
    assert lines[1][1]["dropped"] >= tracing_otlp.MAX_QUEUED


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gosched.observe.tracing_otlp", None)
    monkeypatch.delitem(sys.modules, "gosched.observe.tracing_otlp")
    for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    settings = MasterSettings.model_validate({"tracing": {"endpoint": "http://c:4318"}})
    with pytest.raises(ConfigError, match=r"tracing.endpoint: opentelemetry is not .*pip install 'gosched\[otel\]'"):
        open_spans(settings, part="master", instance="m1", version="9")


def test_nothing_that_sends_spans_is_loaded_unless_a_collector_is_configured() -> None:
    look = "import sys, gosched.master.server, gosched.agent.main, gosched.cli.submit_command as _;"
    # FastAPI loads OpenTelemetry's API; the SDK and the exporter are what costs.
    look += "heavy = ('opentelemetry.sdk', 'opentelemetry.exporter', 'requests');"
    look += "print([name for name in sys.modules if name.startswith(heavy)])"
    said = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert said.stdout.strip() == "[]"
    assert open_spans(MasterSettings(), part="master", instance="m1", version="9") is None
