"""The kinds of events of the history; docs/guides/events.md says which fields each has."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What happened. A newer release may know more."""

    # Of jobs
    JOB_SUBMITTED = "job_submitted"
    #: Why it waits, or waits now: `code`.
    JOB_QUEUED = "job_queued"
    #: A later start is reserved for it, or its reserved start has moved.
    JOB_RESERVED = "job_reserved"
    #: Its reserved start is lost.
    JOB_RESERVATION_LOST = "job_reservation_lost"
    #: It starts where others are evicted for it, once these have ended.
    JOB_FENCED = "job_fenced"
    #: It does not start there after all.
    JOB_FENCE_LOST = "job_fence_lost"
    JOB_PLACED = "job_placed"
    #: The first of its tasks runs.
    JOB_STARTED = "job_started"
    #: It loses all or some of its places to another job, or to a window.
    JOB_EVICTED = "job_evicted"
    #: Its tasks are ordered to stop: `code`.
    JOB_STOPPING = "job_stopping"
    #: An attempt failed, another one follows.
    JOB_RETRIED = "job_retried"
    #: An attempt was stopped by others, and the job waits again in its old place in the queue.
    JOB_REQUEUED = "job_requeued"
    JOB_HELD = "job_held"
    JOB_RELEASED = "job_released"
    #: More or fewer of its tasks are wanted.
    JOB_SCALED = "job_scaled"
    JOB_SUSPENDED = "job_suspended"
    #: Its tasks stand still where they are.
    JOB_FROZEN = "job_frozen"
    JOB_RESUMED = "job_resumed"
    JOB_DEADLINE_MISSED = "job_deadline_missed"
    JOB_SUCCEEDED = "job_succeeded"
    JOB_FAILED = "job_failed"
    JOB_CANCELLED = "job_cancelled"
    #: Its record is dropped; what the history has of it stays.
    JOB_FORGOTTEN = "job_forgotten"

    # Of single tasks
    TASK_FAILED = "task_failed"
    #: Its node died, or could not start it.
    TASK_LOST = "task_lost"
    #: It waits for another place while its job runs on.
    TASK_MOVED = "task_moved"

    # Of nodes
    #: Its agent traded a token for a certificate; it registers next.
    NODE_CERTIFIED = "node_certified"
    NODE_JOINED = "node_joined"
    #: It is there again after it was dead.
    NODE_BACK = "node_back"
    #: It says something new of itself, or its reason is another.
    NODE_CHANGED = "node_changed"
    NODE_CORDONED = "node_cordoned"
    NODE_UNCORDONED = "node_uncordoned"
    NODE_DRAINING = "node_draining"
    #: It was draining, and is empty.
    NODE_DRAINED = "node_drained"
    NODE_DEAD = "node_dead"
    NODE_REMOVED = "node_removed"

    # Of the cluster
    QUEUES_CHANGED = "queues_changed"
    QUOTAS_CHANGED = "quotas_changed"
    WINDOWS_CHANGED = "windows_changed"
    LEADER_CHANGED = "leader_changed"
    FEATURE_LEVEL_RAISED = "feature_level_raised"
    MEMBERS_CHANGED = "members_changed"
    CLOCK_SET_BACK = "clock_set_back"
