"""One real agent, and a master that only says yes: how long a start takes, how many tasks a node starts in a second,
and what agent and supervisors cost.

From the call of StartTasks to the first instruction of the task, which makes a file: its time of change is the moment,
good to the kernel's tick (4 ms or less). Needs root, crun, Docker's daemon and Spark:
tools/integration_tools.sh.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import psutil

from benchmarks.report import Report
from gosched.core.spec.isolation import Isolation, Volume
from gosched.sim.cluster.report import percentile
from gosched.wire.codec import fill
from gosched.wire.v1 import node_pb2, node_pb2_grpc, types_pb2, worker_pb2, worker_pb2_grpc
from tests.integration.containers import make_rootfs
from tests.integration.daemons import docker_daemon, import_image

MANY = 1000
WAIT_S = 300.0
IDLE_S = 30.0
_MIB = 1 << 20


def main() -> None:
    report = Report()
    with tempfile.TemporaryDirectory(prefix="gosched-bench-") as scratch:
        home = Path(scratch)
        home.chmod(0o755)
        with Node(home) as node:
            report.add("agent_cpu_idle", cpu_share(psutil.Process(node.agent.pid), report.smoke), "% of a core", 1)
            root = make_rootfs(home / "root")
            latencies(report, node, "process", 10 if report.smoke else 200)
            latencies(report, node, "rootfs", 3 if report.smoke else 100, str(root))
            latencies(report, node, "spark", 1 if report.smoke else 10)
            many(report, node, 50 if report.smoke else MANY)
        (home / "docker").mkdir()
        with docker_daemon(home / "docker") as host, Node(home, f"docker_host: {host}\n") as node:
            import_image(host, home / "root", "bench")
            latencies(report, node, "docker", 2 if report.smoke else 50, "bench")


def latencies(report: Report, node: Node, runtime: str, count: int, image: str = "") -> None:
    """One after the other, each alone on the node."""
    times = []
    for number in range(count):
        mark = node.home / "marks" / f"{runtime}-{number}"
        began = time.time()
        node.start([node.order(f"{runtime}{number}/t/0.1", runtime, mark, image)])
        wait_for(mark.exists, f"{mark} was not made")
        times.append(1000 * (mark.stat().st_ctime - began))
        node.stop([f"{runtime}{number}/t/0.1"])
        wait_for(lambda: not node.supervisors(), "the task has not ended")
    report.add(f"agent_start_{runtime}_p50", statistics.median(times), "ms", count)
    report.add(f"agent_start_{runtime}_p99", percentile(sorted(times), 99), "ms", count)


def many(report: Report, node: Node, count: int) -> None:
    """All ordered in one message, as a plan with many tasks for one node is."""
    marks = [node.home / "marks" / f"many-{number}" for number in range(count)]
    names = [f"many{number}/t/0.1" for number in range(count)]
    began = time.time()
    node.start([node.order(name, "process", mark, "") for name, mark in zip(names, marks, strict=True)])
    wait_for(
        lambda: len(os.listdir(node.home / "marks")) >= count and all(m.exists() for m in marks), "not all started"
    )
    report.add("agent_starts_per_s", count / (max(mark.stat().st_ctime for mark in marks) - began), "tasks/s", count)
    time.sleep(2)
    agent, supervisors = psutil.Process(node.agent.pid), node.supervisors()
    if len(supervisors) < count:
        raise SystemExit(f"{len(supervisors)} supervisors for {count} tasks")
    report.add("agent_memory", agent.memory_info().rss / _MIB, "MiB", count)
    report.add("agent_own_memory", agent.memory_full_info().uss / _MIB, "MiB", count)
    own = [process.memory_full_info() for process in supervisors]
    report.add("agent_supervisor_own_memory", statistics.mean(info.uss for info in own) / _MIB, "MiB each", count)
    report.add("agent_supervisor_shared_in", statistics.mean(info.pss for info in own) / _MIB, "MiB each", count)
    report.add(f"agent_cpu_with_{count}_tasks", cpu_share(agent, report.smoke), "% of a core", count)
    began = time.time()
    node.stop(names)
    wait_for(lambda: not node.supervisors(), "not all ended")
    report.add("agent_stops_per_s", count / (time.time() - began), "tasks/s", count)


def cpu_share(process: psutil.Process, smoke: bool) -> float:
    seconds = 2.0 if smoke else IDLE_S
    before = process.cpu_times()
    time.sleep(seconds)
    after = process.cpu_times()
    return 100 * (after.user + after.system - before.user - before.system) / seconds


class Yes(node_pb2_grpc.NodeServiceServicer):
    def RegisterNode(self, request: Any, context: Any) -> Any:
        self.node = request
        return node_pb2.RegisterNodeResponse(heartbeat_ms=5000, epoch=1, lease_ms=10_000)

    def Heartbeat(self, request: Any, context: Any) -> Any:
        ended = [task.allocation_id for task in request.tasks if task.state >= types_pb2.TASK_STATE_SUCCEEDED]
        return node_pb2.HeartbeatResponse(epoch=1, lease_ms=10_000, forget=ended)


class Node:
    """An agent of its own; its tasks run as it does."""

    def __init__(self, home: Path, settings: str = "") -> None:
        self.home = home
        self.data = home / "agent"
        self.settings = settings
        (home / "marks").mkdir(exist_ok=True)

    def __enter__(self) -> Node:
        config = self.home / "agent.yaml"
        config.write_text("users: {own: true}\nvolumes: {allowed: [/]}\nkeep_finished: 1s\n" + self.settings)
        self.master = Yes()
        self.server = grpc.server(futures.ThreadPoolExecutor(4))
        node_pb2_grpc.add_NodeServiceServicer_to_server(self.master, self.server)
        port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()
        program = Path(sys.executable).with_name("gosched-agent")
        with (self.home / "agent.log").open("ab") as log:
            self.agent = subprocess.Popen(
                [str(program), f"--master=127.0.0.1:{port}", f"--data-dir={self.data}", "--config", str(config)],
                stderr=log,
            )
        wait_for(lambda: hasattr(self.master, "node"), "the agent did not register")
        self.channel = grpc.insecure_channel(self.master.node.address, [("grpc.max_send_message_length", 64 * _MIB)])
        self.worker = worker_pb2_grpc.WorkerServiceStub(self.channel)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.supervisors():
            with contextlib.suppress(psutil.Error):
                process.kill()
        self.channel.close()
        self.agent.send_signal(signal.SIGTERM)
        self.agent.wait(30)
        self.server.stop(0).wait(5)
        shutil.rmtree(self.data, ignore_errors=True)

    def order(self, name: str, runtime: str, mark: Path, image: str) -> worker_pb2.TaskOrder:
        inside = Path("/marks") / mark.name if image else mark
        command = ["/bin/sh", "-c", f": > {inside}; exec sleep 600"]
        if runtime == "spark":  # the application's first line, in spark-submit's own process: no executor is needed
            application = self.home / "application.py"
            application.write_text("import pathlib, sys, time\npathlib.Path(sys.argv[1]).touch()\ntime.sleep(600)\n")
            command = [str(application), str(mark)]
        order = worker_pb2.TaskOrder(
            allocation_id=name,
            task_id=name.rpartition(".")[0],
            job_id=name.partition("/")[0],
            runtime=f"RUNTIME_{runtime.upper()}",
            image=image,
            command=command,
            stop_grace_ms=0,
        )
        volumes = (Volume(host=str(mark.parent), to="/marks"),) if image else ()
        fill(Isolation(volumes=volumes), order.isolation)
        return order

    def start(self, orders: list[worker_pb2.TaskOrder]) -> None:
        self.worker.StartTasks(
            worker_pb2.StartTasksRequest(
                epoch=1, node_id=self.master.node.node_id, incarnation=self.master.node.incarnation, orders=orders
            ),
            timeout=WAIT_S,
        )

    def stop(self, names: list[str]) -> None:
        self.worker.StopTasks(
            worker_pb2.StopTasksRequest(
                epoch=1,
                node_id=self.master.node.node_id,
                incarnation=self.master.node.incarnation,
                orders=[worker_pb2.StopOrder(allocation_id=name, grace_ms=0, reason="CANCELLED") for name in names],
            ),
            timeout=WAIT_S,
        )

    def supervisors(self) -> list[psutil.Process]:
        """Children of the nursery, which is the agent's only child that runs on."""
        return list(self._supervisors())

    def _supervisors(self) -> Iterator[psutil.Process]:
        with contextlib.suppress(psutil.Error):
            for nursery in psutil.Process(self.agent.pid).children():
                yield from nursery.children()


def wait_for(what: Callable[[], bool], why: str) -> None:
    ends = time.monotonic() + WAIT_S
    while not what():
        if time.monotonic() > ends:
            raise SystemExit(f"{why} within {WAIT_S:g} s")
        time.sleep(0.002)


if __name__ == "__main__":
    main()
