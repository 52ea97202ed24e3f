"""Closing and opening nodes, what they say of themselves, frozen jobs, leases: with a real front and fake agents."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import grpc
import pytest

from gosched.core.records.job import JobState
from gosched.core.records.node import ClosedBy, NodeState
from gosched.core.records.task import TaskState
from gosched.core.spec.job_spec import OnDisconnect
from gosched.core.spec.policies import RetryCause, RetryPolicy
from gosched.master.agents import node_control
from gosched.wire.v1 import node_pb2, scheduler_pb2, types_pb2
from tests.master.clock import MINUTE_MS, Ahead
from tests.master.harness import FAILED, LIMIT_S, RUNNING, SUCCEEDED, Front, agent, one_master, spec, two_masters, until
from tests.master.test_control import control, refused


async def close(front: Front, method: str, node: str, **more: Any) -> node_pb2.ControlNodeResponse:
    request = node_pb2.ControlNodeRequest(node=node, client_id="test", **more)
    return await getattr(front.nodes, method)(request, timeout=LIMIT_S)


async def usage(front: Front, **asked: Any) -> node_pb2.ListUsageResponse:
    return await front.nodes.ListUsage(node_pb2.ListUsageRequest(**asked), timeout=LIMIT_S)


def test_any_master_closes_a_node_and_opens_it_and_a_repeat_changes_nothing() -> None:
    async def story() -> None:
        async with two_masters() as (_, one, two), agent(one, "n1", cpus=1) as n1:
            closed = await close(two, "CordonNode", "n1", reason="new disk", request_id="r1")
            assert (closed.node_id, closed.unchanged) == ("n1", False)
            node = one.state.nodes["n1"]
            assert (node.state, node.closed_by, node.reason) == (NodeState.CORDONED, ClosedBy.OPERATOR, "new disk")
            job_id = (await one.submit(spec())).job_id
            await close(two, "UncordonNode", "n1")
            await close(one, "CordonNode", "n1", reason="new disk", request_id="r1")  # an old request
            await until(lambda: n1.orders)
            assert one.state.jobs[job_id].active == 1
            assert (await close(one, "CordonNode", "n1", reason="x")).unchanged is False
            assert (await close(one, "CordonNode", "n1", reason="x")).unchanged is True
            code, _ = await refused(close(one, "CordonNode", "nobody"))
            assert code is grpc.StatusCode.NOT_FOUND
            for more in ({"drain_in_ms": 5}, {"reason": "two\nlines"}, {"reason": "x" * 2000}):
                code, _ = await refused(close(one, "CordonNode", "n1", **more))
                assert code is grpc.StatusCode.INVALID_ARGUMENT
            for ms in (-1, 1 << 60):
                code, _ = await refused(close(one, "DrainNode", "n1", drain_in_ms=ms))
                assert code is grpc.StatusCode.INVALID_ARGUMENT

    asyncio.run(story())


def test_a_drain_says_who_stays_and_its_deadline_sends_them_away(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = Ahead(monkeypatch)

    async def story() -> None:
        async with one_master() as master, agent(master, "n1") as n1:
            stays = (await master.submit(spec("stays"))).job_id
            again = RetryPolicy(max_restarts=1, when=(RetryCause.PREEMPTED,))
            leaves = (await master.submit(replace(spec("leaves"), retry=again))).job_id
            await until(lambda: len(n1.orders) == 2)
            n1.see_all(RUNNING)
            await n1.beat(master)
            answer = await close(master, "DrainNode", "n1", reason="kernel", drain_in_ms=MINUTE_MS)
            assert list(answer.staying) == [stays]
            assert master.state.nodes["n1"].state is NodeState.DRAINING
            assert master.state.nodes["n1"].drain_by_ms > 0
            await until(lambda: n1.stops)
            ahead.by_ms = MINUTE_MS
            await until(lambda: len(n1.stops) == 2)
            assert [allocation.split("/")[0] for allocation in n1.stops] == [leaves, stays]

    asyncio.run(story())


def test_an_unfit_node_is_closed_once_and_opened_when_it_is_fit_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_control, "PACE_S", 0.0)

    async def story() -> None:
        async with one_master() as master, agent(master, "n1") as n1:
            await n1.beat(master, unfit="the disk is\n97 % full")
            node = master.state.nodes["n1"]
            assert (node.state, node.closed_by) == (NodeState.CORDONED, ClosedBy.AGENT)
            assert node.reason == "the disk is 97 % full"
            before = master.state.revision
            for percent in (98, 99):
                await n1.beat(master, unfit=f"the disk is {percent} % full")
            assert master.state.revision == before
            await n1.beat(master)
            assert master.state.nodes["n1"].state is NodeState.READY
            await close(master, "CordonNode", "n1", reason="mine")
            await n1.beat(master, unfit="full")
            await n1.beat(master)
            assert master.state.nodes["n1"].closed_by is ClosedBy.OPERATOR, "only he opens it"

    asyncio.run(story())


def test_a_node_that_cannot_make_up_its_mind_does_not_fill_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_control, "PACE_S", 3600.0)

    async def story() -> None:
        async with one_master() as master, agent(master, "n1") as n1:
            before = master.state.revision
            for turn in range(10):
                await n1.beat(master, unfit="full" if turn % 2 == 0 else "")
            assert master.state.revision == before + 1

    asyncio.run(story())


def test_a_frozen_job_is_told_to_its_agent_at_once_and_shown_as_suspended() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            job_id = (await master.submit(spec("a"))).job_id
            await until(lambda: n1.orders)
            n1.see_all(RUNNING)
            await n1.beat(master)
            allocation = f"{job_id}/main/0.1"
            await control(master, "a", "FREEZE")
            await until(lambda: n1.frozen == [allocation])
            assert list((await n1.beat(master)).freeze) == [allocation], "until it is seen to stand still"
            n1.see_all(RUNNING, frozen=True)
            assert list((await n1.beat(master)).freeze) == []
            assert (await master.job("a")).explanation.code == "SUSPENDED"
            listed = [await _listed(master, state) for state in (JobState.RUNNING, JobState.SUSPENDED)]
            assert listed == [[], [job_id]]
            status = await master.scheduler.GetClusterStatus(scheduler_pb2.GetClusterStatusRequest(), timeout=LIMIT_S)
            assert status.running == 0
            await control(master, "a", "RESUME")
            await until(lambda: n1.thawed == [allocation])
            assert list((await n1.beat(master)).thaw) == [allocation]
            assert await _listed(master, JobState.RUNNING) == [job_id]
            assert n1.stops == []

    asyncio.run(story())


async def _listed(master: Front, state: JobState) -> list[str]:
    request = scheduler_pb2.ListJobsRequest(states=[types_pb2.JobState.Name(state)])
    return [job.id for job in (await master.scheduler.ListJobs(request, timeout=LIMIT_S)).jobs]


def test_a_new_leader_freezes_again_what_the_one_before_may_not_have_told() -> None:
    async def story() -> None:
        async with two_masters() as (cluster, one, two), agent(one, "n1") as n1:
            await one.submit(spec("a"))
            await until(lambda: n1.orders)
            n1.see_all(RUNNING)
            await n1.beat(one)
            await control(one, "a", "FREEZE")
            await until(lambda: n1.frozen)
            cluster.elect("m2")
            await until(lambda: len(n1.frozen) == 2)
            assert two.state.leader == "m2"

    asyncio.run(story())


def test_what_is_used_is_known_from_heartbeats_and_is_no_news_for_the_log() -> None:
    async def story() -> None:
        async with two_masters() as (_, one, two), agent(one, "n1") as n1:
            job_id = (await one.submit(spec("a"))).job_id
            await until(lambda: n1.orders)
            n1.see_all(RUNNING)
            await n1.beat(one)
            before = one.state.revision
            n1.see_all(RUNNING, usage=types_pb2.Usage(cpu_ms=700, memory_bytes=5))
            gpus = [node_pb2.GpuUsage(gpu=0, busy_milli=250)]
            await n1.beat(one, usage=node_pb2.NodeUsage(cpu_milli=900, io_pressure_milli=-1, gpus=gpus))
            assert one.state.revision == before
            found = await usage(two, tasks=True)
            assert [(n.node_id, n.usage.cpu_milli, n.usage.gpus[0].busy_milli) for n in found.nodes] == [
                ("n1", 900, 250)
            ]
            assert [(t.job_id, t.usage.cpu_ms, t.usage.memory_bytes) for t in found.tasks] == [(job_id, 700, 5)]
            assert not (await usage(one)).tasks
            assert len((await usage(one, job="a")).tasks) == 1
            code, _ = await refused(usage(one, job="nobody"))
            assert code is grpc.StatusCode.NOT_FOUND
            n1.see_all(SUCCEEDED, exit_code=0, usage=types_pb2.Usage(cpu_ms=1500, memory_peak_bytes=6, oom_kills=-3))
            await n1.beat(one)
            task = one.state.tasks[f"{job_id}/main/0"]
            assert (task.usage.cpu_ms, task.usage.memory_peak_bytes, task.usage.oom_kills) == (1500, 6, 0)
            assert one.state.jobs[job_id].spent.cpu_ms == 1500
            quotas = await two.scheduler.ListQuotas(scheduler_pb2.ListQuotasRequest(), timeout=LIMIT_S)
            assert [(q.quota.tenant, q.spent.cpu_ms) for q in quotas.quotas] == [("default", 1500)]
            assert not (await usage(one, tasks=True)).tasks

    asyncio.run(story())


def test_a_failure_that_was_the_nodes_own_is_counted_against_it() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            job_id = (await master.submit(spec())).job_id
            await until(lambda: n1.orders)
            n1.see_all(FAILED, reason="RUNTIME_MISSING", blames_node=True)
            await n1.beat(master)
            assert master.state.tasks[f"{job_id}/main/0"].state is TaskState.FAILED
            assert master.state.nodes["n1"].failing == (job_id,)

    asyncio.run(story())


def test_what_an_agent_cannot_enforce_is_known_of_its_node() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master, "n1") as n1:
            await n1.register(master, isolation="no memory controller")
            assert master.state.nodes["n1"].isolation == "no memory controller"

    asyncio.run(story())


def test_both_answers_say_the_lease_after_which_a_silent_node_is_dead() -> None:
    async def story() -> None:
        async with one_master(lease={"node_timeout": "4m", "first_lease": "1s"}) as master, agent(master, "n1") as n1:
            assert (await n1.register(master)).lease_ms == 240_000
            assert (await n1.beat(master)).lease_ms == 240_000
            n1.see("gone/main/0.1", RUNNING)
            answer = await n1.register(master)
            assert (list(answer.stop_first), answer.lease_ms) == (["gone/main/0.1"], 0), "it is not let in yet"

    asyncio.run(story())


def test_no_lease_is_given_for_tasks_that_end_with_it_by_who_may_not_lead_any_more() -> None:
    async def story() -> None:
        strict = {"node_timeout": "10m", "first_lease": "10m"}
        async with two_masters(lease=strict) as (cluster, one, _), agent(one, "n1", cpus=1) as n1:
            await one.submit(spec("a", on_disconnect=OnDisconnect.STOP))
            await until(lambda: n1.orders)
            n1.see_all(RUNNING)
            assert (await n1.beat(one)).lease_ms == 600_000
            async with agent(one, "n2") as n2:
                cluster.members["m1"].cut_off = True  # and it has not noticed yet
                assert (await n2.beat(one)).lease_ms == 600_000, "nothing there ends with it"
                code, _ = await refused(n1.beat(one, timeout_s=0.2))
                assert code is grpc.StatusCode.DEADLINE_EXCEEDED

    asyncio.run(story())


def test_a_leader_looks_seldom_whether_it_still_leads() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            await master.submit(spec(on_disconnect=OnDisconnect.STOP))
            await until(lambda: n1.orders)
            n1.see_all(RUNNING)
            await n1.beat(master)
            before = master.state.revision
            for _ in range(5):
                await n1.beat(master)
            assert master.state.revision == before

    asyncio.run(story())
