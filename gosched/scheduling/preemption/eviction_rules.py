"""Who may be evicted for whom, and what each eviction costs.

Invariant: within a queue only a strictly lower priority goes. Across queues a queue gets what it is guaranteed: at the
children of the lowest common ancestor the one that asks stays within its guarantee, and no queue on the victim's side
falls below a guarantee that it holds. Whoever reclaimed is within its guarantee, so nobody can reclaim it back: two
queues never evict each other in turn. Beyond that proof (queues grow again, priorities and guarantees mix) nobody is
evicted for a job that gave way to it, directly or through others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from gosched.core.commands.plans import Cause, GangPlacement
from gosched.core.preemption_rules import below_common, preemption_of
from gosched.core.resources import AmountMap
from gosched.core.sharing import Amounts, add_to, guarantees, lineage
from gosched.core.spec.policies import PreemptionPolicy
from gosched.scheduling.fairness.queue_limits import QueueLimits, placed_charge
from gosched.scheduling.policy import Policy
from gosched.scheduling.snapshot.running_gangs import RunningGang
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import View

# The parts of a cost, the highest first: whole gangs after surplus tasks, then by priority, then by lost work.
_PRIORITY, _GANG = 1 << 30, 1 << 41
_MOST_LOST_S = _PRIORITY - 1

MAX_EVICTORS_FOLLOWED = 1000


@dataclass(frozen=True, slots=True)
class Victim:
    """`ranks`: surplus tasks that go; empty: the whole gang."""

    gang: RunningGang
    cause: Cause
    ranks: tuple[int, ...] = ()

    @property
    def tasks(self) -> int:
        return len(self.ranks) or len(self.gang.holdings)


class EvictionBudget:
    """What the queues hold while evictions are planned, and who may still be evicted in this cycle."""

    def __init__(self, view: View, limits: QueueLimits, policy: Policy, now_ms: int) -> None:
        self._queues = view.queues
        self._guarantees = guarantees(view.queues, view.total)
        self._used: dict[str, Amounts] = {path: dict(amounts) for path, amounts in limits.used.items()}
        self._started: list[tuple[PendingGang, GangPlacement]] = []
        self._reclaims: dict[tuple[str, AmountMap, str], bool] = {}  # as the queues stand
        self._policy = policy
        self._now_ms = now_ms
        self._policies: dict[str, PreemptionPolicy] = {}
        self._gone: dict[str, None] = {}
        self._by_tenant: Counter[str] = Counter()
        self._view: View | None = view  # until somebody looks: most cycles evict nobody
        self._past: View | None = view  # until somebody asks who gave way to whom
        self._evicted_for: dict[str, tuple[str, ...]] = {}
        self._lowest: dict[str, int] = {}  # priority of gangs that may be evicted, by queue

    def _open(self) -> None:
        if self._view is None:
            return
        view, self._view = self._view, None
        for gang in view.holders.values():
            if gang.is_stopping:  # as good as gone; those with fences are counted already
                for path in lineage(gang.queue):
                    add_to(self._used.setdefault(path, {}), gang.charge(), -1)
            if self.is_evictable(gang):
                self._lowest[gang.queue] = min(gang.priority, self._lowest.get(gang.queue, gang.priority))

    def may_help(self, gang: PendingGang) -> bool:
        """False is certain, and costs nothing per gang that runs."""
        self._open()
        if not gang.may_evict or self.policy_of(gang.queue) is PreemptionPolicy.NEVER or not self._lowest:
            return False
        if self._lowest.get(gang.queue, gang.priority) < gang.priority:
            return True
        return self._may_be_owed(gang) and any(
            self.may_reclaim(gang, queue) for queue in self._lowest if queue != gang.queue
        )

    def _may_be_owed(self, gang: PendingGang) -> bool:
        """Whether the gang's queue or one above it is guaranteed anything."""
        return any(self._guarantees.get(path) for path in lineage(gang.queue))

    def may_reclaim(self, gang: PendingGang, queue: str) -> bool:
        """From another queue, as the queues stand now."""
        key = (gang.queue, gang.charge, queue)
        found = self._reclaims.get(key)
        if found is None:
            found = self._reclaims[key] = self._owed(gang, queue) and self._borrows(queue, gang)
        return found

    def is_gone(self, job_id: str) -> bool:
        """It is a victim of this cycle already."""
        return job_id in self._gone

    def policy_of(self, path: str) -> PreemptionPolicy:
        if path not in self._policies:
            self._policies[path] = preemption_of(self._queues, path)
        return self._policies[path]

    def is_evictable(self, gang: RunningGang) -> bool:
        return self.may_be_sent(gang) and gang.evictable_from_ms <= self._now_ms

    def may_be_sent(self, gang: RunningGang) -> bool:
        """Whether it may go at all; one that knew when it has to is not protected by what it ran."""
        if not gang.is_preemptible or gang.is_stopping or gang.fenced or self.is_gone(gang.job_id):
            return False
        return gang.deadline_ms <= self._now_ms  # a promised deadline is not broken for others

    def evictors(self, gang: PendingGang) -> Container[str]:
        """The jobs that the gang gave way to, directly or through others, as far as is remembered."""
        self._remember()
        found = dict.fromkeys(gang.evicted_for)
        waiting = list(found)
        while waiting and len(found) < MAX_EVICTORS_FOLLOWED:
            job_id = waiting.pop()
            for other in self._evicted_for.get(job_id, ()):
                if other not in found:
                    found[other] = None
                    waiting.append(other)
        return found

    def _remember(self) -> None:
        if self._past is not None:
            view, self._past = self._past, None
            self._evicted_for = {gang.job_id: gang.evicted_for for gang in view.holders.values() if gang.evicted_for}
            self._evicted_for.update({gang.job_id: gang.evicted_for for gang in view.pending if gang.evicted_for})

    def cause(self, gang: PendingGang, victim: RunningGang) -> Cause | None:
        """Why the victim might go for the gang, as the queues stand now."""
        if not self.is_evictable(victim):
            return None
        if victim.queue == gang.queue:
            return Cause.PREEMPT if victim.priority < gang.priority else None
        return Cause.RECLAIM if self.may_reclaim(gang, victim.queue) else None

    def may_go(self, gang: PendingGang, victim: Victim, before: Mapping[str, Amounts]) -> bool:
        """Whether it may go on top of what `before` (by queue path) has lost already."""
        if victim.cause is not Cause.RECLAIM:
            return True
        freed = victim.gang.charge(victim.ranks)
        sides = below_common(gang.queue, victim.gang.queue)
        for path in sides:
            held, lost = self._held(path), before.get(path, {})
            for name, least in self._guarantees.get(path, {}).items():
                left = held.get(name, 0) - lost.get(name, 0)
                if freed.get(name, 0) and left >= least > left - freed[name]:
                    return False
        return self._borrows(victim.gang.queue, gang, before)

    def left(self) -> int:
        """How many more may be evicted in this round."""
        return self._policy.max_victims - len(self._gone)

    def left_of(self, tenant: str) -> int:
        """And of one tenant."""
        return self._policy.max_victims_per_tenant - self._by_tenant[tenant]

    def evicted(self, victims: Sequence[Victim], for_job: str) -> None:
        self._open()
        self._reclaims.clear()
        self._remember()
        for victim in victims:
            job_id = victim.gang.job_id
            self._gone[job_id] = None
            self._evicted_for[job_id] = (for_job, *self._evicted_for.get(job_id, ()))
            self._by_tenant[victim.gang.tenant] += 1
            for path in lineage(victim.gang.queue):
                add_to(self._used.setdefault(path, {}), victim.gang.charge(victim.ranks), -1)

    def started(self, gang: PendingGang, placement: GangPlacement) -> None:
        """It is booked when somebody looks: most cycles evict nobody."""
        self._started.append((gang, placement))
        if self._reclaims:
            self._reclaims.clear()

    def _held(self, path: str) -> Amounts:
        self._open()
        for gang, placement in self._started:
            charge = placed_charge(gang, placement)
            for ancestor in lineage(gang.queue):
                add_to(self._used.setdefault(ancestor, {}), charge)
        self._started.clear()
        return self._used.get(path, {})

    def _owed(self, gang: PendingGang, other: str) -> bool:
        """Whether the gang's side would stay within its guarantee."""
        if not gang.charge:
            return False
        path = below_common(other, gang.queue)[0]
        own, used = self._guarantees.get(path, {}), self._held(path)
        return all(used.get(name, 0) + amount <= own.get(name, 0) for name, amount in gang.charge if ":" not in name)

    def _borrows(self, queue: str, gang: PendingGang, before: Mapping[str, Amounts] | None = None) -> bool:
        """Whether the queue's side holds more than its guarantee of something that the gang asks for."""
        path = below_common(gang.queue, queue)[0]
        own, used = self._guarantees.get(path, {}), self._held(path)
        lost = (before or {}).get(path, {})
        return any(used.get(name, 0) - lost.get(name, 0) > own.get(name, 0) for name, _ in gang.charge)


def cost_of(gang: RunningGang, now_ms: int, tasks: int, *, surplus: bool) -> int:
    """Lower goes first. What was evicted before costs more: nobody is evicted again and again."""
    lost_s = min(gang.lost_ms(now_ms, tasks) // 1000 * (1 + gang.preemptions), _MOST_LOST_S)
    return (0 if surplus else _GANG) + gang.priority * _PRIORITY + lost_s
