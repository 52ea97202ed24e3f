"""Clusters and tasks drawn from wide distributions, where CPUs run out before GPUs: the openb traces have no such list.

Invariant: the same seed gives the same run. Two to five kinds of nodes with 3 to 45 CPUs per GPU; 10 to 60 shapes of
tasks, up to 40 % of their CPUs without GPUs. Together they ask for ASKED times the nodes' CPUs per GPU.
"""

from __future__ import annotations

import random

from benchmarks import openb
from gosched.core.records.job import Job
from gosched.core.records.node import Node
from gosched.core.resources import MILLI, Resources
from gosched.core.spec.placement_rules import Strategy
from gosched.core.spec.task_group import TaskGroup

ASKED = 1.2
NODES = 150


def draw(seed: int, strategy: Strategy) -> openb.Run:
    draws = random.Random(seed)
    sizes = [draws.choice([1, 2, 4, 8, 8]) for _ in range(draws.randint(2, 5))]
    kinds = [Resources(cpu_millis=int(n * MILLI * 2 ** draws.uniform(1.5, 5.5)), gpu_millis=n * MILLI) for n in sizes]
    frequencies = [draws.uniform(0.1, 1) for _ in kinds]
    capacities = draws.choices(kinds, frequencies, k=NODES)
    gpu_millis = sum([each.gpu_millis for each in capacities])
    cpus_per_gpu = sum([each.cpu_millis for each in capacities]) / gpu_millis
    shapes, weights = _shapes(draws, max(sizes), ASKED * cpus_per_gpu)
    jobs: list[Job] = []
    arrived = 0
    while True:
        resources = draws.choices(shapes, weights)[0]
        arrived += resources.gpu_millis
        if arrived > gpu_millis * openb.ARRIVED_PERCENT // 100:
            break
        jobs.append(openb.job_of(len(jobs), TaskGroup(name="task", count=1, resources=resources, strategy=strategy)))
    return openb.Run(nodes=[_node(i, each) for i, each in enumerate(capacities)], jobs=jobs, gpu_millis=gpu_millis)


def _shapes(draws: random.Random, most_gpus: int, cpus_per_gpu: float) -> tuple[list[Resources], list[float]]:
    """Return shapes of tasks, and how frequent each is, that ask for `cpus_per_gpu` together."""
    shares, spread, without_gpus = draws.uniform(0.1, 0.8), draws.uniform(0.3, 1.2), draws.uniform(0.05, 0.4)
    weights = [draws.paretovariate(1.1) for _ in range(draws.randint(10, 60))]
    gpus = [
        draws.randrange(100, MILLI, 50)
        if draws.random() < shares
        else MILLI * min(draws.choices([1, 2, 4, 8], [8, 3, 2, 1])[0], most_gpus)
        for _ in weights
    ]
    cpus = [gpu * draws.lognormvariate(0, spread) for gpu in gpus]
    asked = cpus_per_gpu * sum([w * gpu for w, gpu in zip(weights, gpus, strict=True)])
    scale = asked * (1 - without_gpus) / sum([w * cpu for w, cpu in zip(weights, cpus, strict=True)])
    shapes = [
        Resources(cpu_millis=max(int(cpu * scale), 100), gpu_millis=gpu) for cpu, gpu in zip(cpus, gpus, strict=True)
    ]
    alone = [Resources(cpu_millis=MILLI * cpu) for cpu in draws.sample([1, 2, 4, 8, 16], 3)]
    return shapes + alone, weights + [asked * without_gpus / len(alone) / each.cpu_millis for each in alone]


def _node(index: int, capacity: Resources) -> Node:
    return Node(
        id=f"n{index:04}",
        name=f"n{index:04}",
        address="127.0.0.1:1",
        capacity=capacity,
        incarnation="1",
        registered_at_ms=0,
        changed_at_ms=0,
    )
