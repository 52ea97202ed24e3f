"""The feature level: shown, raised by an operator once all masters know it, and asked for at the edge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc
import pytest

from gosched.core.commands.jobs import ControlJob, SubmitJob
from gosched.core.commands.nodes import RemoveNode
from gosched.core.features import NEWEST_LEVEL, FeatureLevel
from gosched.master.leader import leader as leader_module
from gosched.wire.batch import decode_batch
from gosched.wire.codec import to_message
from gosched.wire.v1 import cluster_pb2, cluster_pb2_grpc, node_pb2, scheduler_pb2, types_pb2
from tests.master.harness import LIMIT_S, Front, agent, two_masters, until
from tests.state_machine.cluster import spec


@asynccontextmanager
async def old_cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Any, Front, Front]]:
    """Founded by the release before; m2 still is of it."""
    monkeypatch.setattr(leader_module, "NEWEST_LEVEL", FeatureLevel.FIRST)
    async with two_masters() as (cluster, one, two):
        await until(lambda: one.leads)
        play(cluster, m2=FeatureLevel.FIRST)
        yield cluster, one, two


def play(cluster: Any, **levels: int) -> None:
    """Members that know other levels. The roles are told again, with no election."""
    cluster.levels = levels
    cluster.term -= 1
    cluster.elect("m1")


async def finalize(to: Front, request_id: str = "") -> cluster_pb2.FinalizeUpgradeResponse:
    stub = cluster_pb2_grpc.ClusterServiceStub(to.channel)
    return await stub.FinalizeUpgrade(
        cluster_pb2.FinalizeUpgradeRequest(client_id="test", request_id=request_id), timeout=LIMIT_S
    )


async def status(to: Front) -> scheduler_pb2.ClusterStatus:
    return await to.scheduler.GetClusterStatus(scheduler_pb2.GetClusterStatusRequest(), timeout=LIMIT_S)


async def refusal(call: Any) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    return str(refused.value.details())


def test_the_level_is_raised_once_every_master_is_there_and_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with old_cluster(monkeypatch) as (cluster, one, two):
            assert one.state.feature_level == FeatureLevel.FIRST
            assert await refusal(finalize(one)) == "master m2 knows feature level 4 only: upgrade it first"
            play(cluster, m2=0)
            assert "master m2 is not connected" in await refusal(finalize(one))
            assert (await status(one)).newest_feature_level == 0
            play(cluster)
            shown = await status(one)
            assert (shown.feature_level, shown.newest_feature_level) == (FeatureLevel.FIRST, NEWEST_LEVEL)
            raised = await finalize(two, "r1")  # passed on to the leader
            assert (raised.feature_level, raised.unchanged) == (NEWEST_LEVEL, False)
            assert (await finalize(one, "r2")).unchanged
            assert one.state.feature_level == two.state.feature_level == NEWEST_LEVEL
            assert one.state.cluster_id
            assert one.state.cluster_id == two.state.cluster_id
            assert b"gosched_feature_level 5.0" in one.server.metrics.text()

    asyncio.run(story())


def test_a_job_that_only_new_masters_understand_is_refused_before_it_enters_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        async with old_cluster(monkeypatch) as (cluster, one, _), agent(one):
            later = to_message(replace(spec("later"), begin_in_ms=1000), types_pb2.JobSpec)
            asked = scheduler_pb2.SubmitJobRequest(client_id="c", request_id="1", spec=later)
            with pytest.raises(grpc.aio.AioRpcError, match="finalize the upgrade"):
                await one.scheduler.SubmitJob(asked, timeout=LIMIT_S)
            many = scheduler_pb2.SubmitJobsRequest(client_id="c", request_id="2", specs=[later])
            (outcome,) = (await one.scheduler.SubmitJobs(many, timeout=LIMIT_S)).outcomes
            assert "finalize" in outcome.problem
            await one.submit(spec("now"))
            scale = scheduler_pb2.ControlJobRequest(client_id="c", request_id="3", job="now", action="ACTION_SCALE")
            assert "finalize-upgrade" in await refusal(one.scheduler.ControlJob(scale, timeout=LIMIT_S))
            logged = [command.body for entry in cluster.log for command in decode_batch(entry).commands]
            assert [body.spec.name for body in logged if isinstance(body, SubmitJob)] == ["now"]
            assert not any(isinstance(body, ControlJob) for body in logged)

    asyncio.run(story())


def test_what_needs_a_newer_level_is_refused_before_it_enters_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with old_cluster(monkeypatch) as (cluster, one, _), agent(one):
            request = node_pb2.ControlNodeRequest(node="n1")
            detail = await refusal(one.nodes.RemoveNode(request, timeout=LIMIT_S))
            assert detail.startswith("it needs feature level 5, and the cluster is at 4")
            assert "goschedctl cluster finalize-upgrade" in detail
            logged = [command.body for entry in cluster.log for command in decode_batch(entry).commands]
            assert not any(isinstance(body, RemoveNode) for body in logged)
            play(cluster)
            await finalize(one)
            assert "stop its agent" in await refusal(one.nodes.RemoveNode(request, timeout=LIMIT_S))

    asyncio.run(story())
