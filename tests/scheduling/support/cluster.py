"""Builds small clusters for the planner's tests: amounts in whole CPUs, Gi and GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gosched.core.primitives import StringMap
from gosched.core.records.allocation import Allocation
from gosched.core.records.job import Job, JobState
from gosched.core.records.node import Node, NodeState
from gosched.core.resources import MILLI, Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.placement_rules import Strategy
from gosched.core.spec.policies import GangPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.core.state.cluster_state import ClusterState
from gosched.scheduling import Plan, Policy, View, ViewBuilder, schedule


def resources(cpu: float = 0, mem: int = 0, gpu: int = 0, storage: int = 0) -> Resources:
    return Resources(
        cpu_millis=int(cpu * 1000), memory_bytes=mem << 30, storage_bytes=storage << 30, gpu_millis=gpu * MILLI
    )


def node(
    node_id: str,
    cpu: float = 4,
    mem: int = 16,
    gpu: int = 0,
    storage: int = 100,
    labels: StringMap = (),
    model: str = "",
    state: NodeState = NodeState.READY,
) -> Node:
    return Node(
        id=node_id,
        name=node_id,
        address="127.0.0.1:1",
        capacity=resources(cpu, mem, gpu, storage),
        gpu_model=model,
        labels=labels,
        state=state,
        incarnation="1",
        registered_at_ms=0,
        changed_at_ms=0,
    )


def group(
    count: int = 1,
    cpu: float = 1,
    mem: int = 0,
    gpu: int = 0,
    storage: int = 0,
    selector: StringMap = (),
    model: str = "",
    strategy: Strategy = Strategy.UNSPECIFIED,
    name: str = "worker",
) -> TaskGroup:
    return TaskGroup(
        name=name,
        count=count,
        command=("true",),
        resources=resources(cpu, mem, gpu, storage),
        node_selector=selector,
        gpu_model=model,
        strategy=strategy,
    )


def job(sequence: int, *groups: TaskGroup, priority: int = 0, not_before_ms: int = 0, attempt: int = 1) -> Job:
    spec = JobSpec(
        name=f"job-{sequence}",
        queue="default",
        priority=priority,
        gang=GangPolicy(min_tasks=sum(g.count for g in groups)),
        groups=groups,
    )
    return Job(
        id=f"j{sequence}",
        spec=spec,
        sequence=sequence,
        submitted_at_ms=0,
        not_before_ms=not_before_ms,
        attempt=attempt,
    )


def allocation(name: str, node_id: str, held: Resources, gpus: tuple[int, ...] = ()) -> Allocation:
    return Allocation(id=name, task_id=name, job_id="other", node_id=node_id, resources=held, gpus=gpus, placed_at_ms=0)


def state_of(nodes: Iterable[Node], jobs: Iterable[Job] = (), held: Sequence[Allocation] = ()) -> ClusterState:
    state = ClusterState()
    for n in nodes:
        state.put_node(n)
    if held:
        state.put_job(replace(job(0, group()), id="other", state=JobState.RUNNING))
    for a in held:
        state.put_allocation(a)
    for j in jobs:
        state.put_job(j)
    return state


def view_of(nodes: Iterable[Node], jobs: Iterable[Job] = (), held: Sequence[Allocation] = ()) -> View:
    state = state_of(nodes, jobs, held)
    builder = ViewBuilder()
    builder.reset(state)
    return builder.view(state)


def plan_of(
    nodes: Iterable[Node],
    jobs: Iterable[Job],
    held: Sequence[Allocation] = (),
    policy: Policy | None = None,
    now_ms: int = 0,
) -> Plan:
    return schedule(view_of(nodes, jobs, held), policy or Policy(), now_ms, 7)


def where(plan: Plan) -> dict[str, str]:
    """Job id -> the nodes of its ranks, separated by blanks."""
    return {g.job_id: " ".join(t.node_id for t in g.tasks) for g in plan.gangs}


def why(plan: Plan, job_id: str) -> str:
    return plan.explanations[job_id].message
