"""Evicts what runs on the nodes of a window that begins."""

from __future__ import annotations

from collections.abc import Sequence

from gosched.core.commands.plans import Cause
from gosched.core.preemption_rules import admits
from gosched.core.records.window import Window
from gosched.scheduling.actions.decisions import Decisions
from gosched.scheduling.plan import Plan
from gosched.scheduling.preemption.eviction_rules import EvictionBudget, Victim
from gosched.scheduling.snapshot.running_gangs import RunningGang
from gosched.scheduling.snapshot.view import View
from gosched.scheduling.suspects import Kind, Stumble, Suspect


def clear_windows(
    view: View,
    windows: Sequence[Window],
    plan: Plan,
    budget: EvictionBudget,
    decisions: Decisions,
    stumble: Stumble,
) -> None:
    """Evict the gangs that a window does not admit, that may be evicted and would run into it, in time for it."""
    if not windows:
        return
    holders = sorted(view.holders.values(), key=lambda holder: holder.sequence)
    for window in windows:
        try:
            _clear(window, holders, plan, budget, decisions)
        except Exception as error:
            stumble(Suspect(Kind.WINDOW, window.name), error)


def _clear(
    window: Window, holders: Sequence[RunningGang], plan: Plan, budget: EvictionBudget, decisions: Decisions
) -> None:
    now_ms = plan.planned_at_ms
    plan.wake_at(window.start_ms)
    plan.wake_at(window.end_ms)
    nodes = frozenset(window.nodes)
    for holder in holders:
        evict_at_ms = window.start_ms - holder.grace_ms
        if admits(window, holder.queue, holder.tenant) or not any(h.node_id in nodes for h in holder.holdings):
            continue
        if evict_at_ms > now_ms:
            plan.wake_at(evict_at_ms)
        elif holder.ends_ms(now_ms) > window.start_ms and budget.is_evictable_on_schedule(holder):
            decisions.evict(Victim(holder, Cause.WINDOW))
