"""A leader that has more to do than it can: what it drops, what it says, and that lists leave its loop to others."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from gosched.core.records.node import Node
from gosched.core.resources import Resources
from gosched.core.state.cluster_state import ClusterState
from gosched.master.agents.lateness import FEW, Lateness
from gosched.master.agents.live_usage import LiveUsage
from gosched.master.agents.node_listing import list_nodes
from gosched.master.agents.node_service import NodeService
from gosched.master.base.turns import sliced
from gosched.master.http.call import json_array
from gosched.master.web.job_filter import JobFilter
from gosched.master.web.job_list import make_order
from gosched.wire.v1 import node_pb2, node_pb2_grpc
from tests.master.harness import agent, one_master, two_masters, until
from tests.master.http_client import get
from tests.master.test_leases import FakeClock
from tests.master.web.test_job_list import job

NODES = 5000
STRETCH_S = 0.06  # of processor time: slices of 5 ms, and what a slow machine adds; at once it is 0.2 s and more


def longest_stretch(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Awaitable[Any]]) -> tuple[Any, float]:
    """Return what the work returns, and the longest that it kept the loop at a stretch, in processor time."""
    run, longest = asyncio.events.Handle._run, 0.0  # type: ignore[attr-defined]

    def timed(handle: Any) -> None:
        nonlocal longest
        began = time.thread_time()
        run(handle)
        longest = max(longest, time.thread_time() - began)

    monkeypatch.setattr(asyncio.events.Handle, "_run", timed)

    async def main() -> Any:
        await asyncio.sleep(0)
        return await work()

    return asyncio.run(main()), longest


def many_nodes() -> ClusterState:
    state = ClusterState()
    for i in range(NODES):
        name = f"node-{i:05}"
        state.put_node(
            Node(
                id=name,
                name=name,
                address="127.0.0.1:1",
                capacity=Resources(cpu_millis=64_000),
                incarnation="i",
                labels=(("rack", f"r{i % 50}"), ("zone", f"z{i % 4}")),
                registered_at_ms=1,
                changed_at_ms=1,
            )
        )
    return state


def test_a_list_of_all_nodes_leaves_the_loop_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    state = many_nodes()
    answer, longest = longest_stretch(
        monkeypatch, lambda: list_nodes(lambda: state, node_pb2.ListNodesRequest(), lambda node: 1)
    )
    assert [view.node.id for view in answer.nodes] == sorted(state.nodes)
    assert longest < STRETCH_S


def test_json_of_a_long_list_leaves_the_loop_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"id": f"node-{i}", "labels": {"rack": "r"}, "numbers": list(range(100))} for i in range(10_000)]
    text, longest = longest_stretch(monkeypatch, lambda: json_array(rows))
    assert json.loads(text) == rows
    assert longest < STRETCH_S


def test_the_usage_of_all_nodes_leaves_the_loop_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    state, usage = many_nodes(), LiveUsage(FakeClock())
    gpus = [node_pb2.GpuUsage(gpu=gpu, name="H100", uuid=f"u{gpu}") for gpu in range(8)]
    for node in state.nodes:
        usage.take(node, node_pb2.NodeUsage(cpu_milli=1, gpus=gpus), ())

    async def read() -> list[str]:
        answer = node_pb2.ListUsageResponse()
        async for view in sliced(usage.nodes(state)):
            answer.nodes.append(view)
        return [view.node_id for view in answer.nodes]

    found, longest = longest_stretch(monkeypatch, read)
    assert found == list(state.nodes)
    assert longest < STRETCH_S


def test_the_order_of_all_jobs_leaves_the_loop_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    state = ClusterState()
    one = job(1)
    state.jobs.update({f"j{i}": one for i in range(60_000)})
    (ids, _), longest = longest_stretch(monkeypatch, lambda: make_order(state, JobFilter(queue="default")))
    assert len(ids) == 60_000
    assert longest < STRETCH_S


def test_pages_of_nodes_hold_all_once_whatever_comes_and_goes() -> None:
    state = many_nodes()

    async def pages() -> list[str]:
        found, request = list[str](), node_pb2.ListNodesRequest(page_size=300)
        while True:
            answer = await list_nodes(lambda: state, request, lambda node: 1)
            found += [view.node.id for view in answer.nodes]
            assert len(answer.nodes) <= 300
            if not answer.next_page_token:
                return found
            request.page_token = answer.next_page_token
            state.drop_node(answer.nodes[-1].node.id)  # where the next page goes on

    assert asyncio.run(pages()) == [f"node-{i:05}" for i in range(NODES)]


def test_nodes_are_listed_in_pages_by_way_of_any_master() -> None:
    async def story() -> None:
        async with two_masters() as (_, one, two), agent(one, "n1"), agent(one, "n2"), agent(one, "n3"):
            first = await get(two, "/api/v1/nodes?page_size=2&fields=id")
            assert first.json() == [{"id": "n1"}, {"id": "n2"}]
            token = first.headers["x-gosched-next-page-token"]
            last = await get(one, f"/api/v1/nodes?page_size=2&fields=id&page_token={token}")
            assert last.json() == [{"id": "n3"}]
            assert "x-gosched-next-page-token" not in last.headers
            refused = await get(one, "/api/v1/nodes?page_size=2&sort=name")
            assert refused.status == 400
            assert "leave out page_size, or sort" in refused.json()["detail"]

    asyncio.run(story())


def test_a_heartbeat_that_its_agent_has_given_up_is_dropped_and_tells_that_the_leader_is_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served = list[str]()
    heartbeat, drop, dropped = NodeService.Heartbeat, Lateness.dropped, list[bool]()

    def noted(self: Lateness) -> None:
        dropped.append(True)
        drop(self)

    monkeypatch.setattr(Lateness, "dropped", noted)

    async def counted(self: NodeService, request: node_pb2.HeartbeatRequest, context: Any) -> Any:
        served.append(request.node_id)
        return await heartbeat(self, request, context)

    monkeypatch.setattr(NodeService, "Heartbeat", counted)

    async def story() -> None:
        async with one_master() as master, agent(master, "n1") as node:
            await node.beat(master)
            await until(lambda: not master.server._leases.doubt, 15)
            monkeypatch.setattr(master.server._leases.lateness, "_quiet_s", 1.0)
            before, codes = len(served), list[grpc.StatusCode]()

            def give_up() -> None:
                own = [("grpc.use_local_subchannel_pool", 1)]
                with grpc.insecure_channel(master.server.record.grpc_address, own) as channel:
                    grpc.channel_ready_future(channel).result(timeout=10)
                    ready.release()
                    stub = node_pb2_grpc.NodeServiceStub(channel)
                    go.wait(10)
                    try:
                        stub.Heartbeat(node_pb2.HeartbeatRequest(node_id="n1", incarnation="x"), timeout=0.2)
                    except grpc.RpcError as error:
                        codes.append(error.code())

            ready, go = threading.Semaphore(0), threading.Event()
            asked = [threading.Thread(target=give_up) for _ in range(FEW)]
            for one in asked:
                one.start()
                await until(lambda: ready.acquire(blocking=False))
            go.set()
            time.sleep(0.4)  # the loop stands: the agents give up meanwhile, and their calls wait
            for one in asked:
                one.join(10)
            assert codes == [grpc.StatusCode.DEADLINE_EXCEEDED] * FEW
            await until(lambda: dropped)
            await until(lambda: "this leader is late" in master.server._leases.doubt)
            assert len(served) == before
            status = (await get(master, "/api/v1/status")).json()
            assert "this leader is late" in status["load_problem"]
            assert b"gosched_silent_nodes_kept 1.0" in master.server.metrics.text()

    asyncio.run(story())
