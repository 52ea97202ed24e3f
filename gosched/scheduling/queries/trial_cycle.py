"""A cycle on which questions about a gang are tried, with the reservations of the others.

Invariant: nothing comes of it: no placement or eviction that is tried is taken, here or in the cluster.
"""

from __future__ import annotations

import numpy as np

from gosched.core.commands.plans import GangPlacement
from gosched.core.reasons import WaitReason
from gosched.core.records.reservation import Reservation
from gosched.scheduling.backfill.earliest_start import Start
from gosched.scheduling.cycle_state import CycleState
from gosched.scheduling.explain.explanation import Explanation
from gosched.scheduling.fairness.queue_limits import UNLIMITED
from gosched.scheduling.plan import Plan
from gosched.scheduling.plugins.calls import Plugins
from gosched.scheduling.policy import Policy
from gosched.scheduling.preemption.eviction_rules import Victim
from gosched.scheduling.reservations import current_reservations
from gosched.scheduling.snapshot.running_gangs import NEVER_MS
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import View


class TrialCycle:
    """The tries of one question. `without`: the job whose reservation is left out, such as that of the gang in
    question; empty: none."""

    def __init__(self, view: View, policy: Policy, now_ms: int, seed: int, without: str = "") -> None:
        plan = Plan(revision=view.revision, planned_at_ms=now_ms, seed=seed)
        state = CycleState(view, policy, Plugins(view, policy.plugins, policy.runner), plan)
        self.view = view
        self.now_ms = now_ms
        self._seed = seed
        self._limits = state.limits
        self._feasibility = state.feasibility
        self._reserver = state.reserver
        self._reserved_starts = state.reserved_starts
        self._earliest_start = state.earliest_start
        self._start_now = state.start_now
        self._start_after_evictions = state.start_after_evictions
        self._wait_explainer = state.wait_explainer
        timed, standing = current_reservations(view, policy, plan)
        self._reserved_starts.add_all([reserved for reserved in timed if reserved.gang.job_id != without])
        state.node_keeper.hold([reserved for reserved in standing if reserved.gang.job_id != without])

    def held_back(self, gang: PendingGang) -> tuple[WaitReason, str] | None:
        """Return a code and a line about the limit that holds the gang back; None: there is none."""
        return self._limits.why_not(gang)

    def allowed_nodes(self, gang: PendingGang) -> list[str]:
        """Return the nodes that one of the gang's groups may use."""
        allowed = np.logical_or.reduce([self._feasibility.choice(gang, r).allowed for r in gang.requests])
        return [self.view.nodes.ids[row] for row in np.flatnonzero(allowed).tolist()]

    def placement_now(self, gang: PendingGang) -> GangPlacement | None:
        """Return where the gang could start now, and stay."""
        return self._start_now.placement(gang)

    def starts_now(self, gang: PendingGang) -> bool:
        return self._start_now.placement(gang) is not None

    def victims_for(self, gang: PendingGang) -> tuple[Victim, ...]:
        """Return the jobs that would be evicted for the gang."""
        return self._start_after_evictions.victims_for(gang)

    def earliest_start(self, gang: PendingGang, *, limited: bool = False, before_ms: int = NEVER_MS) -> Start | None:
        """Return the first start after now. `limited`: with no more tasks than limits allow."""
        allowance = self._limits.allowance(gang) if limited else UNLIMITED
        return self._earliest_start.find(gang, self._seed, allowance, before_ms=before_ms)

    def reserve(self, gang: PendingGang, start: Start) -> Reservation:
        """Return the reservation of this start for the gang's deadline."""
        return self._reserver.reserve(gang, start, for_deadline=True).reservation

    def why(self, gang: PendingGang) -> Explanation:
        """Return why the gang does not start now, though no limit holds it back."""
        return self._wait_explainer.why_in_full(gang)

    def next_reserved_ms(self) -> int:
        """Return when the first reserved start or window begins after now; 0: there is none."""
        begins = [reserved.start_ms for reserved in self._reserved_starts.all]
        begins += [window.start_ms for window in self._reserved_starts.windows]
        return min([begin for begin in begins if begin > self.now_ms], default=0)
