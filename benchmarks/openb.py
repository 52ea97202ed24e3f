"""The openb traces (Alibaba, cluster-trace-gpu-v2023) as records of the core: GPU nodes, and jobs of one task each.

Invariant: the same trace and seed give the same run. Read from ../shared/data/openb when it is there; else from the
sample in benchmarks/data/openb, every 25th row, whose figures compare with nothing but themselves.
"""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass
from pathlib import Path

from gosched.core.records.job import Job
from gosched.core.records.node import Node
from gosched.core.resources import MILLI, Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.placement_rules import Affinity, LabelOp, Strategy
from gosched.core.spec.policies import GangPolicy
from gosched.core.spec.task_group import TaskGroup

FULL = Path(__file__).parents[2] / "shared" / "data" / "openb"
SAMPLE = Path(__file__).parent / "data" / "openb"
TRACES = ("default", "gpuspec33", "multigpu50")
ARRIVED_PERCENT = 130  # of the cluster's GPUs, asked for in all

_MIB = 1 << 20
_MODEL = "gpu_model"  # the label that tasks choose nodes by


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One trace as one seed draws it. Nodes ascend by id, jobs by sequence."""

    nodes: list[Node]
    jobs: list[Job]
    gpu_millis: int  # of the cluster


def folder() -> Path:
    return FULL if FULL.is_dir() else SAMPLE


def draw(source: Path, trace: str, seed: int, strategy: Strategy) -> Run:
    """Shuffles the tasks, appends clones up to ARRIVED_PERCENT, and draws the order of the nodes."""
    draws = random.Random(seed)
    tasks = _rows(source / f"openb_pod_list_{trace}.csv")
    nodes = _rows(source / "openb_node_list_gpu_node.csv")
    gpu_millis = sum([int(row["gpu"]) * MILLI for row in nodes])
    limit = gpu_millis * ARRIVED_PERCENT // 100
    draws.shuffle(tasks)
    draws.shuffle(nodes)
    jobs: list[Job] = []
    arrived = 0
    while True:
        row = tasks[len(jobs)] if len(jobs) < len(tasks) else draws.choice(tasks)
        arrived += int(row["num_gpu"]) * int(row["gpu_milli"])
        if arrived > limit:
            break
        jobs.append(_job(len(jobs), row, strategy))
    return Run(nodes=[_node(i, row) for i, row in enumerate(nodes)], jobs=jobs, gpu_millis=gpu_millis)


def published(source: Path) -> dict[tuple[str, str], float]:
    """(trace, policy) -> GPU allocation in percent, the mean of ten seeds; empty for the sample."""
    path = source / "published_allocation_percent.csv"
    if not path.exists():
        return {}
    columns = {"fgd": "FGD_mean", "best": "BestFit_mean"}
    return {(row["trace"], policy): float(row[name]) for row in _rows(path) for policy, name in columns.items()}


def _node(index: int, row: dict[str, str]) -> Node:
    return Node(
        id=f"n{index:04}",
        name=row["sn"],
        address="127.0.0.1:1",
        capacity=Resources(
            cpu_millis=int(row["cpu_milli"]),
            memory_bytes=int(row["memory_mib"]) * _MIB,
            gpu_millis=int(row["gpu"]) * MILLI,
        ),
        gpu_model=row["model"],
        labels=((_MODEL, row["model"]),),
        incarnation="1",
        registered_at_ms=0,
        changed_at_ms=0,
    )


def _job(sequence: int, row: dict[str, str], strategy: Strategy) -> Job:
    gpus = int(row["num_gpu"])
    models = tuple(sorted(set((row.get("gpu_spec") or "").split("|")) - {""}))
    group = TaskGroup(
        name="task",
        count=1,
        resources=Resources(
            cpu_millis=int(row["cpu_milli"]),
            memory_bytes=int(row["memory_mib"]) * _MIB,
            gpu_millis=gpus * int(row["gpu_milli"]),
        ),
        affinity=(Affinity(label=_MODEL, op=LabelOp.IN, values=models),) if gpus and models else (),
        strategy=strategy,
    )
    return job_of(sequence, group)


def job_of(sequence: int, group: TaskGroup) -> Job:
    """Return a job of one group that arrives as the `sequence`-th."""
    return Job(
        id=f"j{sequence:06}",
        spec=JobSpec(name=f"j{sequence}", queue="default", gang=GangPolicy(min_tasks=1), groups=(group,)),
        sequence=sequence,
        submitted_at_ms=sequence,
    )


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
