"""Expected waste: how much of a node's idle GPU will stay idle when typical tasks come at random.

Fragmentation asks which tasks could use what is left now; this asks what is left after they did. On the openb traces it
gets 0.6 to 1.4 points more of all GPUs allocated. Rule: the work is done once per cycle, in a table; a node is looked
up there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gosched.core.resources import MILLI
from gosched.scheduling.placement.fragmentation import BoolArray, IntArray, Workload

OFFERS = 100  # typical tasks that come by until it counts: what fewer than one in OFFERS can use is as good as wasted
CPU_SLACK = 2  # a task may take this many times the CPU that its GPU would get if all idle GPU shared evenly
GPU_STEP = 10  # milli-GPUs between rows of the table
CPU_STEPS = 16  # columns up to the typical task with the most CPU per GPU; there are twice as many
MAX_KINDS = 64  # of nodes; rarer kinds count as suiting every task

_COLUMNS = 2 * CPU_STEPS + 1
_SCALE = 1000  # the table's unit is a thousandth of a milli-GPU

FloatArray = NDArray[np.float64]


class ExpectedWaste:
    """For the workload and the nodes of one cycle. `kinds[n]` is the kind of node n: nodes that suit the same tasks."""

    def __init__(self, workload: Workload, model_ok: BoolArray) -> None:
        """`model_ok` as in `fragmentation`, of all nodes."""
        suits, self.kinds = _kinds(model_ok)
        cpu = workload.cpu_millis // workload.gpus  # of a task on several GPUs, what goes with one of them
        self._unit = max(-(-int(cpu.max(initial=0)) // CPU_STEPS), 1)
        self._table = np.rint(_table(workload, cpu, self._unit, suits) * _SCALE).astype(np.int64)

    def __call__(self, workload: Workload, cpu_free: IntArray, gpu_free: IntArray, kinds: IntArray) -> IntArray:
        """For each node, its expected waste in milli-GPUs, times the workload's `total`.

        `cpu_free[n]` and `gpu_free[n, g]` in thousandths, `kinds[n]` the nodes' kinds.
        """
        idle = np.maximum(gpu_free.sum(axis=1), 1)[:, None]
        cpu = np.maximum(cpu_free, 0)[:, None]
        within_reach = np.minimum(CPU_SLACK * cpu * gpu_free // idle, cpu)
        column, rest = np.divmod(np.minimum(within_reach, self._unit * (_COLUMNS - 1)), self._unit)
        below = self._table[kinds[:, None], gpu_free // GPU_STEP, column]
        above = self._table[kinds[:, None], gpu_free // GPU_STEP, np.minimum(column + 1, _COLUMNS - 1)]
        waste: IntArray = ((below * (self._unit - rest) + above * rest) // self._unit).sum(axis=1)
        return waste * workload.total // _SCALE


def _kinds(model_ok: BoolArray) -> tuple[BoolArray, IntArray]:
    """Which tasks each kind of node suits, and the kind of each node."""
    suits, kinds, counts = np.unique(model_ok, axis=0, return_inverse=True, return_counts=True)
    kinds = kinds.reshape(-1)
    if len(suits) > MAX_KINDS:
        kept = np.argsort(-counts, kind="stable")[: MAX_KINDS - 1]
        renamed = np.full(len(suits), MAX_KINDS - 1)
        renamed[kept] = np.arange(MAX_KINDS - 1)
        suits, kinds = np.vstack([suits[kept], np.ones_like(suits[:1])]), renamed[kinds]
    return suits, kinds


def _table(workload: Workload, cpu: IntArray, unit: int, suits: BoolArray) -> FloatArray:
    """[kind, GPU left in steps, CPU left in units] -> milli-GPUs of one device that stay idle.

    Tasks come at random, each as often as it is typical, until nothing is left or the offers end; what fits is placed.
    Rows are filled from the emptiest, since a task only leads to rows below.
    """
    needs = -(-workload.needs[workload.need] // GPU_STEP)
    often = OFFERS * suits[:, workload.allowed] * workload.weights / max(workload.total, 1)  # [kind, demand]
    left = np.arange(_COLUMNS) * unit - cpu[:, None]  # [demand, column]
    fits = left >= 0
    below, rest = np.divmod(np.maximum(left, 0), unit)
    above = np.minimum(below + 1, _COLUMNS - 1)
    part = rest / unit
    table = np.zeros((len(suits), MILLI // GPU_STEP + 1, _COLUMNS))
    for gpu in range(1, table.shape[1]):
        can = np.flatnonzero(needs <= gpu)
        rows = (gpu - needs[can])[:, None]
        after = table[:, rows, below[can]] * (1 - part[can]) + table[:, rows, above[can]] * part[can]
        uses = often[:, can, None] * fits[can]
        table[:, gpu] = (gpu * GPU_STEP + (uses * after).sum(axis=1)) / (1 + uses.sum(axis=1))
    return table
