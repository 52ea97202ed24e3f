"""The typed client of the cluster's API."""

from gosched.client.client import GoSchedClient
from gosched.client.errors import AlreadyExists, Denied, GoSchedError, Misused, NotFound, Refused, TimedOut, Unavailable
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
from gosched.client.usage import GpuUsage, LiveUsage, NodeControlled, NodeUsage, TaskUsage

__all__ = [
    "AlreadyExists",
    "Controlled",
    "Denied",
    "GoSchedClient",
    "GoSchedError",
    "GpuUsage",
    "Holder",
    "JobDetail",
    "JobExplanation",
    "JobPlan",
    "LiveUsage",
    "LogChunk",
    "MasterStatus",
    "Misused",
    "MovedStart",
    "NodeControlled",
    "NodeDetail",
    "NodeUsage",
    "NotFound",
    "PlannedJob",
    "QueueStatus",
    "QuotaStatus",
    "Refused",
    "Reserved",
    "Status",
    "Submitted",
    "TaskUsage",
    "TimedOut",
    "TlsFiles",
    "Unavailable",
    "Victim",
    "WindowSet",
]
