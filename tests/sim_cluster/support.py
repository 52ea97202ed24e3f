"""Small clusters and jobs for the simulator's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gosched.core.commands.nodes import RegisterNode
from gosched.core.resources import Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy, RetryCause, RetryPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.scheduling import Policy
from gosched.sim.cluster.recorder import JobRecord, Recorder
from gosched.sim.cluster.simulator import Simulator
from gosched.sim.cluster.trace import COMMAND, TraceJob
from gosched.sim.cluster.traces import read_nodes

SHARED = Path(__file__).parents[3] / "shared" / "data"
LIVELY = RetryPolicy(max_restarts=3, when=(RetryCause.NODE_LOST, RetryCause.PREEMPTED))


def nodes(count: int = 1, cpus: int = 4, gpus: int = 0) -> tuple[RegisterNode, ...]:
    return read_nodes(f"- {{count: {count}, name: n, cpu: {cpus}, memory: 64Gi, gpu: {gpus}}}", "nodes.yaml")


def job(
    at_s: int,
    run_s: int | None,
    *,
    tasks: int = 1,
    cpus: int = 1,
    name: str = "job",
    checkpoint_s: int = 0,
    **more: Any,
) -> TraceJob:
    group = TaskGroup(name="task", count=tasks, resources=Resources(cpu_millis=cpus * 1000), command=COMMAND)
    spec = JobSpec(
        name=name, gang=GangPolicy(min_tasks=tasks), groups=(group,), **{"queue": "default", "retry": LIVELY, **more}
    )
    return TraceJob(
        at_ms=at_s * 1000,
        spec=spec,
        duration_ms=None if run_s is None else run_s * 1000,
        checkpoint_ms=checkpoint_s * 1000,
    )


def simulated(jobs: list[TraceJob], cluster: tuple[RegisterNode, ...], **more: Any) -> Recorder:
    return Simulator(jobs, cluster, **{"policy": Policy(), **more}).run()


def by_name(recorder: Recorder) -> dict[str, JobRecord]:
    return {record.name: record for record in recorder.jobs.values()}
