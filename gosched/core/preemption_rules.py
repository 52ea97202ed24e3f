"""What may be evicted, as far as a job, a queue and a window say: what the planner and the state machine agree on."""

from __future__ import annotations

from collections.abc import Mapping

from gosched.core.limits import MAX_FREE_RESTARTS
from gosched.core.reasons import BY_ORDER, Reason
from gosched.core.records.job import Job, JobIntent, JobState, wants_placement
from gosched.core.records.queue import Queue
from gosched.core.records.window import Window
from gosched.core.sharing import lineage
from gosched.core.spec.policies import MemberFailure, PreemptionPolicy, RetryCause


def may_restart(job: Job, cause: RetryCause) -> bool:
    """Return whether a job may start again after this cause.

    A failure of its own costs the job one of `max_restarts`. A lost node or a preemption costs it nothing, up to
    MAX_FREE_RESTARTS; but a job that wants no restarts (`max_restarts` 0) gets none of either kind.
    """
    policy = job.spec.retry
    if job.spec.gang.on_member_failure is MemberFailure.FAIL_JOB or cause not in policy.when:
        return False
    if cause is RetryCause.FAILED:
        return job.restarts + job.member_restarts < policy.max_restarts
    free_restarts = job.attempt - 1 - job.restarts
    return policy.max_restarts > 0 and free_restarts < MAX_FREE_RESTARTS


def rejoins_in_place(job: Job) -> bool:
    """Return whether members of a gang that goes on have failed, and start again, each where it ran if it can."""
    return job.state is JobState.RUNNING and wants_placement(job) and job.member_failed_at_ms > 0


def restarts_in_place(job: Job) -> bool:
    """Return whether the job's gang broke and starts again, where it ran as far as that can be; one that was stopped by
    others, and a job of one task, wait for any place. A gang that is about to fail counts, too, until its last member
    has ended: a lost node may turn out to be why."""
    if job.held or job.frozen or not job.reason or job.reason in BY_ORDER or job.spec.task_count == 1:
        return False
    if job.state is JobState.PENDING:  # what a node could not start is best tried on another
        again = job.attempt > 1 and job.intent is JobIntent.RUN
        return again and job.reason not in (Reason.NODE_FAULT, Reason.PORT_IN_USE)
    if job.state is not JobState.RUNNING or not job.active:
        return False
    suspects = job.intent is JobIntent.FAIL and job.failed_at_ms > 0 and may_restart(job, RetryCause.NODE_LOST)
    return suspects or job.intent is JobIntent.RESTART


def preemption_of(queues: Mapping[str, Queue], path: str) -> PreemptionPolicy:
    """Return the policy of the nearest queue, upwards from this one, that has one."""
    for ancestor in reversed(lineage(path)):
        if ancestor in queues and queues[ancestor].preemption:
            return queues[ancestor].preemption
    return PreemptionPolicy.LOWER_PRIORITY


def below_common(one: str, other: str) -> tuple[str, ...]:
    """Return the other queue and its ancestors below the lowest one that both have, the topmost first."""
    shared = lineage(one)
    return tuple([path for path in lineage(other) if path not in shared])


def admits(window: Window, queue: str, tenant: str) -> bool:
    """Return whether the window's nodes are reserved for jobs of this queue and tenant."""
    return tenant in window.tenants or any(path in window.queues for path in lineage(queue))
