"""YARN: a client of its ResourceManagers, and its queues as ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gosched.lazy import lazy

if TYPE_CHECKING:
    from gosched.integrations.yarn.aio import AsyncYarnClient
    from gosched.integrations.yarn.client import YarnClient
    from gosched.integrations.yarn.errors import (
        YarnBadAnswer,
        YarnDenied,
        YarnError,
        YarnMisused,
        YarnNotFound,
        YarnRefused,
        YarnTimedOut,
        YarnUnreachable,
    )
    from gosched.integrations.yarn.kerberos import negotiate
    from gosched.integrations.yarn.records import (
        ClusterInfo,
        ClusterMetrics,
        LocalResource,
        NewApplication,
        Submission,
        YarnApplication,
        YarnNode,
        YarnQueue,
        YarnScheduler,
    )

__getattr__ = lazy(
    __name__,
    {
        "gosched.integrations.yarn.aio": "AsyncYarnClient",
        "gosched.integrations.yarn.client": "YarnClient",
        "gosched.integrations.yarn.errors": "YarnBadAnswer YarnDenied YarnError YarnMisused YarnNotFound YarnRefused "
        "YarnTimedOut YarnUnreachable",
        "gosched.integrations.yarn.kerberos": "negotiate",
        "gosched.integrations.yarn.records": "ClusterInfo ClusterMetrics LocalResource NewApplication Submission "
        "YarnApplication YarnNode YarnQueue YarnScheduler",
    },
)

__all__ = [
    "AsyncYarnClient",
    "ClusterInfo",
    "ClusterMetrics",
    "LocalResource",
    "NewApplication",
    "Submission",
    "YarnApplication",
    "YarnBadAnswer",
    "YarnClient",
    "YarnDenied",
    "YarnError",
    "YarnMisused",
    "YarnNode",
    "YarnNotFound",
    "YarnQueue",
    "YarnRefused",
    "YarnScheduler",
    "YarnTimedOut",
    "YarnUnreachable",
    "negotiate",
]
