"""What one single-task job costs each copy of the state, from its submission to its end: processor time to decode and
to apply its commands. A master has two copies, so three masters pay six times.

The commands come in log entries as masters write them: submissions by a hundred, plans by fifty jobs,
reports by node.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Sequence
from typing import TypeVar

from benchmarks.report import Report
from gosched.config import parse_job_file
from gosched.core.commands.cluster import OpenEpoch, SetQueues
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import SubmitJob
from gosched.core.commands.nodes import RegisterNode, ReportTasks, TaskReport
from gosched.core.commands.plans import CommitPlan, GangPlacement
from gosched.core.outcome import Accepted
from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.master import Master
from gosched.core.records.queue import Queue
from gosched.core.records.task import TaskState
from gosched.core.resources import Resources
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine import apply
from gosched.wire.batch import decode_batch, encode_batch, encode_command

T = TypeVar("T")

NODES = 200
ROUNDS = 5
_AT_MS = 1_750_000_000_000


def main() -> None:
    report = Report()
    jobs = 200 if report.smoke else 5_000
    stages = {"submit": _submissions(jobs), "place": _plans(jobs)}
    stages |= {state.name.lower(): _reports(jobs, state) for state in (TaskState.RUNNING, TaskState.SUCCEEDED)}
    took: dict[str, list[float]] = {}
    for _ in range(1 if report.smoke else ROUNDS):
        state = _cluster()
        for stage, entries in stages.items():
            began = time.process_time()
            batches = [decode_batch(entry) for entry in entries]
            decoded = time.process_time()
            for command in [command for batch in batches for command in batch.commands]:
                outcome, _ = apply(state, command)
                if not isinstance(outcome, Accepted) or outcome.refusals:
                    raise SystemExit(f"{stage}: {outcome}")
            took.setdefault(f"{stage}_decode", []).append(decoded - began)
            took.setdefault(f"{stage}_apply", []).append(time.process_time() - decoded)
        if state.allocations or len(state.finished) != jobs:
            raise SystemExit("the jobs have not ended")
    for name, seconds in took.items():
        report.add(f"state_machine_{name}", statistics.median(seconds) / jobs * 1e6, "us/job", jobs)


def _cluster() -> ClusterState:
    state = ClusterState()
    first: list[Body] = [
        SetQueues(queues=(Queue(path="default"),)),
        OpenEpoch(leader=Master(id="master-1", grpc_address="h:1", http_address="h:2")),
    ]
    capacity = Resources(cpu_millis=64_000, memory_bytes=256 << 30)
    for i in range(NODES):
        node = RegisterNode(node_id=f"node-{i}", name=f"node-{i}", address="h:1", incarnation="a", capacity=capacity)
        first.append(node)
    for body in first:
        outcome, _ = apply(state, Command(body=body, at_ms=_AT_MS))
        if not isinstance(outcome, Accepted):
            raise SystemExit(str(outcome))
    return state


def _submissions(jobs: int) -> list[bytes]:
    commands = []
    for i in range(jobs):
        text = f"name: job-{i}\nresources: {{cpu: 10m, memory: 1Mi}}\nrun: [/bin/true]\n"
        spec = parse_job_file(text, "benchmark")[0]
        body = SubmitJob(job_id=f"j{i}", spec=spec, user="ada")
        commands.append(Command(body=body, client_id="c" * 32, request_id=f"{i:032x}", at_ms=_AT_MS))
    return _entries(commands, 100)


def _plans(jobs: int) -> list[bytes]:
    gangs = [
        GangPlacement(job_id=f"j{i}", attempt=1, tasks=(TaskPlacement(rank=0, node_id=f"node-{i % NODES}"),))
        for i in range(jobs)
    ]
    plans = [CommitPlan(revision=0, gangs=tuple(some)) for some in _by(50, gangs)]
    return _entries([Command(body=plan, epoch=1, at_ms=_AT_MS + 1) for plan in plans], 1)


def _reports(jobs: int, state: TaskState) -> list[bytes]:
    code = 0 if state is TaskState.SUCCEEDED else None
    reports = [
        (f"node-{i % NODES}", TaskReport(allocation_id=f"j{i}/task/0.1", state=state, exit_code=code))
        for i in range(jobs)
    ]
    bodies = [
        ReportTasks(node_id=node, incarnation="a", reports=tuple(report for owner, report in reports if owner == node))
        for node in sorted({owner for owner, _ in reports})
    ]
    return _entries([Command(body=body, epoch=1, at_ms=_AT_MS + 2) for body in bodies], 1)


def _entries(commands: Sequence[Command], each: int) -> list[bytes]:
    messages = [encode_command(command) for command in commands]
    return [encode_batch("p", number, some) for number, some in enumerate(_by(each, messages))]


def _by(size: int, items: Sequence[T]) -> Iterable[Sequence[T]]:
    return [items[at : at + size] for at in range(0, len(items), size)]


if __name__ == "__main__":
    main()
