"""How many tasks per second the planner places, and what a cycle costs when little or nothing can be placed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from benchmarks.report import Report
from gosched.core.cluster import Node
from gosched.core.job import GangPolicy, Job, JobSpec, StringMap, TaskGroup, TaskState
from gosched.core.outcome import TaskChanged
from gosched.core.resources import Resources
from gosched.core.state import ClusterState
from gosched.scheduling import Plan, Policy, ViewBuilder, schedule

ROUNDS = 5
TASKS = 10_000
GI = 1 << 30

JobMaker = Callable[[int], Job]


def main() -> None:
    report = Report()
    for count in (100,) if report.smoke else (1000, 5000):
        nodes = [_node(i) for i in range(count)]
        for name, make in (("identical", _identical), ("distinct", _distinct), ("constrained", _constrained)):
            _placements(report, f"planner_{name}_{count}", nodes, make)
        _gang(report, f"planner_gang_{count}", nodes)
        _idle(report, f"planner_idle_cycle_{count}", nodes)
        _blocked(report, f"planner_blocked_cycle_{count}", nodes)


def _placements(report: Report, name: str, nodes: list[Node], make: JobMaker) -> None:
    """A job of one task each."""
    tasks = 200 if report.smoke else TASKS
    seconds, plan = _cycle(report, nodes, [make(i) for i in range(tasks)])
    if plan.tasks != tasks:
        raise SystemExit(f"{name}: {plan.tasks} of {tasks} tasks were placed")
    report.add(name, tasks / seconds, "placements/s", tasks)


def _gang(report: Report, name: str, nodes: list[Node]) -> None:
    tasks = 200 if report.smoke else TASKS
    seconds, plan = _cycle(report, nodes, [_job(1, tasks, Resources(cpu_millis=1000, memory_bytes=GI))])
    report.add(name, plan.tasks / seconds, "placements/s", tasks)


def _idle(report: Report, name: str, nodes: list[Node]) -> None:
    """Ten nodes changed since the last cycle and nothing is pending: columns, view and cycle together."""
    state = _state(nodes, [])
    builder = ViewBuilder()
    builder.reset(state)
    changed = [
        TaskChanged(
            job_id="j",
            task_id="j/w/0",
            allocation_id="a",
            node_id=n.id,
            before=TaskState.PENDING,
            after=TaskState.PLACED,
        )
        for n in nodes[:10]
    ]

    def once() -> None:
        builder.apply(state, changed)
        schedule(builder.view(state), Policy(), 0, 1)

    rounds = 3 if report.smoke else 50
    report.add(name, statistics.median(_seconds(once) for _ in range(rounds)) * 1000, "ms", rounds)


def _blocked(report: Report, name: str, nodes: list[Node]) -> None:
    """Jobs of a hundred shapes are pending, and none of them fits."""
    jobs = 1000 if report.smoke else 100_000
    pending = [_job(i, 1, Resources(cpu_millis=1_000_000 + i % 100)) for i in range(jobs)]
    seconds, _ = _cycle(report, nodes, pending)
    report.add(name, seconds * 1000, "ms", jobs)


def _cycle(report: Report, nodes: list[Node], jobs: list[Job]) -> tuple[float, Plan]:
    """The median time of a cycle."""
    state = _state(nodes, jobs)
    builder = ViewBuilder()
    builder.reset(state)
    plans: list[Plan] = []
    times = [
        _seconds(lambda: plans.append(schedule(builder.view(state), Policy(), 0, 1)))
        for _ in range(1 if report.smoke else ROUNDS)
    ]
    return statistics.median(times), plans[0]


def _seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _state(nodes: list[Node], jobs: list[Job]) -> ClusterState:
    state = ClusterState()
    for node in nodes:
        state.put_node(node)
    for job in jobs:
        state.put_job(job)
    return state


def _node(i: int) -> Node:
    """Every tenth has GPUs."""
    gpus = 8 if i % 10 == 0 else 0
    return Node(
        id=f"node-{i:012x}",
        name=f"node-{i}",
        address="127.0.0.1:1",
        capacity=Resources(cpu_millis=64_000, memory_bytes=256 * GI, storage_bytes=1024 * GI, gpu_millis=gpus * 1000),
        gpu_model="h100" if gpus else "",
        labels=(("disk", "ssd" if i % 2 else "hdd"), ("zone", f"zone-{i % 3}")),
        incarnation="1",
        registered_at_ms=0,
        changed_at_ms=0,
    )


def _identical(i: int) -> Job:
    return _job(i, 1, Resources(cpu_millis=500, memory_bytes=GI))


def _distinct(i: int) -> Job:
    return _job(i, 1, Resources(cpu_millis=100 + i % 503, memory_bytes=GI + i * 4096))


def _constrained(i: int) -> Job:
    selector = (("disk", "ssd" if i % 2 else "hdd"), ("zone", f"zone-{i % 3}"))
    return _job(i, 1, Resources(cpu_millis=100 + i % 503, memory_bytes=GI + i * 4096), selector)


def _job(i: int, count: int, each: Resources, selector: StringMap = ()) -> Job:
    group = TaskGroup(name="worker", count=count, resources=each, node_selector=selector)
    spec = JobSpec(name=f"job-{i}", queue="default", gang=GangPolicy(min_tasks=count), groups=(group,))
    return Job(id=f"job-{i:012x}", spec=spec, sequence=i + 1, submitted_at_ms=0)


if __name__ == "__main__":
    main()
