"""What the replicated log costs: three real replica processes on loopback, every entry synced on a majority of disks.

Measures commit latency (one proposal at a time), commands per second (many at a time, and batched), failover from
SIGKILL of the leader to the next commit, and the restart of a master that holds 100,000 pending jobs.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.report import Report
from gosched.core.commands.cluster import Noop, SetQueues
from gosched.core.commands.command import Command
from gosched.core.commands.jobs import SubmitJob
from gosched.core.records.queue import Queue
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy
from gosched.core.spec.task_group import TaskGroup
from tests.replication.conftest import Cluster, cluster

MAX_COMMANDS_PER_ENTRY = 500


def noop() -> Command:
    return Command(body=Noop())


async def commit_latency(report: Report, c: Cluster, n: int) -> None:
    leader = await c.leader()
    took = []
    for _ in range(n):
        began = time.perf_counter()
        await leader.propose([noop()])
        took.append(time.perf_counter() - began)
    took.sort()
    report.add("commit_latency_p50", took[n // 2], "s", n)
    report.add("commit_latency_p99", took[n * 99 // 100], "s", n)


async def commit_rate(report: Report, c: Cluster, clients: int, each: int) -> None:
    leader = await c.leader()

    async def client() -> None:
        for _ in range(each):
            await leader.propose([noop()])

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    n = clients * each
    report.add(f"commits_{clients}_clients", n / (time.perf_counter() - began), "commands/s", n)


async def failovers(report: Report, c: Cluster, n: int) -> None:
    took = []
    for _ in range(n):
        leader = await c.leader()
        began = time.perf_counter()
        os.kill(leader.pid, signal.SIGKILL)
        del c.members[leader.member_id]
        await c.commit(noop())
        took.append(time.perf_counter() - began)
        await leader.close()
        await c.start(leader.member_id)
        await c.converged()
    report.add("raft_failover_p50", statistics.median(took), "s", n)
    report.add("raft_failover_max", max(took), "s", n)


async def restart(report: Report, folder: Path, jobs: int) -> None:
    """A cluster of one: the log and the snapshot of `jobs` pending jobs are read, checked and applied anew."""
    async with cluster(folder, size=1) as c:
        leader = await c.leader()
        await leader.propose([Command(body=SetQueues(queues=(Queue(path="default"),)))])
        for first in range(0, jobs, MAX_COMMANDS_PER_ENTRY):
            await leader.propose([_job(i) for i in range(first, min(first + MAX_COMMANDS_PER_ENTRY, jobs))])
        revision = leader.state.revision
        await c.kill("m1")
        began = time.perf_counter()
        await c.start("m1")
        while c.members["m1"].state.revision < revision:
            await asyncio.sleep(0.01)
        report.add(f"restart_{jobs // 1000}k_jobs", time.perf_counter() - began, "s", jobs)


def _job(i: int) -> Command:
    group = TaskGroup(name="main", count=1, command=("/bin/true",))
    spec = JobSpec(name=f"job-{i}", queue="default", gang=GangPolicy(min_tasks=1), groups=(group,))
    return Command(body=SubmitJob(job_id=f"j-{i}", spec=spec), at_ms=i)


async def measure(report: Report) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with cluster(Path(folder) / "three") as c:
            await commit_latency(report, c, 200 if report.smoke else 2000)
            await commit_rate(report, c, 32, 20 if report.smoke else 200)
            await failovers(report, c, 2 if report.smoke else 20)
        await restart(report, Path(folder) / "one", 2_000 if report.smoke else 100_000)


if __name__ == "__main__":
    asyncio.run(measure(Report()))
