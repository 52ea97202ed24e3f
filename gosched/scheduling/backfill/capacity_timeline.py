"""The capacity of now and of later as one: what is free, what is released when, which starts are reserved.

Invariant: a start, an eviction or a fence that is recorded here is counted at every moment and in every view.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gosched.core.commands.plans import GangPlacement
from gosched.scheduling.backfill.capacity_views import CapacityView, CapacityViews
from gosched.scheduling.backfill.release_profile import ReleaseProfile
from gosched.scheduling.backfill.reserved_starts import ReservedStarts
from gosched.scheduling.backfill.start_lines import slots_of
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.snapshot.capacity_rows import Freed
from gosched.scheduling.snapshot.occupancy import Occupied
from gosched.scheduling.snapshot.running_gangs import NEVER_MS, RunningGang
from gosched.scheduling.snapshot.task_requests import PendingGang


class CapacityTimeline:
    """The capacity of one cycle, at all times."""

    def __init__(
        self,
        plain: FreeCapacity,
        release_profile: ReleaseProfile,
        reserved_starts: ReservedStarts,
        capacity_views: CapacityViews,
        occupied: Callable[[], Occupied[RunningGang]],
        now_ms: int,
    ) -> None:
        self._plain = plain
        self._release_profile = release_profile
        self._reserved_starts = reserved_starts
        self._capacity_views = capacity_views
        self._occupied = occupied
        self._now_ms = now_ms

    def start(self, gang: PendingGang, placement: GangPlacement, capacity_view: CapacityView) -> None:
        """Record a gang that starts now, placed in that view."""
        until = placement.until_ms
        ends = min(self._now_ms + gang.span_ms if gang.span_ms else NEVER_MS, until or NEVER_MS)
        # A reserved start is not to rest on the estimate of a gang that came after it.
        self._reserved_starts.record_start(gang, placement, ends if gang.is_bounded else until or NEVER_MS)
        self._release_profile.record_start(gang, placement, ends)
        self._capacity_views.record_start(gang, placement, capacity_view)

    def evict(self, gang: RunningGang, ranks: tuple[int, ...]) -> None:
        """Record that these ranks of the gang, or all of it if there are none, are released early. The fence of the
        gang that they are evicted for counts what they release."""
        self._release_profile.drop_releases({gang.job_id: ranks})
        freed = self._occupied().freed(self._occupied().tasks_of(gang.job_id, ranks))
        self._reserved_starts.record_release(freed, gang.ends_ms(self._now_ms))

    def fence(self, gang: PendingGang, placement: GangPlacement, freed: Freed, grace_ms: int) -> None:
        """Record a gang that starts once `freed` is there, which takes up to `grace_ms`. Others get what is free now
        and still will be once the gang runs."""
        later = self._plain.copy()
        later.grow(freed)
        for request, slots in slots_of(gang, placement, self._plain.nodes):
            later.occupy(request, slots)
        placed_rows = self._plain.nodes.rows([task.node_id for task in placement.tasks])
        rows = np.unique(np.concatenate([freed.rows, placed_rows]))
        now, then = self._plain.rows(rows), later.rows(rows)
        now.limit_to(then)
        self._plain.put(now)
        start_ms = self._now_ms + grace_ms
        self._release_profile.add_release(then.beyond(now), self._now_ms + max(grace_ms, 1))
        self._release_profile.record_start(gang, placement, start_ms + gang.span_ms if gang.span_ms else NEVER_MS)
        ends = start_ms + gang.span_ms if gang.is_bounded else NEVER_MS
        self._reserved_starts.record_start(gang, placement, ends)
        self._capacity_views.refresh(rows)

    def restart(self, gang: PendingGang, placement: GangPlacement, freed: Freed, grace_ms: int) -> None:
        """Record a gang that starts again with this placement. `freed`: what it still holds."""
        if len(freed.rows):
            self._release_profile.drop_releases({gang.job_id: ()})
        self.fence(gang, placement, freed, grace_ms)
