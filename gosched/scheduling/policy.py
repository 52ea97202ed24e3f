"""The settings of a cycle."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.job import Strategy

MAX_TASKS_PER_CYCLE = 10_000  # then the cycle ends, so that the first placements travel while others are planned
MAX_MISSES_PER_CYCLE = 10_000  # different shapes that were tried in vain; jobs behind them wait for the next change


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """`strategy` is for groups that name none."""

    strategy: Strategy = Strategy.BINPACK
    max_tasks: int = MAX_TASKS_PER_CYCLE
    max_misses: int = MAX_MISSES_PER_CYCLE

    @staticmethod
    def from_algorithm(algorithm: str) -> Policy:
        """Of the setting `server.algorithm`: `binpack` or `spread`."""
        return Policy(strategy=Strategy[algorithm.upper()])
