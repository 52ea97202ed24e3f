"""The typed client of the cluster's API. The names below are imported on first use."""

import os
from typing import TYPE_CHECKING

from gosched.lazy import lazy

if TYPE_CHECKING:
    from gosched.api.details import JobDetail, NodeDetail
    from gosched.api.explanation import Holder, JobExplanation, Victim
    from gosched.api.forecast import JobPlan, MovedStart, PlannedJob, Reserved
    from gosched.api.spark import SparkProgress, StageProgress
    from gosched.api.status import MasterStatus, QueueStatus, QuotaStatus, Status
    from gosched.api.usage import GpuUsage, LiveUsage, NodeUsage, TaskUsage
    from gosched.client.answers import Controlled, LogChunk, NodeControlled, NotSubmitted, Submitted, WindowSet
    from gosched.client.client import GoSchedClient
    from gosched.client.errors import (
        AlreadyExists,
        Denied,
        GoSchedError,
        JobFailed,
        Misused,
        NotFound,
        Refused,
        TimedOut,
        Unavailable,
    )
    from gosched.client.handle import JobHandle
    from gosched.client.spec import Job, Tasks
    from gosched.client.targets import TlsFiles

# What gRPC would print of a handshake that failed, an error says in words for people. It looks when it is imported.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

__getattr__ = lazy(
    __name__,
    {
        "gosched.api.details": "JobDetail NodeDetail",
        "gosched.api.explanation": "Holder JobExplanation Victim",
        "gosched.api.forecast": "JobPlan MovedStart PlannedJob Reserved",
        "gosched.api.spark": "SparkProgress StageProgress",
        "gosched.api.status": "MasterStatus QueueStatus QuotaStatus Status",
        "gosched.api.usage": "GpuUsage LiveUsage NodeUsage TaskUsage",
        "gosched.client.answers": "Controlled LogChunk NodeControlled NotSubmitted Submitted WindowSet",
        "gosched.client.client": "GoSchedClient",
        "gosched.client.errors": (
            "AlreadyExists Denied GoSchedError JobFailed Misused NotFound Refused TimedOut Unavailable"
        ),
        "gosched.client.handle": "JobHandle",
        "gosched.client.spec": "Job Tasks",
        "gosched.client.targets": "TlsFiles",
    },
)

__all__ = [
    "AlreadyExists",
    "Controlled",
    "Denied",
    "GoSchedClient",
    "GoSchedError",
    "GpuUsage",
    "Holder",
    "Job",
    "JobDetail",
    "JobExplanation",
    "JobFailed",
    "JobHandle",
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
    "NotSubmitted",
    "PlannedJob",
    "QueueStatus",
    "QuotaStatus",
    "Refused",
    "Reserved",
    "SparkProgress",
    "StageProgress",
    "Status",
    "Submitted",
    "TaskUsage",
    "Tasks",
    "TimedOut",
    "TlsFiles",
    "Unavailable",
    "Victim",
    "WindowSet",
]
