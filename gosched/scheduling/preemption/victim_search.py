"""Finds victims for a gang: first the domain, then the tasks in it.

The domain is chosen first, topology included. In it, node by node, it is computed what it costs to free places for the
gang's tasks one after the other: in the order in which other queues give back what they hold (queue_turns.py), and of
one queue elastic surplus before whole gangs, lower priorities before higher ones, then by the work that is lost. What
is chosen is simulated: the gang is placed in the capacity that the victims release, then each victim is spared whose
own place is still free. (KAI-Scheduler and Kueue do the same: simulate, prune, commit.)

Invariant: a plan that is returned was simulated, with a real placement.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gosched.core.commands.plans import Cause, GangPlacement
from gosched.core.sharing import Amounts, add_to, lineage
from gosched.scheduling.backfill.capacity_views import RestrictedCapacity
from gosched.scheduling.backfill.start_lines import slots_of
from gosched.scheduling.fairness.queue_limits import Allowance
from gosched.scheduling.placement.domains import domain_masks
from gosched.scheduling.placement.feasibility import Feasibility
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.placement.gang_placement import place
from gosched.scheduling.preemption.cheapest_tasks import cheapest_tasks, places_for
from gosched.scheduling.preemption.eviction_rules import EvictionBudget, Victim, costs, lost_s_of
from gosched.scheduling.preemption.queue_turns import TURNS, QueueTurns
from gosched.scheduling.snapshot.capacity_rows import Freed
from gosched.scheduling.snapshot.columns import AMOUNTS, Column
from gosched.scheduling.snapshot.occupancy import Occupied
from gosched.scheduling.snapshot.running_gangs import RunningGang
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import BoolArray, IntArray

MAX_DOMAINS = 8  # that are simulated for one gang
MAX_SIMULATIONS = 24  # searches and placements tried in one cycle
SPARED_PARTS = 64  # into which a gang's surplus is divided at most, to spare those that are not needed


@dataclass(frozen=True, slots=True)
class PreemptionPlan:
    """A gang's placement and the evictions that it needs."""

    placement: GangPlacement
    victims: tuple[Victim, ...]
    #: All that the victims release.
    freed: Freed


@dataclass(slots=True)
class _TaskColumns:
    """Columns beside those of `Occupied`, by task or by gang."""

    #: By task: whether its eviction evicts the whole gang; the others are surplus.
    core: BoolArray
    #: By task: of its eviction, or of that of its whole gang.
    cost: IntArray
    #: By gang: whether it may be evicted at all.
    may: BoolArray
    #: By gang: index into `queues`.
    queue: IntArray
    #: By gang.
    priority: IntArray
    queues: list[str]


@dataclass(slots=True)
class VictimSearch:
    """The search for victims in one cycle."""

    plain: FreeCapacity
    occupied: Callable[[], Occupied[RunningGang]]
    budget: EvictionBudget
    now_ms: int
    seed: int
    simulations: int = 0
    _tasks: _TaskColumns | None = field(default=None, init=False)
    _queue_turns: QueueTurns | None = field(default=None, init=False)
    #: By task, for the gang that victims are looked for: when its queue gives it up.
    _turns: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64), init=False)
    _most: dict[tuple[str, int, tuple[str, ...]], list[int]] = field(default_factory=dict, init=False)
    _eligible_by: dict[tuple[str, int], BoolArray] = field(default_factory=dict, init=False)

    @property
    def holders(self) -> Sequence[RunningGang]:
        return self.occupied().gangs

    @property
    def exhausted(self) -> bool:
        """Return whether all simulations are used up: then a miss does not say that there are no victims."""
        return self.simulations >= MAX_SIMULATIONS

    def find(
        self,
        gang: PendingGang,
        make_base: Callable[[], RestrictedCapacity],
        feasibility: Feasibility,
        make_allowance: Callable[[], Allowance],
    ) -> PreemptionPlan | None:
        """Return a plan to start the gang at the cost of others; None: none was found. `make_base`: the capacity
        without what the gang has to respect; this and the allowance are made only if a plan is possible."""
        if gang.joins or self.exhausted or not self.budget.may_find_victims(gang):
            return None
        chosen = self._eligible(gang)
        if gang.evicted_for:
            chosen = chosen & ~self._evictors_of(gang)
        if not self._could_suffice(gang, chosen):
            return None
        self.simulations += 1
        base = make_base()
        chosen = chosen & ~np.isin(self.occupied().row, base.closed)
        all_evicted = base.after(self.occupied().freed(chosen))
        if not all_evicted.may_hold(gang):
            return None
        allowance = make_allowance()
        nodes = np.logical_or.reduce([feasibility.choice(gang, request).allowed for request in gang.requests])
        self._turns = self._all_turns().of_tasks(gang, chosen & nodes[self.occupied().row])
        best: PreemptionPlan | None = None
        for domain in self._domains(gang, all_evicted, feasibility):
            found = self._in_domain(gang, base, feasibility, allowance, chosen, domain)
            if found is not None and (best is None or self._price(found) < self._price(best)):
                best = found
            if self.exhausted:
                break
        return best

    def overdue(
        self, gang: PendingGang, start_ms: int, base: RestrictedCapacity, feasibility: Feasibility, allowance: Allowance
    ) -> PreemptionPlan | None:
        """Return a plan that evicts gangs that run in reserved capacity and have to end before the start of this gang,
        which is as near as the slowest of them needs to stop; None: none is found, or it is too early."""
        by_ms = max(start_ms, self.now_ms)
        late = [
            Victim(holder, Cause.BACKFILL)
            for holder in self.holders
            if 0 < holder.until_ms <= by_ms and self.budget.is_evictable_on_schedule(holder)
        ]
        self._turns = np.zeros(len(self.occupied()), dtype=np.int64)
        found = self._simulated(gang, base, feasibility, allowance, late) if late else None
        return found if found is not None and self._is_time(found.victims) else None

    def _is_time(self, victims: Sequence[Victim]) -> bool:
        """Return whether the slowest of them ends in time, and no sooner, if all are evicted now."""
        slowest_ms = max([victim.gang.grace_ms for victim in victims])
        return all(victim.gang.until_ms <= self.now_ms + slowest_ms for victim in victims)

    def record_evictions(self, victims: Sequence[Victim], for_job: str) -> None:
        self.budget.record_evictions(victims, for_job)
        self._eligible_by.clear()
        self._most.clear()
        if self._queue_turns is not None:
            self._queue_turns.forget()

    def _all_turns(self) -> QueueTurns:
        if self._queue_turns is None:
            tasks = self._columns()
            self._queue_turns = QueueTurns(self.occupied(), tasks.core, tasks.cost, self.budget)
        return self._queue_turns

    def _domains(self, gang: PendingGang, whole: FreeCapacity, feasibility: Feasibility) -> Iterator[BoolArray]:
        """Yield the nodes of each domain in which the gang may fit if all candidates are evicted, the smallest first;
        all nodes if the gang has no topology rule."""
        over = feasibility.with_capacity(whole)
        choices = [over.choice(gang, request) for request in gang.requests]
        for number, masks in enumerate(domain_masks(gang, choices, whole, over)):
            if number >= MAX_DOMAINS:
                break
            allowed = np.ones(len(self.plain.nodes), dtype=np.bool_)
            if all(mask is not None for mask in masks):
                allowed = np.logical_or.reduce([mask for mask in masks if mask is not None])
            yield allowed

    def _in_domain(
        self,
        gang: PendingGang,
        base: RestrictedCapacity,
        feasibility: Feasibility,
        allowance: Allowance,
        chosen: BoolArray,
        domain: BoolArray,
    ) -> PreemptionPlan | None:
        """Return a plan with the cheapest victims in the domain; if they do not suffice, with all surplus tasks there;
        if these do not either, with all candidates."""
        here = chosen & domain[self.occupied().row]
        if not here.any():
            return None
        surplus = here & ~self._columns().core
        for candidates in (
            self._cheapest(gang, base.capacity, feasibility, here, domain),
            np.flatnonzero(surplus),
            np.flatnonzero(here),
        ):
            victims = self._victims_within_rules(gang, candidates) if candidates.size else []
            if victims and (found := self._simulated(gang, base, feasibility, allowance, victims)) is not None:
                return found
        return None

    def _cheapest(
        self, gang: PendingGang, base: FreeCapacity, feasibility: Feasibility, here: BoolArray, domain: BoolArray
    ) -> IntArray:
        """Return tasks whose eviction frees places for the hardest group where a place costs least."""
        request = max(gang.requests, key=lambda a: (a.each[Column.GPU] * a.floor, a.each[Column.CPU] * a.floor))
        allowed = feasibility.choice(gang, request).allowed & domain
        wanted = max(request.floor, 1) - int(base.slots(request, allowed).sum())
        held, wanted = self.occupied(), max(wanted, 1)
        candidates = np.flatnonzero(here & allowed[held.row])

        def suffice(turn: int) -> bool:
            return places_for(request, base.free, held, candidates[self._turns[candidates] <= turn]) >= wanted

        turn = bisect_left(range(TURNS - 1), True, key=suffice)  # no queue gives more than has to be
        candidates = candidates[self._turns[candidates] <= turn]
        return cheapest_tasks(request, base.free, held, self._columns().cost, candidates, wanted)

    def _victims_within_rules(self, gang: PendingGang, indices: IntArray) -> list[Victim]:
        """Return the tasks as victims, the cheapest first, as far as guarantees and caps allow. A gang that must not be
        evicted whole may still give its surplus."""
        held, tasks = self.occupied(), self._columns()
        order = indices[np.lexsort((indices, tasks.cost[indices], self._turns[indices]))]
        core = tasks.core[order]
        whole = dict.fromkeys(held.gang[order[core]].tolist())
        surplus: dict[int, list[int]] = {}
        for number, rank in zip(held.gang[order[~core]].tolist(), held.rank[order[~core]].tolist(), strict=True):
            surplus.setdefault(number, []).append(rank)
        victims: list[Victim] = []
        lost: dict[str, Amounts] = {}
        tenants: Counter[str] = Counter()
        places = zip(held.gang[order].tolist(), core.tolist(), strict=True)
        for number in dict.fromkeys([number for number, is_core in places if is_core or number not in whole]):
            if len(victims) >= self.budget.remaining():
                break
            holder = self.holders[number]
            cause = self.budget.cause(gang, holder)
            if cause is None or tenants[holder.tenant] >= self.budget.remaining_of(holder.tenant):
                continue
            loose = self._in_turn(number, surplus.get(number, []))
            victim = self._within_guarantees(gang, Victim(holder, cause), loose, lost, may_be_whole=number in whole)
            if victim is not None:
                victims.append(victim)
                tenants[holder.tenant] += 1
                for path in lineage(holder.queue):
                    add_to(lost.setdefault(path, {}), holder.charge(victim.ranks))
        return victims

    def _in_turn(self, number: int, ranks: list[int]) -> tuple[int, ...]:
        """Return the ranks of the gang, one of each node in turn, the last ones first: the first of them are spread."""
        held = self.occupied()
        own = held.own(number)
        row_of = dict(zip(held.rank[own].tolist(), held.row[own].tolist(), strict=True)) if ranks else {}
        of_node: Counter[int] = Counter()
        turns: list[tuple[int, int]] = []
        for rank in sorted(ranks, reverse=True):
            turns.append((of_node[row_of[rank]], -rank))
            of_node[row_of[rank]] += 1
        return tuple([-rank for _, rank in sorted(turns)])

    def _within_guarantees(
        self,
        gang: PendingGang,
        whole: Victim,
        surplus: tuple[int, ...],
        lost: Mapping[str, Amounts],
        *,
        may_be_whole: bool,
    ) -> Victim | None:
        """Return the gang, or as much of its surplus as guarantees allow; None: they allow nothing of it."""
        if may_be_whole and self.budget.keeps_guarantees(gang, whole, lost):
            return whole
        allowed = bisect_left(
            range(len(surplus)),
            True,
            key=lambda last: not self.budget.keeps_guarantees(gang, replace(whole, ranks=surplus[: last + 1]), lost),
        )
        return replace(whole, ranks=surplus[:allowed]) if allowed else None

    def _simulated(
        self,
        gang: PendingGang,
        base: RestrictedCapacity,
        feasibility: Feasibility,
        allowance: Allowance,
        victims: list[Victim],
    ) -> PreemptionPlan | None:
        """Return the gang placed in what the victims release, and those of them that it needs; None: it does not
        fit."""
        self.simulations += 1
        capacity = base.after(self._freed(victims))
        placement = place(gang, capacity, feasibility.with_capacity(capacity), self.seed, allowance)
        if placement is None:
            return None
        rest = self.plain.copy()
        rest.grow(self._freed(victims))
        for request, slots in slots_of(gang, placement, rest.nodes):
            rest.occupy(request, slots)
        needed: list[Victim] = []
        for victim in sorted(victims, key=lambda v: (self._cost(v), v.gang.sequence), reverse=True):
            still = self._still_needed(rest, victim, len(victim.ranks) // SPARED_PARTS)
            if still is not None:
                needed.append(still)
        if not needed:
            return None
        needed.reverse()
        return PreemptionPlan(placement, tuple(needed), self._freed(needed))

    def _still_needed(self, rest: FreeCapacity, victim: Victim, least: int) -> Victim | None:
        """Spare the victim if its place is still free in `rest`, else those of its surplus tasks whose places are,
        divided down to parts of `least` tasks. Return what is still evicted; None: nothing."""
        back = self._freed([victim])
        if rest.has(back):
            rest.lose(back)
            return None
        half = len(victim.ranks) // 2
        if not half or len(victim.ranks) <= least:
            return victim
        later, sooner = victim.ranks[half:], victim.ranks[:half]
        parts = [self._still_needed(rest, replace(victim, ranks=ranks), least) for ranks in (later, sooner)]
        ranks = tuple([rank for part in parts if part is not None for rank in part.ranks])
        return replace(victim, ranks=ranks) if ranks else None

    def _price(self, found: PreemptionPlan) -> tuple[int, int]:
        prices = [self._cost(victim) for victim in found.victims]
        return max([turn for turn, _ in prices]), sum([cost for _, cost in prices])

    def _cost(self, victim: Victim) -> tuple[int, int]:
        """Return the last turn of its tasks, and what its eviction costs beside that."""
        held = self.occupied()
        own = held.own(held.number_of(victim.gang.job_id))
        cost, turns = self._columns().cost[own], self._turns[own]
        if victim.ranks:
            chosen = np.isin(held.rank[own], victim.ranks)
            return int(turns[chosen].max(initial=0)), int(cost[chosen].sum())
        return int(turns.max(initial=0)), int(cost.max(initial=0))  # each task that is not surplus has the cost of all

    def _could_suffice(self, gang: PendingGang, chosen: BoolArray) -> bool:
        """Return False if what is free and what the candidates hold is less than the gang asks for."""
        held = self.occupied()
        key = (gang.queue, gang.priority, gang.evicted_for)
        most = self._most.get(key)
        if most is None:
            most = self._most[key] = held.amounts[chosen, AMOUNTS].sum(axis=0).tolist()
        return all(
            free + more >= wanted for free, more, wanted in zip(self.plain.total, most, gang.total, strict=False)
        )

    def _freed(self, victims: Sequence[Victim]) -> Freed:
        held = self.occupied()
        tasks = np.zeros(len(held), dtype=np.bool_)
        for victim in victims:
            tasks |= held.tasks_of(victim.gang.job_id, victim.ranks)
        return held.freed(tasks)

    def _eligible(self, gang: PendingGang) -> BoolArray:
        """Return the tasks that may be evicted for the gang, by the queue and the priority of their gangs."""
        found = self._eligible_by.get((gang.queue, gang.priority))
        if found is None:
            tasks = self._columns()
            may = np.zeros(len(self.holders), dtype=np.bool_)
            for index, queue in enumerate(tasks.queues):
                members = tasks.queue == index
                if queue == gang.queue:
                    may |= members & (tasks.priority < gang.priority)
                elif self.budget.may_reclaim(gang, queue):
                    may |= members
            evicted = np.array([self.budget.is_victim(holder.job_id) for holder in self.holders], dtype=np.bool_)
            found = (may & tasks.may & ~evicted)[self.occupied().gang]
            self._eligible_by[gang.queue, gang.priority] = found
        return found

    def _evictors_of(self, gang: PendingGang) -> BoolArray:
        """Return the tasks of gangs that this one was evicted for."""
        found = np.zeros(len(self.occupied()), dtype=np.bool_)
        evictors = self.budget.evictors(gang)
        for holder in self.holders:
            if holder.job_id in evictors:
                found |= self.occupied().tasks_of(holder.job_id)
        return found

    def _columns(self) -> _TaskColumns:
        if self._tasks is None:
            held, gangs, now_ms = self.occupied(), self.holders, self.now_ms
            queues = sorted({gang.queue for gang in gangs})
            number_of = {queue: number for number, queue in enumerate(queues)}
            core = np.ones(len(held), dtype=np.bool_)
            for number, gang in enumerate(gangs):
                if gang.surplus:
                    own = held.own(number)
                    core[own] = ~np.isin(held.rank[own], gang.surplus)
            priority = np.array([gang.priority for gang in gangs], dtype=np.int64)
            lost_s = np.array([lost_s_of(gang, now_ms) for gang in gangs], dtype=np.int64)[held.gang] * self._sizes()
            of_gang = np.zeros(len(gangs), dtype=np.int64)
            np.add.at(of_gang, held.gang, lost_s)
            self._tasks = _TaskColumns(
                core=core,
                cost=np.where(
                    core,
                    costs(priority, of_gang, surplus=False)[held.gang],
                    costs(priority[held.gang], lost_s, surplus=True),
                ),
                may=np.array([self.budget.is_evictable(gang) for gang in gangs], dtype=np.bool_),
                queue=np.array([number_of[gang.queue] for gang in gangs], dtype=np.int64),
                priority=priority,
                queues=queues,
            )
        return self._tasks

    def _sizes(self) -> IntArray:
        """Return the size of each task: its dominant share of the largest node, in 64ths."""
        largest = np.maximum(self.plain.nodes.capacity[:, AMOUNTS].max(axis=0, initial=1), 1)
        sizes: IntArray = (-(-self.occupied().amounts[:, AMOUNTS] * 64 // largest)).max(axis=1, initial=1)
        return sizes
