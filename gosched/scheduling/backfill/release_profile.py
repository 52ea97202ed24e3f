"""The release profile: what is released when, as far as limits and estimates tell.

Invariant: a gang without a limit and an estimate counts as one that runs for ever; one that has overrun its estimate,
as one that runs for as long again as it has overrun.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gosched.core.commands.plans import GangPlacement
from gosched.core.resources import Resources
from gosched.scheduling.snapshot.capacity_rows import Freed
from gosched.scheduling.snapshot.occupancy import G, Occupied, column_amounts
from gosched.scheduling.snapshot.running_gangs import NEVER_MS, Holding, RunningGang
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import FreedSoon, IntArray, NodeColumns, View


class ReleaseProfile:
    """The releases known in one cycle; the placements and evictions of the cycle itself are added as they are made.
    `guesses`: ends of which nothing is known are guessed."""

    def __init__(
        self, view: View, now_ms: int, occupied: Callable[[], Occupied[RunningGang]], *, guesses: bool = False
    ) -> None:
        self._view = view
        self._now_ms = now_ms
        self._occupied = occupied
        self._ends_of = RunningGang.guessed_ends_ms if guesses else RunningGang.ends_ms
        self._evicted: dict[str, tuple[int, ...]] = {}
        self._new: list[tuple[_Placed, int]] = []
        self._left: list[Releases] = []
        self._all: Releases | None = None
        self._parts: list[Releases] = []  # of gangs that ran at first, of fences, of new placements

    def record_start(self, gang: PendingGang, placement: GangPlacement, end_ms: int) -> None:
        """Add what the gang releases. `end_ms`: when it ends or is evicted at the latest; NEVER_MS: not known."""
        if end_ms < NEVER_MS:
            self._new.append((_placed(gang, placement), end_ms))
            del self._parts[2:]
            self._all = None

    def add_release(self, freed: Freed, at_ms: int) -> None:
        """Add what victims of this cycle release beyond what the gang takes that they are evicted for."""
        self._left.append(Releases.at(freed, at_ms))
        self._all = None

    def drop_releases(self, victims: Mapping[str, tuple[int, ...]]) -> None:
        """Drop the releases of these jobs, or of these ranks of theirs: their capacity goes to other gangs."""
        self._evicted.update(victims)
        self._parts.clear()
        self._all = None

    def freed(self, after_ms: int, by_ms: int) -> Freed:
        """Return what is released later than the one moment, and not later than the other."""
        return self.releases().between(after_ms, by_ms)

    def steps(self) -> tuple[IntArray, IntArray]:
        """Return the moment of each release and its amounts by column; on ready nodes only."""
        known = self.releases()
        ready = self._view.nodes.ready[known.freed.rows]
        return known.ends[ready], known.freed.amounts[ready]

    def releases(self) -> Releases:
        """Return all releases that are known."""
        if self._all is None:
            self._all = Releases.merged(self._known())
        return self._all

    def _known(self) -> list[Releases]:
        view, nodes = self._view, self._view.nodes
        if not self._parts:
            self._parts = [self._of_holders(), _of_fences(view, self._now_ms)]
        if len(self._parts) < 3:
            new = Occupied(nodes, [gang for gang, _ in self._new])
            ends = np.array([end for _, end in self._new], dtype=np.int64)
            self._parts.append(Releases.of(new, ends[new.gang]))
        return [*self._parts, *self._left]

    def _of_holders(self) -> Releases:
        """Return the releases of running gangs. What is evicted for a fence is counted with the fence."""
        occupied, view, now_ms = self._occupied(), self._view, self._now_ms
        by_task = np.array([self._ends_of(gang, now_ms) for gang in occupied.gangs], dtype=np.int64)[occupied.gang]
        for job_id, ranks in self._evicted.items():
            by_task[occupied.tasks_of(job_id, ranks)] = NEVER_MS
        if view.freed_soon:
            leaving = np.array([gang.is_stopping for gang in occupied.gangs], dtype=np.bool_)[occupied.gang]
            fenced = view.nodes.rows(tuple(view.freed_soon))
            by_task[leaving & np.isin(occupied.row, fenced)] = NEVER_MS
        return Releases.of(occupied, by_task)


@dataclass(frozen=True, slots=True)
class Releases:
    """Releases in order of their moments, with the moments of amounts, of GPUs and of owned CPUs."""

    ends: IntArray
    gpu_ends: IntArray
    cpu_ends: list[int]
    freed: Freed

    @staticmethod
    def at(freed: Freed, end_ms: int) -> Releases:
        """Return releases that happen at one moment."""
        count, devices = len(freed.rows), len(freed.gpu_rows)
        ends, gpu_ends = np.full(count, end_ms, dtype=np.int64), np.full(devices, end_ms, dtype=np.int64)
        return Releases(ends, gpu_ends, [end_ms] * len(freed.cpus), freed)

    @staticmethod
    def of(occupied: Occupied[G], ends: IntArray) -> Releases:
        """Return the releases of these tasks. `ends`: of each task; one with NEVER_MS is left out."""
        tasks = _ascending(ends)
        devices = _ascending(ends[occupied.device_task])
        owners = occupied.device_task[devices]
        cpus = sorted([(int(ends[t]), row, mask) for t, row, mask in occupied.cpus if ends[t] < NEVER_MS])
        return Releases(
            ends[tasks],
            ends[owners],
            [end for end, _, _ in cpus],
            Freed(
                rows=occupied.row[tasks],
                amounts=occupied.amounts[tasks],
                gpu_rows=occupied.row[owners],
                gpus=occupied.device[devices],
                gpu_millis=occupied.device_millis[devices],
                cpus=[(row, mask) for _, row, mask in cpus],
            ),
        )

    @staticmethod
    def merged(parts: Sequence[Releases]) -> Releases:
        """Return the releases of all parts."""
        ends, gpu_ends = np.concatenate([p.ends for p in parts]), np.concatenate([p.gpu_ends for p in parts])
        order, gpu_order = np.argsort(ends, kind="stable"), np.argsort(gpu_ends, kind="stable")
        cpus = sorted([(end, *cpu) for p in parts for end, cpu in zip(p.cpu_ends, p.freed.cpus, strict=True)])
        return Releases(
            ends[order],
            gpu_ends[gpu_order],
            [end for end, _, _ in cpus],
            Freed(
                rows=np.concatenate([part.freed.rows for part in parts])[order],
                amounts=np.concatenate([part.freed.amounts for part in parts])[order],
                gpu_rows=np.concatenate([part.freed.gpu_rows for part in parts])[gpu_order],
                gpus=np.concatenate([part.freed.gpus for part in parts])[gpu_order],
                gpu_millis=np.concatenate([part.freed.gpu_millis for part in parts])[gpu_order],
                cpus=[(row, mask) for _, row, mask in cpus],
            ),
        )

    def between(self, after_ms: int, by_ms: int) -> Freed:
        everything = self.freed
        a, b = np.searchsorted(self.ends, (after_ms, by_ms), side="right")
        c, d = np.searchsorted(self.gpu_ends, (after_ms, by_ms), side="right")
        return Freed(
            rows=everything.rows[a:b],
            amounts=everything.amounts[a:b],
            gpu_rows=everything.gpu_rows[c:d],
            gpus=everything.gpus[c:d],
            gpu_millis=everything.gpu_millis[c:d],
            cpus=everything.cpus[bisect_right(self.cpu_ends, after_ms) : bisect_right(self.cpu_ends, by_ms)],
        )


@dataclass(frozen=True, slots=True)
class _Placed:
    """A gang that was placed in this cycle."""

    job_id: str
    each: tuple[Resources, ...]
    holdings: tuple[Holding, ...]


def _placed(gang: PendingGang, placement: GangPlacement) -> _Placed:
    group_of = {rank: index for index, request in enumerate(gang.requests) for rank in request.ranks}
    holdings = [Holding(t.rank, group_of[t.rank], t.node_id, t.gpus, t.cpus, "") for t in placement.tasks]
    return _Placed(gang.job_id, tuple([request.resources for request in gang.requests]), tuple(holdings))


def _of_fences(view: View, now_ms: int) -> Releases:
    """Return what fences leave over: it is released once the last of the stopping gangs has ended."""
    nodes = view.nodes
    soon: Mapping[str, FreedSoon] = {
        node_id: soon for node_id, soon in view.freed_soon.items() if len(nodes.rows((node_id,)))
    }
    grace = max((gang.grace_ms for gang in view.holders.values() if gang.is_stopping), default=0)
    rows = nodes.rows(tuple(soon))
    devices = _devices(nodes, soon)
    amounts = np.array([column_amounts(s.amounts, nodes) for s in soon.values()], dtype=np.int64)
    freed = Freed(
        rows=rows,
        amounts=amounts.reshape(len(soon), nodes.free.shape[1]),
        gpu_rows=devices[:, 0],
        gpus=devices[:, 1],
        gpu_millis=devices[:, 2],
        cpus=[],
    )
    return Releases.at(freed, now_ms + max(grace, 1))


def _devices(nodes: NodeColumns, soon: Mapping[str, FreedSoon]) -> IntArray:
    found = [
        (nodes.row(node_id), gpu, millis)
        for node_id, freed in soon.items()
        for gpu, millis in freed.gpus.items()
        if gpu < nodes.gpu_free.shape[1]
    ]
    return np.array(found, dtype=np.int64).reshape(len(found), 3)


def _ascending(ends: IntArray) -> IntArray:
    known = np.flatnonzero(ends < NEVER_MS)
    ordered: IntArray = known[np.argsort(ends[known], kind="stable")]
    return ordered
