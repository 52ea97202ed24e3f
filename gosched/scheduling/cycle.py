"""One scheduling cycle, from a view to a plan.

Rule: the same view, policy, time and seed give the same plan, and nothing is held for a gang that does not fit.
"""

from __future__ import annotations

from gosched.scheduling import explain
from gosched.scheduling.explain import Explanation
from gosched.scheduling.gangs import place
from gosched.scheduling.ordering import in_order
from gosched.scheduling.plan import MAX_COMMAND_BYTES, Plan, may_encode
from gosched.scheduling.policy import Policy
from gosched.scheduling.room import Room
from gosched.scheduling.view import View


def schedule(view: View, policy: Policy, now_ms: int, seed: int) -> Plan:
    """Looks at every pending gang once, in order, and places each that fits in what is left."""
    plan = Plan(revision=view.revision)
    room = Room(view.nodes)
    misses: dict[str, Explanation] = {}  # by shape: room only shrinks, so equal gangs miss for the same reason
    longest_id = room.longest_id()
    stopped_at: Explanation | None = None

    for position, gang in enumerate(in_order(view.pending)):
        if gang.not_before_ms > now_ms:
            plan.delay(gang)
        elif stopped_at is not None:
            plan.explanations[gang.job_id] = stopped_at
        elif gang.shape in misses:
            plan.explanations[gang.job_id] = misses[gang.shape]
        elif not may_encode(gang, longest_id):
            plan.explanations[gang.job_id] = explain.too_large(MAX_COMMAND_BYTES)
        elif plan.tasks and plan.tasks + gang.tasks > policy.max_tasks:
            plan.more = True
            stopped_at = plan.explanations[gang.job_id] = explain.queued(position)
        elif len(misses) >= policy.max_misses:
            stopped_at = plan.explanations[gang.job_id] = explain.queued(position)
        elif placement := place(gang, room, policy.strategy, seed):
            plan.add(placement)
        else:
            misses[gang.shape] = plan.explanations[gang.job_id] = explain.why_not(gang, room)
    return plan
