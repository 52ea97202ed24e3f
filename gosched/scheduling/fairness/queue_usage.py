"""What each queue uses when a cycle begins, and what its fair share is."""

from __future__ import annotations

from collections.abc import Mapping

from gosched.core.accounting import average_use, brought_up, half_life_of
from gosched.core.sharing import Amounts, add_to, lineage
from gosched.scheduling.fairness.drf_order import Claim
from gosched.scheduling.fairness.fair_shares import fair_shares
from gosched.scheduling.fairness.queue_limits import QueueLimits
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import View


class QueueUsage:
    """Usage and shares of all queues. Placements of the cycle are added to the usage."""

    def __init__(self, view: View, limits: QueueLimits, now_ms: int) -> None:
        demand = {path: dict(amounts) for path, amounts in view.demand.items()}
        for gang in view.pending:
            if gang.begin_ms > now_ms:  # it wants nothing before its begin
                add_to(demand[gang.queue], dict(gang.charge), -1)
        for (queue, _), amounts in limits.used_by.items():
            add_to(demand.setdefault(queue, {}), amounts)
        #: The fair share of each queue, by resource name.
        self.shares: Mapping[str, Mapping[str, int]] = fair_shares(view.queues, view.total, demand, limits.ceilings)
        #: What each queue may claim.
        self.claims = {path: Claim(queue.weight, limits.guarantees[path]) for path, queue in view.queues.items()}
        #: What each queue uses, and each tenant of a queue as "queue/tenant". In a queue with a half-life it is the
        #: decayed average of what was held, if that is more than what is held now.
        self.used: dict[str, Amounts] = {path: dict(amounts) for path, amounts in limits.used.items()}
        for (queue, tenant), amounts in limits.used_by.items():
            self.used[f"{queue}/{tenant}"] = dict(amounts)
        for path, amounts in _decayed(view, limits, now_ms).items():
            held = self.used.setdefault(path, {})
            for name, amount in amounts.items():
                held[name] = max(held.get(name, 0), amount)

    def take(self, gang: PendingGang, charge: Mapping[str, int]) -> None:
        """Count what the gang takes."""
        for key in (*lineage(gang.queue), f"{gang.queue}/{gang.tenant}"):
            add_to(self.used.setdefault(key, {}), charge)


def _decayed(view: View, limits: QueueLimits, now_ms: int) -> dict[str, Amounts]:
    """Return the decayed average of what was held, by queue of every level and by "queue/tenant"."""
    found: dict[str, Amounts] = {}
    for account in view.accounts:
        half_life = half_life_of(view.queues, account.queue)
        if half_life:
            held = limits.used_by.get((account.queue, account.tenant), {})
            average = average_use(brought_up(account, held, half_life, now_ms), half_life)
            for key in (*lineage(account.queue), f"{account.queue}/{account.tenant}"):
                add_to(found.setdefault(key, {}), average)
    return found
