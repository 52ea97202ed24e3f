"""Traces that the benchmarks of the simulator share, drawn from a seed. Times are seconds, GPUs whole."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from gosched.core.commands.nodes import RegisterNode
from gosched.core.records.queue import Queue, QueueType
from gosched.core.resources import MILLI, Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy, Preemption, RetryCause, RetryPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.sim.cluster.trace import COMMAND, Trace, TraceJob
from gosched.sim.cluster.traces import read_trace

SHARED = Path(__file__).parents[2] / "shared" / "data"
LIVELY = RetryPolicy(max_restarts=3, when=(RetryCause.NODE_LOST, RetryCause.PREEMPTED))
LOW, NORMAL, HIGH = 250, 500, 750
DAY_S = 86_400

_GI = 1 << 30
_SIGUSR1 = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Of a job: equal tasks."""

    tasks: int
    cpus: int
    gpus: int = 0


def nodes(count: int, *, cpus: int, gpus: int = 0, name: str = "n") -> list[RegisterNode]:
    capacity = Resources(cpu_millis=cpus * 1000, memory_bytes=8 * cpus * _GI, gpu_millis=gpus * MILLI)
    model = "h100" if gpus else ""
    return [
        RegisterNode(
            node_id=f"{name}{i:05}",
            name=f"{name}{i:05}",
            address="simulated:1",
            incarnation="1",
            capacity=capacity,
            gpu_model=model,
        )
        for i in range(count)
    ]


def job(name: str, at_s: float, run_s: float, shape: Shape, *, timeout_s: float = 0, **more: object) -> TraceJob:
    group = TaskGroup(
        name="task",
        count=shape.tasks,
        resources=Resources(
            cpu_millis=shape.cpus * 1000, memory_bytes=4 * shape.cpus * _GI, gpu_millis=shape.gpus * MILLI
        ),
        command=COMMAND,
    )
    values = {"queue": "default", "priority": NORMAL, "retry": LIVELY, "timeout_ms": int(timeout_s * 1000), **more}
    spec = JobSpec(name=name, gang=GangPolicy(min_tasks=shape.tasks), groups=(group,), **values)  # type: ignore[arg-type]
    return TraceJob(at_ms=int(at_s * 1000), spec=spec, duration_ms=max(1, int(run_s * 1000)), checkpoint_ms=30_000)


def lublin() -> Trace | None:
    """10,000 jobs on 256 processors; None where the real traces are not."""
    path = SHARED / "swf" / "lublin_256.swf"
    return read_trace(path) if path.exists() else None


CAPACITY_QUEUES = (
    Queue(path="production", type=QueueType.CAPACITY, capacity_pct=60, max_pct=80),
    Queue(path="development", type=QueueType.CAPACITY, capacity_pct=30, max_pct=50),
    Queue(path="testing", type=QueueType.CAPACITY, capacity_pct=10, max_pct=100),
    Queue(path="default"),
)


def storm_nodes(count: int) -> list[RegisterNode]:
    """One half has eight GPUs each."""
    return nodes(count // 2, cpus=64, name="cpu") + nodes(count - count // 2, cpus=96, gpus=8, name="gpu")


def storm(waiting: int, arriving: int, seed: int) -> list[TraceJob]:
    """`waiting` jobs at once, then `arriving` ones over a day."""
    draws = random.Random(seed)
    times = [0.0] * waiting + sorted(draws.uniform(0, DAY_S) for _ in range(arriving))
    return [_stormy(draws, i, at_s) for i, at_s in enumerate(times)]


def _stormy(draws: random.Random, number: int, at_s: float) -> TraceJob:
    """A quarter of the jobs has no time limit; the others know their run time within a factor of two."""
    run_s = min(draws.lognormvariate(8.3, 1.0), DAY_S / 2)
    shape = _gpu_shape(draws) if draws.random() < 0.5 else _cpu_shape(draws)
    limited = draws.random() < 0.75
    saves = draws.random() < 0.5
    return job(
        f"j{number}",
        at_s,
        run_s,
        shape,
        timeout_s=run_s * draws.uniform(1.05, 2.0) if limited else 0,
        queue=draws.choices(("production", "development", "testing"), (5, 3, 2))[0],
        tenant=f"t{draws.randrange(40)}",
        priority=draws.choices((LOW, NORMAL, HIGH), (3, 5, 2))[0],
        preemption=Preemption(grace_ms=60_000, checkpoint_signal=_SIGUSR1 if saves else 0, min_runtime_ms=300_000),
    )


def _gpu_shape(draws: random.Random) -> Shape:
    tasks, gpus = draws.choices(((1, 1), (1, 4), (1, 8), (2, 8), (4, 8), (8, 8)), (30, 20, 20, 15, 10, 5))[0]
    return Shape(tasks=tasks, cpus=8 * gpus, gpus=gpus)


def _cpu_shape(draws: random.Random) -> Shape:
    tasks, cpus = draws.choices(((1, 4), (1, 16), (4, 16), (16, 8), (32, 16)), (30, 25, 20, 15, 10))[0]
    return Shape(tasks=tasks, cpus=cpus)
