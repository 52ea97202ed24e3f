"""Calls the planner, and keeps a job that makes it fail from stopping all others.

Invariant: a bug of the planner never ends a master, and is never hidden: the log has its traceback, the job its
explanation.
"""

from __future__ import annotations

import traceback
from dataclasses import replace

import structlog

from gosched.core.reasons import WaitReason
from gosched.scheduling import Explanation, Plan, Policy, View, schedule

MAX_SET_ASIDE = 16  # jobs; more than that and the planner itself is broken

log = structlog.get_logger()

_SET_ASIDE = Explanation(
    code=WaitReason.PLANNER_BUG,
    message="the planner met a bug with it, please report the master's log; it is tried again under the next leader",
)


class Planner:
    """The planner, used by one thread at a time. `set_aside`: ids of jobs that are not planned until `reset`."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.set_aside: dict[str, None] = {}

    def reset(self) -> None:
        self.set_aside.clear()

    def plan(self, view: View, now_ms: int, seed: int) -> Plan:
        """Return a plan without the jobs that make the planner fail."""
        if self.set_aside:
            waiting = {gang.job_id for gang in view.pending}
            self.set_aside = {job_id: None for job_id in self.set_aside if job_id in waiting}
            view = self._without(view)
        while True:
            try:
                plan = schedule(view, self._policy, now_ms, seed)
            except Exception:
                if not view.pending:
                    raise
                culprit = self._culprit(view, now_ms, seed)
                self.set_aside[culprit] = None
                log.error("the planner met a bug; the job is set aside", job=culprit, where=traceback.format_exc())
                view = self._without(view)
                continue
            plan.explanations.update(dict.fromkeys(self.set_aside, _SET_ASIDE))
            return plan

    def _without(self, view: View) -> View:
        """Return the view without the jobs that are set aside, or without all when those are too many."""
        if len(self.set_aside) >= MAX_SET_ASIDE:
            return replace(view, pending=())
        return replace(view, pending=tuple([gang for gang in view.pending if gang.job_id not in self.set_aside]))

    def _culprit(self, view: View, now_ms: int, seed: int) -> str:
        """Find a job without which the planner fails once less: by halves, in as many plans as halves."""
        suspects = view.pending
        while len(suspects) > 1:
            half = suspects[: len(suspects) // 2]
            try:
                schedule(replace(view, pending=half), self._policy, now_ms, seed)
            except Exception:  # that it fails is what is looked for; the caller has logged the first time
                suspects = half
            else:
                suspects = suspects[len(half) :]
        return suspects[0].job_id
