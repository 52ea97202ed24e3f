"""Places a gang whole or not at all.

Equal tasks are placed by counting how many fit on each node, so the work grows with nodes, not with tasks. For a gang
of one group the answer is exact. Several groups are a packing problem: they are placed from the hardest to the easiest,
then in a few orders drawn from the seed, so that each cycle tries others. For a gang with topology rules the domains
are tried from the smallest that seems to fit. Each try is a real placement, which is undone when it fails.

Invariant: a gang that is not placed has taken nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from gosched.core.commands.plans import GangPlacement
from gosched.core.cpulist import format_cpulist
from gosched.core.records.allocation import TaskPlacement
from gosched.core.spec.placement_rules import Mode, SpreadRule, Strategy
from gosched.scheduling.fairness.queue_limits import UNLIMITED, Allowance
from gosched.scheduling.placement.domains import domain_masks
from gosched.scheduling.placement.feasibility import Feasibility
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.placement.free_devices import Slot
from gosched.scheduling.placement.spread import Evenness, is_even, keep_apart
from gosched.scheduling.placement.task_split import Share, by_domain, compactly, evenly, greedily
from gosched.scheduling.placement.topology import ANYWHERE, NOWHERE
from gosched.scheduling.placement.transaction import Transaction
from gosched.scheduling.plugins.filters import Choice
from gosched.scheduling.snapshot.task_requests import PendingGang, TaskRequest
from gosched.scheduling.snapshot.view import BoolArray, IntArray

_Split = Callable[[IntArray, int], Share]

TRIES = 8  # for a gang whose groups fit alone but not together; for elastic tasks under two spread rules
MAX_DOMAINS = 64  # domains in which the real placement is tried

_NO_KEY = np.iinfo(np.int64).max


def place(
    gang: PendingGang, capacity: FreeCapacity, feasibility: Feasibility, seed: int, allowance: Allowance = UNLIMITED
) -> GangPlacement | None:
    """Place the gang and take its slots from the capacity; None if it does not fit."""
    requests = gang.requests
    is_single = _is_single(gang, feasibility, allowance)
    # The total, of all nodes, costs as much as the search for a single task.
    if capacity.lacks(gang) if is_single else not capacity.may_hold(gang):
        return None
    if gang.joins and len(requests) > 1:
        return _place_first_group(gang, capacity, feasibility, seed, allowance)
    if is_single:
        choice = feasibility.choice(gang, requests[0])
        if choice.tiers or not choice.allowed.any():
            return _place_single(gang, choice, capacity, feasibility)
    most = allowance.most or tuple([request.count for request in gang.requests])
    choices = [feasibility.choice(gang, request) for request in gang.requests]
    for masks in islice(domain_masks(gang, choices, capacity, feasibility), MAX_DOMAINS):
        allowed = [
            _allowed_nodes(c, mask, request, feasibility, allowance.banned)
            for c, mask, request in zip(choices, masks, gang.requests, strict=True)
        ]
        for order, shuffled in _group_orders(gang, allowed, capacity, seed):
            slots = _Try(gang, capacity, feasibility, choices, allowed, most, shuffled).place(order)
            if slots is not None:
                return _with_ranks(gang, slots, capacity, feasibility)
    return None


def _place_first_group(
    gang: PendingGang, capacity: FreeCapacity, feasibility: Feasibility, seed: int, allowance: Allowance
) -> GangPlacement | None:
    """Place elastic tasks of the first group that fits; tasks of the other groups join in a later cycle."""
    most = allowance.most or tuple([request.count for request in gang.requests])
    for request, own in zip(gang.requests, most, strict=True):
        alone = replace(gang, requests=(request,))
        if placement := place(alone, capacity, feasibility, seed, Allowance((own,), allowance.banned)):
            return placement
    return None


def _is_single(gang: PendingGang, feasibility: Feasibility, allowance: Allowance) -> bool:
    """Return whether it is one task, for which the order of the nodes is all that counts."""
    if gang.tasks != 1 or len(gang.requests) != 1 or gang.placed:
        return False
    request = gang.requests[0]
    constraints = request.constraints
    if constraints.depends_on_other_tasks or constraints.needs_numa or allowance.banned:
        return False
    if len(request.ranks) != 1:
        return False
    # Scores look for the smallest domain first, as for a gang.
    return not constraints.topology or not feasibility.is_scored(request)


def _place_single(
    gang: PendingGang, choice: Choice, capacity: FreeCapacity, feasibility: Feasibility
) -> GangPlacement | None:
    request = gang.requests[0]
    if feasibility.is_scored(request):
        row, gpu = _best_scored(request, choice, choice.allowed, capacity, feasibility)
    else:
        row, gpu = capacity.best(request, choice, request.strategy or feasibility.policy.strategy), None
    if row < 0:
        return None
    task = _task(request.ranks[0], capacity.take_one(request, row, gpu), capacity.nodes.ids)
    return GangPlacement(job_id=gang.job_id, attempt=gang.attempt, tasks=(task,))


def _best_scored(
    request: TaskRequest, choice: Choice, allowed: BoolArray, capacity: FreeCapacity, feasibility: Feasibility
) -> tuple[int, int | None]:
    """Return the allowed row with the best score for one task, -1 if it fits on none, and the device to share."""
    fits = capacity.fits(request, allowed)
    if not fits.any():
        return -1, None
    strategy = request.strategy or feasibility.policy.strategy
    row = int(np.where(fits, feasibility.keys(request, choice, strategy), _NO_KEY).argmin())
    return row, feasibility.score_columns(strategy).device(request, row)


def _allowed_nodes(
    choice: Choice, mask: BoolArray | None, request: TaskRequest, feasibility: Feasibility, banned: tuple[str, ...]
) -> BoolArray:
    allowed = choice.allowed if mask is None else choice.allowed & mask
    return allowed & feasibility.without_models(banned) if banned and request.constraints.wants_gpu else allowed


def _group_orders(
    gang: PendingGang, allowed: Sequence[BoolArray], capacity: FreeCapacity, seed: int
) -> Iterator[tuple[Sequence[int], IntArray | None]]:
    """Yield orders of the groups; from the second on each with an order of the nodes."""
    if len(gang.requests) == 1:
        yield (0,), None
        return
    counts = [int(capacity.slots(request, mask).sum()) for request, mask in zip(gang.requests, allowed, strict=True)]
    if any(count < request.floor for count, request in zip(counts, gang.requests, strict=True)):
        return
    slack = [count * 1000 // max(request.floor, 1) for count, request in zip(counts, gang.requests, strict=True)]
    yield sorted(range(len(slack)), key=lambda i: (slack[i], i)), None
    draw = np.random.default_rng([seed, gang.sequence])
    for _ in range(TRIES - 1):
        yield draw.permutation(len(gang.requests)).tolist(), draw.permutation(len(capacity.nodes))


@dataclass(slots=True)
class _Try:
    """One attempt, which gives back all that it took when a group does not fit."""

    gang: PendingGang
    capacity: FreeCapacity
    feasibility: Feasibility
    choices: Sequence[Choice]
    allowed: Sequence[BoolArray]
    #: For each group how many tasks may start.
    most: Sequence[int]
    #: Keys of the nodes in this attempt; None: those of the strategy.
    shuffled: IntArray | None
    #: For each group what is placed so far.
    placed: list[list[Slot]] = field(init=False)
    transaction: Transaction = field(init=False)

    def place(self, order: Sequence[int]) -> list[list[Slot]] | None:
        """Return the slots of each group: its floor, and elastic tasks as far as they fit; None if it fails."""
        requests = self.gang.requests
        self.placed = [[] for _ in requests]
        self.transaction = Transaction(self.capacity)
        alone = len(requests) == 1
        for index in order:
            floor = requests[index].floor
            wanted = self.most[index] if alone else floor
            if not self._place_group(index, max(wanted, floor)) and floor:
                self.transaction.undo()
                return None
        if not alone:
            for index in order:
                self._place_group(index, self.most[index] - len(self.placed[index]))
        if not any(self.placed):
            self.transaction.undo()
            return None
        return self.placed

    def _place_group(self, index: int, wanted: int) -> bool:
        """Place up to `wanted` more tasks of a group; return False when that leaves it below its floor."""
        request = self.gang.requests[index]
        least = max(request.floor - len(self.placed[index]), 0)
        if wanted <= 0:
            return least == 0
        mark = self.transaction.mark()
        is_independent = not self.gang.keeps_apart and not request.constraints.depends_on_other_tasks
        if self.feasibility.is_scored(request) and self.shuffled is None and is_independent:
            slots = self._one_by_one(request, index, wanted)
        else:
            share = self._share_out(request, index, least, wanted)
            slots = self.transaction.take(request, *share) if share is not None else []
        if len(slots) < least:
            self.transaction.undo(mark)
            return False
        self.placed[index] += slots
        return True

    def _share_out(self, request: TaskRequest, index: int, least: int, wanted: int) -> Share | None:
        """Return how the tasks of one group are divided among the nodes; None if fewer than `least` fit."""
        feasibility, constraints = self.feasibility, request.constraints
        slots = self.capacity.slots(request, self.allowed[index])
        if int(slots.sum()) < max(least, 1):
            return None
        strategy = request.strategy or feasibility.policy.strategy
        keys = feasibility.keys(request, self.choices[index], strategy) if self.shuffled is None else self.shuffled
        slots = self._without_domains_of_others(request.group, slots)
        if constraints.anti_affinity:
            slots = keep_apart(self.gang, constraints, slots, keys, self._rows_of_job(), feasibility)
        preference = self.choices[index].preference

        def split(slots: IntArray, count: int) -> Share:
            if strategy is Strategy.SPREAD:
                return _evenly_in_tiers(slots, keys, count, preference)
            if feasibility.bounds(self.gang, constraints) != (ANYWHERE, ANYWHERE):
                return compactly(slots, keys, count, feasibility.topology.codes)
            return greedily(slots, keys, count)

        if constraints.spread:
            return self._spread(request, index, slots, least, wanted, split)
        count = min(wanted, int(slots.sum()))
        return split(slots, count) if count >= max(least, 1) else None

    def _without_domains_of_others(self, group: str, slots: IntArray) -> IntArray:
        """Return the slots outside the domains that other groups of the job keep for themselves."""
        for other, level in self.gang.keeps_apart:
            if other != group:
                codes = self.feasibility.codes(level)
                taken = np.unique(codes[self._rows_of(other)])
                slots = np.where(np.isin(codes, taken[taken != NOWHERE]), 0, slots)
        return slots

    def _spread(
        self, request: TaskRequest, index: int, slots: IntArray, least: int, wanted: int, split: _Split
    ) -> Share | None:
        """Divide by spread rules: the first by its domains, the next within each of these; then all are checked."""
        first, *others = request.constraints.spread
        eligible, rows = self._eligible(request, index), self._rows_of(request.group)
        for rule in reversed(others):
            split = self._leveled(rule, rows, split)
        evenness, *more = [
            Evenness(rule, self.feasibility.codes(rule.level), eligible, slots, rows) for rule in (first, *others)
        ]
        most = min([wanted, evenness.available, *(each.available for each in more)])
        least = max(least, 1)
        for count in [*range(most, max(least, most - TRIES), -1), least] if most >= least else ():
            share = by_domain(slots, evenness.codes, evenness.wanted(count), split)
            there = np.concatenate([rows, np.repeat(*share)])
            if all(is_even(rule, self.feasibility.codes(rule.level), eligible, there) for rule in others):
                return share
        return None

    def _leveled(self, rule: SpreadRule, rows: IntArray, split: _Split) -> _Split:
        """Return a split that fills the domains with the fewest tasks first, and `split` within each."""
        codes = self.feasibility.codes(rule.level)
        soft = replace(rule, mode=Mode.PREFERRED)

        def leveled(slots: IntArray, count: int) -> Share:
            evenness = Evenness(soft, codes, slots > 0, slots, rows)
            return by_domain(slots, evenness.codes, evenness.wanted(count), split)

        return leveled

    def _eligible(self, request: TaskRequest, index: int) -> BoolArray:
        """Return the nodes whose domains count even when they are full: those in the domain that is required."""
        allowed = self.choices[index].allowed
        required, _ = self.feasibility.bounds(self.gang, request.constraints)
        rows = np.flatnonzero(self.allowed[index])
        if required == ANYWHERE or not rows.size:
            return allowed
        codes = self.feasibility.topology.codes[required]
        eligible: BoolArray = allowed & (codes == codes[rows[0]])
        return eligible

    def _one_by_one(self, request: TaskRequest, index: int, wanted: int) -> list[Slot]:
        """Place the tasks one at a time, because each changes which node is best for the next."""
        slots: list[Slot] = []
        for _ in range(wanted):
            row, gpu = _best_scored(request, self.choices[index], self.allowed[index], self.capacity, self.feasibility)
            if row < 0:
                break
            slots.append(self.transaction.take_one(request, row, gpu))
        return slots

    def _rows_of(self, group: str) -> IntArray:
        """Return the rows, with repeats, where tasks of the group are placed, earlier ones included."""
        earlier = self.feasibility.nodes.rows([node for name, node in self.gang.placed if name == group])
        placed = [
            slots for request, slots in zip(self.gang.requests, self.placed, strict=True) if request.group == group
        ]
        return np.array([*earlier, *(slot.row for slots in placed for slot in slots)], dtype=np.int64)

    def _rows_of_job(self) -> IntArray:
        """Return the rows, with repeats, where tasks of the job are placed."""
        earlier = self.feasibility.nodes.rows([node for _, node in self.gang.placed])
        return np.array([*earlier, *(slot.row for slots in self.placed for slot in slots)], dtype=np.int64)


def _evenly_in_tiers(slots: IntArray, keys: IntArray, count: int, preference: IntArray | None) -> Share:
    """Fill the most preferred nodes first; nodes of equal preference get the same number."""
    if preference is None:
        return evenly(slots, keys, count)
    shares: list[Share] = []
    for value in np.unique(preference[slots > 0])[::-1]:
        tier = np.where(preference == value, slots, 0)
        number = min(count, int(tier.sum()))
        shares.append(evenly(tier, keys, number))
        count -= number
    return np.concatenate([rows for rows, _ in shares]), np.concatenate([counts for _, counts in shares])


def _with_ranks(
    gang: PendingGang, placed: Sequence[Sequence[Slot]], capacity: FreeCapacity, feasibility: Feasibility
) -> GangPlacement:
    """Return the placement with ranks: in each group, neighbours in rank are neighbours in the tree of domains."""
    tasks: list[TaskPlacement] = []
    for request, slots in zip(gang.requests, placed, strict=True):
        if len(slots) > 1:
            position = feasibility.topology.position
            slots = sorted(slots, key=lambda slot: (position[slot.row], slot.gpus))
        tasks += [_task(rank, slot, capacity.nodes.ids) for rank, slot in zip(request.ranks, slots, strict=False)]
    return GangPlacement(job_id=gang.job_id, attempt=gang.attempt, tasks=tuple(tasks))


def _task(rank: int, slot: Slot, ids: Sequence[str]) -> TaskPlacement:
    if not slot.gpus:
        return TaskPlacement(rank=rank, node_id=ids[slot.row])
    cpus = format_cpulist(slot.cpus)
    return TaskPlacement(rank=rank, node_id=ids[slot.row], gpus=slot.gpus, cpus=cpus)
