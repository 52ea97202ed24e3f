"""Mixes of jobs, drawn from a seed: what they ask for, how long they run, what they say of it, and whose they are.

The load is exact: arrivals are spread over just the time in which the cluster could do that part of all work. They are
uniform over it, which is a Poisson process of a known number of arrivals. Run times are lognormal, from 30 s to 3 h.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from benchmarks.max_min import ShareNode
from benchmarks.workloads import Shape, job, nodes
from gosched.core.commands.nodes import RegisterNode
from gosched.core.records.queue import Queue, QueueType
from gosched.core.spec.policies import Preemption
from gosched.sim.cluster.trace import TraceJob

MEDIAN_S, SPREAD, SHORTEST_S, LONGEST_S = 900, 1.3, 30, 3 * 3600
LIMITS_S = (600, 1800, 3600, 2 * 3600, 4 * 3600, 8 * 3600, 12 * 3600, 24 * 3600)  # timeouts that people ask for
_SIGUSR1 = 10


class Bounds(Enum):
    """What jobs say of their run time."""

    NONE = "no timeouts"
    #: A round number, up to three times the run time and more.
    TIMEOUTS = "timeouts"
    SOME = "timeouts for half of the jobs"
    #: Beside the timeout, within 10 %.
    GOOD = "good estimates"
    #: Beside the timeout, wrong by a factor of two and more, too low as often as too high.
    POOR = "poor estimates"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """A cluster, and the jobs that people have for it."""

    words: str
    nodes: Sequence[RegisterNode]
    #: Each with how often it comes.
    shapes: Sequence[tuple[Shape, int]]
    #: GPUs, or CPUs where there are none.
    size: int

    def part(self, shape: Shape) -> int:
        """Return how many GPUs, or CPUs where there are none, a job holds."""
        return shape.tasks * (shape.gpus if self.nodes[0].capacity.gpu_millis else shape.cpus)


def _gpu_shape(tasks: int, gpus: int) -> Shape:
    return Shape(tasks=tasks, cpus=8 * gpus, gpus=gpus)


GPUS = Hardware(
    words="128 GPUs",
    nodes=nodes(16, cpus=96, gpus=8),
    shapes=[
        *[(_gpu_shape(1, gpus), often) for gpus, often in ((1, 25), (2, 10), (4, 8), (8, 10))],
        *[(_gpu_shape(tasks, 1), often) for tasks, often in ((2, 8), (4, 8), (8, 6), (16, 5), (32, 3), (64, 3))],
        *[(_gpu_shape(tasks, 8), often) for tasks, often in ((2, 6), (4, 4), (6, 2))],
        *[(Shape(tasks=tasks, cpus=8), often) for tasks, often in ((1, 6), (4, 4), (16, 2))],
    ],
    size=128,
)
CPUS = Hardware(
    words="16 CPUs",
    nodes=nodes(4, cpus=4),
    shapes=[
        *[(Shape(tasks=1, cpus=cpus), often) for cpus, often in ((1, 40), (2, 15), (4, 8))],
        *[(Shape(tasks=tasks, cpus=1), often) for tasks, often in ((2, 15), (4, 8), (8, 8), (12, 6))],
    ],
    size=16,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """Queues, and how often jobs come to each leaf."""

    words: str
    queues: tuple[Queue, ...]
    #: By path, for leaves only.
    often: dict[str, int]


def _fair(path: str, weight: int = 1) -> Queue:
    return Queue(path=path, type=QueueType.FAIR, weight=weight)


def _capacity(path: str, percent: int, most: int = 100) -> Queue:
    return Queue(path=path, type=QueueType.CAPACITY, capacity_pct=percent, max_pct=most)


TWO_FAIR = Sharing(words="2 fair queues", queues=(_fair("a"), _fair("b")), often={"a": 2, "b": 1})
FOUR_FAIR = Sharing(
    words="4 fair queues",
    queues=(_fair("a"), _fair("b"), _fair("c", 2), _fair("d", 4)),
    often={"a": 3, "b": 2, "c": 2, "d": 3},
)
THREE_CAPACITY = Sharing(
    words="3 capacity queues",
    queues=(_capacity("a", 60, 80), _capacity("b", 30), _capacity("c", 10)),
    often={"a": 4, "b": 3, "c": 3},
)
EIGHT_NESTED = Sharing(
    words="8 nested queues",
    queues=(
        _capacity("x", 50),
        *[_capacity(f"x.{name}", percent) for name, percent in (("a", 50), ("b", 30), ("c", 20))],
        _capacity("y", 30, 70),
        _fair("y.a"),
        _fair("y.b", 2),
        _fair("z"),
        *[_fair(f"z.{name}", weight) for name, weight in (("a", 1), ("b", 1), ("c", 3))],
    ),
    often={"x.a": 2, "x.b": 2, "x.c": 1, "y.a": 2, "y.b": 1, "z.a": 1, "z.b": 2, "z.c": 1},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """What is drawn."""

    hardware: Hardware
    #: Of the cluster's GPUs, or CPUs where there are none, in percent.
    load_pct: int
    bounds: Bounds
    #: How many of the jobs save themselves in 30 s when they are evicted, in percent.
    saves_pct: int = 0
    sharing: Sharing
    #: Jobs.
    count: int = 100

    @property
    def words(self) -> str:
        saves = f"{self.saves_pct} % with checkpoints" if self.saves_pct else "no checkpoints"
        return f"{self.hardware.words}, {self.load_pct} % load, {self.bounds.value}, {saves}, {self.sharing.words}"


def draw(mix: Mix, seed: int) -> list[TraceJob]:
    """Return the jobs in order of arrival. Mixes that differ in load alone have the same jobs, at other times."""
    draws = random.Random(seed)
    shapes, often = zip(*mix.hardware.shapes, strict=True)
    picked = draws.choices(shapes, often, k=mix.count)
    runs_s = [_clamped(draws.lognormvariate(math.log(MEDIAN_S), SPREAD)) for _ in picked]
    work_s = sum(mix.hardware.part(shape) * run_s for shape, run_s in zip(picked, runs_s, strict=True))
    span_s = 100 * work_s / (mix.load_pct * mix.hardware.size)
    times_s = sorted(draws.uniform(0, span_s) for _ in picked)
    paths, how_often = zip(*mix.sharing.often.items(), strict=True)
    jobs = []
    for number, (at_s, shape, run_s) in enumerate(zip(times_s, picked, runs_s, strict=True)):
        timeout_s, estimate_s = _bounds(draws, mix.bounds, run_s)
        saves = 100 * draws.random() < mix.saves_pct
        more = {
            "queue": draws.choices(paths, how_often)[0],
            "estimate_ms": int(1000 * estimate_s),
            "preemption": Preemption(grace_ms=60_000, checkpoint_signal=_SIGUSR1) if saves else Preemption(),
        }
        jobs.append(job(f"j{number}", at_s, run_s, shape, timeout_s=timeout_s, **more))
    return jobs


def share_tree(queues: Sequence[Queue]) -> ShareNode:
    """Return the tree of fair shares of queues that the mixes use: percents, weights, nothing by resource."""

    def node(queue: Queue, guaranteed: float, most: float) -> ShareNode:
        """Return the node; its parent is guaranteed `guaranteed` of the cluster and may hold `most` of it."""
        own = guaranteed * queue.capacity_pct / 100 if queue.type is QueueType.CAPACITY else 0.0
        ceiling = most * queue.max_pct / 100
        below = tuple(node(child, own, ceiling) for child in queues if child.path.rpartition(".")[0] == queue.path)
        return ShareNode(path=queue.path, weight=queue.weight, guarantee=own, ceiling=ceiling, children=below)

    return ShareNode(path="", children=tuple(node(queue, 1.0, 1.0) for queue in queues if "." not in queue.path))


def _clamped(run_s: float) -> float:
    return min(max(run_s, SHORTEST_S), LONGEST_S)


def _bounds(draws: random.Random, bounds: Bounds, run_s: float) -> tuple[float, float]:
    """Return timeout and estimate in seconds; 0: the job says none. The same number of draws for all kinds."""
    slack, limited, near, far = draws.uniform(1.1, 3), draws.random(), draws.uniform(0.9, 1.1), draws.gauss(0, 0.8)
    limit_s = next(limit_s for limit_s in LIMITS_S if limit_s >= run_s * slack)
    if bounds is Bounds.NONE or (bounds is Bounds.SOME and limited < 0.5):
        return 0, 0
    if bounds is Bounds.GOOD:
        return limit_s, min(run_s * near, limit_s)
    if bounds is Bounds.POOR:
        return limit_s, min(run_s * math.exp(far), limit_s)
    return limit_s, 0
