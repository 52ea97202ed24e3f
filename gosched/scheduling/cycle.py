"""One scheduling cycle, from a view to a plan.

Invariant: the same view, policy, time and seed give the same plan, and nothing is held idle for a gang that does not
fit: the capacity reserved for it is used by others until its start.
"""

from __future__ import annotations

from gosched.core.sharing import Amounts
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
from gosched.scheduling.suspects import Kind, Stumble, Suspect, raised


def schedule(view: View, policy: Policy, now_ms: int, seed: int, stumble: Stumble = raised) -> Plan:
    """Look at windows, repairs and reservations first; then at every other pending gang once, each time at one of the
    queue furthest below its share: it starts, or others are evicted for it, or it waits and, if it is among the first,
    gets a reserved start.

    `stumble` is told what the cycle raised at. If it does not raise, the cycle goes on in order to find more of that
    kind, and its plan is of no use: what was half done for one gang is counted for all that follow.
    """
    plan = Plan(revision=view.revision, planned_at_ms=now_ms, seed=seed)
    plugins = Plugins(view, policy.plugins, policy.runner)
    state = CycleState(view, policy, plugins, plan, stumble)
    limits, explainer = state.limits, state.explainer
    prefilter, starter, waits = state.prefilter, state.starter, state.waits
    usage = QueueUsage(view, limits, now_ms)
    plan.shares = usage.shares

    state.clear_windows()
    repaired = state.repair_gangs()
    reservations = {**state.keep_reservations(), **state.reserve_deadlines(repaired)}
    waiting: list[PendingGang] = []
    for pending in view.pending:
        try:
            if pending.job_id in repaired:
                continue
            if pending.job_id not in reservations:
                waiting.append(pending)
                continue
            if reserved := reservations[pending.job_id]:
                plan.explanations[pending.job_id] = explanation.reserved(explainer.of(pending), reserved.reservation)
            else:
                usage.take(pending, dict(pending.charge))
        except Exception as error:
            stumble(Suspect(Kind.JOB, pending.job_id), error)

    for lines in bands(view.queues, waiting, policy, plugins, now_ms):
        order = DrfOrder(lines, view.total, usage.claims, usage.used, state.may_hold)
        while (gang := order.next()) is not None:
            charge: Amounts | None = None
            try:
                shape = limits.shape(gang, plugins)
                if why := prefilter.why_not_now(gang, shape):
                    plan.explanations[gang.job_id] = why
                elif placement := starter.start(gang, shape):
                    charge = placed_charge(gang, placement)
                else:
                    plan.explanations[gang.job_id] = why = waits.wait(gang, shape)
                    if why.start_ms:  # so that not all starts that a cycle reserves are one queue's
                        charge = dict(gang.charge)
            except Exception as error:
                charge = None
                stumble(Suspect(Kind.JOB, gang.job_id), error)
            if charge is None:
                order.passed()
                continue
            order.placed(charge)
            if policy.strict:  # the next band goes on where this one ends
                usage.take(gang, charge)
    state.replan_broken_reservations()
    plan.faults = tuple(plugins.faults)
    plan.measure()
    return plan
