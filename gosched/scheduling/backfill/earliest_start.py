"""When a gang could start, and where: the first moment of the release profile at which it fits for as long as it runs,
beside what is reserved meanwhile.

Invariant: a start that is returned was tried, with a real placement. The search is bounded, so it may find a later
moment than the very first where capacity is fragmented.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gosched.core.commands.plans import GangPlacement
from gosched.scheduling.backfill.release_profile import ReleaseProfile
from gosched.scheduling.backfill.reserved_starts import ReservedStart, ReservedStarts
from gosched.scheduling.fairness.queue_limits import UNLIMITED, Allowance
from gosched.scheduling.placement.feasibility import Feasibility
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.placement.gang_placement import place
from gosched.scheduling.snapshot.columns import AMOUNTS, NOTHING
from gosched.scheduling.snapshot.running_gangs import NEVER_MS
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import BoolArray, IntArray

MAX_TRIES = 24
_ONE_BY_ONE = 6  # moments that are tried one after the other, before the steps grow


@dataclass(frozen=True, slots=True)
class Start:
    """When a gang would start, and where."""

    at_ms: int
    #: The devices may differ in the end.
    placement: GangPlacement


class EarliestStart:
    """The search for starts in one cycle."""

    def __init__(
        self,
        plain: FreeCapacity,
        feasibility: Feasibility,
        release_profile: ReleaseProfile,
        reserved_starts: ReservedStarts,
        now_ms: int,
    ) -> None:
        self._plain = plain
        self._feasibility = feasibility
        self._release_profile = release_profile
        self._reserved_starts = reserved_starts
        self._now_ms = now_ms

    def find(
        self,
        gang: PendingGang,
        seed: int,
        allowance: Allowance = UNLIMITED,
        *,
        before_ms: int = NEVER_MS,
        without: ReservedStart | None = None,
    ) -> Start | None:
        """Return the first start found, later than now and earlier than `before_ms`; None: there is none in sight.
        `without`: the gang's own reserved start, which is not in its way."""
        moments = self._plausible(gang, without)
        moments = moments[moments < before_ms]
        failed = -1
        for index in _steps(len(moments)):
            start = self._try(gang, int(moments[index]), seed, allowance, without)
            if start is None:
                failed = index
                continue
            while index - failed > 1:  # bisect between the last that failed and the one that was found
                middle = (failed + index) // 2
                if (tried := self._try(gang, int(moments[middle]), seed, allowance, without)) is None:
                    failed = middle
                else:
                    index, start = middle, tried
            return start
        return None

    def _try(
        self, gang: PendingGang, moment_ms: int, seed: int, allowance: Allowance, without: ReservedStart | None
    ) -> Start | None:
        reserved_starts, end = self._reserved_starts, _end(gang, moment_ms)
        capacity = reserved_starts.capacity_at(moment_ms, without)
        for reserved in reserved_starts.with_rows():
            if reserved is not without and moment_ms < reserved.start_ms < end and reserved.rows is not None:
                limited = capacity.rows(reserved.rows.rows)
                limited.limit_to(reserved.rows)
                capacity.put(limited)
        closed = [reserved_starts.window_rows[index] for index in reserved_starts.windows_of(gang, moment_ms, end)]
        if closed:
            rows = capacity.rows(np.unique(np.concatenate(closed)))
            rows.close(rows.rows)
            capacity.put(rows)
        placement = place(gang, capacity, self._feasibility.with_capacity(capacity), seed, allowance)
        return None if placement is None else Start(moment_ms, placement)

    def _plausible(self, gang: PendingGang, without: ReservedStart | None) -> IntArray:
        """Return the moments at which something is released and from which on the total of free amounts suffices for as
        long as the gang runs. Whether the gang fits on nodes is not known yet."""
        moments, free = self._totals(without)
        enough: BoolArray = np.logical_and.reduce(free >= np.array(gang.total), axis=1)
        good = np.flatnonzero(enough)
        if gang.is_bounded and not enough.all():
            ends = np.searchsorted(moments, moments[good] + gang.span_ms, side="left")
            short = np.concatenate([[0], np.cumsum(~enough)])
            good = good[short[np.maximum(ends, good + 1)] == short[good]]
        elif not enough.all():  # it may run for ever
            good = good[good > np.flatnonzero(~enough)[-1]]
        found: IntArray = moments[good]
        return found

    def _totals(self, without: ReservedStart | None) -> tuple[IntArray, IntArray]:
        """Return each moment of the profile, and the total of free amounts from then on."""
        ends, amounts = self._release_profile.steps()
        changes: list[tuple[int, tuple[int, ...]]] = []
        for reserved in self._reserved_starts.all:
            if reserved is without:
                continue
            changes.append((reserved.start_ms, tuple(-amount for amount in reserved.gang.total)))
            if reserved.end_ms < NEVER_MS:
                changes.append((reserved.end_ms, reserved.gang.total))
        # How much a window gives back is not counted; its end is a moment.
        changes += [(window.end_ms, NOTHING) for window in self._reserved_starts.windows if window.end_ms]
        when = np.concatenate([ends, np.array([at for at, _ in changes], dtype=np.int64)])
        changed = np.array([amounts for _, amounts in changes], dtype=np.int64).reshape(-1, len(NOTHING))
        what = np.concatenate([amounts[:, AMOUNTS], changed])
        order = np.argsort(when, kind="stable")
        moments, firsts = np.unique(when[order], return_index=True)
        total = np.cumsum(what[order], axis=0)
        lasts = np.append(firsts[1:], len(order)) - 1
        free = np.array(self._plain.total[AMOUNTS]) + total[lasts] if len(order) else total
        later = moments > self._now_ms
        return moments[later], free[later]


def _end(gang: PendingGang, start_ms: int) -> int:
    """Return when the gang ends at the latest. An estimate is no limit: no later start is to rest on it."""
    return start_ms + gang.span_ms if gang.is_bounded else NEVER_MS


def _steps(count: int) -> Iterator[int]:
    """Yield the first indices, then some further and further apart, and the last; MAX_TRIES at most."""
    index, step = 0, 1
    for tried in range(MAX_TRIES):
        if index >= count:
            break
        yield index
        if index == count - 1:
            break
        step = step if tried < _ONE_BY_ONE else step * 2
        index = min(index + step, count - 1)


__all__ = ["EarliestStart", "Start"]
