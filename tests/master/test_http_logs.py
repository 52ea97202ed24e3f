"""Logs over HTTP: text and NDJSON, the last lines, followed to the end, and what happens when they cannot be read."""

from __future__ import annotations

import asyncio
import json

import pytest

from gosched.master.http import logs
from tests.master.harness import (
    LIMIT_S,
    RUNNING,
    SUCCEEDED,
    FakeAgent,
    Front,
    agent,
    one_master,
    spec,
    two_masters,
    until,
)
from tests.master.http_client import get

NDJSON = {"Accept": "application/x-ndjson"}
TEXT = b"one\ntwo\r\n\nfour"


async def started(master: Front, node: FakeAgent, name: str = "a", count: int = 1) -> list[str]:
    before = set(node.orders)
    await master.submit(spec(name, count=count))
    await until(lambda: len(set(node.orders) - before) == count)
    return sorted(set(node.orders) - before)


async def ended(master: Front, node: FakeAgent) -> None:
    node.see_all(SUCCEEDED, exit_code=0, started_at_ms=1, ended_at_ms=2)
    await node.beat(master)


async def _raw(to: Front, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = to.server.record.http_address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    return reader, writer


@pytest.mark.parametrize("by_follower", [False, True])
def test_the_log_of_a_task_is_the_bytes_that_it_wrote(by_follower: bool) -> None:
    async def story() -> None:
        async with two_masters() as (_, leader, follower), agent(leader) as node:
            (allocation,) = await started(leader, node)
            node.lines[allocation] = TEXT + b"\xff"
            await ended(leader, node)
            to = follower if by_follower else leader
            answer = await get(to, "/api/v1/jobs/a/logs")
            assert (answer.status, answer.content_type, answer.body) == (200, "text/plain", TEXT + b"\xff")
            assert (await get(to, "/api/v1/jobs/a/logs?follow=true&task=main/0")).body == TEXT + b"\xff"
            assert (await get(to, "/api/v1/jobs/a/logs?stream=stdout")).body == TEXT + b"\xff"
            assert (await get(to, "/api/v1/jobs/a/logs?stream=stderr")).body == b""
            lines = await get(to, "/api/v1/jobs/a/logs", headers=NDJSON)
            assert lines.content_type == "application/x-ndjson"
            (found,) = [json.loads(line) for line in lines.text.splitlines()]
            assert (found["task"], found["stream"], found["offset"]) == ("main/0", "stdout", 0)
            assert "base64" in found
            assert (await get(to, "/api/v1/jobs/a/logs?tail=2")).body == b"\nfour\xff"
            (found,) = [
                json.loads(x) for x in (await get(to, "/api/v1/jobs/a/logs?tail=3", headers=NDJSON)).text.splitlines()
            ]
            assert found["offset"] == 4

    asyncio.run(story())


def test_lines_of_several_tasks_bear_their_names() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as node:
            first, second = await started(master, node, count=2)
            node.lines[first], node.lines[second] = b"one\nhalf", b"two\n"
            await ended(master, node)
            answer = await get(master, "/api/v1/jobs/a/logs")
            assert sorted(answer.body.splitlines()) == [b"main/0 | half", b"main/0 | one", b"main/1 | two"]
            assert (await get(master, "/api/v1/jobs/a/logs?task=main/1")).body == b"two\n"

    asyncio.run(story())


def test_a_followed_log_begins_at_once_and_ends_with_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "HEAD_S", 0.05)

    async def story() -> None:
        async with one_master() as master, agent(master) as node:
            await master.submit(spec("a", cpus=100))
            reader, writer = await _raw(master, "/api/v1/jobs/a/logs?follow=true")
            assert b"200 OK" in await reader.readline()
            await reader.readuntil(b"\r\n\r\n")
            await node.register(master, capacity={"cpu_millis": 200_000, "memory_bytes": 1 << 30})
            await until(lambda: node.orders)
            (allocation,) = node.orders
            node.lines[allocation] = b"hello\n"
            node.see_all(RUNNING)
            await node.beat(master)
            assert await reader.readuntil(b"hello\n")
            await ended(master, node)
            assert (await reader.readuntil(b"0\r\n\r\n")).endswith(b"0\r\n\r\n"), "the body has its end"
            writer.close()

    asyncio.run(story())


def test_the_last_lines_of_a_job_that_has_not_started_are_waited_for() -> None:
    async def story() -> None:
        async with one_master() as master:
            await master.submit(spec("a"))
            assert (await get(master, "/api/v1/jobs/a/logs?tail=5")).status == 404
            reading = asyncio.ensure_future(get(master, "/api/v1/jobs/a/logs?tail=5&follow=true"))
            await asyncio.sleep(0.1)
            async with agent(master) as node:
                await until(lambda: node.orders)
                node.lines = dict.fromkeys(node.orders, b"late\n")
                await ended(master, node)
                assert (await reading).body == b"late\n"

    asyncio.run(story())


def test_a_client_that_goes_frees_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "HEAD_S", 0.05)

    async def story() -> None:
        async with one_master() as master:
            await master.submit(spec("a", cpus=100))
            reader, writer = await _raw(master, "/api/v1/jobs/a/logs?follow=true")
            await reader.readuntil(b"\r\n\r\n")
            service = master.server._scheduler_service.logs
            await until(lambda: service._streams._held.total() == 1)
            writer.transport.abort()
            await until(lambda: not service._streams._held.total())

    asyncio.run(story())


def test_a_log_that_cannot_be_read_is_an_error_and_no_short_success() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as node:
            await started(master, node, "lost")
            await ended(master, node)
            answer = await get(master, "/api/v1/jobs/lost/logs")
            assert (answer.status, answer.content_type) == (404, "application/problem+json"), answer.text
            assert (await get(master, "/api/v1/jobs/lost/logs?tail=1")).status == 404
            for query in ("?task=main/7", "?attempt=9", "?previous=true"):
                answer = await get(master, f"/api/v1/jobs/lost/logs{query}")
                assert (answer.status, answer.content_type) == (404, "application/problem+json"), answer.text
            for query in ("?attempt=0", "?attempt=1&previous=true", "?tail=-1", "?tail=x", "?stream=both"):
                assert (await get(master, f"/api/v1/jobs/lost/logs{query}")).status == 400

    asyncio.run(story())


def test_a_log_of_which_a_part_is_missing_breaks_off_without_the_end_of_its_body() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as node:
            first, _ = await started(master, node, count=2)
            node.lines[first] = b"one\n"
            await ended(master, node)
            reader, writer = await _raw(master, "/api/v1/jobs/a/logs")
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readuntil(b"\r\n0\r\n\r\n")
            writer.close()

    asyncio.run(story())


def test_a_follower_goes_on_at_the_next_leader_without_a_line_lost_or_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "RETRY_S", 0.02)

    async def story() -> None:
        async with two_masters() as (cluster, leader, follower), agent(leader) as node:
            (allocation,) = await started(leader, node)
            node.lines[allocation] = b"one\n"
            node.see_all(RUNNING)
            await node.beat(leader)
            reader, writer = await _raw(follower, "/api/v1/jobs/a/logs?follow=true")
            await reader.readuntil(b"one\n")
            cluster.elect("m2")
            await until(lambda: follower.state.leader == "m2")
            node.lines[allocation] = b"one\ntwo\n"
            await node.register(follower)
            await ended(follower, node)
            async with asyncio.timeout(LIMIT_S):
                rest = await reader.readuntil(b"0\r\n\r\n")
            assert rest.count(b"two\n") == 1
            assert b"one" not in rest
            writer.close()

    asyncio.run(story())


def test_lines_come_with_their_times_and_from_a_time_on() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as node:
            first, second = await started(master, node, count=2)
            node.lines[first], node.lines[second] = b"one\nhalf", b"two\n"
            await ended(master, node)
            answer = await get(master, "/api/v1/jobs/a/logs?timestamps=true")
            at = b"1970-01-01T00:16:40.000Z"
            lines = sorted(answer.body.splitlines())
            assert lines == [b"main/0 | %s half" % at, b"main/0 | %s one" % at, b"main/1 | %s two" % at]
            single = await get(master, "/api/v1/jobs/a/logs?timestamps=true&task=main/1&since=10m")
            assert single.body == at + b" two\n"
            lines = await get(master, "/api/v1/jobs/a/logs?timestamps=true&task=main/1", headers=NDJSON)
            assert json.loads(lines.text)["times"] == [{"offset": 0, "at": at.decode()}]
            for wrong in ("since=yesterday", "tail=-1", "tail=1000000"):
                assert (await get(master, f"/api/v1/jobs/a/logs?{wrong}")).status == 400, wrong

    asyncio.run(story())
