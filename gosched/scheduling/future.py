"""How much room there will be, as far as limits and estimates tell: what comes free when.

Rule: a gang without a limit and an estimate is taken to stay for ever; one that has overrun an estimate, for as long
again as it has overrun.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gosched.core.command import GangPlacement
from gosched.core.cpulist import parse_cpulist
from gosched.core.resources import GPU as MILLIS
from gosched.core.resources import Resources
from gosched.scheduling.asks import PendingGang, vector
from gosched.scheduling.room import Freed
from gosched.scheduling.running import NEVER_MS, Holding, RunningGang
from gosched.scheduling.view import IntArray, NodeColumns, View


@dataclass(slots=True)
class _Entry:
    """One node's part in a release. `job_id`: whose, as far as that matters."""

    job_id: str
    end_ms: int
    row: int
    amounts: Sequence[int]  # cpu, memory, storage, gpu
    custom: Sequence[tuple[str, int]]
    gpus: Sequence[tuple[int, int]]  # (device, milli-GPUs)
    cpus: int  # mask


class Future:
    """Of one cycle. Made when somebody first asks; the placements of the cycle itself are added as they are made."""

    def __init__(self, view: View, now_ms: int) -> None:
        self._view = view
        self._nodes = view.nodes
        self._now_ms = now_ms
        self._row_of: dict[str, int] = {}
        self._entries: list[_Entry] | None = None
        self._new: list[tuple[PendingGang, GangPlacement, int]] = []
        self._all: Freed | None = None
        self._ends: IntArray = np.zeros(0, dtype=np.int64)
        self._gpu_ends: IntArray = np.zeros(0, dtype=np.int64)
        self._cpu_ends: list[int] = []

    def placed(self, gang: PendingGang, placement: GangPlacement, end_ms: int) -> None:
        """`end_ms`: when it ends or has to go; NEVER_MS: it is not known."""
        if end_ms < NEVER_MS:
            self._new.append((gang, placement, end_ms))
            self._all = None

    def evicted(self, job_ids: Collection[str]) -> None:
        """Their room goes to somebody else."""
        self._entries = [entry for entry in self._load() if entry.job_id not in job_ids]
        self._all = None

    def freed(self, after_ms: int, by_ms: int) -> Freed:
        """What comes free later than the one moment, and not later than the other."""
        everything = self._sort()
        a, b = np.searchsorted(self._ends, (after_ms, by_ms), side="right")
        c, d = np.searchsorted(self._gpu_ends, (after_ms, by_ms), side="right")
        e, f = bisect_right(self._cpu_ends, after_ms), bisect_right(self._cpu_ends, by_ms)
        return Freed(
            rows=everything.rows[a:b],
            amounts=everything.amounts[a:b],
            gpu_rows=everything.gpu_rows[c:d],
            gpus=everything.gpus[c:d],
            gpu_millis=everything.gpu_millis[c:d],
            cpus=everything.cpus[e:f],
        )

    def steps(self) -> tuple[IntArray, IntArray]:
        """Each release's moment, and its amounts by column; on ready nodes only."""
        everything = self._sort()
        ready = self._nodes.ready[everything.rows]
        return self._ends[ready], everything.amounts[ready]

    def _sort(self) -> Freed:
        if self._all is None:
            entries = sorted(self._load(), key=lambda entry: entry.end_ms)
            self._all = _freed(self._nodes, entries)
            self._ends = np.array([e.end_ms for e in entries], dtype=np.int64)
            self._gpu_ends = np.repeat(self._ends, [len(e.gpus) for e in entries])
            self._cpu_ends = [e.end_ms for e in entries if e.cpus]
        return self._all

    def _load(self) -> list[_Entry]:
        if self._entries is None:
            self._entries = self._at_first()
        for gang, placement, end_ms in self._new:
            group_of = {rank: index for index, ask in enumerate(gang.asks) for rank in ask.ranks}
            each = [_resources(gang, index) for index in range(len(gang.asks))]
            holdings = [Holding(t.rank, group_of[t.rank], t.node_id, t.gpus, t.cpus, "") for t in placement.tasks]
            self._entries += self._of(gang.job_id, end_ms, holdings, each)
        self._new.clear()
        return self._entries

    def _at_first(self) -> list[_Entry]:
        """Of the gangs that held a place when the cycle began."""
        view, now_ms = self._view, self._now_ms
        self._row_of = {node_id: row for row, node_id in enumerate(self._nodes.ids)}
        found: list[_Entry] = []
        for gang in view.holders.values():
            end = gang.ends_ms(now_ms)
            if end < NEVER_MS:
                skip = view.soon if gang.is_leaving else ()
                found += self._of(gang.job_id, end, [h for h in gang.holdings if h.node_id not in skip], gang.each)
        grace = max((gang.grace_ms for gang in view.holders.values() if gang.is_leaving), default=0)
        for node_id, soon in view.soon.items():
            if node_id in self._row_of:
                row, gpus = self._row_of[node_id], tuple(soon.gpus.items())
                end = now_ms + max(grace, 1)
                found.append(_Entry("", end, row, vector(soon.amounts), soon.amounts.custom, gpus, 0))
        return found

    def _of(self, job_id: str, end_ms: int, holdings: Iterable[Holding], each: Sequence[Resources]) -> Iterator[_Entry]:
        for held in holdings:
            row = self._row_of.get(held.node_id)
            if row is not None:
                yield _entry(job_id, end_ms, row, held, each[held.group])


def freed_by(nodes: NodeColumns, gangs: Iterable[tuple[RunningGang, Sequence[int]]]) -> Freed:
    """What comes free if these tasks go; of a gang without ranks, all of it."""
    entries = []
    for gang, ranks in gangs:
        for held in gang.holdings:
            row = nodes.row(held.node_id)
            if nodes.ids[row : row + 1] == [held.node_id] and (not ranks or held.rank in ranks):
                entries.append(_entry(gang.job_id, 0, row, held, gang.each[held.group]))
    return _freed(nodes, entries)


def _entry(job_id: str, end_ms: int, row: int, held: Holding, resources: Resources) -> _Entry:
    millis = min(resources.gpu_millis, MILLIS)
    gpus = [(gpu, millis) for gpu in held.gpus]
    cpus = parse_cpulist(held.cpus) if held.cpus else 0
    return _Entry(job_id, end_ms, row, vector(resources), resources.custom, gpus, cpus)


def _freed(nodes: NodeColumns, entries: Sequence[_Entry]) -> Freed:
    amounts: IntArray = np.zeros((len(entries), nodes.free.shape[1]), dtype=np.int64)
    if entries:
        amounts[:, :4] = [entry.amounts for entry in entries]
    for i, entry in enumerate(entries):
        for name, amount in entry.custom:
            if name in nodes.custom:
                amounts[i, nodes.custom[name]] = amount
    width = nodes.gpu_free.shape[1]
    # A device that the node lacks by now is kept as nothing of its first one: positions tell the moments apart.
    devices = [(e.row, gpu, m) if gpu < width else (e.row, 0, 0) for e in entries for gpu, m in e.gpus]
    columns = np.array(devices, dtype=np.int64).reshape(len(devices), 3)
    return Freed(
        rows=np.array([entry.row for entry in entries], dtype=np.int64),
        amounts=amounts,
        gpu_rows=columns[:, 0],
        gpus=columns[:, 1],
        gpu_millis=columns[:, 2],
        cpus=[(entry.row, entry.cpus) for entry in entries if entry.cpus],
    )


def _resources(gang: PendingGang, index: int) -> Resources:
    ask = gang.asks[index]
    cpu, memory, storage, gpu = ask.each
    return Resources(cpu_millis=cpu, memory_bytes=memory, storage_bytes=storage, gpu_millis=gpu, custom=ask.custom)
