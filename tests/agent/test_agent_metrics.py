"""The metrics of an agent, as a scraper reads them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gosched.agent import metrics as metrics_module
from gosched.agent.hardware.disk import Disk, DiskSpace
from gosched.agent.hardware.gpus import Gpu, Gpus
from gosched.agent.hardware.nvml import GpuState
from gosched.agent.hardware.vitals import Pressure, Vitals
from gosched.agent.metrics import AgentFacts, AgentMetrics
from gosched.config import AgentSettings, ConfigError
from gosched.config.address import Listen
from gosched.core.records.usage import Usage


@pytest.fixture
def vitals() -> Vitals:
    gpus = Gpus([Gpu(), Gpu()])
    gpus.states = (GpuState(busy_milli=370), GpuState(problem="Xid 79"))
    vitals = Vitals(Disk(Path("/data"), 3, lambda _: DiskSpace(total_bytes=10, free_bytes=5)), gpus, lambda: None)
    vitals.pressure = {"cpu": Pressure(milli=12, stalled_us=2_500_000), "memory": Pressure(), "io": Pressure(milli=0)}
    return vitals


def samples(text: bytes) -> dict[str, float]:
    """`name{label=value}` -> value, of counters and gauges."""
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sample.labels.items())
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def test_the_metrics_of_the_contract_are_there(vitals: Vitals) -> None:
    facts = AgentFacts(
        tasks={("process", "running"): 3, ("docker", "failed"): 1},
        live=(Usage(oom_kills=1, throttled_ms=500), Usage(throttled_ms=250)),
        orphan_cgroups=2,
        kept_log_bytes=8192,
        unarchived_logs=3,
        missing=("io", "memory"),
    )
    metrics = AgentMetrics("1.2.3", vitals, lambda: facts)
    metrics.observe_start(0.03, "docker")
    metrics.observe_end(Usage(oom_kills=2, throttled_ms=1000))
    assert {name: value for name, value in samples(metrics.text()).items() if "_bucket" not in name} == {
        "gosched_build_info{version=1.2.3}": 1,
        "gosched_log_lines_dropped_total": 0,
        "gosched_agent_tasks{runtime=process,state=running}": 3,
        "gosched_agent_tasks{runtime=docker,state=failed}": 1,
        "gosched_agent_task_start_duration_seconds_count{runtime=docker}": 1,
        "gosched_agent_task_start_duration_seconds_sum{runtime=docker}": 0.03,
        "gosched_agent_task_start_duration_seconds_created{runtime=docker}": pytest.approx(0, abs=1e11),
        "gosched_agent_oom_kills_total": 3,
        "gosched_agent_cpu_throttled_seconds_total": 1.75,
        "gosched_agent_psi_stall_seconds_total{resource=cpu}": 2.5,
        "gosched_agent_psi_stall_seconds_total{resource=io}": 0,
        "gosched_agent_gpu_utilization_ratio{gpu=0}": 0.37,
        "gosched_agent_gpu_utilization_ratio{gpu=1}": 0,
        "gosched_agent_gpu_broken{gpu=0}": 0,
        "gosched_agent_gpu_broken{gpu=1}": 1,
        "gosched_agent_orphan_cgroups": 2,
        "gosched_agent_kept_log_bytes": 8192,
        "gosched_agent_unarchived_logs": 3,
        "gosched_agent_isolation{missing=io}": 1,
        "gosched_agent_isolation{missing=memory}": 1,
        "gosched_agent_unfit": 0,
    }


Talk = Callable[[int], Coroutine[Any, Any, Any]]


def served(vitals: Vitals, talk: Talk) -> Any:
    async def run() -> Any:
        metrics = AgentMetrics("1", vitals, AgentFacts)
        port = await metrics.serve(Listen(host="127.0.0.1", port=0), None)
        try:
            return await talk(port)
        finally:
            await metrics.close()

    return asyncio.run(run())


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        async with asyncio.timeout(30):
            return await reader.read()
    except ConnectionError:  # the other end closed it with words of ours unread
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /metrics HTTP/1.1", b"200 OK"),
        (b"GET /metrics?name=x HTTP/1.0", b"200 OK"),
        (b"GET /healthz HTTP/1.1", b"200 OK"),
        (b"GET / HTTP/1.1", b"404 Not Found"),
        (b"POST /metrics HTTP/1.1", b"405 Method Not Allowed"),
    ],
)
def test_a_scraper_gets_them_over_http(vitals: Vitals, request_line: bytes, status: bytes) -> None:
    answer = served(vitals, lambda port: ask(port, request_line + b"\r\nHost: x\r\n\r\n"))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)
    assert f"Content-Length: {len(body)}".encode() in head
    assert (b"gosched_build_info" in body) == (status == b"200 OK" and b"/metrics" in request_line)


def test_who_is_slow_or_speaks_something_else_is_cut_off(vitals: Vitals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "TIMEOUT_S", 0.05)

    async def talk(port: int) -> list[bytes]:
        return [await ask(port, b"GET /metr"), await ask(port, b"x" * 70_000)]

    assert served(vitals, talk) == [b"", b""]


def test_one_connection_too_many_is_cut_off(vitals: Vitals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "MAX_CONNECTIONS", 1)

    async def talk(port: int) -> bytes:
        _, first = await asyncio.open_connection("127.0.0.1", port)
        try:
            return await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n")
        finally:
            first.close()

    assert served(vitals, talk) == b""


def test_a_port_in_use_is_said_in_one_line(vitals: Vitals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        metrics = AgentMetrics("1", vitals, AgentFacts)
        with pytest.raises(ConfigError, match=f"http_addr: cannot listen on 127.0.0.1:{port}: Address already in use"):
            asyncio.run(metrics.serve(Listen(host="127.0.0.1", port=port), None))


def test_metrics_are_open_to_others_only_as_everything_else_is() -> None:
    assert AgentSettings.model_validate({}).http_listen() is None
    narrowed = AgentSettings.model_validate({"http_addr": ":9101"}).http_listen()
    assert narrowed is not None
    assert narrowed.host == "127.0.0.1"
    with pytest.raises(ConfigError, match="configure tls"):
        AgentSettings.model_validate({"http_addr": "0.0.0.0:9101"}).listens()
    both = AgentSettings.model_validate({"http_addr": "0.0.0.0:9101", "insecure": True}).listens()
    assert [listen.port for listen in both] == [0, 9101]
