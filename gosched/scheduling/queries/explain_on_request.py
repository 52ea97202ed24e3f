"""Why one gang waits, worked out when somebody asks: with all that is promised, but as if it were the next.

Rule: nothing is said that was not looked at in the view that it is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gosched.api.explanation import Holder
from gosched.core.sharing import Amounts, add_to, as_map, charge_of
from gosched.scheduling.cycle_state import CycleState
from gosched.scheduling.explain.explanation import Explanation, Reason, held_back
from gosched.scheduling.plan import Plan
from gosched.scheduling.plugins.calls import Plugins
from gosched.scheduling.policy import Policy
from gosched.scheduling.queries.smallest_change import smallest_change
from gosched.scheduling.reservations import standing_claims
from gosched.scheduling.snapshot.running_gangs import NEVER_MS, Holding, RunningGang
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import View

MAX_HOLDERS = 5

FITS_NOW = Explanation(code=Reason.QUEUED, message="it fits by now; its turn comes in the next cycle")


def explain_on_request(view: View, policy: Policy, job_id: str, now_ms: int, seed: int = 0) -> Explanation | None:
    """The whole explanation; None for a job that does not wait. Costs some looks at every node."""
    gang = next((gang for gang in view.pending if gang.job_id == job_id), None)
    if gang is None:
        return None
    state = scene_of(view, policy, now_ms, seed, without=job_id)
    return explained(state, gang)


def scene_of(view: View, policy: Policy, now_ms: int, seed: int, without: str = "") -> CycleState:
    """With the promises of all, or of all but one; nothing comes of it."""
    plan = Plan(revision=view.revision, planned_at_ms=now_ms, seed=seed)
    state = CycleState(view, policy, Plugins(view, policy.plugins, policy.runner), plan)
    for reserved in standing_claims(state):
        if reserved.gang.job_id != without:
            state.reserved_starts.add(reserved)
    return state


def explained(state: CycleState, gang: PendingGang) -> Explanation:
    if state.would_start(gang):
        return FITS_NOW
    held = state.limits.why_not(gang)
    if held:
        why = held_back(*held)
    else:
        allowance = state.limits.allowance(gang)
        capacity_view = state.capacity_views.of(gang)
        why = state.why(gang, capacity_view)
        if why.brief:
            why = state.explainer.full(gang, allowance.banned)
        why = _with_start(state, gang, why)
    return replace(why, change=smallest_change(state, gang))


def _with_start(state: CycleState, gang: PendingGang, why: Explanation) -> Explanation:
    own = state.view.reservations.get(gang.job_id)
    start = state.profile.earliest(gang, state.plan.seed, state.limits.allowance(gang)) if not gang.joins else None
    if start is None:
        return replace(why, holders=_holders(state, gang, _may_stand_on(state, gang), NEVER_MS))
    at_ms, source = start.at_ms, "estimated from the limits and estimates of what runs; nothing is reserved for it yet"
    if own is not None and own.attempt == gang.attempt:
        at_ms, source = min(own.start_ms, at_ms), "reserved for its deadline" if own.for_deadline else "reserved"
    return replace(
        why,
        start_ms=at_ms,
        start_from=source,
        holders=_holders(state, gang, [task.node_id for task in start.placement.tasks], start.at_ms),
    )


def _may_stand_on(state: CycleState, gang: PendingGang) -> list[str]:
    allowed = np.logical_or.reduce([state.feasibility.choice(gang, request).allowed for request in gang.requests])
    return [state.view.nodes.ids[row] for row in np.flatnonzero(allowed).tolist()]


def _holders(state: CycleState, gang: PendingGang, node_ids: Sequence[str], by_ms: int) -> tuple[Holder, ...]:
    """Others on the nodes that end by then, the first to end first; of those that end alike, who holds most tasks."""
    nodes = frozenset(node_ids)
    ends = [(holder.ends_ms(state.now_ms), -len(holder.holdings), holder) for holder in state.view.holders.values()]
    found: list[Holder] = []
    for until, _, holder in sorted(ends, key=lambda entry: (entry[0], entry[1], entry[2].sequence)):
        here = [held for held in holder.holdings if held.node_id in nodes]
        if until > by_ms or len(found) == MAX_HOLDERS:
            break
        if here and holder.job_id != gang.job_id:
            found.append(_holder(holder, here, until))
    return tuple(found)


def _holder(holder: RunningGang, here: Sequence[Holding], until_ms: int) -> Holder:
    amounts: Amounts = {}
    for held in here:
        add_to(amounts, charge_of(holder.each[held.group], held.gpu_model))
    return Holder(
        job_id=holder.job_id,
        name=holder.name,
        queue=holder.queue,
        held=as_map(amounts),
        until_ms=until_ms if until_ms < NEVER_MS else 0,
    )
