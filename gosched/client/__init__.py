"""The typed client of the cluster's API."""

from gosched.client.client import GoSchedClient
from gosched.client.errors import AlreadyExists, Denied, GoSchedError, NotFound, Refused, TimedOut, Unavailable
from gosched.client.masters import TlsFiles
from gosched.client.model import JobDetail, LogChunk, MasterStatus, NodeDetail, QueueStatus, Status, Submitted

__all__ = [
    "AlreadyExists",
    "Denied",
    "GoSchedClient",
    "GoSchedError",
    "JobDetail",
    "LogChunk",
    "MasterStatus",
    "NodeDetail",
    "NotFound",
    "QueueStatus",
    "Refused",
    "Status",
    "Submitted",
    "TimedOut",
    "TlsFiles",
    "Unavailable",
]
