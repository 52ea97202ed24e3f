"""The typed client of the cluster's API."""

from gosched.api.details import JobDetail, NodeDetail
from gosched.api.explanation import Holder, JobExplanation, Victim
from gosched.api.forecast import JobPlan, MovedStart, PlannedJob, Reserved
from gosched.api.status import MasterStatus, QueueStatus, QuotaStatus, Status
from gosched.api.usage import GpuUsage, LiveUsage, NodeUsage, TaskUsage
from gosched.client.answers import Controlled, LogChunk, NodeControlled, Submitted, WindowSet
from gosched.client.client import GoSchedClient
from gosched.client.errors import AlreadyExists, Denied, GoSchedError, Misused, NotFound, Refused, TimedOut, Unavailable
from gosched.client.masters import TlsFiles

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
