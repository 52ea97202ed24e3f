"""Logs through a master: of any attempt, from the archive, and what is said of those that are missing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest

from gosched.archive.members import pack
from gosched.archive.store import ArchiveError, LogArchive, object_key
from gosched.config import MasterSettings
from gosched.config.archive_model import Archive
from gosched.core.records.job import JobState
from gosched.master.jobs.archive_retention import sweep
from gosched.wire.v1 import scheduler_pb2, types_pb2
from tests.master.harness import LIMIT_S, FakeAgent, agent, one_master, spec, until

FAILED, SUCCEEDED = types_pb2.TASK_STATE_FAILED, types_pb2.TASK_STATE_SUCCEEDED


async def read(master: Any, **request: Any) -> tuple[list[Any], tuple[grpc.StatusCode, str]]:
    """The chunks, and how the stream ended."""
    chunks: list[Any] = []
    call = master.scheduler.StreamJobLogs(scheduler_pb2.StreamJobLogsRequest(**request), timeout=LIMIT_S)
    try:
        async for chunk in call:
            chunks += [chunk]
    except grpc.aio.AioRpcError as error:
        return chunks, (error.code(), error.details() or "")
    return chunks, (grpc.StatusCode.OK, "")


def text(chunks: list[Any]) -> bytes:
    return b"".join(chunk.data for chunk in chunks)


async def attempt(master: Any, n1: FakeAgent, job_id: str, number: int, state: Any, **more: Any) -> None:
    """Let the attempt run to its end on the node."""
    allocation = f"{job_id}/main/0.{number}"
    await until(lambda: allocation in n1.orders)
    n1.lines[allocation] = f"attempt {number}\n".encode()
    n1.see(allocation, state, started_at_ms=1, **more)
    await n1.beat(master)


async def three_attempts(master: Any, n1: FakeAgent) -> str:
    job_id: str = (await master.submit(spec("thrice", restarts=5))).job_id
    for number, (state, code) in enumerate([(FAILED, 1), (FAILED, 2), (SUCCEEDED, 0)], 1):
        await attempt(master, n1, job_id, number, state, exit_code=code)
    await until(lambda: master.state.jobs[job_id].state is JobState.SUCCEEDED)
    return job_id


def test_each_attempt_has_its_logs_and_an_attempt_that_was_not_is_an_error() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            job_id = await three_attempts(master, n1)
            for asked, expected in (
                ({}, b"attempt 3\n"),
                ({"attempt": 1}, b"attempt 1\n"),
                ({"attempt": 2, "follow": True}, b"attempt 2\n"),
                ({"attempt": 3, "task": "main/0"}, b"attempt 3\n"),
                ({"previous": True}, b"attempt 2\n"),
            ):
                chunks, ending = await read(master, job=job_id, **asked)
                assert (text(chunks), ending[0]) == (expected, grpc.StatusCode.OK), (asked, ending)
            _, ending = await read(master, job=job_id, attempt=4)
            assert ending == (grpc.StatusCode.NOT_FOUND, "job thrice has had 3 attempts: there is no attempt 4")
            _, ending = await read(master, job=job_id, attempt=-1)
            assert ending[0] is grpc.StatusCode.INVALID_ARGUMENT
            _, ending = await read(master, job=job_id, attempt=1, previous=True)
            assert ending[0] is grpc.StatusCode.INVALID_ARGUMENT

    asyncio.run(story())


def test_what_is_there_is_sent_and_what_is_missing_is_an_error() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            job_id = (await master.submit(spec("pair", count=2))).job_id
            await until(lambda: len(n1.orders) == 2)
            n1.see_all(SUCCEEDED, exit_code=0, started_at_ms=1)
            n1.lines = {f"{job_id}/main/1.1": b"here\n"}
            await n1.beat(master)
            chunks, ending = await read(master, job=job_id)
            assert text(chunks) == b"here\n"
            missing = [chunk for chunk in chunks if chunk.missing]
            words = "main/0: the log of attempt 1 is missing: node n1: no such task"
            assert [(chunk.task_id, chunk.note) for chunk in missing] == [(f"{job_id}/main/0", words)]
            assert ending == (grpc.StatusCode.NOT_FOUND, f"1 of 2 logs are missing: {words}")

    asyncio.run(story())


def test_a_job_that_has_not_started_has_no_logs_and_is_waited_for_only_on_request() -> None:
    async def story() -> None:
        async with one_master() as master:
            job_id = (await master.submit(spec("waits"))).job_id
            for asked in ({}, {"attempt": 1}, {"previous": True}):
                _, ending = await read(master, job=job_id, **asked)
                assert ending[0] is grpc.StatusCode.NOT_FOUND
                assert "job waits has no logs: it is PENDING and has not started yet" in ending[1]
            reading = asyncio.ensure_future(read(master, job=job_id, follow=True))
            async with agent(master) as n1:
                await attempt(master, n1, job_id, 1, SUCCEEDED, exit_code=0)
                chunks, ending = await reading
            assert (text(chunks), ending[0]) == (b"attempt 1\n", grpc.StatusCode.OK)
            _, ending = await read(master, job=job_id, previous=True)
            assert ending == (
                grpc.StatusCode.NOT_FOUND,
                "job waits has had one attempt only: there is no attempt before it",
            )

    asyncio.run(story())


def test_a_node_that_is_gone_is_named_and_the_archive_has_its_logs(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_master(archive={"url": f"file://{tmp_path}"}) as master:
            async with agent(master) as n1:
                job_id = await three_attempts(master, n1)
            _, ending = await read(master, job=job_id, attempt=1)
            assert ending[0] is grpc.StatusCode.NOT_FOUND
            assert (
                "main/0: the log of attempt 1 is missing: node n1 is not reachable; the archive has no copy"
                in ending[1]
            )
            archive = LogArchive(Archive(url=f"file://{tmp_path}"))
            file = tmp_path / "packed"
            for stream, data in (("stdout", b"0123456789"), ("stderr", b"err")):
                with file.open("wb") as target:
                    pack([(f"{stream}-{2 if stream == 'stdout' else 0:020d}.log", BytesIO(data))], target)
                await archive.put(object_key(master.state.cluster_id, f"{job_id}/main/0.1", stream), file)
            chunks, ending = await read(master, job=job_id, attempt=1)
            assert ending[0] is grpc.StatusCode.OK
            assert [(c.stream, c.offset, c.data) for c in chunks] == [(1, 2, b"0123456789"), (2, 0, b"err")]
            assert chunks[0].note == "2 bytes were not kept: the log is capped"
            known = scheduler_pb2.LogPosition(allocation_id=f"{job_id}/main/0.1", stream=1, offset=8)
            chunks, _ = await read(master, job=job_id, attempt=1, **{"from": [known]})
            assert [(c.stream, c.offset, c.data) for c in chunks] == [(1, 8, b"6789"), (2, 0, b"err")]

    asyncio.run(story())


def test_a_task_that_never_started_is_said_to_be_so() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            job_id = (await master.submit(spec("broken"))).job_id
            await until(lambda: len(n1.orders) == 1)
            n1.see_all(FAILED, exit_code=127, reason="START_FAILED", detail="no program /x")
            await n1.beat(master)
            _, ending = await read(master, job=job_id)
            assert ending == (
                grpc.StatusCode.NOT_FOUND,
                "main/0: the log of attempt 1 is missing: the task did not start: no program /x",
            )

    asyncio.run(story())


def test_an_agent_is_told_which_of_its_jobs_are_forgotten() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            job_id = (await master.submit(spec("known"))).job_id
            answer = await n1.beat(master, log_jobs=[job_id, "gone"])
            assert list(answer.forgotten_jobs) == ["gone"]

    asyncio.run(story())


@pytest.mark.parametrize(
    "archive", [{"url": "ftp://x"}, {"url": "file:///a", "endpoint": "http://x"}, {"url": "s3:///x"}]
)
def test_an_archive_that_cannot_be_is_refused(archive: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="archive"):
        MasterSettings.model_validate({"archive": archive})


def test_the_leader_removes_old_logs_of_its_cluster_and_of_those_before_it() -> None:
    swept: list[str] = []

    class Old:
        async def delete_older(self, cluster_id: str, than: datetime) -> int:
            if "down" in swept:
                raise ArchiveError("it is down")
            swept.append(cluster_id)
            return 1

    replication = cast(Any, SimpleNamespace(state=SimpleNamespace(cluster_id="c2", lineage=("c1", "c0"))))
    asyncio.run(sweep(Old(), replication, datetime.now(UTC)))
    assert swept == ["c2", "c1", "c0"]
    swept.append("down")
    asyncio.run(sweep(Old(), replication, datetime.now(UTC)))
