"""The records of requests and answers, imported when they are first used: a program needs few of them, and all of them
take longer to import than the rest of the client."""

from typing import TYPE_CHECKING

from gosched.lazy import lazy

if TYPE_CHECKING:
    from gosched.api.access import AccessCheck as AccessCheck
    from gosched.api.access import Bindings as Bindings
    from gosched.api.access import NewToken as NewToken
    from gosched.api.details import JobDetail as JobDetail
    from gosched.api.details import NodeDetail as NodeDetail
    from gosched.api.explanation import JobExplanation as JobExplanation
    from gosched.api.forecast import JobPlan as JobPlan
    from gosched.api.forecast import Reserved as Reserved
    from gosched.api.history import Attempt as Attempt
    from gosched.api.history import EventPage as EventPage
    from gosched.api.history import FinishedJob as FinishedJob
    from gosched.api.history import HistoryEvent as HistoryEvent
    from gosched.api.job_query import Direction as Direction
    from gosched.api.job_query import JobOrder as JobOrder
    from gosched.api.job_query import JobQuery as JobQuery
    from gosched.api.job_row import JobRow as JobRow
    from gosched.api.job_row import row_of as row_of
    from gosched.api.join import NewJoinToken as NewJoinToken
    from gosched.api.revocation import Revoked as Revoked
    from gosched.api.secrets import Rotation as Rotation
    from gosched.api.secrets import SecretInfo as SecretInfo
    from gosched.api.status import MasterHealth as MasterHealth
    from gosched.api.status import MasterMember as MasterMember
    from gosched.api.status import QuotaStatus as QuotaStatus
    from gosched.api.status import Status as Status
    from gosched.api.usage import LiveUsage as LiveUsage
    from gosched.client.spec import JobLike as JobLike
    from gosched.core.commands.jobs import Action as Action
    from gosched.core.records.access import AccessRole as AccessRole
    from gosched.core.records.access import Binding as Binding
    from gosched.core.records.access import Token as Token
    from gosched.core.records.job import Job as Job
    from gosched.core.records.job import JobState as JobState
    from gosched.core.records.join import JoinToken as JoinToken
    from gosched.core.records.queue import Queue as Queue
    from gosched.core.records.revocation import Revocation as Revocation
    from gosched.core.records.tenant import Quota as Quota
    from gosched.core.records.window import Window as Window
    from gosched.core.resources import AmountMap as AmountMap
    from gosched.core.spec.job_spec import JobSpec as JobSpec
    from gosched.core.spec.placement_rules import Taint as Taint
    from gosched.wire.node_views import live_usage as live_usage
    from gosched.wire.node_views import node_detail as node_detail

__getattr__ = lazy(
    __name__,
    {
        "gosched.api.access": "AccessCheck Bindings NewToken",
        "gosched.api.secrets": "Rotation SecretInfo",
        "gosched.api.details": "JobDetail NodeDetail",
        "gosched.api.explanation": "JobExplanation",
        "gosched.api.forecast": "JobPlan Reserved",
        "gosched.api.history": "Attempt EventPage FinishedJob HistoryEvent",
        "gosched.api.job_query": "Direction JobOrder JobQuery",
        "gosched.api.job_row": "JobRow row_of",
        "gosched.api.revocation": "Revoked",
        "gosched.api.join": "NewJoinToken",
        "gosched.api.status": "MasterHealth MasterMember QuotaStatus Status",
        "gosched.api.usage": "LiveUsage",
        "gosched.client.spec": "JobLike",
        "gosched.core.commands.jobs": "Action",
        "gosched.core.records.access": "AccessRole Binding Token",
        "gosched.core.records.job": "Job JobState",
        "gosched.core.records.join": "JoinToken",
        "gosched.core.records.queue": "Queue",
        "gosched.core.records.revocation": "Revocation",
        "gosched.core.records.tenant": "Quota",
        "gosched.core.records.window": "Window",
        "gosched.core.resources": "AmountMap",
        "gosched.core.spec.job_spec": "JobSpec",
        "gosched.core.spec.placement_rules": "Taint",
        "gosched.wire.node_views": "live_usage node_detail",
    },
)
