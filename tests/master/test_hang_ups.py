"""Callers that hang up at any stage of a call leave no errors in the log of a master, over HTTP and over gRPC."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping
from typing import Any

import grpc
import pytest
import structlog

from gosched.logs.process import _FromLibraries
from gosched.wire.v1 import history_pb2, history_pb2_grpc, scheduler_pb2, scheduler_pb2_grpc
from tests.master.harness import LIMIT_S, RUNNING, FakeAgent, Front, agent, spec, two_masters, until

TIMES = 6  # that each caller hangs up, each time a little later
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing resets the connection
BODY = b'{"queue": "default", "groups": ['
HEAD = b"%s HTTP/1.1\r\nHost: %s\r\n%s\r\n"
POST = b"Content-Type: application/json\r\nContent-Length: 900\r\n"


def is_error(record: MutableMapping[str, Any]) -> bool:
    """Return whether it is one of a master's or a library's: asyncio also complains of the proxy's ends below."""
    return record["log_level"] not in ("debug", "info", "warning") and "g_ups.py" not in record["event"]


@pytest.fixture
def complaints() -> Iterator[Callable[[], list[Any]]]:
    """What was logged as an error, by the masters, by libraries and by the loop."""
    libraries = _FromLibraries()
    logging.getLogger().addHandler(libraries)
    try:
        with structlog.testing.capture_logs() as captured:
            yield lambda: [each for each in captured if is_error(each)]
    finally:
        logging.getLogger().removeHandler(libraries)


def requests(host: bytes) -> list[bytes]:
    asked = [
        HEAD % (b"GET %s" % path, host, b"")
        for path in (
            b"/api/v1/jobs",
            b"/api/v1/jobs/a/logs?follow=true",
            b"/api/v1/jobs/a/attempts",
            b"/api/v1/history/jobs",
            b"/",
        )
    ]
    stream = HEAD % (b"GET /api/v1/events", host, b"Accept: text/event-stream\r\n")
    whole = HEAD % (b"POST /api/v1/jobs", host, POST) + BODY
    return [b"", asked[0][:20], whole[:-20], whole, *asked, stream]


async def hang_up_http(front: Front, sent: bytes, after_s: float, reset: bool) -> None:
    host, _, port = front.server.record.http_address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    with contextlib.suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(after_s):
            await reader.read(1 << 20)
            await asyncio.sleep(after_s)
    if reset:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


def test_callers_that_hang_up_over_http_leave_no_errors(complaints: Callable[[], list[Any]]) -> None:
    async def story() -> None:
        async with two_masters() as (_, leader, follower), agent(leader) as node:
            await leader.submit(spec("a"))
            await until(lambda: len(node.orders) == 1)
            node.see_all(RUNNING)
            await node.beat(leader)
            for to in (leader, follower):
                host = to.server.record.http_address.encode()
                calls = [
                    hang_up_http(to, sent, 0.01 * number, reset)
                    for sent in requests(host)
                    for number in range(TIMES)
                    for reset in (True, False)
                ]
                await asyncio.gather(*calls)
            await asyncio.sleep(0.3)

    asyncio.run(story())
    assert not complaints(), "\n".join(str(each)[:400] for each in complaints())


@contextlib.asynccontextmanager
async def through(address: str) -> AsyncIterator[tuple[str, Callable[[], None]]]:
    """Lend an address that leads to another, and what resets all connections through it."""
    host, _, port = address.rpartition(":")
    writers: list[asyncio.StreamWriter] = []
    work: list[asyncio.Task[Any]] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)

    async def took(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        work.append(task)
        writers.append(writer)
        to_reader, to_writer = await asyncio.open_connection(host, int(port))
        writers.append(to_writer)
        await asyncio.gather(pump(reader, to_writer), pump(to_reader, writer))

    def reset() -> None:
        for writer in writers:
            if not writer.is_closing():
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                writer.transport.abort()

    async with await asyncio.start_server(took, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", reset
    await asyncio.sleep(0)  # one that was accepted last begins
    async with asyncio.timeout(LIMIT_S):
        while pending := [task for task in work if not task.done()]:
            reset()
            await asyncio.wait(pending, timeout=0.05)
    await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


async def used(call: Any) -> None:
    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.CancelledError):
        if hasattr(call, "read"):
            while await call.read() is not grpc.aio.EOF:
                pass
        else:
            await call


def calls_of(channel: Any) -> list[Any]:
    jobs = scheduler_pb2_grpc.SchedulerServiceStub(channel)
    history = history_pb2_grpc.HistoryServiceStub(channel)

    async def never() -> AsyncIterator[Any]:
        await asyncio.sleep(LIMIT_S)
        yield scheduler_pb2.ExecRequest()

    async def one() -> AsyncIterator[Any]:
        yield scheduler_pb2.ExecRequest(start=scheduler_pb2.ExecStart(job="a", command=["x"]))
        await asyncio.sleep(LIMIT_S)

    return [
        jobs.StreamJobLogs(scheduler_pb2.StreamJobLogsRequest(job="a", follow=True)),
        jobs.ListJobs(scheduler_pb2.ListJobsRequest()),
        jobs.WatchJob(scheduler_pb2.GetJobRequest(job="a")),
        history.WatchEvents(history_pb2.ListEventsRequest()),
        history.ListEvents(history_pb2.ListEventsRequest()),
        jobs.ExecTask(never()),
        jobs.ExecTask(one()),
    ]


def test_callers_that_hang_up_over_grpc_leave_no_errors(
    complaints: Callable[[], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def talkative(self: FakeAgent, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        async for _ in requests:
            while True:
                yield scheduler_pb2.ExecResponse(stdout=b"x" * 65536)
                await asyncio.sleep(0.001)

    monkeypatch.setattr(FakeAgent, "Exec", talkative)

    async def story() -> None:
        async with two_masters() as (_, leader, follower), agent(leader) as node:
            await leader.submit(spec("a"))
            await until(lambda: len(node.orders) == 1)
            node.see_all(RUNNING)
            await node.beat(leader)
            for number in range(TIMES * 2):
                for to in (leader, follower):
                    async with through(to.server.record.grpc_address) as (address, reset):
                        async with grpc.aio.insecure_channel(address) as channel:
                            calls = calls_of(channel)
                            works = [asyncio.ensure_future(used(call)) for call in calls]
                            await asyncio.sleep(0.01 * number)
                            if number % 3 == 0:
                                reset()
                            elif number % 3 == 1:
                                for call in calls:
                                    call.cancel()
                        for work in works:
                            work.cancel()
                        await asyncio.gather(*works, return_exceptions=True)
            await asyncio.sleep(0.3)

    asyncio.run(story())
    assert not complaints(), "\n".join(str(each)[:400] for each in complaints())
