"""The typed client of the cluster's API."""

from gosched.client.client import GoSchedClient
from gosched.client.errors import AlreadyExists, Denied, GoSchedError, NotFound, Refused, TimedOut, Unavailable
from gosched.client.forecast import JobPlan, MovedStart, PlannedJob, Reserved, WindowSet
from gosched.client.masters import TlsFiles
from gosched.client.model import (
    Controlled,
    Holder,
    JobDetail,
    JobExplanation,
    LogChunk,
    MasterStatus,
    NodeDetail,
    QueueStatus,
    QuotaStatus,
    Status,
    Submitted,
    Victim,
)

__all__ = [
    "AlreadyExists",
    "Controlled",
    "Denied",
    "GoSchedClient",
    "GoSchedError",
    "Holder",
    "JobDetail",
    "JobExplanation",
    "JobPlan",
    "LogChunk",
    "MasterStatus",
    "MovedStart",
    "NodeDetail",
    "NotFound",
    "PlannedJob",
    "QueueStatus",
    "QuotaStatus",
    "Refused",
    "Reserved",
    "Status",
    "Submitted",
    "TimedOut",
    "TlsFiles",
    "Unavailable",
    "Victim",
    "WindowSet",
]
