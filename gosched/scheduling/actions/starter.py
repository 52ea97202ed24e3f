"""Starts a gang: now if it fits, otherwise once others are evicted for it."""

from __future__ import annotations

from gosched.core.commands.plans import GangPlacement
from gosched.scheduling.actions.start_after_evictions import ObserveOnly, StartAfterEvictions
from gosched.scheduling.actions.start_now import StartNow
from gosched.scheduling.plan import Plan
from gosched.scheduling.snapshot.task_requests import PendingGang


class Starter:
    """The two ways to start a gang, the less disruptive one first."""

    def __init__(self, plan: Plan, start_now: StartNow, start_after_evictions: StartAfterEvictions) -> None:
        self._plan = plan
        self._start_now = start_now
        self._start_after_evictions = start_after_evictions

    def start(self, gang: PendingGang, shape: object) -> GangPlacement | None:
        """Start the gang now, or once others are evicted for it; None: it waits."""
        if placement := self._start_now.start(gang, shape):
            return placement
        started = self._start_after_evictions.start(gang, shape)
        if isinstance(started, ObserveOnly):
            self._plan.observed[gang.job_id] = started.victims
            return None
        return started
