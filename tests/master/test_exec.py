"""ExecTask: to the right task, by way of any master, to the end of either side."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from gosched.core.spec.array import Array
from gosched.master.agents import exec as master_exec
from gosched.wire.v1 import scheduler_pb2, types_pb2
from gosched.wire.v1.scheduler_pb2_grpc import SchedulerServiceStub
from tests.master.harness import LIMIT_S, RUNNING, FakeAgent, Front, one_master, spec, two_masters, until


class Echoes(FakeAgent):
    """Its commands answer with their input, one message for each, until `stdin_end`; 7 is their exit code."""

    def __init__(self, node_id: str = "n1", **more: Any) -> None:
        super().__init__(node_id, **more)
        self.starts: list[scheduler_pb2.ExecStart] = []
        self.live = 0

    async def Exec(self, requests: Any, context: Any) -> AsyncIterator[scheduler_pb2.ExecResponse]:
        self.live += 1
        try:
            async for request in requests:
                if request.HasField("start"):
                    self.starts.append(request.start)
                    yield scheduler_pb2.ExecResponse()
                elif request.HasField("stdin_end"):
                    yield scheduler_pb2.ExecResponse(exit_code=7)
                    return
                else:
                    yield scheduler_pb2.ExecResponse(stdout=request.stdin)
        finally:
            self.live -= 1


@contextlib.asynccontextmanager
async def running_job(to: Front, *, count: int = 2, agent: Echoes | None = None) -> AsyncIterator[tuple[Echoes, str]]:
    async with (agent or Echoes()).serving() as agent:
        await agent.register(to)
        job = (await to.submit(spec("job", count=count))).job_id
        await until(lambda: len(agent.orders) == count)
        agent.see_all(RUNNING)
        await agent.beat(to)
        await until(lambda: all(t.state == RUNNING for t in to.state.tasks.values()))
        yield agent, job


async def opened(to: Front, job: str, task: str = "", *command: str) -> Any:
    call = await asked(to, job, task, *command)
    assert (await call.read()).WhichOneof("part") is None
    return call


async def asked(to: Front, job: str, task: str = "", *command: str) -> Any:
    call = to.scheduler.ExecTask(timeout=LIMIT_S)
    start = scheduler_pb2.ExecStart(job=job, task=task, command=command or ("cat",))
    await call.write(scheduler_pb2.ExecRequest(start=start))
    return call


async def said(call: Any, data: bytes) -> bytes:
    await call.write(scheduler_pb2.ExecRequest(stdin=data))
    return (await call.read()).stdout


async def ended(call: Any) -> int:
    await call.write(scheduler_pb2.ExecRequest(stdin_end=True))
    return (await call.read()).exit_code


async def refusal(to: Front, job: str, task: str = "", *command: str) -> str:
    call = await asked(to, job, task, *command)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call.read()
    return refused.value.details()


def test_every_master_passes_a_command_on_to_the_agent_of_its_task() -> None:
    async def story() -> None:
        async with two_masters() as (_, leader, follower), running_job(leader) as (agent, job):
            for master in (leader, follower):
                call = await opened(master, "job", "main/1", "sh", "-x")
                assert await said(call, b"one") == b"one"
                assert await said(call, b"two") == b"two"
                assert await ended(call) == 7
                assert await call.read() is grpc.aio.EOF
            assert [start.allocation_id for start in agent.starts] == [f"{job}/main/1.1"] * 2
            assert list(agent.starts[0].command) == ["sh", "-x"]

    asyncio.run(story())


def test_a_command_goes_on_when_another_master_leads() -> None:
    async def story() -> None:
        async with two_masters() as (cluster, leader, follower), running_job(leader):
            calls = [await opened(master, "job") for master in (leader, follower)]
            for call in calls:
                await said(call, b"before")
            cluster.elect("m2")
            await until(lambda: follower.state.leader == "m2")
            for call in calls:
                assert await said(call, b"after") == b"after"
                assert await ended(call) == 7

    asyncio.run(story())


def test_without_a_name_the_first_running_task_is_meant() -> None:
    async def story() -> None:
        async with one_master() as master, running_job(master) as (agent, job):
            agent.see(f"{job}/main/0.1", types_pb2.TASK_STATE_SUCCEEDED, exit_code=0)
            await agent.beat(master)
            assert await ended(await opened(master, "job")) == 7
            assert agent.starts[0].allocation_id == f"{job}/main/1.1"
            assert await refusal(master, "job", "main/0") == "task main/0 of job job does not run: it is SUCCEEDED"

    asyncio.run(story())


def test_what_cannot_be_has_a_clear_line() -> None:
    async def story() -> None:
        async with one_master() as master, running_job(master):
            await master.submit(spec("later", cpus=4))
            await master.submit(spec("many", array=Array(last=1, step=1)))
            assert await refusal(master, "nope") == "there is no job 'nope'"
            assert await refusal(master, "job", "main/9") == "job job has no task 'main/9'; it has main/0 to main/1"
            assert await refusal(master, "later") == "no task of job later runs: the job is PENDING"
            assert "no tasks of its own" in await refusal(master, "many")
            call = master.scheduler.ExecTask(timeout=LIMIT_S)
            await call.write(scheduler_pb2.ExecRequest(stdin=b"x"))
            with pytest.raises(grpc.aio.AioRpcError, match="first message names the job"):
                await call.read()

    asyncio.run(story())


def test_the_agent_learns_that_the_caller_has_gone() -> None:
    async def story() -> None:
        async with two_masters() as (_, leader, follower), running_job(leader) as (agent, _job):
            for master in (leader, follower):
                call = await opened(master, "job")
                await said(call, b"x")
                assert agent.live == 1
                call.cancel()
                await until(lambda: agent.live == 0)

    asyncio.run(story())


def test_the_caller_learns_that_the_node_has_gone() -> None:
    async def story() -> None:
        async with one_master() as master:
            async with running_job(master):
                call = await opened(master, "job")
                await said(call, b"x")
            with pytest.raises(grpc.aio.AioRpcError) as lost:
                await call.read()
            assert lost.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            assert "node n1 cannot be reached" in lost.value.details()

    asyncio.run(story())


class Hasty(Echoes):
    """Answers and ends without a look at its input."""

    async def Exec(self, requests: Any, context: Any) -> AsyncIterator[scheduler_pb2.ExecResponse]:
        await anext(aiter(requests))
        yield scheduler_pb2.ExecResponse()
        for _ in range(9):
            yield scheduler_pb2.ExecResponse(stdout=b"x")
        yield scheduler_pb2.ExecResponse(exit_code=3)


def test_input_that_nobody_reads_hides_neither_a_refusal_nor_an_answer() -> None:
    """As `goschedctl exec JOB -- head -1 < big` does, through either master."""

    def run(address: str, job: str) -> tuple[bytes, int | None, str]:
        """With threads: a client of grpc.aio would have the fault that the masters must not have."""
        start = scheduler_pb2.ExecRequest(start=scheduler_pb2.ExecStart(job=job, command=["head"]))
        requests = [start, *[scheduler_pb2.ExecRequest(stdin=b"i" * 4096)] * 50]
        stdout, code = b"", None
        with grpc.insecure_channel(address) as channel:
            try:
                for answer in SchedulerServiceStub(channel).ExecTask(iter(requests), timeout=LIMIT_S):
                    stdout += answer.stdout
                    code = answer.exit_code if answer.HasField("exit_code") else code
            except grpc.RpcError as error:
                return stdout, code, error.details()
        return stdout, code, ""

    async def story() -> None:
        async with two_masters() as (_, leader, follower), running_job(leader, agent=Hasty()):
            for master in (leader, follower):
                address = master.server.record.grpc_address
                for _ in range(5):
                    assert await asyncio.to_thread(run, address, "job") == (b"x" * 9, 3, "")
                    assert await asyncio.to_thread(run, address, "nope") == (b"", None, "there is no job 'nope'")

    asyncio.run(story())


def test_no_more_commands_at_once_than_a_master_can_bear(monkeypatch) -> None:
    monkeypatch.setattr(master_exec.Execs.__init__, "__defaults__", (1,))

    async def story() -> None:
        async with one_master() as master, running_job(master):
            first = await opened(master, "job")
            await said(first, b"x")
            assert "1 commands run on this master" in await refusal(master, "job")
            assert await ended(first) == 7
            assert await first.read() is grpc.aio.EOF
            assert await ended(await opened(master, "job")) == 7

    asyncio.run(story())
