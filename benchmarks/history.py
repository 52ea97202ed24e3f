"""What the history of a master costs: CPU for each job, paired with the same log without it; and what 1,000 listeners
of its events take of a real master's memory.

The log is that of one-task jobs: submitted, placed, running, ended. Leader and follower do the same work for it.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from benchmarks.report import Report
from gosched.cli.local_cluster import LocalCluster
from gosched.core.commands.cluster import SetFeatureLevel, SetQueues
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import SubmitJob
from gosched.core.commands.nodes import RegisterNode, ReportTasks, TaskReport
from gosched.core.commands.plans import CommitPlan, GangPlacement
from gosched.core.features import NEWEST_LEVEL
from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.queue import Queue
from gosched.core.records.task import TaskState
from gosched.core.resources import Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.master.history.database import Bounds
from gosched.master.history.feed import Feed
from gosched.master.history.recorder import Recorder
from gosched.master.history.store import HistoryStore
from gosched.observe.faults import Faults
from gosched.replication.applier import GC_THRESHOLD
from gosched.replication.memory import MemoryReplication
from gosched.wire.batch import encode_batch, encode_command

AT_ONCE = 100  # jobs in one entry
ROUNDS = 7
PER_ADDRESS = 500  # streams of one caller
JOB = "name: listened\nresources: {cpu: 100m, memory: 1Mi}\nhold: true\nrun: 'true'\n"


def main() -> None:
    report = Report()
    gc.set_threshold(*GC_THRESHOLD)
    jobs = 200 if report.smoke else 5_000
    entries = [*_log(jobs)]
    pairs = [_pair(entries) for _ in range(1 if report.smoke else ROUNDS)]
    without = statistics.median(one for one, _ in pairs)
    more = statistics.median(two - one for one, two in pairs)
    report.add("history_job_apply", without / jobs * 1e6, "us CPU/job", jobs)
    report.add("history_job_added", more / jobs * 1e6, "us CPU/job", jobs)
    asyncio.run(_listeners(report, 50 if report.smoke else 1_000))


def _log(jobs: int) -> Iterator[bytes]:
    group = TaskGroup(name="main", count=1, resources=Resources(cpu_millis=1), command=("/bin/true",))
    node = RegisterNode(node_id="n1", name="n1", address="a:1", incarnation="b", capacity=Resources(cpu_millis=1 << 40))
    yield _entry([SetFeatureLevel(level=NEWEST_LEVEL, cluster_id="c")])
    yield _entry([SetQueues(queues=(Queue(path="default"),)), node])
    for first in range(0, jobs, AT_ONCE):
        names = [f"j{number}" for number in range(first, min(first + AT_ONCE, jobs))]
        specs = [JobSpec(name=name, queue="default", gang=GangPolicy(min_tasks=1), groups=(group,)) for name in names]
        yield _entry([SubmitJob(job_id=spec.name, spec=spec, user="ann") for spec in specs])
        places = (TaskPlacement(rank=0, node_id="n1"),)
        gangs = tuple([GangPlacement(job_id=name, attempt=1, tasks=places) for name in names])
        yield _entry([CommitPlan(revision=1, gangs=gangs)])
        for state, code in ((TaskState.RUNNING, None), (TaskState.SUCCEEDED, 0)):
            seen = [
                TaskReport(allocation_id=f"{name}/main/0.1", state=state, exit_code=code, started_at_ms=1)
                for name in names
            ]
            yield _entry([ReportTasks(node_id="n1", incarnation="b", reports=tuple(seen))])


def _entry(bodies: list[Body]) -> bytes:
    commands = [encode_command(Command(body=body, at_ms=1_700_000_000_000)) for body in bodies]
    return encode_batch("p", 1, commands, level=NEWEST_LEVEL)


def _pair(entries: list[bytes]) -> tuple[float, float]:
    """Return the CPU time of the same log without a history and with one, all threads included."""
    return asyncio.run(_apply(entries, recorded=False)), asyncio.run(_apply(entries, recorded=True))


async def _apply(entries: list[bytes], *, recorded: bool) -> float:
    with tempfile.TemporaryDirectory() as folder:
        bounds = Bounds(events=200_000, tasks=1_000_000, jobs=1_000_000, size=1 << 30)
        store = HistoryStore(Path(folder, "history.db"), bounds, Faults())
        await store.start()
        member = MemoryReplication("m1")
        if recorded:
            Recorder(member, store, Feed(), Faults())
        gc.collect()
        began = time.process_time()
        for entry in entries:
            member._applier.apply(entry)
            await asyncio.sleep(0)
        await store.stop()
        return time.process_time() - began


async def _listeners(report: Report, count: int) -> None:
    with LocalCluster(masters=1, agents=0) as cluster, cluster.client() as client:
        (master,) = cluster.masters.values()
        process = psutil.Process(master.pid)
        warm = [await _listen(master.http, 0)]
        before = process.memory_info().rss
        listeners = [await _listen(master.http, number) for number in range(count)]
        report.add("history_listener_memory", (process.memory_info().rss - before) / count / 1024, "KiB", count)
        began = time.monotonic()
        await asyncio.to_thread(client.submit, JOB)
        await asyncio.gather(*(_until_told(reader) for reader, _ in listeners))
        report.add("history_listeners_told", time.monotonic() - began, "s", count)
        for _, writer in (*warm, *listeners):
            writer.close()


async def _listen(address: str, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = address.rpartition(":")
    own = (f"127.0.0.{2 + number // PER_ADDRESS}", 0)
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=own)
    writer.write(f"GET /api/v1/events HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n\r\n".encode())
    head = await reader.readuntil(b"retry: 1000\n\n")
    if b" 200 " not in head:
        raise RuntimeError(head.decode())
    return reader, writer


async def _until_told(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(60):
        await reader.readuntil(b"job_submitted")


if __name__ == "__main__":
    main()
