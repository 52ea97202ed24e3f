"""What the planner sees: nodes as columns, pending gangs as records.

A view is nobody else's: its arrays are copies, its records are frozen. Rows ascend by node id, so that a tie
broken by row is a tie broken by id.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gosched.core.job import Job, JobSpec, Strategy, StringMap
from gosched.core.limits import MAX_JOB_DEMAND
from gosched.core.resources import Resources

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Amounts = tuple[int, int, int, int]

CPU, MEMORY, STORAGE, GPU = range(4)  # columns of every [nodes x 4] array, and places in Amounts

_GPU_MODEL = "\0gpu_model"  # kept like a label; no label's key has a control character
_NO_VALUE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """`count` equal tasks. `gpu_model` empty: any."""

    group: str
    count: int
    each: Amounts
    selector: StringMap = ()
    gpu_model: str = ""
    strategy: Strategy = Strategy.UNSPECIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingGang:
    """A job that wants to be placed. Gangs with the same `shape` ask for the same."""

    job_id: str
    attempt: int
    priority: int
    sequence: int
    not_before_ms: int
    asks: tuple[Ask, ...]
    tasks: int
    total: Amounts
    shape: str


@dataclass(slots=True, kw_only=True)
class LabelColumns:
    """For each label key a column of value codes. Columns are replaced, never written to, so copies share them.

    `codes` holds every value seen since the last reset.
    """

    columns: dict[str, IntArray] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)

    def copy(self) -> LabelColumns:
        return LabelColumns(columns=self.columns.copy(), codes=self.codes.copy())

    def insert(self, positions: Sequence[int]) -> None:
        for key, column in self.columns.items():
            self.columns[key] = np.insert(column, positions, _NO_VALUE)

    def assign(self, nodes: int, rows: Sequence[int], labels: Sequence[StringMap], models: Sequence[str]) -> None:
        maps = [dict(pairs) | {_GPU_MODEL: model} for pairs, model in zip(labels, models, strict=True)]
        for key in {**self.columns, **dict.fromkeys(key for entries in maps for key in entries)}:
            column = self.columns.get(key)
            column = np.full(nodes, _NO_VALUE, dtype=np.int64) if column is None else column.copy()
            column[rows] = [self._code(entries[key]) if key in entries else _NO_VALUE for entries in maps]
            self.columns[key] = column

    def matching(self, pairs: StringMap, nodes: int) -> BoolArray:
        mask = np.ones(nodes, dtype=np.bool_)
        for key, value in pairs:
            column = self.columns.get(key)
            if column is None or value not in self.codes:
                return np.zeros(nodes, dtype=np.bool_)
            mask &= column == self.codes[value]
        return mask

    def _code(self, value: str) -> int:
        return self.codes.setdefault(value, len(self.codes))


@dataclass(slots=True, kw_only=True)
class NodeColumns:
    """`free` is below zero where a node came back smaller than what runs on it. `gpu_busy[row, i]`: GPU i is held,
    or the node has no such GPU."""

    ids: list[str]
    capacity: IntArray
    free: IntArray
    ready: BoolArray
    gpu_busy: BoolArray
    labels: LabelColumns

    @staticmethod
    def empty() -> NodeColumns:
        return NodeColumns(
            ids=[],
            capacity=np.zeros((0, 4), dtype=np.int64, order="F"),
            free=np.zeros((0, 4), dtype=np.int64, order="F"),
            ready=np.zeros(0, dtype=np.bool_),
            gpu_busy=np.ones((0, 0), dtype=np.bool_),
            labels=LabelColumns(),
        )

    def __len__(self) -> int:
        return len(self.ids)

    def copy(self) -> NodeColumns:
        return NodeColumns(
            ids=self.ids.copy(),
            capacity=self.capacity.copy(order="F"),
            free=self.free.copy(order="F"),
            ready=self.ready.copy(),
            gpu_busy=self.gpu_busy.copy(),
            labels=self.labels.copy(),
        )

    def row(self, node_id: str) -> int:
        return bisect_left(self.ids, node_id)

    def having_labels(self, selector: StringMap) -> BoolArray:
        return self.labels.matching(selector, len(self))

    def having_model(self, gpu_model: str) -> BoolArray:
        return self.labels.matching(((_GPU_MODEL, gpu_model),) if gpu_model else (), len(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The state at one revision, as the planner needs it. Gangs stand in no particular order."""

    revision: int
    nodes: NodeColumns
    pending: tuple[PendingGang, ...]


def summed(columns: IntArray) -> IntArray:
    """Over the nodes; what is below zero counts as nothing. Clipped so that no sum leaves 64 bits: it is exact up to
    MAX_JOB_DEMAND / nodes for each node."""
    most = MAX_JOB_DEMAND // max(len(columns), 1)
    total: IntArray = np.clip(columns, 0, most).sum(axis=0)
    return total


def amounts(resources: Resources) -> Amounts:
    return (resources.cpu_millis, resources.memory_bytes, resources.storage_bytes, resources.gpu_millis)


def asks_of(spec: JobSpec) -> tuple[Ask, ...]:
    return tuple(
        Ask(
            group=g.name,
            count=g.count,
            each=amounts(g.resources),
            selector=g.node_selector,
            gpu_model=g.gpu_model,
            strategy=g.strategy,
        )
        for g in spec.groups
    )


def pending_gang(job: Job) -> PendingGang:
    asks = asks_of(job.spec)
    return PendingGang(
        job_id=job.id,
        attempt=job.attempt,
        priority=job.spec.priority,
        sequence=job.sequence,
        not_before_ms=job.not_before_ms,
        asks=asks,
        tasks=job.spec.task_count,
        total=amounts(job.spec.demand),
        shape=repr(asks),  # a string remembers its hash; a record would compute it at each look-up
    )
