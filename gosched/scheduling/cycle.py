"""One scheduling cycle, from a view to a plan.

Rule: the same view, policy, time and seed give the same plan, and nothing is held idle for a gang that does not fit:
what it was promised, others use until then.
"""

from __future__ import annotations

from gosched.scheduling.cycle_state import CycleState
from gosched.scheduling.explain import explanation
from gosched.scheduling.explain.explanation import Explanation
from gosched.scheduling.fairness.drf_order import DrfOrder
from gosched.scheduling.fairness.queue_limits import placed_charge
from gosched.scheduling.fairness.queue_order import bands
from gosched.scheduling.fairness.queue_usage import QueueUsage
from gosched.scheduling.plan import ALWAYS_ENCODES, MAX_COMMAND_BYTES, Plan, may_encode
from gosched.scheduling.plugins.calls import Plugins
from gosched.scheduling.policy import Policy
from gosched.scheduling.reservations import keep_promises, renew_broken
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import View


def schedule(view: View, policy: Policy, now_ms: int, seed: int) -> Plan:
    """Windows, repairs and promises first; then every other pending gang once, each time at one of the queue whose turn
    it is: it starts, or others are evicted for it, or it waits and, if it is among the first, is promised a start."""
    plan = Plan(revision=view.revision, planned_at_ms=now_ms, seed=seed)
    plugins = Plugins(view, policy.plugins, policy.runner)
    state = CycleState(view, policy, plugins, plan)
    limits = state.limits
    usage = QueueUsage(view, limits, now_ms)
    plan.shares = usage.shares
    limited: dict[object, Explanation] = {}  # by shape: limits only get tighter, so they hold equal gangs too
    stopped_at: Explanation | None = None

    state.clear_windows()
    for broken in view.repairs:
        state.repair(broken)
    promised = keep_promises(state)
    waiting: list[PendingGang] = []
    for pending in view.pending:
        if pending.job_id not in promised:
            waiting.append(pending)
        elif reserved := promised[pending.job_id]:
            plan.explanations[pending.job_id] = explanation.reserved(state.explainer.of(pending), reserved.reservation)
        else:
            usage.take(pending, dict(pending.charge))

    for lines in bands(view.queues, waiting, policy, plugins, now_ms):
        order = DrfOrder(lines, usage.shares, usage.used)
        while (gang := order.next()) is not None:
            shape = limits.shape(gang, plugins)
            if gang.not_before_ms > now_ms:
                plan.delay(gang)
            elif state.gives_way(gang):
                plan.explanations[gang.job_id] = explanation.gives_way()
            elif stopped_at is not None:
                plan.explanations[gang.job_id] = stopped_at
            elif shape in limited:
                plan.explanations[gang.job_id] = limited[shape]
            elif (why := state.known(gang, shape)) is not None:
                plan.explanations[gang.job_id] = why
            elif held := limits.why_not(gang):
                limited[shape] = plan.explanations[gang.job_id] = explanation.held_back(*held)
            elif gang.most > ALWAYS_ENCODES and not may_encode(gang, view.nodes.longest_id_bytes):
                plan.explanations[gang.job_id] = explanation.too_large(MAX_COMMAND_BYTES)
            elif plan.tasks and plan.tasks + gang.tasks > policy.max_tasks:
                plan.more = True
                stopped_at = plan.explanations[gang.job_id] = explanation.queued(plan.looked_at)
            elif state.misses + len(limited) >= policy.max_misses:
                stopped_at = plan.explanations[gang.job_id] = explanation.queued(plan.looked_at)
            elif placement := state.begin(gang, shape):
                charge = placed_charge(gang, placement)
                order.placed(charge)
                if policy.strict:  # the next band goes on where this one ends
                    usage.take(gang, charge)
                continue
            else:
                plan.explanations[gang.job_id] = state.wait(gang, shape)
            order.passed()
    renew_broken(state)
    plan.faults = tuple(plugins.faults)
    return plan
