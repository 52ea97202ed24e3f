"""The logs of a whole array, or of all runs of a schedule, by its name."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from gosched.core.spec.array import Array
from gosched.master.jobs import job_logs
from gosched.wire.v1 import types_pb2
from tests.master.harness import agent, one_master, spec, until
from tests.master.test_job_logs import read, text

SUCCEEDED = types_pb2.TASK_STATE_SUCCEEDED
SWEEP = Array(first=5, last=9, step=1)


def test_an_array_gives_the_logs_of_its_elements_in_their_order() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master, cpus=3) as node:
            job_id = (await master.submit(spec("sweep", cpus=1, array=SWEEP))).job_id
            await until(lambda: len(node.orders) == 3)
            node.lines = {i: f"one\nof {i}\n".encode() for i in node.orders}
            chunks, ending = await read(master, job="sweep")
            assert ending[0] is grpc.StatusCode.OK, ending
            assert [c.job_name for c in chunks if c.data] == ["sweep.5", "sweep.6", "sweep.7"], "two have not started"
            chunks, _ = await read(master, job="sweep", tail=1)
            assert text(chunks) == b"".join(f"of {job_id}.{n}/main/0.1\n".encode() for n in (5, 6, 7))
            _, ending = await read(master, job="sweep", attempt=2)
            assert ending[0] is grpc.StatusCode.NOT_FOUND
            assert "none of the elements of job sweep that are not forgotten has had attempt 2" in ending[1]

    asyncio.run(story())


@pytest.mark.parametrize("at_once", [900, 1])
def test_an_array_is_followed_until_its_last_element_has_ended(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_logs, "MAX_FOLLOWED", at_once)

    async def story() -> None:
        async with one_master() as master, agent(master, cpus=2) as node:
            await master.submit(spec("sweep", cpus=1, array=SWEEP))
            reading = asyncio.ensure_future(read(master, job="sweep", follow=True, tail=0))
            for _ in range(5):
                await until(lambda: any(i not in node.lines for i in node.orders) or reading.done())
                for allocation in [i for i in node.orders if i not in node.lines]:
                    node.lines[allocation] = f"{allocation}\n".encode()
                    node.see(allocation, SUCCEEDED, exit_code=0, started_at_ms=1)
                await node.beat(master)
                if len(node.lines) == 5:
                    break
            chunks, ending = await reading
            assert ending[0] is grpc.StatusCode.OK, ending
            named = {c.job_name for c in chunks if c.start or c.data}
            assert named == {f"sweep.{n}" for n in range(5, 10)}
            assert any("is followed once another job has ended" in c.note for c in chunks) is (at_once == 1)

    asyncio.run(story())


def test_an_array_of_which_nothing_has_started_says_so() -> None:
    async def story() -> None:
        async with one_master() as master:
            await master.submit(spec("sweep", cpus=100, array=SWEEP))
            _, ending = await read(master, job="sweep")
            assert ending[0] is grpc.StatusCode.NOT_FOUND
            assert "job sweep has no logs" in ending[1]

    asyncio.run(story())
