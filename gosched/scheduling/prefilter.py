"""Why a gang is not looked at now, found without a look at any node.

Invariant: what holds one gang of a shape or kind holds all that follow in the cycle: limits and capacity only shrink.
"""

from __future__ import annotations

from collections.abc import Callable

from gosched.scheduling.actions.wait import Waits
from gosched.scheduling.explain import explanation
from gosched.scheduling.explain.explanation import Explanation
from gosched.scheduling.fairness.queue_limits import QueueLimits
from gosched.scheduling.plan import ALWAYS_ENCODES, MAX_COMMAND_BYTES, Plan, may_encode
from gosched.scheduling.policy import Policy
from gosched.scheduling.preemption.eviction_rules import EvictionBudget
from gosched.scheduling.snapshot.task_requests import PendingGang


class PreFilter:
    """The checks of one cycle that cost no look at a node."""

    def __init__(
        self,
        policy: Policy,
        plan: Plan,
        limits: QueueLimits,
        budget: EvictionBudget,
        waits: Waits,
        longest_node_id: Callable[[], int],
    ) -> None:
        self._policy = policy
        self._plan = plan
        self._now_ms = plan.planned_at_ms
        self._limits = limits
        self._budget = budget
        self._waits = waits
        self._longest_node_id = longest_node_id
        #: Why a limit holds gangs back, by their shape.
        self._limited: dict[object, Explanation] = {}
        #: Why the cycle looks at no more gangs, once it has reached a bound.
        self._stopped: Explanation | None = None

    def why_not_now(self, gang: PendingGang, shape: object) -> Explanation | None:
        """Return why the gang is not looked at now; None: it is. Sets when to plan again, if that is known."""
        if why := explanation.too_early(gang, self._now_ms):
            self._plan.wake_at(gang.not_before_ms)
            return why
        if gang.joins and self._budget.is_victim(gang.job_id):
            return explanation.evicted_in_this_plan()
        if self._stopped is not None:
            return self._stopped
        if shape in self._limited:
            return self._limited[shape]
        if (why := self._waits.known(gang, shape)) is not None:
            return why
        if held := self._limits.why_not(gang):
            self._limited[shape] = why = explanation.held_back(*held)
            return why
        return self._beyond_a_bound(gang)

    def _beyond_a_bound(self, gang: PendingGang) -> Explanation | None:
        plan, policy = self._plan, self._policy
        if gang.most > ALWAYS_ENCODES and not may_encode(gang, self._longest_node_id):
            return explanation.too_large(MAX_COMMAND_BYTES)
        if plan.tasks and plan.tasks + gang.tasks > policy.max_tasks:
            plan.more = True
        elif self._waits.kinds + len(self._limited) < policy.max_misses:
            return None
        self._stopped = explanation.queued(plan.looked_at)
        return self._stopped
