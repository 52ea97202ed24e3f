"""The typed client of the cluster's API."""

from gosched.client.client import GoSchedClient
from gosched.client.errors import AlreadyExists, Denied, GoSchedError, NotFound, Refused, TimedOut, Unavailable
from gosched.client.masters import TlsFiles
from gosched.client.model import (
    JobDetail,
    JobExplanation,
    LogChunk,
    MasterStatus,
    NodeDetail,
    QueueStatus,
    QuotaStatus,
    Status,
    Submitted,
)

__all__ = [
    "AlreadyExists",
    "Denied",
    "GoSchedClient",
    "GoSchedError",
    "JobDetail",
    "JobExplanation",
    "LogChunk",
    "MasterStatus",
    "NodeDetail",
    "NotFound",
    "QueueStatus",
    "QuotaStatus",
    "Refused",
    "Status",
    "Submitted",
    "TimedOut",
    "TlsFiles",
    "Unavailable",
]
