"""One gang over 2,000 nodes, a task on each: how long until all its tasks run, and what it costs to tell the nodes.

A simulated node speaks the agent's protocol, heartbeats and reports among it, listens at an address of its own on
loopback, as thousands of agents do, and runs nothing. Connections are those that the whole network namespace accepted
meanwhile, so run it in one of its own: `unshare -n sh -c 'ip link set lo up; python -m benchmarks.wide_gang'`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import resource
import sys
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc

from benchmarks.report import Report
from gosched.cli.local_cluster import LocalCluster
from gosched.client import GoSchedClient
from gosched.core.records.job import JobState
from gosched.core.resources import Resources
from gosched.wire.codec import to_message
from gosched.wire.v1 import node_pb2, node_pb2_grpc, types_pb2, worker_pb2, worker_pb2_grpc

NODES = 2000
LIMIT_S = 240.0
CALL_S = 3.0
STAYS_S = 15.0  # that the gang is watched once it runs
CHANNELS = 8  # to each master
OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.so_reuseport", 0)]


class Node:
    """A simulated node: its tasks run as soon as they are ordered."""

    def __init__(self, number: int, port: int) -> None:
        self.id = f"node-{number:05}"
        self.address = f"127.{1 + number // 62_500}.{number // 250 % 250}.{1 + number % 250}:{port}"
        self.incarnation = uuid.uuid4().hex
        self.tasks: dict[str, types_pb2.TaskReport] = {}
        self.changed = asyncio.Event()
        self.registrations = 0
        self.heartbeat_s = 5.0

    def start(self, allocation_id: str) -> None:
        if allocation_id not in self.tasks:
            self._report(allocation_id, types_pb2.TASK_STATE_RUNNING)

    def stop(self, allocation_id: str) -> None:
        if self.tasks.get(allocation_id, None) is None or not self.tasks[allocation_id].ended_at_ms:
            self._report(allocation_id, types_pb2.TASK_STATE_KILLED)

    def _report(self, allocation_id: str, state: Any) -> None:
        now_ms = int(time.time() * 1000)
        report = types_pb2.TaskReport(allocation_id=allocation_id, state=state, started_at_ms=now_ms)
        if state != types_pb2.TASK_STATE_RUNNING:
            report.ended_at_ms = now_ms
        self.tasks[allocation_id] = report
        self.changed.set()

    async def live(self, masters: list[list[Any]]) -> None:
        place = random.randrange(len(masters))
        while True:
            stub = random.choice(masters[place % len(masters)])
            with contextlib.suppress(grpc.aio.AioRpcError):
                await self._talk(stub)
            place += 1
            await asyncio.sleep(random.uniform(0.1, 1.0))

    async def _talk(self, stub: Any) -> None:
        registered = self.registrations > 0
        while True:
            self.changed.clear()
            if not registered:
                await self._register(stub)
                registered = True
            beat = node_pb2.HeartbeatRequest(
                node_id=self.id,
                incarnation=self.incarnation,
                tasks=self.tasks.values(),
                clock_ms=int(time.time() * 1000),
            )
            answer = await stub.Heartbeat(beat, timeout=CALL_S)
            registered = not answer.register_again
            for order in answer.start:
                self.start(order.allocation_id)
            for stop in answer.stop:
                self.stop(stop.allocation_id)
            for name in answer.forget:
                self.tasks.pop(name, None)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.heartbeat_s):
                    await self.changed.wait()

    async def _register(self, stub: Any) -> None:
        capacity = Resources(cpu_millis=64_000, memory_bytes=256 << 30)
        request = node_pb2.RegisterNodeRequest(
            node_id=self.id,
            name=self.id,
            address=self.address,
            incarnation=self.incarnation,
            capacity=to_message(capacity, types_pb2.Resources),
            tasks=self.tasks.values(),
            clock_ms=int(time.time() * 1000),
        )
        answer = await stub.RegisterNode(request, timeout=CALL_S)
        self.heartbeat_s = (answer.heartbeat_ms or 5000) / 1000
        self.registrations += 1


class Worker(worker_pb2_grpc.WorkerServiceServicer):
    """Takes the orders for all nodes."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}

    async def StartTasks(self, request: Any, context: Any) -> worker_pb2.StartTasksResponse:
        for order in request.orders:
            self.nodes[request.node_id].start(order.allocation_id)
        return worker_pb2.StartTasksResponse()

    async def StopTasks(self, request: Any, context: Any) -> worker_pb2.StopTasksResponse:
        for order in request.orders:
            self.nodes[request.node_id].stop(order.allocation_id)
        return worker_pb2.StopTasksResponse()


@contextlib.asynccontextmanager
async def simulated_nodes(endpoints: str, count: int) -> AsyncIterator[list[Node]]:
    server, worker = grpc.aio.server(options=OPTIONS), Worker()
    worker_pb2_grpc.add_WorkerServiceServicer_to_server(worker, server)
    port = server.add_insecure_port("0.0.0.0:0")
    await server.start()
    nodes = [Node(number, port) for number in range(count)]
    worker.nodes = {node.id: node for node in nodes}
    channels = [
        [grpc.aio.insecure_channel(master, options=OPTIONS) for _ in range(CHANNELS)] for master in endpoints.split(",")
    ]
    stubs = [[node_pb2_grpc.NodeServiceStub(channel) for channel in some] for some in channels]
    lives = []
    for node in nodes:
        lives.append(asyncio.create_task(node.live(stubs)))
        await asyncio.sleep(5.0 / count)
    try:
        yield nodes
    finally:
        for life in lives:
            life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)
        for channel in [channel for some in channels for channel in some]:
            await channel.close()
        await server.stop(None)


async def gang(report: Report, cluster: LocalCluster, count: int) -> None:
    async with simulated_nodes(cluster.endpoints, count) as nodes:
        with cluster.client() as client:
            await until(lambda: all(node.registrations for node in nodes), "all nodes are registered")
            await asyncio.to_thread(
                client.submit, f"name: wide\ncount: {count}\nresources: {{cpu: 64, memory: 1Gi}}\nrun: 'true'\n"
            )
            began, accepted = time.monotonic(), passive_opens()
            runs = await ended_well(client, began)
            took_s = time.monotonic() - began
            await asyncio.sleep(1.0 if report.smoke else STAYS_S)
            report.add("wide_gang_running" if runs else "wide_gang_gave_up", took_s, "s", count)
            report.add("wide_gang_connections", passive_opens() - accepted, "", count)
        report.add("wide_gang_undelivered", count_lines(cluster, "orders not delivered"), "", count)
        report.add("wide_gang_nodes_dead", count_lines(cluster, '"after": "DEAD"'), "", count)
        again = sum(node.registrations - 1 for node in nodes)
        report.add("wide_gang_registered_again", again, "", count)


async def ended_well(client: GoSchedClient, began: float) -> bool:
    """Return whether all tasks of the gang run within the limit."""
    while time.monotonic() < began + LIMIT_S:
        with contextlib.suppress(Exception):  # a cluster in collapse: it is asked again until the limit
            found = await asyncio.to_thread(client.get_job, "wide")
            if found.state is JobState.RUNNING and found.job.attempt:
                tasks = found.tasks
                if tasks and all(task.state.name == "RUNNING" for task in tasks):
                    return True
        await asyncio.sleep(0.2)
    return False


async def until(condition: Any, what: str) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.1)
    print(what, file=sys.stderr)


def passive_opens() -> int:
    """Return how many TCP connections this network namespace has accepted."""
    lines = Path("/proc/net/snmp").read_text().splitlines()
    names, values = (line.split() for line in lines if line.startswith("Tcp:"))
    return int(values[names.index("PassiveOpens")])


def count_lines(cluster: LocalCluster, words: str) -> int:
    logs = [master.log.read_text("utf-8", "replace").splitlines() for master in cluster.masters.values()]
    return sum(words in line for log in logs for line in log)


def main() -> None:
    report = Report()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with LocalCluster(masters=3, agents=0) as cluster:
        asyncio.run(gang(report, cluster, 50 if report.smoke else NODES))


if __name__ == "__main__":
    main()
