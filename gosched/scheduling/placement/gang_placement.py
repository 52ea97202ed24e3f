"""Places a gang whole or not at all.

Equal tasks are placed by counting how many each node has room for, so the work grows with nodes, not with tasks. For a
gang of one group the answer is exact. Several groups together are a packing problem: they are tried from the hardest
to the easiest, then in a few orders drawn from the seed, so that each cycle tries others. Where a gang wants to be
close together the domains are tried from the smallest that seems to fit; each try is a real placement, taken back when
it fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from gosched.core.cluster import TaskPlacement
from gosched.core.command import GangPlacement
from gosched.core.cpulist import format_cpulist
from gosched.core.spec import Mode, SpreadRule, Strategy
from gosched.scheduling.fairness.queue_limits import UNLIMITED, Allowance
from gosched.scheduling.placement.domains import grounds
from gosched.scheduling.placement.feasibility import BY_GRADIENT, Feasibility
from gosched.scheduling.placement.free_capacity import FreeCapacity, Slot
from gosched.scheduling.placement.spread import Evenness, apart, is_even
from gosched.scheduling.placement.task_split import Share, by_domain, compactly, evenly, greedily
from gosched.scheduling.placement.topology import ANYWHERE, NOWHERE
from gosched.scheduling.plugins.filters import Choice
from gosched.scheduling.snapshot.task_requests import PendingGang, TaskRequest
from gosched.scheduling.snapshot.view import BoolArray, IntArray

_Split = Callable[[IntArray, int], Share]

TRIES = 8  # for a gang whose groups fit alone but not together; for elastic tasks under two spread rules
MAX_GROUNDS = 64  # domains in which the real placement is tried


def place(
    gang: PendingGang, room: FreeCapacity, terrain: Feasibility, seed: int, allowance: Allowance = UNLIMITED
) -> GangPlacement | None:
    """Takes from the room what it places; a gang that does not fit takes nothing."""
    if gang.joins and len(gang.asks) > 1:
        return _of_one_group(gang, room, terrain, seed, allowance)
    if not room.may_hold(gang):
        return None
    if len(gang.asks) == 1 and gang.tasks == 1 and not gang.standing and _is_simple(gang.asks[0], terrain, allowance):
        choice = terrain.choice(gang, gang.asks[0])
        if choice.tiers or not choice.allowed.any():
            return _alone(gang, choice, room, terrain)
    most = allowance.most or tuple([ask.count for ask in gang.asks])
    choices = [terrain.choice(gang, ask) for ask in gang.asks]
    for masks in islice(grounds(gang, choices, room, terrain), MAX_GROUNDS):
        allowed = [
            _within(c, mask, ask, terrain, allowance.banned)
            for c, mask, ask in zip(choices, masks, gang.asks, strict=True)
        ]
        for order, shuffled in _tries(gang, allowed, room, seed):
            seats = _Try(gang, room, terrain, choices, allowed, most, shuffled).seats(order)
            if seats is not None:
                return _named(gang, seats, room, terrain)
    return None


def _of_one_group(
    gang: PendingGang, room: FreeCapacity, terrain: Feasibility, seed: int, allowance: Allowance
) -> GangPlacement | None:
    """Elastic tasks of several groups hold nobody back: the first group that finds room joins now, the others later."""
    most = allowance.most or tuple([ask.count for ask in gang.asks])
    for ask, own in zip(gang.asks, most, strict=True):
        alone = replace(gang, asks=(ask,))
        if placement := place(alone, room, terrain, seed, Allowance((own,), allowance.banned)):
            return placement
    return None


def _is_simple(ask: TaskRequest, terrain: Feasibility, allowance: Allowance) -> bool:
    """The ranked order of nodes is all that it takes to place a task of this kind."""
    strategy = ask.strategy or terrain.policy.strategy
    if strategy in BY_GRADIENT or _looks_around(ask) or ask.rules.needs_numa:
        return False
    return len(ask.ranks) == 1 and not allowance.banned


def _looks_around(ask: TaskRequest) -> bool:
    """Where one of its tasks may stand depends on where others do."""
    return bool(ask.rules.spread or ask.rules.anti_affinity)


def _alone(gang: PendingGang, choice: Choice, room: FreeCapacity, terrain: Feasibility) -> GangPlacement | None:
    ask = gang.asks[0]
    row = room.best(ask, choice, ask.strategy or terrain.policy.strategy)
    if row < 0:
        return None
    task = _task(ask.ranks[0], room.take_one(ask, row), room.nodes.ids)
    return GangPlacement(job_id=gang.job_id, attempt=gang.attempt, tasks=(task,))


def _within(
    choice: Choice, mask: BoolArray | None, ask: TaskRequest, terrain: Feasibility, banned: tuple[str, ...]
) -> BoolArray:
    allowed = choice.allowed if mask is None else choice.allowed & mask
    return allowed & terrain.without_models(banned) if banned and ask.rules.wants_gpu else allowed


def _tries(
    gang: PendingGang, allowed: Sequence[BoolArray], room: FreeCapacity, seed: int
) -> Iterator[tuple[Sequence[int], IntArray | None]]:
    """Orders of the groups; from the second on also an order of the nodes."""
    if len(gang.asks) == 1:
        yield (0,), None
        return
    spots = [int(room.slots(ask, mask).sum()) for ask, mask in zip(gang.asks, allowed, strict=True)]
    if any(spot < ask.floor for spot, ask in zip(spots, gang.asks, strict=True)):
        return
    slack = [spot * 1000 // max(ask.floor, 1) for spot, ask in zip(spots, gang.asks, strict=True)]
    yield sorted(range(len(slack)), key=lambda i: (slack[i], i)), None
    draw = np.random.default_rng([seed, gang.sequence])
    for _ in range(TRIES - 1):
        yield draw.permutation(len(gang.asks)).tolist(), draw.permutation(len(room.nodes))


@dataclass(slots=True)
class _Try:
    """One attempt. It takes from the room, and gives it all back when a group has no place."""

    gang: PendingGang
    room: FreeCapacity
    terrain: Feasibility
    choices: Sequence[Choice]
    allowed: Sequence[BoolArray]
    most: Sequence[int]
    shuffled: IntArray | None
    placed: list[list[Slot]] = field(init=False)

    def seats(self, order: Sequence[int]) -> list[list[Slot]] | None:
        """For each group, at least its floor; then what is elastic, as far as there is room."""
        asks = self.gang.asks
        self.placed = [[] for _ in asks]
        mark = self.room.mark()
        alone = len(asks) == 1
        for index in order:
            floor = asks[index].floor
            wanted = self.most[index] if alone else floor
            if not self._seat(index, max(wanted, floor)) and floor:
                self.room.undo(mark)
                return None
        if not alone:
            for index in order:
                self._seat(index, self.most[index] - len(self.placed[index]))
        if not any(self.placed):
            self.room.undo(mark)
            return None
        self.room.forget_marks()
        return self.placed

    def _seat(self, index: int, wanted: int) -> bool:
        """Up to `wanted` more tasks of a group; false when that leaves it below its floor."""
        ask, room = self.gang.asks[index], self.room
        strategy = ask.strategy or self.terrain.policy.strategy
        least = max(ask.floor - len(self.placed[index]), 0)
        if wanted <= 0:
            return least == 0
        mark = room.mark()
        free = not self.gang.keeps_apart and not _looks_around(ask)
        if strategy in BY_GRADIENT and self.shuffled is None and free:
            seats = self._one_by_one(ask, index, strategy, wanted)
        else:
            share = self._share(ask, index, strategy, least, wanted)
            seats = room.take(ask, *share) if share is not None else []
        if len(seats) < least:
            room.undo(mark)
            return False
        self.placed[index] += seats
        return True

    def _share(self, ask: TaskRequest, index: int, strategy: Strategy, least: int, wanted: int) -> Share | None:
        """How tasks of one group fall on the nodes."""
        terrain, rules = self.terrain, ask.rules
        slots = self.room.slots(ask, self.allowed[index])
        if int(slots.sum()) < max(least, 1):
            return None
        prefer = terrain.prefer(ask, self.choices[index], strategy) if self.shuffled is None else self.shuffled
        slots = self._clear_of_others(ask.group, slots)
        if rules.anti_affinity:
            slots = apart(rules, slots, prefer, self._rows_of_job(), terrain)
        liking = self.choices[index].liking

        def split(room: IntArray, count: int) -> Share:
            if strategy is Strategy.SPREAD:
                return _evenly_in_tiers(room, prefer, count, liking)
            if terrain.bounds(self.gang, rules) != (ANYWHERE, ANYWHERE):
                return compactly(room, prefer, count, terrain.topology.codes)
            return greedily(room, prefer, count)

        if rules.spread:
            return self._spread(ask, index, slots, least, wanted, split)
        count = min(wanted, int(slots.sum()))
        return split(slots, count) if count >= max(least, 1) else None

    def _clear_of_others(self, group: str, slots: IntArray) -> IntArray:
        """A group that keeps apart from its job keeps the tasks of the other groups away from its own."""
        for other, level in self.gang.keeps_apart:
            if other != group:
                codes = self.terrain.codes(level)
                taken = np.unique(codes[self._rows_of(other)])
                slots = np.where(np.isin(codes, taken[taken != NOWHERE]), 0, slots)
        return slots

    def _spread(
        self, ask: TaskRequest, index: int, slots: IntArray, least: int, wanted: int, split: _Split
    ) -> Share | None:
        """The first rule shapes the share, the next one what falls to each of its domains; then all are checked."""
        first, *others = ask.rules.spread
        eligible, rows = self._eligible(ask, index), self._rows_of(ask.group)
        for rule in reversed(others):
            split = self._leveled(rule, rows, split)
        evenness, *more = [
            Evenness(rule, self.terrain.codes(rule.level), eligible, slots, rows) for rule in (first, *others)
        ]
        most = min([wanted, evenness.available, *(each.available for each in more)])
        least = max(least, 1)
        for count in [*range(most, max(least, most - TRIES), -1), least] if most >= least else ():
            share = by_domain(slots, evenness.codes, evenness.wanted(count), split)
            there = np.concatenate([rows, np.repeat(*share)])
            if all(is_even(rule, self.terrain.codes(rule.level), eligible, there) for rule in others):
                return share
        return None

    def _leveled(self, rule: SpreadRule, rows: IntArray, split: _Split) -> _Split:
        """Fills the emptiest domains first."""
        codes = self.terrain.codes(rule.level)
        soft = replace(rule, mode=Mode.PREFERRED)

        def leveled(slots: IntArray, count: int) -> Share:
            evenness = Evenness(soft, codes, slots > 0, slots, rows)
            return by_domain(slots, evenness.codes, evenness.wanted(count), split)

        return leveled

    def _eligible(self, ask: TaskRequest, index: int) -> BoolArray:
        """Nodes whose domains count though they be full: those of the domain that is required."""
        allowed = self.choices[index].allowed
        required, _ = self.terrain.bounds(self.gang, ask.rules)
        ground = np.flatnonzero(self.allowed[index])
        if required == ANYWHERE or not ground.size:
            return allowed
        codes = self.terrain.topology.codes[required]
        eligible: BoolArray = allowed & (codes == codes[ground[0]])
        return eligible

    def _one_by_one(self, ask: TaskRequest, index: int, strategy: Strategy, wanted: int) -> list[Slot]:
        """Each task changes what the next one finds best."""
        seats: list[Slot] = []
        for _ in range(wanted):
            fits = self.room.slots(ask, self.allowed[index]) > 0
            if not fits.any():
                break
            prefer = self.terrain.prefer(ask, self.choices[index], strategy)
            row = int(np.where(fits, prefer, np.iinfo(np.int64).max).argmin())
            device = self.terrain.gradient(strategy).device(ask, row)
            seats += self.room.take(ask, np.array([row]), np.array([1]), device)
        return seats

    def _rows_of(self, group: str) -> IntArray:
        """Rows, with repeats, where tasks of the group stand."""
        standing = self.terrain.nodes.rows([node for name, node in self.gang.standing if name == group])
        placed = [seats for ask, seats in zip(self.gang.asks, self.placed, strict=True) if ask.group == group]
        return np.array([*standing, *(seat.row for seats in placed for seat in seats)], dtype=np.int64)

    def _rows_of_job(self) -> IntArray:
        standing = self.terrain.nodes.rows([node for _, node in self.gang.standing])
        return np.array([*standing, *(seat.row for seats in self.placed for seat in seats)], dtype=np.int64)


def _evenly_in_tiers(slots: IntArray, prefer: IntArray, count: int, liking: IntArray | None) -> Share:
    """What the tasks like best is filled first; nodes that they like alike get the same number."""
    if liking is None:
        return evenly(slots, prefer, count)
    shares: list[Share] = []
    for value in np.unique(liking[slots > 0])[::-1]:
        tier = np.where(liking == value, slots, 0)
        number = min(count, int(tier.sum()))
        shares.append(evenly(tier, prefer, number))
        count -= number
    return np.concatenate([rows for rows, _ in shares]), np.concatenate([counts for _, counts in shares])


def _named(
    gang: PendingGang, placed: Sequence[Sequence[Slot]], room: FreeCapacity, terrain: Feasibility
) -> GangPlacement:
    """Ranks count through the groups; in each, neighbours in rank are neighbours in the tree of domains."""
    tasks: list[TaskPlacement] = []
    for ask, seats in zip(gang.asks, placed, strict=True):
        if len(seats) > 1:
            position = terrain.topology.position
            seats = sorted(seats, key=lambda seat: (position[seat.row], seat.gpus))
        tasks += [_task(rank, seat, room.nodes.ids) for rank, seat in zip(ask.ranks, seats, strict=False)]
    return GangPlacement(job_id=gang.job_id, attempt=gang.attempt, tasks=tuple(tasks))


def _task(rank: int, seat: Slot, ids: Sequence[str]) -> TaskPlacement:
    if not seat.gpus:
        return TaskPlacement(rank=rank, node_id=ids[seat.row])
    cpus = format_cpulist(seat.cpus)
    return TaskPlacement(rank=rank, node_id=ids[seat.row], gpus=seat.gpus, cpus=cpus)
