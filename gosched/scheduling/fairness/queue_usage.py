"""Where the queues stand before the first placement of a cycle: what each holds, and what is its fair share."""

from __future__ import annotations

from collections.abc import Mapping

from gosched.core.accounting import average_use, brought_up, half_life_of
from gosched.core.sharing import Amounts, add_to, lineage
from gosched.scheduling.fairness.fair_shares import fair_shares
from gosched.scheduling.fairness.queue_limits import QueueLimits
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import View


class QueueUsage:
    """`shares`: of each queue, by resource. `used`: of each queue, and of each tenant of a queue as "queue/tenant";
    where a queue has a half-life, what it held lately counts if that is more than what it holds."""

    def __init__(self, view: View, limits: QueueLimits, now_ms: int) -> None:
        demand = {path: dict(amounts) for path, amounts in view.demand.items()}
        for (queue, _), amounts in limits.used_by.items():
            add_to(demand.setdefault(queue, {}), amounts)
        self.shares: Mapping[str, Mapping[str, int]] = fair_shares(view.queues, view.total, demand, limits.ceilings)
        self.used: dict[str, Amounts] = {path: dict(amounts) for path, amounts in limits.used.items()}
        for (queue, tenant), amounts in limits.used_by.items():
            self.used[f"{queue}/{tenant}"] = dict(amounts)
        for path, amounts in _lately(view, limits, now_ms).items():
            held = self.used.setdefault(path, {})
            for name, amount in amounts.items():
                held[name] = max(held.get(name, 0), amount)

    def take(self, gang: PendingGang, charge: Mapping[str, int]) -> None:
        for key in (*lineage(gang.queue), f"{gang.queue}/{gang.tenant}"):
            add_to(self.used.setdefault(key, {}), charge)


def _lately(view: View, limits: QueueLimits, now_ms: int) -> dict[str, Amounts]:
    """The decayed average of what was held, by queue of every level and by "queue/tenant"."""
    found: dict[str, Amounts] = {}
    for account in view.accounts:
        half_life = half_life_of(view.queues, account.queue)
        if half_life:
            held = limits.used_by.get((account.queue, account.tenant), {})
            lately = average_use(brought_up(account, held, half_life, now_ms), half_life)
            for key in (*lineage(account.queue), f"{account.queue}/{account.tenant}"):
                add_to(found.setdefault(key, {}), lately)
    return found
