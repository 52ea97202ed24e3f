"""The planner alone, in one process: how many tasks it places per second, what a cycle costs when nothing can start,
and how both grow with nodes and jobs. `--profile` shows where the time of the distinct case goes.

Times are of `ViewBuilder.view` and `schedule` together: what the leader does between two commits.
"""

from __future__ import annotations

import cProfile
import math
import pstats
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from benchmarks.report import Report
from gosched.core.events import JobChanged, TaskChanged
from gosched.core.records.allocation import Allocation
from gosched.core.records.job import Job, JobState
from gosched.core.records.node import Node
from gosched.core.records.queue import Queue, QueueType
from gosched.core.records.task import TaskState
from gosched.core.resources import Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.placement_rules import Affinity, LabelOp, Mode, TopologyRule
from gosched.core.spec.policies import GangPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.core.state.cluster_state import ClusterState
from gosched.scheduling import Plan, Policy, ViewBuilder, schedule

ROUNDS = 5
GI = 1 << 30
CPU, MEMORY, STORAGE = 64_000, 256 * GI, 4096 * GI  # of each node
QUEUES = tuple(f"team{i // 3}.q{i}" for i in range(9))

JobMaker = Callable[[int], Job]


def main() -> None:
    if "--profile" in sys.argv:
        profile()
        return
    report = Report()
    sizes = (100,) if report.smoke else (1000, 5000, 20_000)
    jobs = (100,) if report.smoke else (1000, 10_000, 100_000)
    for nodes in sizes:
        cluster = [_node(i) for i in range(nodes)]
        for count in jobs:
            suffix = f"{nodes}" if count == jobs[-2 if len(jobs) > 1 else 0] else f"{nodes}_{count}_jobs"
            _placements(report, f"planner_distinct_{suffix}", _state(cluster, [_distinct(i) for i in range(count)]))
            _blocked(report, f"planner_blocked_cycle_{suffix}", cluster, count)
        count = jobs[0] if report.smoke else 10_000
        full = _state(cluster, [_distinct(i) for i in range(count // 2)])
        _fill(full, 90)
        _placements(report, f"planner_distinct_full_{nodes}", full, enough=0.9)
        _placements(report, f"planner_single_{nodes}", _state(cluster, [_identical(i) for i in range(count)]))
        _placements(report, f"planner_identical_{nodes}", _state(cluster, [_gang(0, count)]))
        _placements(report, f"planner_constrained_{nodes}", _state(cluster, [_constrained(i) for i in range(count)]))
        _idle(report, f"planner_idle_cycle_{nodes}", cluster)
    growth(report)


def growth(report: Report) -> None:
    """How the costs grow: the exponents of a placement's with the nodes, and of a cycle's with the jobs that wait.
    Processor time, which other programs on the machine disturb least."""
    sizes, count = ((50, 100), 100) if report.smoke else ((1000, 2000, 5000, 10_000, 20_000), 10_000)
    costs = []
    for nodes in sizes:
        state = _state([_node(i) for i in range(nodes)], [_distinct(i) for i in range(count)])
        costs.append(_cycle(report, state, clock=time.process_time)[0] / count)
        report.add(f"planner_growth_placement_{nodes}_nodes", costs[-1] * 1e6, "us", count)
    report.add("planner_growth_placement_by_nodes", _exponent(sizes, costs), "exponent", len(sizes))
    cluster = [_node(i) for i in range(100 if report.smoke else 5000)]
    waiting = (100, 200) if report.smoke else (1000, 10_000, 100_000, 1_000_000)
    blocked, one_more = [], []
    for jobs in waiting:
        state = _blocked_state(cluster, jobs)
        blocked.append(_cycle(report, state, BOUNDED, clock=time.process_time)[0])
        report.add(f"planner_growth_blocked_cycle_{jobs}_jobs", blocked[-1] * 1000, "ms", jobs)
        one_more.append(_one_more(state, jobs))
        report.add(f"planner_growth_one_more_{jobs}_jobs", one_more[-1] * 1000, "ms", jobs)
    report.add("planner_growth_blocked_cycle_by_jobs", _exponent(waiting, blocked), "exponent", len(waiting))
    report.add("planner_growth_one_more_by_jobs", _exponent(waiting, one_more), "exponent", len(waiting))


def _one_more(state: ClusterState, jobs: int) -> float:
    """One more job comes while all others wait: its place in the columns, the view, and the cycle."""
    builder = ViewBuilder()
    builder.reset(state)
    schedule(builder.view(state), BOUNDED, 0, 1)
    times = []
    for number in range(jobs, jobs + ROUNDS):
        job = _too_large(number)
        state.put_job(job)
        change = JobChanged(
            job_id=job.id, queue=job.spec.queue, before=JobState.UNSPECIFIED, after=JobState.PENDING, job=job
        )

        def once(change: JobChanged = change) -> None:
            builder.apply(state, (change,))
            schedule(builder.view(state), BOUNDED, 0, 1)

        times.append(_seconds(once, time.process_time))
    return statistics.median(times)


def _exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """Return b of cost = a * size ** b, fitted by least squares of the logarithms."""
    return statistics.linear_regression([math.log(size) for size in sizes], [math.log(cost) for cost in costs]).slope


def profile() -> None:
    state = _state([_node(i) for i in range(5000)], [_distinct(i) for i in range(10_000)])
    builder = ViewBuilder()
    builder.reset(state)
    with cProfile.Profile() as found:
        schedule(builder.view(state), POLICY, 0, 1)
    pstats.Stats(found).sort_stats("tottime").print_stats(20)


BOUNDED = Policy(topology=("zone", "rack"))  # as in a master
POLICY = replace(BOUNDED, max_tasks=1_000_000)  # one cycle places all


def _placements(report: Report, name: str, state: ClusterState, enough: float = 1.0) -> None:
    wanted = sum(state.jobs[job].spec.task_count for job in state.pending)
    seconds, plan = _cycle(report, state)
    if plan.tasks < wanted * enough:
        raise SystemExit(f"{name}: {plan.tasks} of {wanted} tasks were placed")
    report.add(name, plan.tasks / seconds, "placements/s", plan.tasks)


def _blocked(report: Report, name: str, nodes: list[Node], count: int) -> None:
    seconds, plan = _cycle(report, _blocked_state(nodes, count), BOUNDED)
    if plan.tasks:
        raise SystemExit(f"{name}: {plan.tasks} tasks were placed; none should fit")
    report.add(name, seconds * 1000, "ms", count)


def _blocked_state(nodes: list[Node], count: int) -> ClusterState:
    """Every job asks for something else, the cluster has room for none, and its amounts alone do not show it: half of
    each node is free, and all ask for a little more than that."""
    state = _state(nodes, [_too_large(i) for i in range(count)])
    _fill(state, 50)
    return state


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
        schedule(builder.view(state), POLICY, 0, 1)

    rounds = 3 if report.smoke else 50
    report.add(name, statistics.median(_seconds(once) for _ in range(rounds)) * 1000, "ms", rounds)


def _cycle(
    report: Report, state: ClusterState, policy: Policy = POLICY, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, Plan]:
    """The median time of a cycle."""
    builder = ViewBuilder()
    builder.reset(state)
    plans: list[Plan] = []
    times = [
        _seconds(lambda: plans.append(schedule(builder.view(state), policy, 0, 1)), clock)
        for _ in range(1 if report.smoke else ROUNDS)
    ]
    return statistics.median(times), plans[0]


def _seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    work()
    return clock() - start


def _state(nodes: list[Node], jobs: list[Job]) -> ClusterState:
    state = ClusterState()
    teams = sorted({path.partition(".")[0] for path in QUEUES})
    state.set_queues(
        (
            Queue(path="default"),
            *(Queue(path=team, type=QueueType.CAPACITY, capacity_pct=30, max_pct=100) for team in teams),
            *(Queue(path=path, type=QueueType.FAIR, weight=i + 1) for i, path in enumerate(QUEUES)),
        )
    )
    for node in nodes:
        state.put_node(node)
    for job in jobs:
        state.put_job(job)
    return state


def _fill(state: ClusterState, percent: int) -> None:
    """Something of each node's CPU and memory is held already, evenly around `percent`."""
    state.put_job(replace(_job(10**9, 1, Resources()), state=JobState.RUNNING))
    for i, node_id in enumerate(state.nodes):
        part = percent + (i * 7919 % 21 - 10 if percent > 50 else 0)
        held = Resources(cpu_millis=CPU * part // 100, memory_bytes=MEMORY * part // 100)
        name = f"held-{i}"
        state.put_allocation(
            Allocation(id=name, task_id=name, job_id=_id(10**9), node_id=node_id, resources=held, placed_at_ms=0)
        )


def _node(i: int) -> Node:
    return Node(
        id=f"node-{i:012x}",
        name=f"node-{i}",
        address="127.0.0.1:1",
        capacity=Resources(cpu_millis=CPU, memory_bytes=MEMORY, storage_bytes=STORAGE),
        labels=(("disk", "ssd" if i % 2 else "hdd"), ("rack", f"rack-{i // 40}"), ("zone", f"zone-{i // 40 % 3}")),
        incarnation="1",
        registered_at_ms=0,
        changed_at_ms=0,
    )


def _identical(i: int) -> Job:
    return _job(i, 1, Resources(cpu_millis=500, memory_bytes=GI))


def _gang(i: int, count: int) -> Job:
    return _job(i, count, Resources(cpu_millis=500, memory_bytes=GI, storage_bytes=GI))


def _distinct(i: int) -> Job:
    """No two ask for the same of CPU, memory and storage."""
    return _job(i, 1, Resources(cpu_millis=100 + i % 503, memory_bytes=GI + i * 4096, storage_bytes=GI + i % 1009))


def _too_large(i: int) -> Job:
    """For a node of which half is held."""
    return _job(i, 1, Resources(cpu_millis=32_001 + i % 16_000, memory_bytes=GI + i))


def _constrained(i: int) -> Job:
    """In nine fair queues under three with guarantees: required and weighted affinity; every tenth a gang of eight in
    one rack."""
    affinity = (
        Affinity(label="zone", op=LabelOp.IN, values=(f"zone-{i % 3}", f"zone-{(i + 1) % 3}")),
        Affinity(label="disk", op=LabelOp.IN, values=("ssd",), weight=10 + i % 5),
    )
    resources = Resources(cpu_millis=100 + i % 503, memory_bytes=GI + i * 4096, storage_bytes=GI + i % 1009)
    gang = i % 10 == 0
    job = _job(i, 8 if gang else 1, resources, queue=QUEUES[i % len(QUEUES)])
    group = replace(
        job.spec.groups[0],
        affinity=affinity,
        topology=(TopologyRule(level="rack", mode=Mode.REQUIRED),) if gang else (),
    )
    return replace(job, spec=replace(job.spec, groups=(group,)))


def _job(i: int, count: int, each: Resources, queue: str = "default") -> Job:
    group = TaskGroup(name="worker", count=count, resources=each)
    spec = JobSpec(name=f"job-{i}", queue=queue, gang=GangPolicy(min_tasks=count), groups=(group,))
    return Job(id=_id(i), spec=spec, sequence=i + 1, submitted_at_ms=0)


def _id(i: int) -> str:
    return f"job-{i:012x}"


if __name__ == "__main__":
    main()
