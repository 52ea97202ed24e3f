"""Which gangs may be evicted for which, and what each eviction costs.

Invariant: within a queue only gangs of strictly lower priority are evicted. Across queues a queue gets what it is
guaranteed: at the children of the lowest common ancestor the preempting side stays within its guarantee, and no queue
on the victim's side falls below a guarantee that it uses in full. A queue that reclaimed is within its guarantee, so
nothing can be reclaimed from it: two queues never evict each other in turn. Beyond that proof (queues grow again,
priorities and guarantees mix) no gang is evicted for a job that it evicted itself, directly or through others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gosched.core.commands.plans import Cause, GangPlacement
from gosched.core.preemption_rules import below_common, preemption_of
from gosched.core.records.queue import QueueOrder
from gosched.core.resources import AmountMap
from gosched.core.sharing import MODEL_PREFIX, Amounts, add_to, lineage
from gosched.core.spec.policies import PreemptionPolicy
from gosched.scheduling.fairness.queue_limits import QueueLimits, placed_charge
from gosched.scheduling.fairness.queue_order import order_of
from gosched.scheduling.policy import Policy
from gosched.scheduling.snapshot.columns import Vector, as_vector
from gosched.scheduling.snapshot.running_gangs import RunningGang
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import IntArray, View

# The parts of a cost, the highest first: whole gangs after surplus tasks, by priority, and by lost work. Steps of lost
# work are coarser from _FINE on, and costs stay below 2**44, so that those of 2**19 tasks can be summed.
_PRIORITY, _GANG = 1 << 32, 1 << 43
_FINE, _COARSE_BITS, _MOST_LOST = 1 << 31, 12, _PRIORITY - 1

MAX_EVICTORS_FOLLOWED = 1000


@dataclass(frozen=True, slots=True)
class Victim:
    """A running gang, or a part of it, that is evicted."""

    gang: RunningGang
    cause: Cause
    #: The surplus tasks that are evicted; empty: the whole gang.
    ranks: tuple[int, ...] = ()

    @property
    def tasks(self) -> int:
        return len(self.ranks) or len(self.gang.holdings)


class EvictionBudget:
    """What the queues hold while evictions are planned, and what may still be evicted in this cycle."""

    def __init__(self, view: View, limits: QueueLimits, policy: Policy, now_ms: int) -> None:
        #: What there is.
        self.total: Vector = as_vector(view.total)
        self._queues = view.queues
        self._guarantees = limits.guarantees
        self._used: dict[str, Amounts] = {path: dict(amounts) for path, amounts in limits.used.items()}
        self._started: list[tuple[PendingGang, GangPlacement]] = []
        self._reclaims: dict[tuple[str, AmountMap, str], bool] = {}  # with what the queues hold now
        self._policy = policy
        self._now_ms = now_ms
        self._holders = view.holders
        self._policies: dict[str, PreemptionPolicy] = {}
        self._victims: dict[str, None] = {}
        self._grown: dict[str, None] = {}  # jobs that more tasks have joined in this cycle, which no holding shows
        self._by_tenant: Counter[str] = Counter()
        self._stopping: dict[str, Amounts] = {}  # what gangs that stop for no fence still hold, by path
        self._view: View | None = view  # until it is looked at: most cycles evict nothing
        self._past: View | None = view  # until evictors are asked for
        self._evicted_for: dict[str, tuple[str, ...]] = {}
        self._lowest: dict[str, int] = {}  # priority of gangs that may be evicted, by queue

    def _count_leaving(self) -> None:
        if self._view is None:
            return
        view, self._view = self._view, None
        for queue, charge in view.evicted_alone:
            self._add(queue, charge, -1)
        for fence in view.fences:  # once it is a start, with nothing of what is given up for it
            self._add(fence.queue, fence.charge)
            self._add(fence.queue, fence.added(), -1)
        for gang in view.holders.values():
            if gang.is_stopping:  # a gang that is repaired has a fence, too
                self._add(gang.queue, gang.charge(), -1)
                for path in lineage(gang.queue):
                    add_to(self._stopping.setdefault(path, {}), dict(gang.leaving))
            if self.is_evictable(gang):
                self._lowest[gang.queue] = min(gang.priority, self._lowest.get(gang.queue, gang.priority))

    def _add(self, queue: str, charge: Mapping[str, int], times: int = 1) -> None:
        for path in lineage(queue):
            add_to(self._used.setdefault(path, {}), charge, times)

    @cached_property
    def longest_grace_ms(self) -> int:
        """Return how long victims may take to stop."""
        return max([gang.grace_ms for gang in self._holders.values() if gang.is_preemptible], default=0)

    def may_find_victims(self, gang: PendingGang) -> bool:
        """Return False if no gang can be a victim for this one; costs nothing per running gang."""
        self._count_leaving()
        if not gang.may_evict or self.policy_of(gang.queue) is PreemptionPolicy.NEVER or not self._lowest:
            return False
        if self._lowest.get(gang.queue, gang.priority) < gang.priority:
            return True
        return self._has_guarantee(gang) and any(
            self.may_reclaim(gang, queue) for queue in self._lowest if queue != gang.queue
        )

    def _has_guarantee(self, gang: PendingGang) -> bool:
        """Return whether the gang's queue or one above it is guaranteed anything."""
        return any(self._guarantees.get(path) for path in lineage(gang.queue))

    def may_reclaim(self, gang: PendingGang, queue: str) -> bool:
        """Return whether the gang may reclaim from the other queue, with what the queues hold now."""
        key = (gang.queue, gang.charge, queue)
        found = self._reclaims.get(key)
        if found is None:
            found = self._reclaims[key] = self._stays_within_guarantee(gang, queue) and self._exceeds_guarantee(
                queue, gang
            )
        return found

    def claim_of(self, path: str) -> tuple[int, Vector]:
        """Return the queue's weight and its guarantee."""
        queue = self._queues.get(path)
        return queue.weight if queue else 1, as_vector(self._guarantees.get(path, {}))

    def is_fair_among_tenants(self, path: str) -> bool:
        return order_of(self._queues, path, self._policy) is QueueOrder.FAIR

    def is_owed(self, gang: PendingGang, other: PendingGang) -> bool:
        """Return whether the gang stays within its queue's guarantee, and the other one would not within its own."""
        if not self._stays_within_guarantee(gang, other.queue):
            return False
        return not (other.charge and self._stays_within_guarantee(other, gang.queue))

    def is_victim(self, job_id: str) -> bool:
        """Return whether the job is a victim of this cycle already."""
        return job_id in self._victims

    def policy_of(self, path: str) -> PreemptionPolicy:
        if path not in self._policies:
            self._policies[path] = preemption_of(self._queues, path)
        return self._policies[path]

    def is_evictable(self, gang: RunningGang) -> bool:
        """Return whether the gang may be evicted now, its minimum runtime respected."""
        return self.is_evictable_on_schedule(gang) and gang.evictable_from_ms <= self._now_ms

    def is_evictable_on_schedule(self, gang: RunningGang) -> bool:
        """Return whether the gang may be evicted at a moment that was known when it started, for which its minimum
        runtime does not protect it."""
        if not gang.is_preemptible or gang.is_stopping or gang.fenced or self.is_victim(gang.job_id):
            return False
        if gang.job_id in self._grown:
            return False
        return gang.deadline_ms <= self._now_ms  # a promised deadline is not broken for others

    def evictors(self, gang: PendingGang) -> Container[str]:
        """Return the jobs that the gang was evicted for, directly or through others, as far as is remembered."""
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
        """Return why the victim might be evicted for the gang, with what the queues hold now; None: it must not be."""
        if not self.is_evictable(victim):
            return None
        if victim.queue == gang.queue:
            return Cause.PREEMPT if victim.priority < gang.priority else None
        return Cause.RECLAIM if self.may_reclaim(gang, victim.queue) else None

    def keeps_guarantees(self, gang: PendingGang, victim: Victim, before: Mapping[str, Amounts]) -> bool:
        """Return whether guarantees allow the eviction on top of what queues have lost already (`before`, by path)."""
        if victim.cause is not Cause.RECLAIM:
            return True
        freed = victim.gang.charge(victim.ranks)
        sides = below_common(gang.queue, victim.gang.queue)
        for path in sides:
            held, lost, stopping = self._held(path), before.get(path, {}), self._stopping.get(path, {})
            for name, least in self._guarantees.get(path, {}).items():
                left, taken = held.get(name, 0) - lost.get(name, 0), freed.get(name, 0)
                # the state machine counts gangs until they have stopped
                if taken and any(had >= least > had - taken for had in (left, left + stopping.get(name, 0))):
                    return False
        return self._exceeds_guarantee(victim.gang.queue, gang, before)

    def remaining(self) -> int:
        """Return how many more jobs may be evicted in this cycle."""
        return self._policy.max_victims - len(self._victims)

    def remaining_of(self, tenant: str) -> int:
        """Return how many more jobs of the tenant may be."""
        return self._policy.max_victims_per_tenant - self._by_tenant[tenant]

    def record_evictions(self, victims: Sequence[Victim], for_job: str) -> None:
        self._count_leaving()
        self._reclaims.clear()
        self._remember()
        for victim in victims:
            job_id = victim.gang.job_id
            self._victims[job_id] = None
            self._evicted_for[job_id] = (for_job, *self._evicted_for.get(job_id, ()))
            self._by_tenant[victim.gang.tenant] += 1
            self._add(victim.gang.queue, victim.gang.charge(victim.ranks), -1)

    def record_start(self, gang: PendingGang, placement: GangPlacement) -> None:
        """Note a start. It is counted when the queues are looked at: most cycles evict nothing."""
        self._started.append((gang, placement))
        if gang.joins:
            self._grown[gang.job_id] = None
        if self._reclaims:
            self._reclaims.clear()

    def _held(self, path: str) -> Amounts:
        self._count_leaving()
        for gang, placement in self._started:
            self._add(gang.queue, placed_charge(gang, placement))
        self._started.clear()
        return self._used.get(path, {})

    def _stays_within_guarantee(self, gang: PendingGang, other: str) -> bool:
        """Return whether the gang's side would stay within its guarantee."""
        if not gang.charge:
            return False
        path = below_common(other, gang.queue)[0]
        own, used = self._guarantees.get(path, {}), self._held(path)
        charge = [(name, amount) for name, amount in gang.charge if not name.startswith(MODEL_PREFIX) or name in own]
        return all(used.get(name, 0) + amount <= own.get(name, 0) for name, amount in charge)

    def _exceeds_guarantee(self, queue: str, gang: PendingGang, before: Mapping[str, Amounts] | None = None) -> bool:
        """Return whether the queue's side holds more than its guarantee of something that the gang asks for. A share of
        the cluster guarantees nothing of single GPU models, and they count only where they are guaranteed by name."""
        path = below_common(gang.queue, queue)[0]
        own, used = self._guarantees.get(path, {}), self._held(path)
        lost = (before or {}).get(path, {})
        asked = [name for name, _ in gang.charge if not name.startswith(MODEL_PREFIX) or name in own]
        return any(used.get(name, 0) - lost.get(name, 0) > own.get(name, 0) for name in asked)


def lost_s_of(gang: RunningGang, now_ms: int) -> int:
    """Return how many seconds an eviction loses of each task. Of a gang that was evicted before they count more, so
    that it is not evicted again and again."""
    return gang.lost_ms(now_ms, 1) // 1000 * (1 + gang.preemptions)


def costs(priority: IntArray, lost: IntArray, *, surplus: bool) -> IntArray:
    """Return what evictions cost; the lowest is evicted first. `lost`: seconds times the size of what is evicted."""
    steps = np.where(lost < _FINE, lost, _FINE + ((lost - _FINE) >> _COARSE_BITS))
    return (0 if surplus else _GANG) + priority * _PRIORITY + np.minimum(steps, _MOST_LOST)
