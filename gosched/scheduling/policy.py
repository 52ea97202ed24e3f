"""The settings of a cycle."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.records.queue import QueueOrder
from gosched.core.spec.placement_rules import Strategy
from gosched.scheduling.plugins.interface import Plugin, Runner, unbounded

MAX_TASKS_PER_CYCLE = 10_000  # then the cycle ends, so that the first placements travel while others are planned
MAX_MISSES_PER_CYCLE = 10_000  # different shapes that were tried in vain; jobs behind them wait for the next change
ALL = 1 << 30
ALGORITHMS = ("binpack", "spread", "gang", "priority", "deadline")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """`strategy` is for groups that name none, `order` for queues that name none. `topology`: label keys, widest first.

    `compact`: gangs without a topology rule prefer one domain of the narrowest level, and of equal priority the larger
    ones come first. `strict`: a higher priority goes first whatever its queue's share. `reservations`: how many blocked
    gangs get a reserved start; 1 is EASY backfill, ALL conservative. `max_victims`: jobs evicted in one cycle.
    """

    strategy: Strategy = Strategy.BINPACK
    order: QueueOrder = QueueOrder.PRIORITY
    topology: tuple[str, ...] = ()
    compact: bool = False
    strict: bool = False
    plugins: tuple[Plugin, ...] = ()
    runner: Runner = unbounded
    reservations: int = 4
    max_victims: int = 100
    max_victims_per_tenant: int = 50
    max_tasks: int = MAX_TASKS_PER_CYCLE
    max_misses: int = MAX_MISSES_PER_CYCLE

    @staticmethod
    def of(
        algorithm: str, topology: tuple[str, ...] = (), plugins: tuple[Plugin, ...] = (), runner: Runner = unbounded
    ) -> Policy:
        """Of the setting `server.algorithm`, one of ALGORITHMS."""
        if algorithm not in ALGORITHMS:
            raise ValueError(f"unknown algorithm {algorithm!a}; there are {', '.join(ALGORITHMS)}")
        return Policy(
            strategy=Strategy.SPREAD if algorithm == "spread" else Strategy.BINPACK,
            order=QueueOrder.DEADLINE if algorithm == "deadline" else QueueOrder.PRIORITY,
            topology=topology,
            compact=algorithm == "gang",
            strict=algorithm == "priority",
            plugins=plugins,
            runner=runner,
        )
