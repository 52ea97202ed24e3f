"""Whole clusters of real processes on loopback: failover as users see it, submissions per second, tasks per second
from submission to committed placement at 1,000 and 5,000 simulated nodes, jobs per second from submission to their end
with a real agent and what its processes and the masters' cost, and how soon a waiting gang starts.

A simulated node registers like an agent and is told to start tasks, but runs none and sends no heartbeats: leases are
long here.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
import psutil

from benchmarks.report import Report
from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.cli.local_program import Program
from gosched.client import NotSubmitted
from gosched.config import parse_job_file
from gosched.core.records.job import JobState
from gosched.core.resources import Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.wire.codec import to_message
from gosched.wire.v1 import node_pb2, node_pb2_grpc, types_pb2, worker_pb2, worker_pb2_grpc
from tests.integration.storm import run_storm
from tests.integration.support import ledger_job, until

LONG_LEASES = {"lease": {"node_timeout": "1h", "first_lease": "1h", "heartbeat": "30m"}}


class _Worker(worker_pb2_grpc.WorkerServiceServicer):
    """Takes every order for every simulated node."""

    def StartTasks(self, request: worker_pb2.StartTasksRequest, context: object) -> worker_pb2.StartTasksResponse:
        return worker_pb2.StartTasksResponse()

    def StopTasks(self, request: worker_pb2.StopTasksRequest, context: object) -> worker_pb2.StopTasksResponse:
        return worker_pb2.StopTasksResponse()


@contextmanager
def simulated_nodes(endpoints: str, count: int) -> Iterator[None]:
    server = grpc.server(futures.ThreadPoolExecutor(4))
    worker_pb2_grpc.add_WorkerServiceServicer_to_server(_Worker(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    capacity = to_message(Resources(cpu_millis=64_000, memory_bytes=256 << 30), types_pb2.Resources)
    with grpc.insecure_channel(endpoints.split(",")[0]) as channel:
        stub = node_pb2_grpc.NodeServiceStub(channel)

        def register(i: int) -> None:
            request = node_pb2.RegisterNodeRequest(
                node_id=f"node-{i:05}",
                name=f"node-{i:05}",
                address=f"127.0.0.1:{port}",
                incarnation=uuid.uuid4().hex,
                capacity=capacity,
                clock_ms=int(time.time() * 1000),
            )
            stub.RegisterNode(request, timeout=60, wait_for_ready=True)

        with futures.ThreadPoolExecutor(32) as pool:
            list(pool.map(register, range(count)))
    try:
        yield
    finally:
        server.stop(None)


def failover(report: Report, folder: Path) -> None:
    storm = run_storm(folder, kills=2 if report.smoke else 20)
    if storm.problems:
        raise SystemExit(f"the storm did harm: {storm.problems[:3]}")
    n = len(storm.gaps_s)
    report.add("failover_p50", statistics.median(storm.gaps_s), "s", n)
    report.add("failover_max", max(storm.gaps_s), "s", n)


def submissions(report: Report) -> None:
    """On a cluster without nodes, so that only the submission is measured."""
    with LocalCluster(masters=3, agents=0) as cluster:
        for clients in (1, 32):
            n = (20 if report.smoke else 600) * (1 if clients == 1 else 4)
            specs = [_spec(f"submit-{clients}-{i}", count=1, cpu="1") for i in range(n)]
            report.add(f"submissions_{clients}_clients", n / _submit_all(cluster, specs, clients), "jobs/s", n)
        n = 100 if report.smoke else 5000
        with cluster.client() as client:
            specs = [_spec(f"batch-{i}", count=1, cpu="1") for i in range(n)]
            began = time.monotonic()
            outcomes = client.submit_all(specs)
            report.add("submissions_in_one_batch", n / (time.monotonic() - began), "jobs/s", n)
            if any(isinstance(outcome, NotSubmitted) for outcome in outcomes):
                raise SystemExit("a job of the batch was not taken")
        report.add("submissions_of_one_pipe", n / _submit_pipe(cluster, n), "jobs/s", n)


def placements(report: Report, nodes: int) -> None:
    """From the first submission to the last committed placement: gangs of 100 and single tasks, a call for each job of
    sixteen clients, then single tasks of one client in one batch."""
    settings = LONG_LEASES | {"retention": {"max_jobs": 100_000}}
    with (
        LocalCluster(masters=3, agents=0, settings=settings) as cluster,
        simulated_nodes(cluster.endpoints, nodes),
        cluster.client() as client,
    ):
        epoch = client.get_status().epoch
        ways = (("tasks", 100, 20_000), ("single_tasks", 1, 4_000), ("single_tasks_in_one_batch", 1, 4_000))
        for name, gang, tasks in ways:
            tasks = 400 if report.smoke else tasks
            specs = [_spec(f"{name.replace('_', '-')}-{i}", count=gang, cpu="10m") for i in range(tasks // gang)]
            began = time.monotonic()
            if name.endswith("batch"):
                client.submit_all(specs)
            else:
                _submit_all(cluster, specs, 16)
            until(lambda: client.get_status().pending == 0, "all jobs are placed", 120)
            report.add(f"replicated_{name}_{nodes}", tasks / (time.monotonic() - began), "tasks/s", tasks)
        report.add(f"elections_under_load_{nodes}", client.get_status().epoch - epoch, "elections", 1)


def ended(report: Report) -> None:
    """Jobs that do nothing, each of one task, from the first submission until the last has ended on the only node. The
    supervisors' time is not in the figures of the agent: the kernel counts it for no process that lives on."""
    agent = AgentShape(resources={"cpu": 64, "memory": "64Gi"})
    settings = {"retention": {"max_jobs": 100_000}}
    with LocalCluster(masters=3, agents=[agent], settings=settings) as cluster, cluster.client() as client:
        jobs = 20 if report.smoke else 1000
        for warm in (True, False):
            specs = [_spec(f"ended-{warm}-{i}", count=1, cpu="1") for i in range(jobs // 10 if warm else jobs)]
            before = {kind: _cpu_s(programs) for kind, programs in _kinds(cluster).items()}
            began = time.monotonic()
            client.submit_all(specs)
            until(lambda: not ((status := client.get_status()).pending or status.running), "all jobs have ended", 300)
        report.add("ended_single_jobs", jobs / (time.monotonic() - began), "jobs/s", jobs)
        for kind, programs in _kinds(cluster).items():
            report.add(f"ended_single_jobs_cpu_{kind}", 1000 * (_cpu_s(programs) - before[kind]) / jobs, "ms/job", jobs)


def _kinds(cluster: LocalCluster) -> dict[str, list[Program]]:
    leader = cluster.leader()
    followers = [master for master in cluster.masters.values() if master is not leader]
    return {"leader": [leader], "followers": followers, "agent": list(cluster.agents.values())}


def _cpu_s(programs: list[Program]) -> float:
    """Seconds of CPU of the programs and of the processes below them, as far as these live."""
    found = [psutil.Process(program.pid) for program in programs]
    total = 0.0
    for process in [below for top in found for below in (top, *top.children())]:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def joining(report: Report, folder: Path) -> None:
    """A gang waits for a second node; from that node's registration to the gang's committed placement."""
    took = []
    shape = AgentShape(resources={"cpu": 4, "memory": "8Gi"})
    for i in range(1 if report.smoke else 10):
        with LocalCluster(masters=3, agents=[shape]) as cluster, cluster.client() as client:
            client.submit(ledger_job("gang", folder / f"join-{i}", count=8, cpu="1"))
            until(lambda client=client: client.get_job("gang").waiting_for is not None, "the gang waits")  # type: ignore[misc]
            cluster.add_agent(shape)
            done = client.wait("gang", timeout=30)
            assert done.state is JobState.SUCCEEDED
            joined = next(n.node.registered_at_ms for n in client.list_nodes() if n.node.id == "agent-2")
            took.append((done.job.started_at_ms - joined) / 1000)
    report.add("join_to_start_p50", statistics.median(took), "s", len(took))
    report.add("join_to_start_max", max(took), "s", len(took))


def _spec(name: str, *, count: int, cpu: str) -> JobSpec:
    text = f"name: {name}\ncount: {count}\nresources: {{cpu: {cpu}, memory: 1Mi}}\nrun: [/bin/true]\n"
    return parse_job_file(text, "benchmark")[0]


def _submit_pipe(cluster: LocalCluster, jobs: int) -> float:
    """Seconds of one `goschedctl submit -` that reads so many documents."""
    text = "".join(f"---\nname: pipe-{i}\nresources: {{cpu: 1, memory: 1Mi}}\nrun: [/bin/true]\n" for i in range(jobs))
    command = [str(Path(sys.executable).parent / "goschedctl"), "submit", "-"]
    environment = {**os.environ, "GOSCHED_ENDPOINTS": cluster.endpoints}
    began = time.monotonic()
    done = subprocess.run(
        command, input=text, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode or len(done.stdout.split()) != jobs:
        raise SystemExit(f"goschedctl submit ended with {done.returncode}: {done.stderr[-500:]}")
    return time.monotonic() - began


def _submit_all(cluster: LocalCluster, specs: list[JobSpec], clients: int) -> float:
    connections = [cluster.client() for _ in range(clients)]

    def work(k: int) -> None:
        for spec in specs[k::clients]:
            connections[k].submit(spec)

    try:
        began = time.monotonic()
        with futures.ThreadPoolExecutor(clients) as pool:
            list(pool.map(work, range(clients)))
        return time.monotonic() - began
    finally:
        for connection in connections:
            connection.close()


def main() -> None:
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        failover(report, Path(folder))
        joining(report, Path(folder))
    submissions(report)
    ended(report)
    for nodes in (50,) if report.smoke else (1000, 5000):
        placements(report, nodes)


if __name__ == "__main__":
    main()
