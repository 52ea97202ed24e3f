"""Expected waste: how much of a node's idle GPU will stay idle when typical tasks come at random.

Fragmentation asks which tasks could use what is left now; this asks what is left after they did. On the openb traces it
gets 0.6 to 1.3 points more of all GPUs allocated.

Each device is looked at by itself, with its CPUs: a task on several GPUs counts as one task for each. Where CPUs are
short, that hides what runs out first: there a node's whole devices are one lot, as a task needs several of them and
their CPUs together. Why there are both: ADR 0096.

Invariant: the table of expectations is made once per cycle; a node's waste is looked up there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gosched.core.resources import MILLI
from gosched.scheduling.placement.fragmentation import BoolArray, IntArray, Workload

OFFERS = 100  # typical tasks that arrive until waste is counted: what fewer than one in OFFERS can use is wasted
SHORT_OFFERS = 20  # the same where CPUs are short: many nodes wait there for the few tasks that need little CPU
CPU_SLACK = 2  # unless CPUs are short a task may take so many times the CPU that its GPU has if all idle GPU shares
GPU_STEP = 10  # milli-GPUs between rows of the table
CPU_STEPS = 16  # columns up to the typical task with the most CPU per GPU; there are twice as many
MAX_KINDS = 64  # of nodes; nodes of rarer kinds count as if they suited every task

_WHOLE = MILLI // GPU_STEP  # the row of one whole device; those of several follow
_COLUMNS = 2 * CPU_STEPS + 1
_SCALE = 1000  # the table's unit is a thousandth of a milli-GPU

FloatArray = NDArray[np.float64]


class _Demands(NamedTuple):
    """The typical tasks as the table counts them, one entry for each."""

    cpu_millis: IntArray
    gpus: IntArray
    #: How often each comes until waste is counted, [kind of node, demand, 1].
    frequency: FloatArray


class ExpectedWaste:
    """The expected waste of the nodes of one cycle, for its workload."""

    def __init__(self, workload: Workload, model_ok: BoolArray, devices: int, *, cpu_short: bool) -> None:
        """`model_ok` is that of all nodes, as in `fragmentation`; no node has more than `devices` GPUs."""
        suits, kinds = _kinds(model_ok)
        self._cpu_short = cpu_short
        lot = max(devices, 1) if cpu_short else 1
        #: Of each node, where the part of its kind begins in the tables: nodes of one kind suit the same tasks.
        self.kinds: IntArray = kinds * ((_WHOLE + lot) * _COLUMNS)
        each = workload.cpu_millis // workload.gpus  # of a task on several GPUs, what goes with one of them
        self._unit = max(-(-int(each.max(initial=0)) // CPU_STEPS), 1)
        self._most_cpu = self._unit * (_COLUMNS - 1)
        if cpu_short:
            demands = _Demands(workload.cpu_millis, workload.gpus, _frequency(workload, suits, SHORT_OFFERS))
        else:
            demands = _Demands(each, np.ones_like(each), _frequency(workload, suits, OFFERS))
        needs = -(-workload.needs[workload.need] // GPU_STEP)
        table = np.rint(_table(demands, needs, lot, self._unit) * _SCALE).astype(np.int64)
        # Flat, because `take` by one number costs less than an index of three.
        self._table = table.reshape(-1)
        #: What one column more changes.
        self._slope = np.diff(table, axis=2, append=table[:, :, -1:]).reshape(-1)
        self._row = _rows(lot)

    def __call__(self, workload: Workload, cpu_free: IntArray, gpu_free: IntArray, kinds: IntArray) -> IntArray:
        """Return, for each node, its expected waste in milli-GPUs, times the workload's `total`.

        `cpu_free[n]` and `gpu_free[n, g]` are in thousandths, `kinds[n]` are those of the nodes.
        """
        gpu_free = np.maximum(gpu_free, 0)  # it is below zero where more is reserved than there is
        idle = np.maximum(np.add.reduce(gpu_free, axis=1, keepdims=True), 1)
        cpu = np.maximum(cpu_free, 0)[:, None]
        place = gpu_free
        if self._cpu_short:
            place = gpu_free + np.add.reduce(gpu_free == MILLI, axis=1, dtype=np.int64, keepdims=True) * (MILLI + 1)
            usable_cpu = np.minimum(cpu * gpu_free // idle, self._most_cpu)
        else:
            usable_cpu = np.minimum(CPU_SLACK * cpu * gpu_free // idle, np.minimum(cpu, self._most_cpu))
        column, rest = np.divmod(usable_cpu, self._unit)
        cell = kinds[:, None] + self._row.take(place) + column
        waste: IntArray = np.add.reduce(self._table.take(cell) + self._slope.take(cell) * rest // self._unit, axis=1)
        return waste * workload.total // _SCALE


def _kinds(model_ok: BoolArray) -> tuple[BoolArray, IntArray]:
    """Return which tasks each kind of node suits, [kinds x tasks], and the kind of each node."""
    suits, kinds, counts = np.unique(model_ok, axis=0, return_inverse=True, return_counts=True)
    kinds = kinds.reshape(-1)
    if len(suits) > MAX_KINDS:
        kept = np.argsort(-counts, kind="stable")[: MAX_KINDS - 1]
        new_kinds = np.full(len(suits), MAX_KINDS - 1)
        new_kinds[kept] = np.arange(MAX_KINDS - 1)
        suits, kinds = np.vstack([suits[kept], np.ones_like(suits[:1])]), new_kinds[kinds]
    return suits, kinds


def _rows(lot: int) -> IntArray:
    """Return where the row of a device begins, [whole devices of its lot, milli-GPUs free on it], flat."""
    rows = np.tile(np.arange(MILLI + 1) // GPU_STEP, (lot + 1, 1))
    rows[1:, MILLI] += np.arange(lot)
    return (rows * _COLUMNS).reshape(-1)


def _frequency(workload: Workload, suits: BoolArray, offers: int) -> FloatArray:
    """Return how many of `offers` tasks are of each demand, [kind, demand, 1]."""
    mean: FloatArray = offers * suits[:, workload.allowed, None] * workload.weights[:, None] / max(workload.total, 1)
    return mean


def _table(demands: _Demands, needs: IntArray, lot: int, unit: int) -> FloatArray:
    """Return a table [kind, GPU left, CPU left with each device in units] -> milli-GPUs that stay idle on each device.

    The rows up to _WHOLE are one device with so many steps left, those after it two whole devices, three, ... `lot`.
    Tasks arrive at random, each as frequently as it is typical, until nothing is left or the offers for each device
    have come; what fits is placed. Rows are filled from the one with the least GPU left, because a task only leads to
    rows with less.
    """
    columns = np.arange(_COLUMNS) * unit
    table = np.zeros((len(demands.frequency), _WHOLE + lot, _COLUMNS))
    left = columns - demands.cpu_millis[:, None]  # of the CPU after a task, [demand, column]
    uses, at = demands.frequency * (left >= 0), _columns(left / unit)
    for steps in range(1, _WHOLE):
        fits = np.flatnonzero(needs <= steps)
        after = _look_up(table, steps - needs[fits], (at[0][fits], at[1][fits]))
        table[:, steps] = _idle_in_the_end(steps * GPU_STEP, uses[:, fits], after)
    for whole in range(1, lot + 1):
        fits = np.flatnonzero(demands.gpus <= whole)
        left = whole * columns - demands.cpu_millis[fits, None]
        uses = whole * demands.frequency[:, fits] * (left >= 0)
        after = _after_task(table, whole - demands.gpus[fits], _WHOLE - needs[fits], left / unit)
        table[:, _WHOLE - 1 + whole] = _idle_in_the_end(whole * MILLI, uses, after) / whole
    return table


def _idle_in_the_end(idle: int, uses: FloatArray, after: FloatArray) -> FloatArray:
    """Return what stays of `idle`, [kind, column]: `after[kind, demand, column]` once a task has come, which happens
    `uses[kind, demand, column]` times for each time that offers end before."""
    mean: FloatArray = (idle + (uses * after).sum(axis=1)) / (1 + uses.sum(axis=1))
    return mean


def _after_task(table: FloatArray, whole: IntArray, steps: IntArray, cpu: FloatArray) -> FloatArray:
    """Return what stays idle, [kind, demand, column], where a task leaves `whole[demand]` devices, `steps[demand]` of
    another one, and `cpu[demand, column]` units, which go with them evenly."""
    cpu_of_step = cpu / np.maximum(whole * _WHOLE + steps, 1)[:, None]
    of_whole = _look_up(table, np.maximum(whole, 1) + _WHOLE - 1, _columns(cpu_of_step * _WHOLE))
    return whole[:, None] * of_whole + _look_up(table, steps, _columns(cpu_of_step * steps[:, None]))


def _columns(cpu: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the columns left of `cpu` units, and how far it is from each to the next, 0 to 1."""
    cpu = np.clip(cpu, 0, _COLUMNS - 1)
    low = np.minimum(cpu.astype(np.int64), _COLUMNS - 2)
    return low, cpu - low


def _look_up(table: FloatArray, rows: IntArray, at: tuple[IntArray, FloatArray]) -> FloatArray:
    """Return the table's values, [kind, row, column], a straight line from one column to the next."""
    low, part = at
    value: FloatArray = table[:, rows[:, None], low] * (1 - part) + table[:, rows[:, None], low + 1] * part
    return value
