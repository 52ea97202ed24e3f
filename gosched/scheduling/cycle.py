"""One scheduling cycle, from a view to a plan.

Invariant: the same view, policy, time and seed give the same plan, and nothing is held idle for a gang that does not
fit: the capacity reserved for it is used by others until its start.
"""

from __future__ import annotations

from gosched.scheduling.cycle_state import CycleState
from gosched.scheduling.explain import explanation
from gosched.scheduling.fairness.drf_order import DrfOrder
from gosched.scheduling.fairness.queue_limits import placed_charge
from gosched.scheduling.fairness.queue_order import bands
from gosched.scheduling.fairness.queue_usage import QueueUsage
from gosched.scheduling.plan import Plan
from gosched.scheduling.plugins.calls import Plugins
from gosched.scheduling.policy import Policy
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import View


def schedule(view: View, policy: Policy, now_ms: int, seed: int) -> Plan:
    """Look at windows, repairs and reservations first; then at every other pending gang once, each time at one of the
    queue furthest below its share: it starts, or others are evicted for it, or it waits and, if it is among the first,
    gets a reserved start."""
    plan = Plan(revision=view.revision, planned_at_ms=now_ms, seed=seed)
    plugins = Plugins(view, policy.plugins, policy.runner)
    state = CycleState(view, policy, plugins, plan)
    limits, explainer = state.limits, state.explainer
    prefilter, starter, waits = state.prefilter, state.starter, state.waits
    usage = QueueUsage(view, limits, now_ms)
    plan.shares = usage.shares

    state.clear_windows()
    state.repair_gangs()
    reservations = {**state.keep_reservations(), **state.reserve_deadlines()}
    waiting: list[PendingGang] = []
    for pending in view.pending:
        if pending.job_id not in reservations:
            waiting.append(pending)
        elif reserved := reservations[pending.job_id]:
            plan.explanations[pending.job_id] = explanation.reserved(explainer.of(pending), reserved.reservation)
        else:
            usage.take(pending, dict(pending.charge))

    for lines in bands(view.queues, waiting, policy, plugins, now_ms):
        order = DrfOrder(lines, usage.shares, usage.used)
        while (gang := order.next()) is not None:
            shape = limits.shape(gang, plugins)
            if why := prefilter.why_not_now(gang, shape):
                plan.explanations[gang.job_id] = why
                order.passed()
            elif placement := starter.start(gang, shape):
                charge = placed_charge(gang, placement)
                order.placed(charge)
                if policy.strict:  # the next band goes on where this one ends
                    usage.take(gang, charge)
            else:
                plan.explanations[gang.job_id] = waits.wait(gang, shape)
                order.passed()
    state.replan_broken_reservations()
    plan.faults = tuple(plugins.faults)
    return plan
