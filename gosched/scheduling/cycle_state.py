"""The working state of one cycle: its parts, each made with what it needs of the others.

Invariant: parts refer to each other in one direction only. In a cycle of references they would keep the whole view
until the garbage collector comes by, which is seldom.
"""

from __future__ import annotations

from functools import partial

from gosched.scheduling.actions.clear_windows import clear_windows
from gosched.scheduling.actions.decisions import Decisions
from gosched.scheduling.actions.explain_wait import WaitExplainer
from gosched.scheduling.actions.keep_nodes import NodeKeeper
from gosched.scheduling.actions.repair import GangRepairer
from gosched.scheduling.actions.reserve import Reserver
from gosched.scheduling.actions.reserve_deadlines import DeadlineReserver
from gosched.scheduling.actions.start_after_evictions import StartAfterEvictions
from gosched.scheduling.actions.start_now import StartNow
from gosched.scheduling.actions.start_reserved import StartReserved
from gosched.scheduling.actions.starter import Starter
from gosched.scheduling.actions.wait import Waits
from gosched.scheduling.backfill.capacity_timeline import CapacityTimeline
from gosched.scheduling.backfill.capacity_views import CapacityViews
from gosched.scheduling.backfill.earliest_start import EarliestStart
from gosched.scheduling.backfill.release_profile import ReleaseProfile
from gosched.scheduling.backfill.reserved_starts import ReservedStarts
from gosched.scheduling.explain.explainer import Explainer
from gosched.scheduling.fairness.queue_limits import QueueLimits
from gosched.scheduling.placement.feasibility import Feasibility
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.plan import Plan
from gosched.scheduling.plugins.calls import Plugins
from gosched.scheduling.policy import Policy
from gosched.scheduling.preemption.eviction_rules import EvictionBudget
from gosched.scheduling.preemption.victim_search import VictimSearch
from gosched.scheduling.prefilter import PreFilter
from gosched.scheduling.replanning import Replanner
from gosched.scheduling.reservations import ReservationKeeper
from gosched.scheduling.snapshot.occupancy import Occupants
from gosched.scheduling.snapshot.view import View
from gosched.scheduling.suspects import Stumble, raised


class CycleState:
    """What `schedule` and the queries work with."""

    def __init__(self, view: View, policy: Policy, plugins: Plugins, plan: Plan, stumble: Stumble = raised) -> None:
        now_ms, seed = plan.planned_at_ms, plan.seed
        self.limits = limits = QueueLimits(view)
        plain = FreeCapacity(view.nodes)
        self.may_hold = plain.may_hold
        self.feasibility = feasibility = Feasibility(view, policy, plain, plugins)
        self.explainer = Explainer(plain, feasibility)
        occupants = Occupants(view)

        profile = ReleaseProfile(view, now_ms, occupants)
        self.reserved_starts = starts = ReservedStarts(view.nodes, view.windows, profile, plain, now_ms)
        self.earliest_start = EarliestStart(plain, feasibility, profile, starts, now_ms)
        views = CapacityViews(plain, feasibility, starts, now_ms)
        timeline = CapacityTimeline(plain, profile, starts, views, occupants, now_ms)

        budget = EvictionBudget(view, limits, policy, now_ms)
        victim_search = VictimSearch(plain, occupants, budget, now_ms, seed)
        decisions = Decisions(plan, view.nodes, timeline, feasibility, plugins, limits, victim_search, budget)

        self.start_now = StartNow(views, limits, decisions, seed)
        self.start_after_evictions = StartAfterEvictions(
            plan, victim_search, budget, views, feasibility, limits, decisions
        )
        self.starter = Starter(plan, self.start_now, self.start_after_evictions)
        self.reserver = Reserver(view, plan, starts, views, self.earliest_start)
        self.wait_explainer = WaitExplainer(self.explainer, views, starts, limits, self.start_now)
        shape_of = partial(limits.shape, plugins=plugins)
        self.node_keeper = NodeKeeper(
            view,
            policy,
            plan,
            plain,
            occupants,
            feasibility,
            limits,
            budget,
            starts,
            views,
            self.earliest_start,
            self.reserver,
            self.starter,
            shape_of,
            stumble,
        )
        self.waits = Waits(
            policy, plan, self.wait_explainer, self.reserver, self.node_keeper, views, limits, victim_search, budget
        )
        self.prefilter = PreFilter(policy, plan, limits, budget, self.waits, view.nodes.longest_id_bytes)
        replanner = Replanner(plan, limits, starts, self.earliest_start, self.reserver)
        start_reserved = StartReserved(
            plain,
            shape_of,
            starts,
            self.earliest_start,
            self.reserver,
            self.start_now,
            self.start_after_evictions,
            now_ms,
        )
        keeper = ReservationKeeper(
            view, policy, plan, limits, starts, start_reserved, self.reserver, replanner, self.node_keeper, stumble
        )
        deadlines = DeadlineReserver(
            view, plan, limits, shape_of, self.starter, self.earliest_start, self.reserver, stumble
        )

        self.clear_windows = partial(clear_windows, view, starts.windows, plan, budget, decisions, stumble)
        self.repair_gangs = GangRepairer(
            view, occupants, views, budget, feasibility, limits, decisions, now_ms, seed, stumble
        ).repair
        self.keep_reservations = keeper.keep
        self.reserve_deadlines = deadlines.reserve
        self.replan_broken_reservations = replanner.replan_broken
