"""One scheduling cycle, from a view to a plan.

Rule: the same view, policy, time and seed give the same plan, and nothing is held for a gang that does not fit.
"""

from __future__ import annotations

from gosched.scheduling import explain
from gosched.scheduling.explain import Explainer, Explanation
from gosched.scheduling.gangs import place
from gosched.scheduling.limits import Limits, placed_charge
from gosched.scheduling.ordering import bands
from gosched.scheduling.plan import ALWAYS_ENCODES, MAX_COMMAND_BYTES, Plan, may_encode
from gosched.scheduling.plugins import Plugins
from gosched.scheduling.policy import Policy
from gosched.scheduling.room import Room
from gosched.scheduling.standing import Standing
from gosched.scheduling.terrain import Terrain
from gosched.scheduling.turns import Turns
from gosched.scheduling.view import View


def schedule(view: View, policy: Policy, now_ms: int, seed: int) -> Plan:
    """Looks at every pending gang once, each time at one of the queue whose turn it is, and places those that fit."""
    plan = Plan(revision=view.revision)
    plugins = Plugins(view, policy.plugins, policy.runner)
    room = Room(view.nodes)
    terrain = Terrain(view, policy, room, plugins)
    explainer = Explainer(room, terrain)
    limits = Limits(view)
    standing = Standing(view, limits, now_ms)
    plan.shares = standing.shares
    misses: dict[object, Explanation] = {}  # by shape: room only shrinks, so equal gangs miss for the same reason
    stopped_at: Explanation | None = None

    for lines in bands(view, policy, plugins):
        turns = Turns(lines, standing.shares, standing.used)
        while (gang := turns.next()) is not None:
            shape = limits.shape(gang, plugins)
            if gang.not_before_ms > now_ms:
                plan.delay(gang)
            elif stopped_at is not None:
                plan.explanations[gang.job_id] = stopped_at
            elif shape in misses:
                plan.explanations[gang.job_id] = misses[shape]
            elif held := limits.why_not(gang):
                misses[shape] = plan.explanations[gang.job_id] = explain.held_back(*held)
            elif gang.most > ALWAYS_ENCODES and not may_encode(gang, room.longest_id):
                plan.explanations[gang.job_id] = explain.too_large(MAX_COMMAND_BYTES)
            elif plan.tasks and plan.tasks + gang.tasks > policy.max_tasks:
                plan.more = True
                stopped_at = plan.explanations[gang.job_id] = explain.queued(len(plan.gangs) + len(plan.explanations))
            elif len(misses) >= policy.max_misses:
                stopped_at = plan.explanations[gang.job_id] = explain.queued(len(plan.gangs) + len(plan.explanations))
            elif placement := place(gang, room, terrain, seed, allowance := limits.allowance(gang)):
                plan.add(placement)
                terrain.placed(gang, placement)
                plugins.placed(gang, placement)
                limits.take(gang, placement, view.nodes)
                charge = placed_charge(gang, placement)
                turns.placed(charge)
                if policy.strict:  # the next band goes on where this one ends
                    standing.take(gang, charge)
                continue
            else:
                misses[shape] = plan.explanations[gang.job_id] = explainer.of(gang, allowance.banned)
            turns.passed()
    plan.faults = tuple(plugins.faults)
    return plan
