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
from gosched.scheduling.placement.needs import needs_of
from gosched.scheduling.snapshot.columns import AMOUNTS, NOTHING, Column
from gosched.scheduling.snapshot.running_gangs import NEVER_MS
from gosched.scheduling.snapshot.task_requests import PendingGang, TaskRequest
from gosched.scheduling.snapshot.view import BoolArray, IntArray, NodeColumns

MAX_TRIES = 24
MAX_SPANS = 32  # of gangs of a kind, for which is known up to when they were tried in vain
_ONE_BY_ONE = 6  # moments that are tried one after the other, before the steps grow


@dataclass(frozen=True, slots=True)
class Start:
    """When a gang would start, and where."""

    at_ms: int
    #: The devices may differ in the end.
    placement: GangPlacement


@dataclass(frozen=True, slots=True)
class _Totals:
    """Free amounts of all nodes together, [moments x amounts]."""

    #: Later than now, ascending.
    moments: IntArray
    #: From then on.
    free: IntArray
    #: The most at any moment so far, and the least, now included.
    most: IntArray
    least: IntArray


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
        self._futile = _Futile()
        self._known: _Totals | None = None
        self._known_version: object = None

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
        key = self._futile_key(gang, allowance, without)
        moments = self._plausible(gang, before_ms, without)
        moments = moments[np.searchsorted(moments, self._futile.after(key, gang), side="right") :]
        failed = proven = -1
        found: Start | None = None
        for index in _steps(len(moments)):
            found = self._try(gang, int(moments[index]), seed, allowance, without)
            if found is not None:
                break
            proven = index if index == proven + 1 else proven
            failed = index
        while (
            found is not None and index - failed > 1
        ):  # bisect between the last that failed and the one that was found
            middle = (failed + index) // 2
            if (tried := self._try(gang, int(moments[middle]), seed, allowance, without)) is None:
                failed = middle
            else:
                index, found = middle, tried
        if proven >= 0:
            self._futile.note(key, gang, int(moments[proven]))
        return found

    def _futile_key(self, gang: PendingGang, allowance: Allowance, without: ReservedStart | None) -> object:
        """Return what gangs share that find no start for the same reason; None: this one shares it with no other."""
        if without is not None or len(gang.requests) > 1 or gang.placed or self._feasibility.policy.plugins:
            return None
        reserved_starts = self._reserved_starts
        self._futile.keep_for(reserved_starts.gains)
        return gang.shape, allowance, (gang.queue, gang.tenant, gang.priority) if reserved_starts.windows else ()

    def _try(
        self, gang: PendingGang, moment_ms: int, seed: int, allowance: Allowance, without: ReservedStart | None
    ) -> Start | None:
        reserved_starts, end = self._reserved_starts, _end(gang, moment_ms)
        nodes = reserved_starts.nodes_at(moment_ms, end, without)
        if not all(_may_fit(nodes, request) for request in gang.requests):
            return None
        capacity = FreeCapacity(nodes)
        closed = [reserved_starts.window_rows[index] for index in reserved_starts.windows_of(gang, moment_ms, end)]
        if closed:
            rows = capacity.rows(np.unique(np.concatenate(closed)))
            rows.close(rows.rows)
            capacity.put(rows)
        placement = place(gang, capacity, self._feasibility.with_capacity(capacity), seed, allowance)
        return None if placement is None else Start(moment_ms, placement)

    def may_fit_now(self, gang: PendingGang, until_ms: int) -> bool:
        """Return whether the total of free amounts suffices from now until then. False is certain as long as all
        reserved starts hold."""
        totals = self._totals()
        last = int(np.searchsorted(totals.moments, until_ms)) - 1
        return last < 0 or bool((totals.least[last] >= gang.total).all())

    def is_plausible(self, reserved: ReservedStart, before_ms: int) -> bool:
        """Return whether totals leave the gang an earlier start than its own, without a look at any node."""
        return bool(self._plausible(reserved.gang, before_ms, reserved).size)

    def _plausible(self, gang: PendingGang, before_ms: int, without: ReservedStart | None) -> IntArray:
        """Return the moments, earlier than `before_ms`, at which something is released and from which on the total of
        free amounts suffices for as long as the gang runs. Whether the gang fits on nodes is not known yet."""
        totals = self._totals()
        moments, free = totals.moments, totals.free
        count = int(np.searchsorted(moments, before_ms))
        if not count or (totals.most[count - 1] < gang.total).any():
            return moments[:0]
        if without is not None:
            first, last = np.searchsorted(moments, (without.start_ms, without.end_ms))
            free = free.copy()
            free[first:last] += without.gang.total
        enough: BoolArray = np.logical_and.reduce(free >= np.array(gang.total), axis=1)
        good = np.flatnonzero(enough[:count])
        if gang.is_bounded and not enough.all():
            ends = np.searchsorted(moments, moments[good] + gang.span_ms, side="left")
            short = np.concatenate([[0], np.cumsum(~enough)])
            good = good[short[np.maximum(ends, good + 1)] == short[good]]
        elif not enough.all():  # it may run for ever
            good = good[good > np.flatnonzero(~enough)[-1]]
        found: IntArray = moments[good]
        return found

    def _totals(self) -> _Totals:
        """Return the totals as everything stands now."""
        version = (self._reserved_starts.version, tuple(self._plain.total))
        if self._known is None or self._known_version != version:
            self._known, self._known_version = self._computed(), version
        return self._known

    def _computed(self) -> _Totals:
        ends, amounts = self._release_profile.steps()
        all_reserved = self._reserved_starts.all
        starts = np.array([reserved.start_ms for reserved in all_reserved], dtype=np.int64)
        stops = np.array([reserved.end_ms for reserved in all_reserved], dtype=np.int64)
        taken = np.array([reserved.gang.total for reserved in all_reserved], dtype=np.int64).reshape(-1, len(NOTHING))
        ending = stops < NEVER_MS
        # How much a window gives back is not counted; its end is a moment.
        windows = np.array([w.end_ms for w in self._reserved_starts.windows if w.end_ms], dtype=np.int64)
        nothing = np.zeros((len(windows), len(NOTHING)), dtype=np.int64)
        when = np.concatenate([ends, starts, stops[ending], windows])
        what = np.concatenate([amounts[:, AMOUNTS], -taken, taken[ending], nothing])
        order = np.argsort(when, kind="stable")
        ordered = when[order]
        lasts = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)[: len(order)])
        moments = ordered[lasts]
        now = np.array(self._plain.total[AMOUNTS])
        free = now + np.cumsum(what[order], axis=0)[lasts]
        later = moments > self._now_ms
        free = free[later]
        least = np.minimum(np.minimum.accumulate(free, axis=0), now)
        return _Totals(moments[later], free, np.maximum.accumulate(free, axis=0), least)


def _may_fit(nodes: NodeColumns, request: TaskRequest) -> bool:
    """Return whether amounts alone leave places enough for the floor of a group. False is certain."""
    places = np.where(nodes.ready, request.floor, 0)
    for column, amount in needs_of(request, nodes) or ():
        if column not in (Column.SHARE, Column.LINK):
            np.minimum(places, nodes.free[:, column] // amount, out=places)
    return int(np.maximum(places, 0).sum()) >= request.floor


class _Futile:
    """Moments up to which kinds of gangs were tried in vain, one by one. What runs longer fits no earlier."""

    def __init__(self) -> None:
        self._gains = 0
        self._tried: dict[object, list[tuple[int, int]]] = {}  # spans and moments

    def keep_for(self, gains: int) -> None:
        """Forget everything if capacity may have become more."""
        if gains != self._gains:
            self._gains = gains
            self._tried.clear()

    def after(self, key: object, gang: PendingGang) -> int:
        """Return the moment after which the search begins."""
        span = _end(gang, 0)
        return max([moment for shorter, moment in self._tried.get(key, ()) if shorter <= span], default=-1)

    def note(self, key: object, gang: PendingGang, moment_ms: int) -> None:
        if key is not None:
            span, tried = _end(gang, 0), self._tried.get(key, [])
            left = [(other, moment) for other, moment in tried if other < span or moment > moment_ms]
            self._tried[key] = [*left[-MAX_SPANS + 1 :], (span, moment_ms)]


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
