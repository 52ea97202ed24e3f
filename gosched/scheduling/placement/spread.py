"""Constraints that depend on where other tasks are: anti-affinity, and an even spread over domains.

Invariant: a task that was placed a moment ago in the same gang counts as much as one that runs.
"""

from __future__ import annotations

import numpy as np

from gosched.core.spec.placement_rules import SELF, Mode, SpreadRule
from gosched.scheduling.placement.feasibility import Feasibility
from gosched.scheduling.placement.topology import NOWHERE
from gosched.scheduling.snapshot.labels import BoolArray, IntArray
from gosched.scheduling.snapshot.task_requests import Constraints, PendingGang


def keep_apart(
    gang: PendingGang,
    constraints: Constraints,
    slots: IntArray,
    keys: IntArray,
    own: IntArray,
    feasibility: Feasibility,
) -> IntArray:
    """Return the slots that anti-affinity leaves. `own` are the rows where tasks of the gang are."""
    # The rule about the job's own tasks comes last: it keeps one slot of those that the others leave.
    own_last = sorted(constraints.anti_affinity, key=lambda rule: rule.job == SELF)
    for rule in own_last:
        codes = feasibility.codes(rule.level)
        rows = own if rule.job == SELF else feasibility.avoided_rows.get(rule.full_name(gang.tenant), own[:0])
        taken = np.unique(codes[rows])
        slots = np.where(np.isin(codes, taken[taken != NOWHERE]), 0, slots)
        if rule.job == SELF:
            slots = _one_each(slots, keys, codes)
    return slots


def _one_each(slots: IntArray, keys: IntArray, codes: IntArray) -> IntArray:
    """Return one slot in each domain, on its best node; nodes in no domain get none."""
    inside = np.flatnonzero((slots > 0) & (codes != NOWHERE))
    inside = inside[np.argsort(keys[inside])]
    _, first = np.unique(codes[inside], return_index=True)
    left = np.zeros_like(slots)
    left[inside[first]] = 1
    return left


class Evenness:
    """How many tasks of a group each domain may get under a spread rule, however many are placed."""

    def __init__(
        self, rule: SpreadRule, codes: IntArray, eligible: BoolArray, slots: IntArray, placed_rows: IntArray
    ) -> None:
        """`eligible` are the nodes whose domains count even when they are full, `placed_rows` those of the group's
        tasks. Under a rule that is only preferred, nodes in no domain form a domain too."""
        size = int(codes.max(initial=-1)) + 1
        if rule.mode is not Mode.REQUIRED:
            codes, size = np.where(codes == NOWHERE, size, codes), size + 1
        inside = codes != NOWHERE
        capacity = np.bincount(codes[inside], weights=slots[inside], minlength=size).astype(np.int64)
        held = codes[placed_rows]
        #: The domain of each node; NOWHERE for none.
        self.codes = codes
        #: For each domain the number of the group's tasks there.
        self.placed: IntArray = np.bincount(held[held != NOWHERE], minlength=size).astype(np.int64)
        #: For each domain how many it may hold in the end.
        self.most = self.placed + capacity
        domains = np.unique(codes[inside & eligible])
        if rule.mode is Mode.REQUIRED and domains.size:
            self.most = np.maximum(self.placed, np.minimum(self.most, int(self.most[domains].min()) + rule.max_skew))

    @property
    def available(self) -> int:
        """Return how many tasks may be added."""
        return int((self.most - self.placed).sum())

    def wanted(self, count: int) -> IntArray:
        """Return how many of `count` (at most `available`) tasks each domain gets: the emptiest gets the first."""
        low, high = 0, int(self.most.max(initial=0))
        while low < high:  # the highest level to which all domains can be filled
            middle = (low + high + 1) // 2
            if int(self._upto(middle).sum()) <= count:
                low = middle
            else:
                high = middle - 1
        wanted = self._upto(low)
        more = np.flatnonzero((self.most > low) & (self.placed <= low))[: count - int(wanted.sum())]
        wanted[more] += 1
        return wanted

    def _upto(self, level: int) -> IntArray:
        """Return how many tasks each domain lacks to hold `level` tasks, as far as it may hold them."""
        filled: IntArray = np.maximum(np.minimum(self.most, level) - self.placed, 0)
        return filled


def is_even(rule: SpreadRule, codes: IntArray, eligible: BoolArray, rows: IntArray) -> bool:
    """Return whether tasks on these rows (with repeats) keep to the rule."""
    domains = np.unique(codes[(codes != NOWHERE) & eligible])
    if rule.mode is not Mode.REQUIRED or not domains.size:
        return True
    counts = np.bincount(codes[rows][codes[rows] != NOWHERE], minlength=int(codes.max(initial=-1)) + 1)[domains]
    return int(counts.max()) - int(counts.min()) <= rule.max_skew
