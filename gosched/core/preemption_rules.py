"""Who may be made to go, as far as a job, a queue and a window say: what the planner and the state machine agree on."""

from __future__ import annotations

from collections.abc import Mapping

from gosched.core.limits import MAX_FREE_RESTARTS
from gosched.core.records.job import Job
from gosched.core.records.queue import Queue
from gosched.core.records.window import Window
from gosched.core.sharing import lineage
from gosched.core.spec.policies import MemberFailure, PreemptionPolicy, RetryCause


def may_restart(job: Job, cause: RetryCause) -> bool:
    """A failure of its own costs the job one of `max_restarts`. A lost node or a preemption costs it nothing, up to
    MAX_FREE_RESTARTS; but a job that wants no restarts (`max_restarts` 0) gets none of either kind.
    """
    policy = job.spec.retry
    if job.spec.gang.on_member_failure is MemberFailure.FAIL_JOB or cause not in policy.when:
        return False
    if cause is RetryCause.FAILED:
        return job.restarts < policy.max_restarts
    free_restarts = job.attempt - 1 - job.restarts
    return policy.max_restarts > 0 and free_restarts < MAX_FREE_RESTARTS


def preemption_of(queues: Mapping[str, Queue], path: str) -> PreemptionPolicy:
    """Of the nearest queue, upwards from this one, that says."""
    for ancestor in reversed(lineage(path)):
        if ancestor in queues and queues[ancestor].preemption:
            return queues[ancestor].preemption
    return PreemptionPolicy.LOWER_PRIORITY


def below_common(one: str, other: str) -> tuple[str, ...]:
    """The other queue and its ancestors below the lowest one that both have, the topmost first."""
    shared = lineage(one)
    return tuple([path for path in lineage(other) if path not in shared])


def admits(window: Window, queue: str, tenant: str) -> bool:
    """Whether the window's nodes are kept for jobs of this queue and tenant."""
    return tenant in window.tenants or any(path in window.queues for path in lineage(queue))
