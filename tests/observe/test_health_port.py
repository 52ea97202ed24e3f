"""The health port: real servers and the probe of the images."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from gosched.config import ConfigError, Listen
from gosched.health import ask
from gosched.observe.health_port import HealthPort
from gosched.wire.v1 import scheduler_pb2, scheduler_pb2_grpc
from tests.ports import HeldPort

LIMIT_S = 30.0
Status = health_pb2.HealthCheckResponse


@asynccontextmanager
async def serving(*, live: bool = True, ready: bool = True) -> AsyncIterator[tuple[str, dict[str, bool]]]:
    """Yields the address, and what the checks answer."""
    checks = {"live": live, "ready": ready}
    listen = Listen(host="127.0.0.1", port=0)
    port = HealthPort(listen, key="health_addr", live=lambda: checks["live"], ready=lambda: checks["ready"])
    await port.start()
    try:
        yield f"127.0.0.1:{port.port}", checks
    finally:
        await port.stop()


@pytest.mark.parametrize(("live", "ready"), [(True, False), (False, True)])
def test_the_probe_says_whether_the_process_lives_and_whether_it_is_ready(live: bool, ready: bool) -> None:
    async def story() -> None:
        async with serving(live=live, ready=ready) as (address, _):
            assert (not await asyncio.to_thread(ask, address, "")) is live
            assert (not await asyncio.to_thread(ask, address, "ready")) is ready
            assert 'there are the services "" and "ready"' in await asyncio.to_thread(ask, address, "other")

    asyncio.run(story())


def test_a_watch_hears_of_each_change() -> None:
    async def story() -> None:
        async with serving(ready=False) as (address, checks), grpc.aio.insecure_channel(address) as channel:
            watch: Any = health_pb2_grpc.HealthStub(channel).Watch(
                health_pb2.HealthCheckRequest(service="ready"), timeout=LIMIT_S
            )
            assert (await watch.read()).status == Status.NOT_SERVING
            checks["ready"] = True
            assert (await watch.read()).status == Status.SERVING
            watch.cancel()

    asyncio.run(story())


def test_nothing_but_health_is_served_there() -> None:
    async def story() -> None:
        async with serving() as (address, _), grpc.aio.insecure_channel(address) as channel:
            stub = scheduler_pb2_grpc.SchedulerServiceStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.GetClusterStatus(scheduler_pb2.GetClusterStatusRequest(), timeout=LIMIT_S)
            assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED

    asyncio.run(story())


def test_a_port_in_use_is_refused_in_one_line() -> None:
    async def story() -> None:
        async with serving() as (address, _):
            taken = Listen(host="127.0.0.1", port=int(address.rpartition(":")[2]))
            with pytest.raises(
                ConfigError, match=r"^server\.health_addr: cannot listen on 127\.0\.0\.1:[0-9]+: Address"
            ):
                HealthPort(taken, key="server.health_addr", live=lambda: True, ready=lambda: True)

    asyncio.run(story())


def test_the_probe_of_the_images_ends_with_1_and_a_line_where_nothing_answers() -> None:
    port = HeldPort()
    done = subprocess.run(
        [sys.executable, "-m", "gosched.health"],
        env={"GOSCHED_HEALTH_ADDR": f":{port.number}"},
        capture_output=True,
        text=True,
        timeout=2 * LIMIT_S,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"gosched: 127.0.0.1:{port.number} does not answer")
