"""Codes that say why: why a task or a job stops and ends, why a job waits, why a call is refused.

Invariant: decisions compare these codes, never the words beside them. Records, the wire and JSON carry a code as its
text, for a newer release may know more codes, and a job's reason may be what a person gave for its cancellation.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why a task stops, is still stopping, or has ended, and why its job does."""

    # Of the masters: the gang, the job, the cluster
    BACKFILL_OVER = "BACKFILL_OVER"  # the time is over that its start was conditional on
    CANCELLED = "CANCELLED"
    DEPENDENCY_FAILED = "DEPENDENCY_FAILED"
    DRAINED = "DRAINED"
    ELEMENTS_FAILED = "ELEMENTS_FAILED"
    GANG_ENDED = "GANG_ENDED"  # the group with whose success the job succeeds has succeeded
    GANG_MEMBER_FAILED = "GANG_MEMBER_FAILED"
    GANG_WAIT_TIMEOUT = "GANG_WAIT_TIMEOUT"
    NODE_LOST = "NODE_LOST"
    NOT_EXPECTED = "NOT_EXPECTED"  # no job of the cluster has the task that an agent runs
    NOT_NEEDED = "NOT_NEEDED"  # an elastic task that got no slot before the others had succeeded
    PREEMPTED = "PREEMPTED"
    RECLAIMED = "RECLAIMED"
    REPLACED = "REPLACED"  # by the next run of its schedule
    REQUEUED = "REQUEUED"
    SCALED_DOWN = "SCALED_DOWN"  # fewer tasks of the job are wanted
    SUSPENDED = "SUSPENDED"
    TAINTED = "TAINTED"
    TASK_FAILED = "TASK_FAILED"  # the agent gave no reason
    TIMEOUT = "TIMEOUT"
    WINDOW_BEGINS = "WINDOW_BEGINS"

    # Of an agent: the task was not started
    ACCOUNT_SHARED = "ACCOUNT_SHARED"  # it has secrets, and tasks of other tenants may run under its account there
    BAD_CONTAINER = "BAD_CONTAINER"
    BAD_CPUS = "BAD_CPUS"
    BAD_IMAGE = "BAD_IMAGE"
    BAD_LIMIT = "BAD_LIMIT"
    BAD_ORDER = "BAD_ORDER"
    BAD_VOLUME = "BAD_VOLUME"
    BAD_WORKING_DIR = "BAD_WORKING_DIR"
    CANNOT_STORE = "CANNOT_STORE"
    CGROUP_FAILED = "CGROUP_FAILED"
    CGROUP_LOST = "CGROUP_LOST"
    COMMAND_NOT_FOUND = "COMMAND_NOT_FOUND"
    DOCKER_FAILED = "DOCKER_FAILED"
    IMAGE_NOT_ALLOWED = "IMAGE_NOT_ALLOWED"
    IMAGE_NOT_FOUND = "IMAGE_NOT_FOUND"
    LIMIT_NOT_ALLOWED = "LIMIT_NOT_ALLOWED"
    NEVER_STARTED = "NEVER_STARTED"
    NODE_FAULT = "NODE_FAULT"  # LOST: the node lacked disk, memory or open files for its start, and nothing of it ran
    NOT_EXECUTABLE = "NOT_EXECUTABLE"
    NO_CGROUP = "NO_CGROUP"
    PORT_IN_USE = "PORT_IN_USE"  # LOST: another program listens on the port of the job
    PULL_FAILED = "PULL_FAILED"
    REGISTRY_NOT_FOUND = "REGISTRY_NOT_FOUND"
    SECRET_NOT_AVAILABLE = "SECRET_NOT_AVAILABLE"
    REGISTRY_REFUSED = "REGISTRY_REFUSED"
    REGISTRY_UNREACHABLE = "REGISTRY_UNREACHABLE"
    RUNTIME_NOT_SUPPORTED = "RUNTIME_NOT_SUPPORTED"
    START_FAILED = "START_FAILED"
    TOO_LITTLE_MEMORY = "TOO_LITTLE_MEMORY"
    TOO_LONG = "TOO_LONG"
    UNSUPPORTED_LIMIT = "UNSUPPORTED_LIMIT"
    USER_NOT_ALLOWED = "USER_NOT_ALLOWED"
    USER_NOT_FOUND = "USER_NOT_FOUND"
    USER_REFUSED = "USER_REFUSED"
    VOLUME_NOT_ALLOWED = "VOLUME_NOT_ALLOWED"
    VOLUME_NOT_FOUND = "VOLUME_NOT_FOUND"

    # Of an agent: the task ran
    CONTAINER_LOST = "CONTAINER_LOST"
    DISCONNECTED = "DISCONNECTED"  # its node lost the masters, and it asked to end then
    DISK_QUOTA = "DISK_QUOTA"
    NODE_OUT_OF_MEMORY = "NODE_OUT_OF_MEMORY"
    NODE_REBOOTED = "NODE_REBOOTED"
    NONZERO_EXIT = "NONZERO_EXIT"
    OOM_KILLED = "OOM_KILLED"
    SAVING = "SAVING"  # it is STOPPING, and may save itself first
    SIGNALLED = "SIGNALLED"
    SUPERVISOR_LOST = "SUPERVISOR_LOST"


#: Those of evictions: for another job, or for a window.
EVICTED = (Reason.BACKFILL_OVER, Reason.PREEMPTED, Reason.RECLAIMED, Reason.WINDOW_BEGINS)

#: Those for which masters stop an attempt, after which the job starts again: no failure of its own.
BY_ORDER = (
    Reason.BACKFILL_OVER,
    Reason.DRAINED,
    Reason.PREEMPTED,
    Reason.RECLAIMED,
    Reason.REQUEUED,
    Reason.SCALED_DOWN,
    Reason.SUSPENDED,
    Reason.TAINTED,
    Reason.WINDOW_BEGINS,
)


class WaitReason(StrEnum):
    """Why a live job does not run."""

    # Of the planner, for a job that it looks at
    BACKOFF = "BACKOFF"
    BEGIN = "BEGIN"
    CONSTRAINTS = "CONSTRAINTS"
    FRAGMENTED = "FRAGMENTED"
    GPU_MODEL = "GPU_MODEL"
    INSUFFICIENT = "INSUFFICIENT"
    MAX_RUNNING_JOBS = "MAX_RUNNING_JOBS"
    NODE_SELECTOR = "NODE_SELECTOR"
    NODE_TOO_SMALL = "NODE_TOO_SMALL"
    NO_NODE = "NO_NODE"
    PLANNER_BUG = "PLANNER_BUG"
    QUEUED = "QUEUED"
    QUEUE_LIMIT = "QUEUE_LIMIT"
    QUOTA = "QUOTA"
    RESERVED = "RESERVED"
    TOO_LARGE = "TOO_LARGE"
    TOPOLOGY = "TOPOLOGY"

    # Of the state, for a job that the planner does not look at
    ARRAY = "ARRAY"
    DEPENDENCY = "DEPENDENCY"
    FENCE = "FENCE"
    HELD = "HELD"
    NOT_RETRIED = "NOT_RETRIED"  # members of a gang that goes on have failed, and are not started again
    SCHEDULE = "SCHEDULE"
    STOPPING = "STOPPING"
    SUSPENDED = "SUSPENDED"


class RefusalReason(StrEnum):
    """Why a master refuses a call, where the gRPC status alone does not tell. They go with it: wire/refusals.py."""

    CLOCK_SKEW = "CLOCK_SKEW"
    FOREIGN_CLUSTER = "FOREIGN_CLUSTER"
    HISTORY_COMPACTED = "HISTORY_COMPACTED"  # events that were asked for are not kept any more
    MACHINE_BUG = "MACHINE_BUG"  # the state machine met a bug with this very change
    NODE_ID_IN_USE = "NODE_ID_IN_USE"
    REJECTED = "REJECTED"  # by the state machine
    REQUEST_OUT_OF_TIME = "REQUEST_OUT_OF_TIME"  # its id was made too long ago, or later than now
