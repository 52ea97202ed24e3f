"""Which trace a submission continues."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from opentelemetry import trace

from gosched.client import GoSchedClient
from gosched.client import tracing as own
from tests.client.fake_cluster import FakeMaster
from tests.otlp import otlp_receiver

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
JOB = "name: x\nrun: 'true'\nresources: {cpu: 1, memory: 1Mi}\n"
GOSCHEDCTL = Path(sys.executable).with_name("goschedctl")


def _told(start_master: Callable[..., FakeMaster]) -> list[str]:
    master = start_master()
    with GoSchedClient(master.address) as client:
        client.submit(JOB)
    return master.traceparents


def test_the_current_span_is_continued_before_the_environments(start_master, monkeypatch):
    monkeypatch.setenv("TRACEPARENT", OTHER)
    context = trace.SpanContext(int(TRACE, 16), int(SPAN, 16), is_remote=False, trace_flags=trace.TraceFlags(1))
    with trace.use_span(trace.NonRecordingSpan(context)):
        assert _told(start_master) == [PARENT]


@pytest.mark.parametrize("loaded", [True, False])
def test_without_a_span_the_environments_context_is_continued(start_master, monkeypatch, loaded):
    monkeypatch.setenv("TRACEPARENT", OTHER)
    if not loaded:
        monkeypatch.setattr(own, "API", "no.such.module")
    assert _told(start_master) == [OTHER]


@pytest.mark.parametrize("loaded", [True, False])
@pytest.mark.parametrize("found", ["", "00-nonsense"])
def test_without_a_context_none_is_sent(start_master, monkeypatch, loaded, found):
    monkeypatch.setenv("TRACEPARENT", found)
    if not loaded:
        monkeypatch.setattr(own, "API", "no.such.module")
    assert _told(start_master) == []


def _goschedctl(master: FakeMaster, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [GOSCHEDCTL, "submit", "-"],
        input=JOB,
        env={**os.environ, "GOSCHED_ENDPOINTS": master.address, "TRACEPARENT": PARENT, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_goschedctl_records_its_submission_in_the_trace_of_its_step(start_master):
    master = start_master()
    with otlp_receiver() as (receiver, url):
        done = _goschedctl(master, OTEL_EXPORTER_OTLP_ENDPOINT=url)
        assert done.returncode == 0, done.stderr
    (span,) = receiver.spans()
    assert (span.name, span.trace_id.hex(), span.parent_span_id.hex()) == ("submit", TRACE, SPAN)
    assert {pair.key: pair.value.string_value for pair in span.attributes}["gosched.job.id"] == "j-1"
    assert master.traceparents == [f"00-{TRACE}-{span.span_id.hex()}-01"]


def test_a_collector_that_is_gone_fails_no_command_and_says_nothing(start_master):
    done = _goschedctl(start_master(), OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert (done.returncode, done.stderr) == (0, "x: submitted as j-1\n")
