"""One user's crowds of streams: agents and others are served meanwhile, and masters keep little of what is unread."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import psutil

from gosched.cli.local_cluster import LocalCluster
from gosched.cli.local_program import Program
from gosched.core.records.node import NodeState
from gosched.master.api.lanes import BOUNDS, Lane
from gosched.wire.v1 import scheduler_pb2, scheduler_pb2_grpc

from .support import PATIENCE_S, until

NODE_TIMEOUT_S = 10
WATCHES = 900  # to each master, by one user
STREAMS = 200
MIB = 1024 * 1024
MOST_OF_A_STREAM = 2 * MIB  # measured 0.4 to 0.7; with windows that grow and 64 chunks ahead 5.2


class Crowd:
    """Calls to one master that nobody reads any further."""

    def __init__(self, address: str) -> None:
        # Connections of their own: one carries so many calls.
        self.channels = [
            grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) for _ in range(4)
        ]
        self.calls: list[Any] = []
        self.codes: Counter[str] = Counter()

    def stub(self, number: int) -> Any:
        return scheduler_pb2_grpc.SchedulerServiceStub(self.channels[number % len(self.channels)])

    def watch(self, job: str, count: int) -> None:
        self.calls += [self.stub(i).WatchJob(scheduler_pb2.GetJobRequest(job=job)) for i in range(count)]
        with ThreadPoolExecutor(32) as pool:
            self.codes.update(pool.map(_first, self.calls))

    def close(self) -> None:
        for channel in self.channels:
            channel.close()


def _first(call: Any) -> str:
    try:
        next(call)
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"


def test_idle_watches_of_one_user_cost_no_node_its_life_and_nobody_an_answer() -> None:
    with LocalCluster(masters=3, agents=3) as cluster, cluster.client() as client:
        job = client.submit("name: waits\nresources: {cpu: 1000}\nrun: 'true'\n").job_id
        crowds = [Crowd(master.grpc) for master in cluster.masters.values()]
        try:
            for crowd in crowds:
                crowd.watch(job, WATCHES)
            taken = sum((crowd.codes for crowd in crowds), Counter())
            most = BOUNDS[Lane.STREAMS].each
            assert set(taken) == {"OK", "RESOURCE_EXHAUSTED"}
            assert taken["OK"] <= most, "on all masters together"
            ends = time.monotonic() + 2 * NODE_TIMEOUT_S
            slowest = oldest = 0.0
            while time.monotonic() < ends:
                asked = time.monotonic()
                nodes = client.list_nodes()
                client.submit(f"name: other-{asked}\nresources: {{cpu: 1000}}\nrun: 'true'\n")
                slowest = max(slowest, time.monotonic() - asked)
                oldest = max(oldest, *(node.heartbeat_age_ms / 1000 for node in nodes))
                assert {node.node.state for node in nodes} == {NodeState.READY}
                time.sleep(0.2)
            print(f"{taken['OK']} watches; heartbeats at most {oldest:.1f} s old, calls at most {slowest:.2f} s")
            assert oldest < NODE_TIMEOUT_S
            assert slowest < NODE_TIMEOUT_S
        finally:
            for crowd in crowds:
                crowd.close()


def resident(master: Program) -> float:
    """Of the front, once it has come to rest."""
    before, process = 0.0, psutil.Process(master.pid)
    ends = time.monotonic() + PATIENCE_S
    while (now := float(process.memory_info().rss)) > before + MIB and time.monotonic() < ends:
        before = now
        time.sleep(3)
    return now


def test_log_streams_that_nobody_reads_keep_little_in_the_masters(tmp_path: Path) -> None:
    with LocalCluster(masters=3, agents=1) as cluster, cluster.client() as client:
        said = tmp_path / "said"
        talk = f"yes {'x' * 1000} | head -c 60000000; touch {said}; sleep 600"
        job = client.submit(f"name: talks\nresources: {{cpu: 100m, memory: 1Mi}}\nrun: {talk}\n").job_id
        until(said.exists, "it has said much")
        leader = cluster.leader()
        follower = next(master for master in cluster.masters.values() if master is not leader)
        before = {master.id: resident(master) for master in (leader, follower)}
        crowd = Crowd(follower.grpc)
        try:
            request = scheduler_pb2.StreamJobLogsRequest(job=job, follow=True)
            crowd.calls = [crowd.stub(i).StreamJobLogs(request) for i in range(STREAMS)]
            assert {_first(call) for call in crowd.calls} == {"OK"}
            for master in (leader, follower):
                each = (resident(master) - before[master.id]) / STREAMS
                role = "leader" if master is leader else "follower"
                print(f"{role}: {before[master.id] / MIB:.0f} MiB, {each / MIB:.2f} MiB for each of {STREAMS} streams")
                assert each < MOST_OF_A_STREAM, role
        finally:
            crowd.close()
        client.cancel(job)
