"""The settings of a cycle."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.records.queue import QueueOrder
from gosched.core.spec.placement_rules import Strategy
from gosched.scheduling.plugins.interface import Plugin, Runner, unbounded

MAX_TASKS_PER_CYCLE = 10_000  # then the cycle ends, so that the first placements are committed while others are planned
MAX_MISSES_PER_CYCLE = 10_000  # different shapes that were tried in vain; jobs behind them wait for the next change
ALL = 1 << 30
ALGORITHMS = ("binpack", "spread", "gang", "priority", "deadline")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What goes into a cycle besides the view."""

    #: For groups that name none.
    strategy: Strategy = Strategy.BINPACK
    #: For queues that name none.
    order: QueueOrder = QueueOrder.PRIORITY
    #: Label keys of the levels, widest first.
    topology: tuple[str, ...] = ()
    #: Gangs without a topology rule prefer one domain of the narrowest level; of equal priority the larger come first.
    compact: bool = False
    #: A higher priority comes first, whatever the share of its queue.
    strict: bool = False
    plugins: tuple[Plugin, ...] = ()
    #: Calls plugins, with or without a bound of their time.
    runner: Runner = unbounded
    #: How many blocked gangs get a reserved start; 1 is EASY backfill, ALL conservative backfill.
    reservations: int = 4
    #: Gangs that have waited so long without a start in sight have nodes kept for them; never, unless a value is given.
    max_wait_ms: int = 1 << 62
    #: Jobs that are evicted in one cycle at most.
    max_victims: int = 100
    #: Of these, jobs of one tenant.
    max_victims_per_tenant: int = 50
    #: Tasks that are placed in one cycle at most, unless a single gang is larger.
    max_tasks: int = MAX_TASKS_PER_CYCLE
    #: Different gangs that are tried in vain in one cycle at most.
    max_misses: int = MAX_MISSES_PER_CYCLE

    @staticmethod
    def of(
        algorithm: str, topology: tuple[str, ...] = (), plugins: tuple[Plugin, ...] = (), runner: Runner = unbounded
    ) -> Policy:
        """Return the policy of the setting `server.algorithm`, one of ALGORITHMS."""
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
