"""The memory of what a master's front does all day: 10,000 cycles at 5,000 nodes, jobs that come, are placed and end in
between, with the garbage collector set as in the daemons. Of both processes of a real master with 100,000 pending jobs.
And of a simulation with many nodes."""

from __future__ import annotations

import gc
import os
import random
import signal
import time
from collections import deque
from pathlib import Path

import psutil

from benchmarks.report import Report
from benchmarks.workloads import Shape, job, nodes
from gosched.cli.local_cluster import LocalCluster
from gosched.cli.local_program import Program
from gosched.config import parse_job_file
from gosched.core.commands.cluster import PassTime, SetQueues
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import DropFinishedJobs, SubmitJob
from gosched.core.commands.nodes import RegisterNode, ReportTasks, TaskReport
from gosched.core.outcome import Accepted
from gosched.core.records.queue import Queue
from gosched.core.records.task import TaskState, allocation_id
from gosched.core.state.cluster_state import ClusterState
from gosched.observe.counts import ClusterCounts
from gosched.replication.applier import GC_THRESHOLD
from gosched.scheduling import Policy, ViewBuilder, schedule
from gosched.sim.cluster.simulator import Simulator
from gosched.state_machine import apply
from tests.integration.support import until

MIB = 1 << 20
KEPT_JOBS = 1000
AT_ONCE = 5000  # jobs in one call
SETTLE_S = 5.0  # for a cycle and a snapshot that are under way
POLICY = Policy(topology=("zone", "rack"))  # as in a master


def main() -> None:
    report = Report()
    gc.set_threshold(*GC_THRESHOLD)
    size, cycles = (50, 30) if report.smoke else (5000, 10_000)
    _front(report, size, cycles)
    _pending(report, 2_000 if report.smoke else 100_000)
    size, count = (60, 20) if report.smoke else (6000, 1000)
    before = _resident()
    draws = random.Random(1)
    jobs = [job(f"j{i}", i * 2.0, draws.uniform(60, 600), Shape(tasks=8, cpus=4)) for i in range(count)]
    Simulator(jobs, nodes(size, cpus=64), POLICY).run()
    report.add(f"memory_simulation_{size}_nodes", (_resident() - before) / MIB, "MiB more", count)


def _front(report: Report, size: int, cycles: int) -> None:
    front = _Front(nodes(size, cpus=64))
    draws = random.Random(2)
    for _ in range(max(1, cycles // 100)):  # caches are warm then
        front.cycle(draws)
    first, most = _resident(), 0
    for _ in range(cycles):
        front.cycle(draws)
        most = max(most, _resident())
    report.add(f"memory_front_{size}_start", first / MIB, "MiB", cycles)
    report.add(f"memory_front_{size}_most", most / MIB, "MiB", cycles)
    report.add(f"memory_front_{size}_end", _resident() / MIB, "MiB", cycles)


def _pending(report: Report, jobs: int) -> None:
    """A cluster of one master and no node, so that all its jobs wait: as it stands, and started anew."""
    text = "name: pending-{}\nresources: {{cpu: 1, memory: 1Mi}}\nrun: [/bin/true]\n"
    with LocalCluster(masters=1, agents=0) as cluster, cluster.client(timeout_s=120.0) as client:
        master = cluster.leader()
        for first in range(0, jobs, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, jobs))
            client.submit_all([parse_job_file(text.format(number), "benchmark")[0] for number in numbers])
        _master(report, f"memory_master_{jobs}_pending", master, jobs)
        master.send(signal.SIGTERM)
        master.wait(60)
        cluster.restart(master)
        cluster.wait_ready()
        until(lambda: client.get_status().pending == jobs, "the master has all jobs again", 300)
        _master(report, f"memory_master_{jobs}_restarted", master, jobs)


def _master(report: Report, name: str, master: Program, jobs: int) -> None:
    time.sleep(SETTLE_S)
    front = psutil.Process(master.pid)
    replica = next(child for child in front.children() if "gosched.replication.replica" in child.cmdline())
    for part, process in (("front", front), ("replica", replica)):
        report.add(f"{name}_{part}", process.memory_info().rss / MIB, "MiB", jobs)


class _Front:
    """A state with its columns and counts, as a front keeps them; one job asks for more than a node has, and waits."""

    def __init__(self, machines: list[RegisterNode]) -> None:
        self.state, self.builder, self.counts = ClusterState(), ViewBuilder(), ClusterCounts()
        self.running: deque[str] = deque()  # allocations, the oldest first
        self.limit = 2 * len(machines)
        self.number = 0
        apply(self.state, Command(body=SetQueues(queues=(Queue(path="default"),))))
        for machine in machines:
            apply(self.state, Command(body=machine))
        self.builder.reset(self.state)
        self.counts.reset(self.state)
        too_large = job("waits", 0.0, 600.0, Shape(tasks=1, cpus=65)).spec
        self._do(SubmitJob(job_id="waits", spec=too_large))

    def cycle(self, draws: random.Random) -> None:
        """A second passes: jobs come, a plan is committed, the oldest tasks end."""
        self._do(PassTime(), 1000)
        for _ in range(3):
            self.number += 1
            shape = Shape(tasks=draws.choice((1, 4, 8)), cpus=draws.choice((1, 2, 4)))
            wanted = job(f"j{self.number}", 0.0, 600.0, shape, timeout_s=900.0).spec
            self._do(SubmitJob(job_id=f"j{self.number}", spec=wanted))
        plan = schedule(self.builder.view(self.state), POLICY, self.state.clock_ms, self.number)
        for command in plan.commands(epoch=0, at_ms=0):
            self._do(command.body)
        for gang in plan.gangs:
            names = self.state.jobs[gang.job_id].task_ids()
            self.running += [allocation_id(names[task.rank], 1) for task in gang.tasks]
        while len(self.running) > self.limit:
            self._end(self.running.popleft())
        if len(self.state.finished) > 2 * KEPT_JOBS:
            self._do(DropFinishedJobs(keep=KEPT_JOBS, ended_before_ms=0))

    def _end(self, allocation: str) -> None:
        held = self.state.allocations[allocation]
        node = self.state.nodes[held.node_id]
        seen = TaskReport(allocation_id=allocation, state=TaskState.SUCCEEDED, exit_code=0)
        self._do(ReportTasks(node_id=node.id, incarnation=node.incarnation, reports=(seen,)))

    def _do(self, body: Body, passed_ms: int = 0) -> None:
        outcome, events = apply(self.state, Command(body=body, at_ms=self.state.clock_ms + passed_ms))
        if not isinstance(outcome, Accepted):
            raise SystemExit(f"{type(body).__name__}: {outcome.detail}")
        self.counts.take(self.state, events)
        self.builder.apply(self.state, events)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
