"""The main story on real sockets: submitted, planned, committed, ordered, reported, done."""

from __future__ import annotations

import asyncio

import pytest

from gosched.core.records.job import JobState
from gosched.core.records.task import TaskState
from gosched.wire.v1 import scheduler_pb2
from tests.master.harness import FAILED, LIMIT_S, RUNNING, SUCCEEDED, agent, one_master, spec, until


def test_a_gang_runs_from_submission_to_success() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master, "n1") as n1, agent(master, "n2") as n2:
            job_id = (await master.submit(spec(count=8))).job_id
            await until(lambda: len(n1.orders) == len(n2.orders) == 4)
            for node in (n1, n2):
                node.see_all(RUNNING, started_at_ms=1)
                await node.beat(master)
            assert (await master.job(job_id)).job.running == 8
            for node in (n1, n2):
                node.see_all(SUCCEEDED, exit_code=0, ended_at_ms=2)
                answer = await node.beat(master)
                assert len(answer.forget) == 4
                assert not node.observed
            assert master.state.jobs[job_id].state is JobState.SUCCEEDED
            assert not master.state.allocations

    asyncio.run(story())


def test_each_task_is_told_its_rank_and_the_hosts_of_all() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            job_id = (await master.submit(spec("ranks", count=3))).job_id
            await until(lambda: len(n1.orders) == 3)
            for rank in range(3):
                env = dict(n1.orders[f"{job_id}/main/{rank}.1"].env)
                assert env["GOSCHED_TASK_INDEX"] == str(rank)
                assert env["GOSCHED_TASK_COUNT"] == "3"
                assert env["GOSCHED_HOSTS"] == "127.0.0.1,127.0.0.1,127.0.0.1"
                assert env["GOSCHED_JOB_NAME"] == "ranks"
                assert env["GOSCHED_NODE"] == "n1"
                assert env["GOSCHED_ATTEMPT"] == "1"
                assert env["CUDA_VISIBLE_DEVICES"] == ""
                assert "RANK" not in env

    asyncio.run(story())


def test_a_joining_node_starts_a_waiting_gang_at_once_and_not_after_the_period() -> None:
    async def story() -> None:
        slow = {"grpc_addr": "127.0.0.1:0", "http_addr": "127.0.0.1:0", "schedule_period": "10m"}
        async with one_master(server=slow) as master, agent(master, "n1"):
            answer = await master.submit(spec(count=8))
            assert answer.warnings == ["needs 8 CPUs in all; 4 are on ready nodes"]
            await master.until_planned(answer.job_id)
            view = await master.job(answer.job_id)
            assert view.job.state == JobState.PENDING
            assert view.explanation.message == "needs 8 CPUs in all; 4 are on ready nodes"
            assert not master.state.allocations
            async with agent(master, "n2") as n2:
                await until(lambda: n2.orders)
                assert len(master.state.allocations) == 8

    asyncio.run(story())


def test_a_failed_member_stops_the_others_and_the_gang_runs_again() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            job_id = (await master.submit(spec(count=2, restarts=1))).job_id
            await until(lambda: len(n1.orders) == 2)
            n1.see_all(RUNNING)
            await n1.beat(master)
            n1.see(f"{job_id}/main/0.1", FAILED, exit_code=3)
            await n1.beat(master)
            await until(lambda: n1.stops == [f"{job_id}/main/1.1"])
            n1.see(f"{job_id}/main/1.1", FAILED, exit_code=143)
            await n1.beat(master)
            await until(lambda: f"{job_id}/main/1.2" in n1.orders)
            assert master.state.jobs[job_id].attempt == 2

    asyncio.run(story())


def test_watching_shows_each_stage_and_ends_with_the_job() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            job_id = (await master.submit(spec())).job_id
            seen: list[JobState] = []

            async def watch() -> None:
                request = scheduler_pb2.GetJobRequest(job=job_id)
                async for view in master.scheduler.WatchJob(request, timeout=LIMIT_S):
                    seen.append(JobState(view.job.state))  # noqa: PERF401 - read while it goes on

            watching = asyncio.ensure_future(watch())
            await until(lambda: n1.orders)
            await until(lambda: JobState.RUNNING in seen)
            n1.see_all(SUCCEEDED, exit_code=0)
            await n1.beat(master)
            async with asyncio.timeout(LIMIT_S):
                await watching
            assert seen[-1] is JobState.SUCCEEDED

    asyncio.run(story())


def test_a_cancelled_job_is_stopped_on_its_node_and_ends() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            job_id = (await master.submit(spec("c"))).job_id
            await until(lambda: n1.orders)
            n1.see_all(RUNNING)
            await n1.beat(master)
            await master.scheduler.CancelJob(scheduler_pb2.CancelJobRequest(job="c"), timeout=LIMIT_S)
            await until(lambda: n1.stops)
            n1.see_all(FAILED, exit_code=143)
            await n1.beat(master)
            assert (await master.job(job_id)).job.state == JobState.CANCELLED

    asyncio.run(story())


def test_a_lost_start_order_is_repeated_by_the_next_heartbeat_and_never_after_it_was_seen() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            job_id = (await master.submit(spec())).job_id
            await until(lambda: n1.orders)
            n1.orders.clear()
            n1.observed.clear()  # as if the call had not arrived
            answer = await n1.beat(master)
            assert [o.allocation_id for o in answer.start] == [f"{job_id}/main/0.1"]
            n1.see_all(RUNNING)
            await n1.beat(master)
            n1.observed.clear()
            first = await n1.beat(master)
            assert not first.start
            assert master.state.tasks[f"{job_id}/main/0"].state is TaskState.RUNNING
            second = await n1.beat(master)
            assert not second.start
            assert master.state.tasks[f"{job_id}/main/0"].state in (TaskState.LOST, TaskState.PLACED, TaskState.PENDING)

    asyncio.run(story())


@pytest.mark.parametrize("follow", [False, True])
def test_logs_of_all_tasks_come_in_one_stream_and_from_where_the_reader_was(follow: bool) -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            job_id = (await master.submit(spec(count=2))).job_id
            await until(lambda: len(n1.orders) == 2)
            n1.lines = {i: f"hello from {i}\n".encode() for i in n1.orders}
            n1.see_all(SUCCEEDED, exit_code=0)
            await n1.beat(master)
            known = scheduler_pb2.LogPosition(allocation_id=f"{job_id}/main/0.1", stream=1, offset=6)
            request = scheduler_pb2.StreamJobLogsRequest(job=job_id, follow=follow, **{"from": [known]})
            got = {c.allocation_id: c.data async for c in master.scheduler.StreamJobLogs(request, timeout=LIMIT_S)}
            assert got == {
                f"{job_id}/main/0.1": f"from {job_id}/main/0.1\n".encode(),
                f"{job_id}/main/1.1": f"hello from {job_id}/main/1.1\n".encode(),
            }

    asyncio.run(story())
