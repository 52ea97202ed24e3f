"""A large cluster on loopback: real masters, and nodes and jobs as a page shows thousands of them. No task runs.

A simulated node registers like an agent, takes every order, and says in a heartbeat what became of its tasks: most run,
some have ended. Leases are long, so that one heartbeat suffices.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from types import TracebackType

import grpc

from gosched.cli.local_cluster import LocalCluster
from gosched.client.answers import Submitted
from gosched.config import parse_job_file
from gosched.core.resources import Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.wire.codec import to_message
from gosched.wire.v1 import node_pb2, node_pb2_grpc, types_pb2, worker_pb2, worker_pb2_grpc
from tests.integration.support import until

LONG_LEASES = {"lease": {"node_timeout": "1h", "first_lease": "1h", "heartbeat": "30m"}}
QUEUES = [
    {
        "name": "research",
        "type": "fair",
        "weight": 3,
        "children": [
            {"name": "llm", "type": "capacity", "capacity_pct": 70, "max_pct": 100, "limit": {"gpu": 12_000}},
            {"name": "vision", "type": "capacity", "capacity_pct": 30, "max_pct": 60},
        ],
    },
    {"name": "production", "type": "fair", "weight": 2},
    {"name": "batch", "type": "fifo", "max_running_jobs": 6_000},
]
_AT_ONCE = 32  # nodes that register or report
_BATCH = 1000
_GIB = 1 << 30


class SimulatedNodes(worker_pb2_grpc.WorkerServiceServicer):
    """Nodes of one process: racks of 20 in 4 zones, every other one with eight GPUs."""

    def __init__(self, endpoints: str, count: int) -> None:
        self.count = count
        self._orders: dict[str, list[str]] = defaultdict(list)
        self._incarnation = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        worker_pb2_grpc.add_WorkerServiceServicer_to_server(self, self._server)
        self._port = self._server.add_insecure_port("127.0.0.1:0")
        self._channel = grpc.insecure_channel(endpoints.split(",")[0])
        self._stub = node_pb2_grpc.NodeServiceStub(self._channel)

    def __enter__(self) -> SimulatedNodes:
        self._server.start()
        self._for_all(self._register)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.close()
        self._server.stop(None)

    def StartTasks(self, request: worker_pb2.StartTasksRequest, context: object) -> worker_pb2.StartTasksResponse:
        with self._lock:
            self._orders[request.node_id] += [order.allocation_id for order in request.orders]
        return worker_pb2.StartTasksResponse()

    def StopTasks(self, request: worker_pb2.StopTasksRequest, context: object) -> worker_pb2.StopTasksResponse:
        return worker_pb2.StopTasksResponse()

    def beat(self) -> None:
        """Send a heartbeat for each node: of five tasks one has succeeded and, of a few, one has failed."""
        self._for_all(self._beat)

    def _for_all(self, work: Callable[[int], None]) -> None:
        with futures.ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(work, range(self.count)))

    def _register(self, i: int) -> None:
        gpus = 8 if i % 2 else 0
        capacity = Resources(cpu_millis=128_000, memory_bytes=512 * _GIB, gpu_millis=1000 * gpus)
        request = node_pb2.RegisterNodeRequest(
            node_id=f"node-{i:05}",
            name=f"node-{i:05}",
            address=f"127.0.0.1:{self._port}",
            incarnation=self._incarnation,
            capacity=to_message(capacity, types_pb2.Resources),
            gpu_model="h100" if gpus else "",
            labels={"zone": f"zone-{i * 4 // self.count}", "rack": f"rack-{i // 20:03}"},
            clock_ms=int(time.time() * 1000),
        )
        _again(lambda: self._stub.RegisterNode(request, timeout=60, wait_for_ready=True))

    def _beat(self, i: int) -> None:
        now_ms = int(time.time() * 1000)
        node = f"node-{i:05}"
        usage = node_pb2.NodeUsage(cpu_milli=(i * 37) % 120_000, memory_bytes=(i * 7 % 500) * _GIB)
        if i % 2:
            usage.gpus.extend(
                [
                    node_pb2.GpuUsage(gpu=g, name="H100", uuid=f"{i}-{g}", busy_milli=(i * 13 + g * 90) % 1000)
                    for g in range(8)
                ]
            )
        request = node_pb2.HeartbeatRequest(
            node_id=node, incarnation=self._incarnation, usage=usage, clock_ms=now_ms, version="simulated"
        )
        for place, allocation in enumerate(self._orders[node]):
            report = request.tasks.add(allocation_id=allocation, started_at_ms=now_ms - 60_000)
            kind = (i + 3 * place) % 20
            if kind < 4:
                report.state, report.ended_at_ms = types_pb2.TASK_STATE_SUCCEEDED, now_ms
                report.exit_code = 0
            elif kind == 4:
                report.state, report.ended_at_ms = types_pb2.TASK_STATE_FAILED, now_ms
                report.exit_code, report.reason = 1, "NONZERO_EXIT"
            else:
                report.state = types_pb2.TASK_STATE_RUNNING
                report.usage.memory_bytes = 3 * _GIB
        _again(lambda: self._stub.Heartbeat(request, timeout=60))


def _again(call: Callable[[], object]) -> None:
    """Make a call until it is answered, as agents do: a master may be too busy to lead for a moment."""
    ends = time.monotonic() + 120
    while True:
        try:
            call()
            return
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() > ends:
                raise
        time.sleep(0.2)


@contextmanager
def large_cluster(nodes: int = 5_000, jobs: int = 20_000, masters: int = 1) -> Iterator[LocalCluster]:
    """Yield a cluster of so many nodes and jobs: most jobs run, many wait, some have ended."""
    settings = LONG_LEASES | {
        "retention": {"max_jobs": 200_000},
        "queues": QUEUES,
        "topology": ["zone", "rack"],
    }
    with (
        LocalCluster(masters=masters, agents=0, settings=settings) as cluster,
        SimulatedNodes(cluster.endpoints, nodes) as simulated,
        cluster.client(timeout_s=120) as client,
    ):
        for first in range(0, jobs, _BATCH):
            outcomes = client.submit_all([_spec(i) for i in range(first, min(first + _BATCH, jobs))])
            assert all(isinstance(outcome, Submitted) for outcome in outcomes)
        until(lambda: client.get_status().running > 0.4 * jobs, "many jobs run", 240)
        simulated.beat()
        yield cluster


def _spec(i: int) -> JobSpec:
    queue = ("research.llm", "research.vision", "production", "batch")[i % 4]
    gpus = 8 if queue == "research.llm" else 2 if queue == "research.vision" else 0
    count = 4 if i % 50 == 0 else 1
    cpu = 100 if queue == "production" and i % 3 else 8
    text = (
        f"name: {queue.rpartition('.')[2]}-{i:05}\nqueue: {queue}\ntenant: {('nlp', 'vision', 'web', 'etl')[i % 4]}\n"
        f"labels: {{team: team-{i % 7}, experiment: e{i % 100}}}\npriority: {('low', 'normal', 'high')[i % 3]}\n"
        f"estimate: {10 + i % 600}m\n"
        f"count: {count}\nresources: {{cpu: {cpu}, memory: 4Gi, gpu: {gpus}}}\nrun: [/bin/sleep, '600']\n"
    )
    return parse_job_file(text, "large cluster")[0]
