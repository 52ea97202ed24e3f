"""The working state of one cycle: the room of now and of later, what is promised, and who may be evicted.

Rule: whatever is decided for one gang is known to all that follow, in every room.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from gosched.core.commands.plans import Cause, Eviction, GangPlacement
from gosched.core.preemption_rules import admits
from gosched.core.records.reservation import Reservation
from gosched.core.spec.policies import PreemptionPolicy
from gosched.scheduling.backfill.capacity_views import CapacityView, CapacityViews, seats_of
from gosched.scheduling.backfill.earliest_start import Profile, Start
from gosched.scheduling.backfill.release_profile import Future
from gosched.scheduling.backfill.reserved_starts import ReservedStart, ReservedStarts, shares_of
from gosched.scheduling.explain import explanation
from gosched.scheduling.explain.explainer import Explainer
from gosched.scheduling.explain.explanation import Explanation
from gosched.scheduling.fairness.queue_limits import Allowance, QueueLimits
from gosched.scheduling.placement.feasibility import Feasibility
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.placement.gang_placement import place
from gosched.scheduling.plan import Plan
from gosched.scheduling.plugins.calls import Plugins
from gosched.scheduling.policy import Policy
from gosched.scheduling.preemption.eviction_rules import EvictionBudget, Victim
from gosched.scheduling.preemption.gang_repair import repaired
from gosched.scheduling.preemption.victim_search import Preemption, PreemptionPlan
from gosched.scheduling.snapshot.capacity_rows import Freed
from gosched.scheduling.snapshot.occupancy import Occupants, Occupied
from gosched.scheduling.snapshot.running_gangs import NEVER_MS, RunningGang
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import View

MAX_RESCUES = 16  # gangs that others are evicted for in one cycle; then the next cycle goes on at once
SPARE_TRIES = 8  # gangs for which a start is looked for in vain
MIN_GAIN_MS = 1000  # a promise is changed only if the gang would start so much earlier


@dataclass(frozen=True, slots=True)
class Rescued:
    """A gang that starts once its victims have gone; `observed`: it would, if its queue did more than observe."""

    placement: GangPlacement
    victims: tuple[Victim, ...]
    observed: bool


class CycleState:
    def __init__(self, view: View, policy: Policy, plugins: Plugins, plan: Plan) -> None:
        self.view = view
        self.policy = policy
        self.plugins = plugins
        self.plan = plan
        self.now_ms = plan.planned_at_ms
        self.plain = FreeCapacity(view.nodes)
        self.feasibility = Feasibility(view, policy, self.plain, plugins)
        self.limits = QueueLimits(view)
        # What the scene holds must not hold the scene: in a cycle of references it keeps its whole view until the
        # collector comes by, which is seldom.
        self._occupants = Occupants(view)
        self.future = Future(view, self.now_ms, self._occupants)
        self.reserved_starts = ReservedStarts(view.nodes, view.windows, self.future, self.plain, self.now_ms)
        self.capacity_views = CapacityViews(self.plain, self.feasibility, self.reserved_starts, self.now_ms)
        self.profile = Profile(self.plain, self.feasibility, self.future, self.reserved_starts, self.now_ms)
        budget = EvictionBudget(view, self.limits, policy, self.now_ms)
        self.preemption = Preemption(self.plain, self._occupants, budget, self.now_ms, plan.seed)
        self.explainer = Explainer(self.plain, self.feasibility)
        self.grace_ms = max([holder.grace_ms for holder in view.holders.values() if holder.until_ms], default=0)
        self.promises = 0  # reserved starts that were made because the gang was next
        self.rescued = 0  # gangs that others are evicted for
        self._missed: dict[tuple[object, object], None] = {}
        self._known: dict[object, Explanation] = {}
        self._unpromised: dict[object, None] = {}  # kinds of gangs for which no start is in sight
        self._hopeless: dict[tuple[str, int, tuple[str, ...], object], None] = {}

    @property
    def occupied(self) -> Occupied[RunningGang]:
        """By those that held a place when the cycle began; most cycles need not know."""
        return self._occupants()

    @cached_property
    def leave_ms(self) -> int:
        """How long victims may take to leave."""
        return max([holder.grace_ms for holder in self.view.holders.values() if holder.is_preemptible], default=0)

    @property
    def misses(self) -> int:
        """Different gangs that were tried in vain."""
        return len(self._known)

    def gives_way(self, gang: PendingGang) -> bool:
        """Its job is a victim of this plan."""
        return gang.joins and self.preemption.budget.is_gone(gang.job_id)

    def known(self, gang: PendingGang, shape: object) -> Explanation | None:
        """Why it waits, if one of its kind does already: room, books and promises only get tighter. None as long as it
        might be promised a start."""
        if not self._known:
            return None
        kind = self._kind(gang, shape)
        return None if self._may_promise(gang, kind) else self._known.get(kind)

    def begin(self, gang: PendingGang, shape: object) -> GangPlacement | None:
        """Starts the gang now, or as soon as those have gone that have to go for it; None: it waits."""
        if placement := self.start(gang, shape):
            return placement
        rescued = self.rescue(gang, shape)
        if rescued is None:
            return None
        if rescued.observed:
            self.plan.observed[gang.job_id] = rescued.victims
            return None
        return rescued.placement

    def wait(self, gang: PendingGang, shape: object) -> Explanation:
        """What is said of a gang that waits; the first of them are promised a start."""
        kind = self._kind(gang, shape)
        why = self._known.get(kind)
        if why is None:
            why = self.why(gang, self.capacity_views.of(gang))
            if self.preemption.exhausted and self.preemption.budget.may_help(gang):
                why = explanation.cut_short(why)
        if gang.job_id in self.plan.observed:
            why = explanation.would_evict(why, self.plan.observed[gang.job_id], self.now_ms)
        self._known[kind] = why
        if self._may_promise(gang, kind):
            reservation = self.reserve(gang, self.limits.allowance(gang))
            if reservation is not None:
                return explanation.reserved(why, reservation)
            self._unpromised[kind] = None
        return why

    def _may_promise(self, gang: PendingGang, kind: object) -> bool:
        """Whether it is among the first that wait, and a start might be in sight."""
        left = self.policy.reservations - self.promises
        return (
            left > 0 and not gang.joins and len(self._unpromised) < SPARE_TRIES + left and kind not in self._unpromised
        )

    def why(self, gang: PendingGang, capacity_view: CapacityView) -> Explanation:
        if capacity_view.capacity is self.plain or not self.plain.may_hold(gang) or not self.explainer.has_time:
            return self._short_of(gang)
        self.explainer.spend()
        if self.fits_plain(gang):
            names = [reserved.gang.name for reserved in self.reserved_starts.all if reserved.gang.job_id != gang.job_id]
            return explanation.promised_away([*names, *[window.name for window in self.reserved_starts.windows]])
        return self._short_of(gang)

    def _short_of(self, gang: PendingGang) -> Explanation:
        return self.explainer.of(gang, self.limits.allowance(gang).banned if self.explainer.has_time else ())

    def _kind(self, gang: PendingGang, shape: object) -> object:
        """Gangs of one kind may use the same room, and may evict the same others."""
        return (
            shape,
            gang.queue,
            gang.priority,
            gang.may_evict,
            gang.is_preemptible,
            gang.grace_ms,
            gang.evicted_for,
            self.capacity_views.reach(gang),
        )

    def start(self, gang: PendingGang, shape: object) -> GangPlacement | None:
        """Places the gang now, where it may stay; or, if it yields, where it may stay for a while."""
        for capacity_view in self._grounds(gang):
            if self._missed and (shape, capacity_view.key) in self._missed:
                continue
            placement = None
            if capacity_view.capacity.may_hold(gang):
                allowance = self.limits.allowance(gang)
                placement = place(gang, capacity_view.capacity, capacity_view.feasibility, self.plan.seed, allowance)
            if placement is None:
                self._missed[shape, capacity_view.key] = None
                continue
            if capacity_view.until_ms:
                placement = replace(placement, until_ms=capacity_view.until_ms)
            self._started(gang, placement, capacity_view)
            return placement
        return None

    def rescue(self, gang: PendingGang, shape: object) -> Rescued | None:
        """Evicts others for the gang, as its queue allows."""
        key = (gang.queue, gang.priority, gang.evicted_for, shape)
        if self.rescued >= MAX_RESCUES or key in self._hopeless or not self.preemption.budget.may_help(gang):
            return None
        found = self._victims(gang)
        if found is None:
            if not self.preemption.exhausted:
                self._hopeless[key] = None
            return None
        if self.preemption.budget.policy_of(gang.queue) is PreemptionPolicy.OBSERVE_ONLY:
            self._hopeless[key] = None
            return Rescued(found.placement, found.victims, observed=True)
        return self._rescued(gang, found)

    def claim_overdue(self, gang: PendingGang, start_ms: int, allowance: Allowance) -> Rescued | None:
        """The gang's reserved start has come: what runs on its room on that condition goes."""
        base = self.capacity_views.beside(gang)  # its moment has come: others bear what the victims take to leave
        found = self.preemption.overdue(gang, start_ms, base, self.feasibility, allowance)
        return self._rescued(gang, found) if found is not None else None

    def reserve(self, gang: PendingGang, allowance: Allowance) -> Reservation | None:
        """Promises the gang the first start that is in sight."""
        start = self.profile.earliest(gang, self.plan.seed, allowance)
        if start is None:
            return None
        self.promises += 1
        return self.promise(gang, start)

    def promise(
        self, gang: PendingGang, start: Start, *, for_deadline: bool = False, made_at_ms: int = 0
    ) -> Reservation:
        reservation = Reservation(
            job_id=gang.job_id,
            attempt=gang.attempt,
            start_ms=start.at_ms,
            end_ms=start.at_ms + gang.span_ms if gang.span_ms else 0,
            shares=shares_of(gang, start.placement),
            for_deadline=for_deadline,
            made_at_ms=made_at_ms or self.now_ms,
        )
        self.plan.promise(reservation)
        self.keep(ReservedStart(gang, reservation))
        return reservation

    def keep(self, reserved: ReservedStart) -> None:
        self.reserved_starts.add(reserved)
        self.capacity_views.renew()
        self.plan.wake_at(reserved.start_ms - self.grace_ms)
        self.plan.wake_at(reserved.start_ms)

    def lift(self, reserved: ReservedStart) -> None:
        """It may be one that was never added: there was no room for it."""
        if reserved in self.reserved_starts.all:
            self.reserved_starts.remove(reserved)
            self.capacity_views.renew()

    def repair(self, gang: PendingGang) -> bool:
        """Gives a gang that lost a member its old nodes again, and others for what was lost."""
        holder = self.view.holders[gang.job_id]
        placement = repaired(
            gang,
            holder,
            self.occupied,
            self.capacity_views.untouched(gang, self.leave_ms),
            self.feasibility,
            self.plan.seed,
        )
        if placement is None:
            return False
        eviction = Eviction(job_id=gang.job_id, attempt=holder.attempt, cause=Cause.REPAIR)
        placement = replace(placement, evictions=(eviction,))
        self.plan.add(placement)
        self.future.evicted({gang.job_id: ()})
        self._fenced(gang, placement, self.occupied.freed(self.occupied.tasks_of(gang.job_id)), holder.grace_ms)
        return True

    def placement_now(self, gang: PendingGang) -> GangPlacement | None:
        """Where the gang could start at once, and stay; nothing is taken."""
        if self.limits.why_not(gang):
            return None
        capacity_view = self.capacity_views.of(gang)
        if not capacity_view.capacity.may_hold(gang):
            return None
        capacity = capacity_view.capacity.copy()
        return place(
            gang,
            capacity,
            capacity_view.feasibility.with_capacity(capacity),
            self.plan.seed,
            self.limits.allowance(gang),
        )

    def would_start(self, gang: PendingGang) -> bool:
        return self.placement_now(gang) is not None

    def fits_plain(self, gang: PendingGang) -> bool:
        """If nothing were promised to anybody."""
        capacity = self.plain.copy()
        return (
            place(gang, capacity, self.feasibility.with_capacity(capacity), self.plan.seed, self.limits.allowance(gang))
            is not None
        )

    def would_evict(self, gang: PendingGang) -> tuple[Victim, ...]:
        """Whom; nothing is taken. Empty: nobody, or that would not help."""
        if self.limits.why_not(gang):
            return ()
        found = self._victims(gang)
        return found.victims if found is not None else ()

    def _victims(self, gang: PendingGang) -> PreemptionPlan | None:
        base, allowance = (
            partial(self.capacity_views.untouched, gang, self.leave_ms),
            partial(self.limits.allowance, gang),
        )
        return self.preemption.rescue(gang, base, self.feasibility, allowance)

    def clear_windows(self) -> None:
        """Evicts those who stand in the way of a window that begins, and may be evicted."""
        holders = sorted(self.view.holders.values(), key=lambda holder: holder.sequence)
        for window in self.reserved_starts.windows:
            self.plan.wake_at(window.start_ms)
            self.plan.wake_at(window.end_ms)
            nodes = frozenset(window.nodes)
            for holder in holders:
                begins = window.start_ms - holder.grace_ms
                if admits(window, holder.queue, holder.tenant) or not any(h.node_id in nodes for h in holder.holdings):
                    continue
                if begins > self.now_ms:
                    self.plan.wake_at(begins)
                elif holder.ends_ms(self.now_ms) > window.start_ms and self.preemption.budget.may_be_sent(holder):
                    victim = Victim(holder, Cause.WINDOW)
                    self.plan.add(GangPlacement(job_id="", attempt=0, tasks=(), evictions=(_eviction(victim),)))
                    self.preemption.evicted([victim], "")

    def _grounds(self, gang: PendingGang) -> Iterator[CapacityView]:
        yield self.capacity_views.of(gang)
        if (loan := self.capacity_views.loan(gang)) is not None:
            yield loan

    def _started(self, gang: PendingGang, placement: GangPlacement, capacity_view: CapacityView) -> None:
        until = placement.until_ms
        ends = min(self.now_ms + gang.span_ms if gang.span_ms else NEVER_MS, until or NEVER_MS)
        # A claim is not to rest on what an estimate says of a gang that comes after it.
        self.reserved_starts.took(gang, placement, ends if gang.is_bounded else until or NEVER_MS)
        self.capacity_views.took(gang, placement, capacity_view)
        self.future.placed(gang, placement, ends)
        self._note(gang, placement)
        self.plan.add(placement)

    def _rescued(self, gang: PendingGang, found: PreemptionPlan) -> Rescued:
        placement = replace(found.placement, evictions=tuple([_eviction(victim) for victim in found.victims]))
        self.plan.add(placement)
        self.preemption.evicted(found.victims, gang.job_id)
        self.future.evicted({victim.gang.job_id: victim.ranks for victim in found.victims})
        for victim in found.victims:
            tasks = self.occupied.tasks_of(victim.gang.job_id, victim.ranks)
            self.reserved_starts.made_way(self.occupied.freed(tasks), victim.gang.ends_ms(self.now_ms))
        self._fenced(gang, placement, found.freed, max([victim.gang.grace_ms for victim in found.victims]))
        self.rescued += 1
        self.plan.more = self.plan.more or self.rescued >= MAX_RESCUES
        return Rescued(placement, found.victims, observed=False)

    def _fenced(self, gang: PendingGang, placement: GangPlacement, freed: Freed, grace_ms: int) -> None:
        """Others get what is free now and will still be once the victims have gone and the gang is there."""
        later = self.plain.copy()
        later.grow(freed)
        for request, seats in seats_of(gang, placement, self.view.nodes):
            later.occupy(request, seats)
        rows = np.unique(np.concatenate([freed.rows, self.view.nodes.rows([t.node_id for t in placement.tasks])]))
        now, then = self.plain.rows(rows), later.rows(rows)
        now.limit_to(then)
        self.plain.put(now)
        self.future.left_over(then.beyond(now), self.now_ms + max(grace_ms, 1))
        self.future.placed(gang, placement, self.now_ms + grace_ms + gang.span_ms if gang.span_ms else NEVER_MS)
        ends = self.now_ms + grace_ms + gang.span_ms if gang.is_bounded else NEVER_MS
        self.reserved_starts.took(gang, placement, ends)
        self.capacity_views.refresh(rows)
        self._note(gang, placement)

    def _note(self, gang: PendingGang, placement: GangPlacement) -> None:
        self.feasibility.placed(gang, placement)
        self.plugins.placed(gang, placement)
        self.limits.take(gang, placement, self.view.nodes)
        self.preemption.budget.started(gang, placement)


def _eviction(victim: Victim) -> Eviction:
    return Eviction(
        job_id=victim.gang.job_id,
        attempt=victim.gang.attempt,
        ranks=tuple(sorted(victim.ranks)),
        cause=victim.cause,
    )
