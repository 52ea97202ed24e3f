"""The history of running masters: events, attempts and jobs that have ended, as gRPC answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from gosched.master.base.callers import ITSELF
from gosched.master.base.errors import ApiError
from gosched.master.history import database as database_module
from gosched.master.history import fetching, wait_notes
from gosched.master.history import service as service_module
from gosched.master.history.rows import TABLES
from gosched.master.history.service import Batch
from gosched.wire.v1 import history_pb2, history_pb2_grpc, scheduler_pb2
from tests.master.harness import (
    FAILED,
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


def history(front: Front) -> Any:
    return history_pb2_grpc.HistoryServiceStub(front.channel)


async def events(front: Front, **wanted: Any) -> list[Any]:
    request = history_pb2.ListEventsRequest(**wanted)
    return [*(await history(front).ListEvents(request, timeout=LIMIT_S)).events]


async def attempts(front: Front, job: str) -> list[Any]:
    request = history_pb2.ListAttemptsRequest(job=job)
    return [*(await history(front).ListAttempts(request, timeout=LIMIT_S)).attempts]


async def refusal(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    return refused.value


async def run_once(front: Front, node: FakeAgent, job_id: str, attempt: int, state: Any, **more: Any) -> None:
    """Run the next attempt of a job of one task to its end."""
    allocation = f"{job_id}/main/0.{attempt}"
    await until(lambda: allocation in node.orders)
    node.see(allocation, RUNNING, started_at_ms=1)
    await node.beat(front)
    node.see(allocation, state, started_at_ms=1, ended_at_ms=2, **more)
    await node.beat(front)


async def a_job_that_wins_the_third_time(front: Front, node: FakeAgent) -> str:
    job_id = (await front.submit(spec("third", restarts=5))).job_id
    for attempt in (1, 2):
        await run_once(front, node, job_id, attempt, FAILED, exit_code=3, reason="NONZERO_EXIT")
    await run_once(front, node, job_id, 3, SUCCEEDED, exit_code=0)
    return job_id


def test_a_job_that_fails_twice_and_wins_then_has_three_attempts_and_their_events(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_master(data_dir=str(tmp_path)) as front, agent(front) as node:
            job_id = await a_job_that_wins_the_third_time(front, node)
            found = await attempts(front, "third")
            assert [(a.number, a.state, a.exit_code) for a in found] == [(1, 5, 3), (2, 5, 3), (3, 4, 0)]
            assert found == await attempts(front, job_id)
            (task,) = found[0].tasks
            assert (task.node_name, task.state, task.reason, task.exit_code) == ("n1", FAILED, "NONZERO_EXIT", 3)
            assert (
                0 < found[0].placed_at_ms <= found[0].started_at_ms <= found[0].ended_at_ms
            )  # however far its clock is off
            kinds = [event.kind for event in await events(front, job="third")]
            again = ["job_placed", "job_started", "task_failed", "job_retried"]
            assert kinds == ["job_submitted", *again, *again, "job_placed", "job_started", "job_succeeded"]
            jobs = await history(front).ListFinishedJobs(history_pb2.ListFinishedJobsRequest(), timeout=LIMIT_S)
            assert [(j.job_id, j.name, j.state, j.attempts) for j in jobs.jobs] == [(job_id, "third", 4, 3)]

    asyncio.run(story())


def test_rest_answers_the_same_as_pages_and_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_master(data_dir=str(tmp_path)) as front, agent(front) as node:
            job_id = await a_job_that_wins_the_third_time(front, node)
            page = (await get(front, "/api/v1/events?job=third&kind=job_retried&kind=job_succeeded")).json()
            assert [event["kind"] for event in page["events"]] == ["job_retried", "job_retried", "job_succeeded"]
            assert (page["more"], page["oldest"]) == (False, 1)
            walked, after = [], 1
            while True:
                part = (await get(front, f"/api/v1/events?after={after}&limit=3")).json()
                walked += part["events"]
                after = part["revision"]
                if not part["more"]:
                    break
            assert walked == (await get(front, "/api/v1/events?after=1")).json()["events"]
            found = (await get(front, f"/api/v1/jobs/{job_id}/attempts")).json()
            assert [(a["number"], a["state"], a["exit_code"]) for a in found] == [
                (1, "FAILED", 3), (2, "FAILED", 3), (3, "SUCCEEDED", 0)]  # fmt: skip
            assert found[1]["tasks"][0]["node_name"] == "n1"
            jobs = (await get(front, "/api/v1/history/jobs?state=SUCCEEDED")).json()
            assert [(job["name"], job["attempts"]) for job in jobs["jobs"]] == [("third", 3)]
            assert (await get(front, "/api/v1/history/jobs?tenant=nobody")).json()["jobs"] == []
            assert (await get(front, "/api/v1/jobs/nope/attempts")).status == 404
            for wrong in ("kind=job_retry", "since=yesterday", "after=-1", "limit=0", "after=99999999"):
                answer = await get(front, f"/api/v1/events?{wrong}")
                assert (answer.status, answer.content_type) == (400, "application/problem+json"), wrong
            assert "job_retried" in (await get(front, "/api/v1/events?kind=job_retry")).json()["detail"]

    asyncio.run(story())


class Listener:
    """Reads server-sent events of a master."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self.head: list[str] = []

    @classmethod
    async def open(cls, front: Front, query: str = "", **headers: str) -> Listener:
        host, _, port = front.server.record.http_address.rpartition(":")
        self = cls(*await asyncio.open_connection(host, int(port)))
        more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        head = f"GET /api/v1/events{query} HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n{more}\r\n"
        self.writer.write(head.encode())
        async with asyncio.timeout(LIMIT_S):
            while line := (await self._reader.readline()).decode().strip():
                self.head.append(line)
        return self

    async def events(self, count: int) -> list[tuple[str, dict[str, Any]]]:
        """Return so many events, each with its id."""
        found: list[tuple[str, dict[str, Any]]] = []
        last = ""
        async with asyncio.timeout(LIMIT_S):
            while len(found) < count:
                line = (await self._reader.readline()).decode().rstrip("\r\n")
                if line.startswith("id: "):
                    last = line[4:]
                if line.startswith("data: "):
                    found.append((last, json.loads(line[6:])))
                    last = ""
        return found


def test_a_stream_of_events_goes_on_after_the_last_id_at_any_master_with_no_event_lost_or_doubled(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with two_masters() as (cluster, one, two), agent(one) as node:
            first = await Listener.open(one)
            assert first.head[0] == "HTTP/1.1 200 OK"
            assert "content-type: text/event-stream; charset=utf-8" in first.head
            for number in range(3):
                await one.submit(spec(f"a{number}"))
            seen = await first.events(3)
            first.writer.close()
            for number in range(3):
                await one.submit(spec(f"b{number}"))
            last_id = next(last for last, _ in reversed(seen) if last)
            second = await Listener.open(two, Last_Event_ID=last_id)
            cluster.elect("m2")
            await until(lambda: two.leads)
            await two.submit(spec("c"))
            await node.register(two)
            want = [(e.revision, e.number) for e in await events(two, after=int(last_id))]
            got = await second.events(len(want))
            assert [(e["revision"], e["number"]) for _, e in got] == want
            assert all(not last or int(last) == event["revision"] for last, event in got)
            names = [e["job_name"] for _, e in (*seen, *got) if e["kind"] == "job_submitted"]
            assert names == ["a0", "a1", "a2", "b0", "b1", "b2", "c"]
            second.writer.close()

    asyncio.run(story())


async def submitted(watched: AsyncIterator[Batch], count: int) -> list[str]:
    """Return the names of the next jobs that a watch tells of."""
    names: list[str] = []
    async with asyncio.timeout(LIMIT_S):
        while len(names) < count:
            names += [event.job_name for event in (await anext(watched)).events if event.kind == "job_submitted"]
    return names


async def watch(front: Front, after: int = 0, **wanted: Any) -> AsyncIterator[Batch]:
    """Return a watch that has begun."""
    service = front.server.history.service
    watched = service.watch(service.filter_of(history_pb2.ListEventsRequest(**wanted), ITSELF), after)
    await anext(watched)
    return watched


def test_a_watch_misses_nothing_that_happens_while_its_reader_is_slow() -> None:
    async def story() -> None:
        async with one_master() as front:
            watched = await watch(front)
            for name in ("a", "b"):
                await front.submit(spec(name))
            assert await submitted(watched, 1) == ["a"]
            for name in ("c", "d"):
                await front.submit(spec(name))
            assert await submitted(watched, 3) == ["b", "c", "d"]

    asyncio.run(story())


def test_a_watch_lives_also_while_nothing_happens_that_it_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "HEARTBEAT_S", 1.0)

    async def story() -> None:
        async with one_master() as front:
            began = front.server.history.feed.last
            beat = asyncio.ensure_future(anext(await watch(front, kinds=["node_cordoned"])))
            async with asyncio.timeout(LIMIT_S):
                while not beat.done():
                    await front.submit(spec(f"a{front.server.history.feed.last}"))
                    await asyncio.sleep(0.1)
            assert beat.result().revision > began
            assert not beat.result().events

    asyncio.run(story())


def test_a_watch_after_a_revision_that_never_was_is_refused_by_the_leader_and_sent_on_by_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service_module, "HEARTBEAT_S", 0.2)

    async def story() -> None:
        async with two_masters() as (_, one, two):
            with pytest.raises(ApiError, match="revision 1000000 is not of this cluster: it is at") as refused:
                await anext(await watch(one, after=1_000_000))
            assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT
            with pytest.raises(ApiError) as sent_on:
                await anext(await watch(two, after=1_000_000))
            assert sent_on.value.code is grpc.StatusCode.UNAVAILABLE

    asyncio.run(story())


def test_a_stream_from_a_revision_that_is_not_kept_is_gone_and_names_the_oldest(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_master(data_dir=str(tmp_path)) as front:
            await front.submit(spec("a"))
            front.server.history.store.span.pruned(3)
            gone = await get(front, "/api/v1/events?after=1", headers={"Accept": "text/event-stream"})
            assert (gone.status, gone.json()["code"]) == (410, "HISTORY_COMPACTED")
            assert "complete from revision 4 on" in gone.json()["detail"]
            assert (await get(front, "/api/v1/events?after=1")).status == 410
            assert (await get(front, "/api/v1/events")).json()["oldest"] == 4
            refused = await refusal(history(front).ListEvents(history_pb2.ListEventsRequest(after=2)))
            assert refused.code() is grpc.StatusCode.OUT_OF_RANGE
            wrong = await get(front, "/api/v1/events", headers={"Accept": "text/event-stream", "Last-Event-ID": "x"})
            assert wrong.status == 400

    asyncio.run(story())


def test_why_a_job_waits_is_noted_on_each_master_once_and_not_again_by_the_next_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wait_notes, "NOTE_S", 0.2)

    async def story() -> None:
        async with two_masters() as (cluster, one, two), agent(one) as node:
            job_id = (await one.submit(spec("large", cpus=64))).job_id
            await until(lambda: job_id in two.server.history.reasons)
            noted = one.server.history.reasons[job_id]
            assert noted == two.server.history.reasons[job_id]
            queued = await events(one, job="large", kinds=["job_queued"])
            assert [(e.code, e.message) for e in queued] == [(noted.code, f"it waits: {noted.message}")]
            cluster.elect("m2")
            await until(lambda: two.leads)
            await node.register(two)
            await two.until_planned(job_id)
            await asyncio.sleep(5 * wait_notes.NOTE_S)
            assert len(await events(two, job="large", kinds=["job_queued"])) == 1
            await two.scheduler.CancelJob(scheduler_pb2.CancelJobRequest(job="large", request_id="1", client_id="t"))
            assert not two.server.history.reasons

    asyncio.run(story())


def test_a_file_of_another_cluster_is_set_aside(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_master(data_dir=str(tmp_path)) as front:
            await front.submit(spec("a"))
        async with one_master(data_dir=str(tmp_path)) as front:  # in memory, so it is a new cluster
            assert [event.kind for event in await events(front, kinds=["job_submitted"])] == []
            await front.submit(spec("b"))
            assert [event.job_name for event in await events(front, kinds=["job_submitted"])] == ["b"]
        assert (tmp_path / "history.db.set-aside").exists()

    asyncio.run(story())


def test_a_master_that_missed_some_fetches_it_from_another_and_says_until_then_what_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetching, "LOOK_S", 0.3)

    async def story() -> None:
        async with two_masters() as (_, one, two), agent(one) as node:
            await a_job_that_wins_the_third_time(one, node)
            store = two.server.history.store
            await store.until_written(store.span.last)
            whole = await store.read(rows_of_all)
            database = store._database
            with database._lock:
                for table in TABLES:
                    database._writer.execute(f"DELETE FROM {table.name} WHERE revision > 3")
            store.span.lose(3, store.span.last)
            store._wake.set()
            assert (store.span.missing_after, store.span.first) == (3, store.span.last + 1)
            page = await get(two, "/api/v1/events?stale=true")
            assert page.json()["oldest"] == store.span.last + 1
            await until(lambda: store.span.missing_after < 0)
            assert store.span.first == 1
            assert await store.read(rows_of_all) == whole

    asyncio.run(story())


@pytest.mark.parametrize("read_lock", [False, True])
def test_reads_are_answered_by_another_master_while_the_leaders_file_is_locked(
    tmp_path: Path, read_lock: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "WRITE_WAIT_S", 1.0)

    async def story() -> None:
        async with two_masters(data_dir=str(tmp_path)) as (_, one, two), agent(one) as node:
            await end_job(one, node, "before")
            broken = one.server.history.store._database
            with contextlib.closing(sqlite3.connect(tmp_path / "m1" / "history.db", isolation_level=None)) as locker:
                locker.execute("BEGIN EXCLUSIVE")
                if read_lock:
                    monkeypatch.setattr(broken, "read", locked)
                await end_job(one, node, "after")
                for to in (one, two):
                    begun = time.monotonic()
                    kinds = [event.kind for event in await events(to, job="after")]
                    assert kinds[-1] == "job_succeeded"
                    assert len(await attempts(to, "after")) == 1
                    page = (await get(to, "/api/v1/events?job=after&after=1")).json()
                    assert [event["kind"] for event in page["events"]] == kinds
                    jobs = (await get(to, "/api/v1/history/jobs")).json()["jobs"]
                    assert [job["name"] for job in jobs] == ["after", "before"]
                    assert time.monotonic() - begun < 10
                monkeypatch.setattr(two.server.history.store._database, "read", locked)
                asked = history(one).ListFinishedJobs(history_pb2.ListFinishedJobsRequest(), timeout=LIMIT_S)
                refused = await refusal(asked)
                assert refused.code() is grpc.StatusCode.UNAVAILABLE
                assert "no other master has the history now" in str(refused.details())

    asyncio.run(story())


def locked(*_: object) -> Any:
    raise sqlite3.OperationalError("database is locked")


async def end_job(front: Front, node: FakeAgent, name: str) -> None:
    job_id = (await front.submit(spec(name))).job_id
    await run_once(front, node, job_id, 1, SUCCEEDED, exit_code=0)


def rows_of_all(database: Any) -> list[Any]:
    return [database.read(f"SELECT * FROM {table.name}") for table in TABLES]
