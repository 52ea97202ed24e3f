"""Masters with the in-memory log, and agents that obey without running anything: both on real gRPC sockets."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc

from gosched.config import MasterSettings
from gosched.core.resources import Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy, RetryCause, RetryPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.master.server import MasterServer
from gosched.replication.interface import Replication
from gosched.replication.memory import MemoryCluster, MemoryReplication
from gosched.wire.codec import to_message
from gosched.wire.v1 import (
    cluster_pb2_grpc,
    node_pb2,
    node_pb2_grpc,
    scheduler_pb2,
    scheduler_pb2_grpc,
    types_pb2,
    worker_pb2,
    worker_pb2_grpc,
)

LIMIT_S = 30.0
# Agents that a test plays send a heartbeat when the test says so, and are not given up for that.
PATIENT = {"node_timeout": "10m", "first_lease": "20m"}
RUNNING, SUCCEEDED, FAILED = types_pb2.TASK_STATE_RUNNING, types_pb2.TASK_STATE_SUCCEEDED, types_pb2.TASK_STATE_FAILED


async def until(met: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
    """Polls with a deadline."""
    ends = time.monotonic() + limit_s
    while not (result := met()):
        assert time.monotonic() < ends, "not met in time"
        await asyncio.sleep(0.005)
    return result


def settings(**more: Any) -> MasterSettings:
    server = {"grpc_addr": "127.0.0.1:0", "http_addr": "127.0.0.1:0"}
    quiet = {"data_dir": "/unused", "lease": PATIENT, "audit": {"target": "none"}}
    return MasterSettings.model_validate({"server": server, **quiet, **more})


def spec(name: str = "job", *, count: int = 1, cpus: int = 1, restarts: int = 0, **more: Any) -> JobSpec:
    group = TaskGroup(name="main", count=count, resources=Resources(cpu_millis=cpus * 1000), command=("/bin/true",))
    retry = RetryPolicy(max_restarts=restarts, when=(RetryCause.NODE_LOST, RetryCause.FAILED))
    return JobSpec(name=name, queue="default", gang=GangPolicy(min_tasks=count), groups=(group,), retry=retry, **more)


def submission(job: JobSpec, request_id: str = "") -> scheduler_pb2.SubmitJobRequest:
    return scheduler_pb2.SubmitJobRequest(
        request_id=request_id, client_id="test", spec=to_message(job, types_pb2.JobSpec)
    )


class Front:
    """A running master and stubs to it."""

    def __init__(self, server: MasterServer, replication: Replication) -> None:
        self.server = server
        self.replication = replication
        self.channel = grpc.aio.insecure_channel(server.record.grpc_address)
        self.scheduler = scheduler_pb2_grpc.SchedulerServiceStub(self.channel)
        self.nodes = node_pb2_grpc.NodeServiceStub(self.channel)
        self.cluster = cluster_pb2_grpc.ClusterServiceStub(self.channel)

    @property
    def state(self) -> Any:
        return self.replication.state

    @property
    def leads(self) -> bool:
        return b"gosched_raft_is_leader 1.0" in self.server.metrics.text()

    async def submit(self, job: JobSpec, request_id: str = "") -> scheduler_pb2.SubmitJobResponse:
        return await self.scheduler.SubmitJob(submission(job, request_id), timeout=LIMIT_S)

    async def job(self, job_id: str) -> scheduler_pb2.JobView:
        return await self.scheduler.GetJob(scheduler_pb2.GetJobRequest(job=job_id), timeout=LIMIT_S)

    async def until_planned(self, *jobs: str) -> None:
        """Return once a cycle has said why each of the jobs waits."""
        async with asyncio.timeout(LIMIT_S):
            for job in jobs:
                while not (await self.job(job)).explanation.code:
                    await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def front(
    replication: Replication, *, read_again: Callable[[], MasterSettings] | None = None, **more: Any
) -> AsyncIterator[Front]:
    server = MasterServer(settings(**more), replication, read_again=read_again)
    try:
        await server.start()
        running = Front(server, replication)
        yield running
        await running.channel.close()
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def one_master(**more: Any) -> AsyncIterator[Front]:
    async with front(MemoryReplication("m1"), **more) as running:
        await until(lambda: running.state.epoch and running.state.queues)
        yield running


@contextlib.asynccontextmanager
async def two_masters(**more: Any) -> AsyncIterator[tuple[MemoryCluster, Front, Front]]:
    """m1 leads. Of a `data_dir` each has a directory."""
    place = more.pop("data_dir", "")
    mine = {each: {"data_dir": f"{place}/{each}"} if place else {} for each in ("m1", "m2")}
    for made in mine.values():
        Path(made.get("data_dir", ".")).mkdir(exist_ok=True)
    cluster = MemoryCluster("m1", "m2")
    raft = {"enabled": True, "peers": ["m1=127.0.0.1:1", "m2=127.0.0.1:2"]}
    one, two = cluster.members["m1"], cluster.members["m2"]
    async with (
        front(one, raft=raft | {"node_id": "m1"}, **mine["m1"], **more) as first,
        front(two, raft=raft | {"node_id": "m2"}, **mine["m2"], **more) as second,
    ):
        cluster.elect("m1")
        await until(lambda: first.state.queues and first.state.leader == "m1")
        yield cluster, first, second


class FakeAgent(worker_pb2_grpc.WorkerServiceServicer):
    """Keeps what it was ordered to; what its tasks do is up to the test. Joins and reports over real calls."""

    def __init__(self, node_id: str, incarnation: str = "boot-1", *, cpus: int = 4) -> None:
        self.node_id = node_id
        self.incarnation = incarnation
        self.cpus = cpus
        self.orders: dict[str, worker_pb2.TaskOrder] = {}
        self.stops: list[str] = []
        self.frozen: list[str] = []
        self.thawed: list[str] = []
        self.epochs: list[int] = []
        self.observed: dict[str, types_pb2.TaskReport] = {}
        self.lines: dict[str, bytes] = {}

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[FakeAgent]:
        server = grpc.aio.server()
        worker_pb2_grpc.add_WorkerServiceServicer_to_server(self, server)
        self.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        try:
            yield self
        finally:
            await server.stop(0)

    async def StartTasks(self, request: Any, context: Any) -> worker_pb2.StartTasksResponse:
        assert (request.node_id, request.incarnation) == (self.node_id, self.incarnation)
        self.epochs.append(request.epoch)
        for order in request.orders:
            self.take(order)
        return worker_pb2.StartTasksResponse()

    async def StopTasks(self, request: Any, context: Any) -> worker_pb2.StopTasksResponse:
        self.stops += [order.allocation_id for order in request.orders]
        return worker_pb2.StopTasksResponse()

    async def FreezeTasks(self, request: Any, context: Any) -> worker_pb2.FreezeTasksResponse:
        self.frozen += request.freeze
        self.thawed += request.thaw
        return worker_pb2.FreezeTasksResponse()

    async def GetIdentity(self, request: Any, context: Any) -> worker_pb2.GetIdentityResponse:
        return worker_pb2.GetIdentityResponse(node_id=self.node_id, incarnation=self.incarnation)

    async def StreamLogs(self, request: Any, context: Any) -> AsyncIterator[scheduler_pb2.LogChunk]:
        if request.allocation_id not in self.lines:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such task")
        starts = [p.offset for p in getattr(request, "from")]
        lines = self.lines[request.allocation_id]
        offset = starts[0] if starts else 0
        if request.HasField("tail") and not starts:
            kept = lines.splitlines(keepends=True)
            offset = len(b"".join(kept[: max(0, len(kept) - request.tail)]))
        chunk = scheduler_pb2.LogChunk(
            task_id=request.allocation_id.rpartition(".")[0],
            allocation_id=request.allocation_id,
            stream=scheduler_pb2.LOG_STREAM_STDOUT,
            offset=offset,
        )
        if request.HasField("tail") or request.since_ms or request.timestamps:
            chunk.start = True
            yield chunk
            chunk.start = False
        chunk.data = lines[offset:]
        if request.timestamps:
            chunk.times.add(offset=0, at_ms=1_000_000)
        yield chunk

    def take(self, order: worker_pb2.TaskOrder) -> None:
        if order.allocation_id not in self.orders:
            self.orders[order.allocation_id] = order
            self.see(order.allocation_id, types_pb2.TASK_STATE_STARTING)

    def see(self, allocation_id: str, state: Any, **more: Any) -> None:
        self.observed[allocation_id] = types_pb2.TaskReport(allocation_id=allocation_id, state=state, **more)

    def see_all(self, state: Any, **more: Any) -> None:
        for allocation_id in self.observed:
            self.see(allocation_id, state, **more)

    def registration(self, **more: Any) -> node_pb2.RegisterNodeRequest:
        given: dict[str, Any] = {
            "node_id": self.node_id,
            "name": self.node_id,
            "address": self.address,
            "incarnation": self.incarnation,
            "capacity": types_pb2.Resources(cpu_millis=self.cpus * 1000, memory_bytes=1 << 30),
            "tasks": list(self.observed.values()),
            "clock_ms": int(time.time() * 1000),
        }
        return node_pb2.RegisterNodeRequest(**(given | more))

    async def register(self, to: Front, **more: Any) -> node_pb2.RegisterNodeResponse:
        return await to.nodes.RegisterNode(self.registration(**more), timeout=LIMIT_S)

    async def beat(self, to: Front, *, timeout_s: float = LIMIT_S, **more: Any) -> node_pb2.HeartbeatResponse:
        """Like the agent: starts what the answer says, forgets what it may."""
        answer = await to.nodes.Heartbeat(
            node_pb2.HeartbeatRequest(
                node_id=self.node_id, incarnation=self.incarnation, tasks=list(self.observed.values()), **more
            ),
            timeout=timeout_s,
        )
        for order in answer.start:
            self.take(order)
        for allocation_id in answer.forget:
            del self.observed[allocation_id]
        return answer


@contextlib.asynccontextmanager
async def agent(to: Front, node_id: str = "n1", **more: Any) -> AsyncIterator[FakeAgent]:
    """Serving and registered."""
    async with FakeAgent(node_id, **more).serving() as running:
        await running.register(to)
        yield running
