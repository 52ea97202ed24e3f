"""Why one gang waits, worked out on request: beside all reservations, but as if the gang were the next.

Invariant: all that is said was looked at, in the view that it is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gosched.api.explanation import Holder
from gosched.core.reasons import WaitReason
from gosched.core.sharing import Amounts, add_to, as_map, charge_of
from gosched.scheduling.explain.explanation import Explanation, held_back, too_early
from gosched.scheduling.policy import Policy
from gosched.scheduling.queries.smallest_change import smallest_change
from gosched.scheduling.queries.trial_cycle import TrialCycle
from gosched.scheduling.snapshot.running_gangs import NEVER_MS, Holding, RunningGang
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import View

MAX_HOLDERS = 5

FITS_NOW = Explanation(code=WaitReason.QUEUED, message="it fits now; its turn comes in the next cycle")


def explain_on_request(view: View, policy: Policy, job_id: str, now_ms: int, seed: int = 0) -> Explanation | None:
    """Return the full explanation; None for a job that does not wait. Costs several looks at every node."""
    gang = next((gang for gang in view.pending if gang.job_id == job_id), None)
    if gang is None:
        return None
    return _explained(TrialCycle(view, policy, now_ms, seed, without=job_id), gang)


def _explained(trial: TrialCycle, gang: PendingGang) -> Explanation:
    if early := too_early(gang, trial.now_ms):
        return early
    if trial.starts_now(gang):
        return FITS_NOW
    held = trial.held_back(gang)
    why = held_back(*held) if held else _with_start(trial, gang, trial.why(gang))
    return replace(why, change=smallest_change(trial, gang))


def _with_start(trial: TrialCycle, gang: PendingGang, why: Explanation) -> Explanation:
    if why.is_hopeless:  # no job is in its way, and none that ends lets it start
        return why
    own = trial.view.reservations.get(gang.job_id)
    start = trial.earliest_start(gang, limited=True) if not gang.joins else None
    if start is None:
        return replace(why, holders=_holders(trial, gang, trial.allowed_nodes(gang), NEVER_MS))
    at_ms, source = start.at_ms, "estimated from the timeouts and estimates of running jobs; nothing is reserved yet"
    if own is not None and own.attempt == gang.attempt:
        at_ms, source = min(own.start_ms, at_ms), "reserved for its deadline" if own.for_deadline else "reserved"
    return replace(
        why,
        start_ms=at_ms,
        start_from=source,
        holders=_holders(trial, gang, [task.node_id for task in start.placement.tasks], start.at_ms),
    )


def _holders(trial: TrialCycle, gang: PendingGang, node_ids: Sequence[str], by_ms: int) -> tuple[Holder, ...]:
    """Return other gangs on the nodes that end by then, the first to end first; of those that end at the same time, the
    one with the most tasks."""
    nodes = frozenset(node_ids)
    ends = [(holder.ends_ms(trial.now_ms), -len(holder.holdings), holder) for holder in trial.view.holders.values()]
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
