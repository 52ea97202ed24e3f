"""Traces at a real OpenTelemetry collector: three masters, two agents, a command line and tasks send to it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.client import GoSchedClient
from gosched.core.records.job import JobState
from gosched.core.trace_context import own_trace
from tests.integration.collector import OtelCollector, Seen, collector
from tests.integration.support import PATIENCE_S, kill_whole, starts, until

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
NO_SPANS = "the collector takes no spans"
SPANS_AGAIN = "spans are taken again"
MAX_GROWTH_BYTES = 64 << 20  # 8192 spans of 1 KiB, eight times

# A task that records a span of its own, as a library of its would: below what TRACEPARENT names, over OTLP.
OWN_SPAN = """
import json, os, time, urllib.request
_, trace, parent, flags = os.environ["TRACEPARENT"].split("-")
now = str(time.time_ns())
span = dict(traceId=trace, spanId=os.urandom(8).hex(), parentSpanId=parent, name="own work", kind=1,
            startTimeUnixNano=now, endTimeUnixNano=now)
resource = dict(attributes=[dict(key="service.name", value=dict(stringValue="the-task"))])
body = dict(resourceSpans=[dict(resource=resource, scopeSpans=[dict(spans=[span])])])
request = urllib.request.Request("URL/v1/traces", json.dumps(body).encode(), {"content-type": "application/json"})
urllib.request.urlopen(request, timeout=30).read()
"""


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtelCollector]:
    with collector(tmp_path_factory.mktemp("collector")) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(receiver: OtelCollector) -> Iterator[LocalCluster]:
    tracing = {"tracing": {"endpoint": receiver.url, "attributes": {"deployment.environment.name": "test"}}}
    shape = AgentShape(settings=tracing)
    with LocalCluster(masters=3, agents=[shape, shape], settings=tracing) as running:
        yield running


def _check_whole(spans: list[Seen], above: str = "") -> None:
    """Each span's parent is in the trace, but for the caller's."""
    ids = {span.span_id for span in spans}
    orphans = [span for span in spans if span.parent_id not in ids | {above}]
    assert not orphans
    assert sum(span.parent_id == above for span in spans) >= 1


def _ended(receiver: OtelCollector, trace_id: str) -> list[Seen]:
    """The trace of a job that has ended, once all of it is there."""
    until(lambda: any(span.name == "job" for span in receiver.trace(trace_id)), "the span of the job")
    receiver.until_quiet()
    return receiver.trace(trace_id)


def test_a_gang_is_one_trace_across_client_masters_agents_and_its_own_tasks(
    cluster: LocalCluster, receiver: OtelCollector, tmp_path: Path
) -> None:
    script = tmp_path / "own.py"
    script.write_text(OWN_SPAN.replace("URL", receiver.url))
    job = f"name: gang\ncount: 6\nresources: {{cpu: 1, memory: 1Mi}}\nrun: '{sys.executable} {script}'\n"
    command = [Path(sys.executable).with_name("goschedctl"), "submit", "--wait", "-"]
    env = {"GOSCHED_ENDPOINTS": cluster.endpoints, "TRACEPARENT": CALLER, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
    done = subprocess.run(
        command, input=job, env={**os.environ, **env}, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    spans = _ended(receiver, CALLER[3:35])
    _check_whole(spans, above=CALLER[36:52])
    made = Counter((span.service, span.name) for span in spans)
    assert made["goschedctl", "submit"] == made["gosched-master", "job"] == made["gosched-master", "attempt"] == 1
    assert made["gosched-master", "dispatch"] == 2
    assert made["gosched-agent", "start"] == made["gosched-agent", "run"] == made["the-task", "own work"] == 6
    for name in ("SubmitJob", "commit", "queue wait", "schedule cycle", "commit plan"):
        assert made["gosched-master", name] == 1
    assert not any(span.status == "Error" for span in spans)
    of = {span.span_id: span for span in spans}
    (start, *_) = [span for span in spans if span.name == "start"]
    assert {"cgroup made", "supervisor started"} < set(start.events)
    assert {of[span.parent_id].name for span in spans if span.name == "own work"} == {"run"}
    assert {of[span.parent_id].name for span in spans if span.name == "run"} == {"attempt"}
    assert {of[span.parent_id].name for span in spans if span.name == "SubmitJob"} == {"submit"}


def test_a_job_that_fails_twice_while_its_leader_is_killed_is_one_trace_of_three_attempts(
    cluster: LocalCluster, receiver: OtelCollector, tmp_path: Path
) -> None:
    ledger, go = tmp_path / "ledger", tmp_path / "go"
    run = f"echo x $GOSCHED_ATTEMPT $$ >> {ledger}; [ $GOSCHED_ATTEMPT = 3 ] && exit 0;"
    run += f" [ $GOSCHED_ATTEMPT = 1 ] || until [ -e {go} ]; do sleep 0.05; done; exit 7"
    job = (
        "name: thrice\nresources: {cpu: 1, memory: 1Mi}\nretry: {max: 2, backoff: 10ms, when: [failed]}\n"
        f"run: '{run}'\n"
    )
    with cluster.client() as client:
        job_id = client.submit(job).job_id
        until(lambda: len(starts(ledger)) == 2, "the second attempt")
        killed = cluster.leader()
        kill_whole(killed)
        cluster.leader()
        go.touch()
        assert client.wait("thrice", timeout=PATIENCE_S).state is JobState.SUCCEEDED
        cluster.restart(killed)
    spans = _ended(receiver, own_trace(job_id).trace_id)
    _check_whole(spans)
    attempts = {span.span_id: span for span in spans if span.name == "attempt"}  # those before the kill came twice
    assert sorted((a.attributes["gosched.attempt"], a.status) for a in attempts.values()) == [
        ("1", "Error"),
        ("2", "Error"),
        ("3", "Unset"),
    ]
    runs = {span.span_id: span for span in spans if span.name == "run"}
    assert sorted(run.attributes["process.exit.code"] for run in runs.values()) == ["0", "7", "7"]
    for span in spans:  # a span that came twice is the same
        assert all(other == span for other in spans if other.span_id == span.span_id)


def test_jobs_run_on_without_a_collector_and_spans_flow_again_once_it_is_back(
    cluster: LocalCluster, receiver: OtelCollector
) -> None:
    cluster.wait_ready()
    leader = psutil.Process(cluster.leader().pid)
    before = leader.memory_info().rss
    refused, taken = _lines(cluster, NO_SPANS), _lines(cluster, SPANS_AGAIN)  # a slow machine may have had some before
    receiver.kill()
    with cluster.client() as client:
        jobs = [_submit(client, f"dark-{number}") for number in range(40)]
        for job_id in jobs:
            assert client.wait(job_id, timeout=PATIENCE_S).state is JobState.SUCCEEDED
        until(lambda: _lines(cluster, NO_SPANS) != refused, "the line that says so")
        assert leader.memory_info().rss - before < MAX_GROWTH_BYTES
        more = [now - then for now, then in zip(_lines(cluster, NO_SPANS), refused, strict=True)]
        assert set(more) <= {0, 1}, "more than one line of a daemon"
        assert _lines(cluster, SPANS_AGAIN) == taken
        receiver.start()
        job_id = _submit(client, "light")  # it may be the first to have spans again: those before may have been dropped
        client.wait(job_id, timeout=PATIENCE_S)
        until(lambda: _lines(cluster, SPANS_AGAIN) != taken, "the line of its return")
    _check_whole(_ended(receiver, own_trace(job_id).trace_id))


def _submit(client: GoSchedClient, name: str) -> str:
    return client.submit(f"name: {name}\nresources: {{cpu: 100m, memory: 1Mi}}\nrun: 'true'\n").job_id


def _lines(cluster: LocalCluster, text: str) -> list[int]:
    """How often each master's log has it."""
    return [master.log.read_text().count(text) for master in cluster.masters.values()]
