"""Commands: everything that may change the state of the cluster. Ids and times travel in them."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.commands.cluster import (
    AnnounceMaster,
    DropWindow,
    Noop,
    OpenEpoch,
    PassTime,
    SetClock,
    SetFeatureLevel,
    SetMembers,
    SetQueues,
    SetQuotas,
    SetWindow,
)
from gosched.core.commands.jobs import CancelJob, ControlJob, DropFinishedJobs, RunSchedule, SubmitJob
from gosched.core.commands.nodes import ControlNode, MarkNodeDead, RegisterNode, RemoveNode, ReportTasks
from gosched.core.commands.plans import CommitPlan
from gosched.core.features import FeatureLevel

Body = (
    Noop
    | OpenEpoch
    | SetFeatureLevel
    | SetQueues
    | SetQuotas
    | AnnounceMaster
    | SetMembers
    | SubmitJob
    | CancelJob
    | DropFinishedJobs
    | RegisterNode
    | MarkNodeDead
    | RemoveNode
    | CommitPlan
    | ReportTasks
    | ControlJob
    | ControlNode
    | RunSchedule
    | PassTime
    | SetClock
    | SetWindow
    | DropWindow
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """`epoch` 0 is not fenced; an empty `request_id` is not remembered."""

    body: Body
    client_id: str = ""
    request_id: str = ""
    epoch: int = 0
    at_ms: int = 0


#: The feature level of each kind of command that masters of the release before do not know.
LEVEL_OF: dict[type[Body], FeatureLevel] = {
    RemoveNode: FeatureLevel.BOUNDED,
    SetMembers: FeatureLevel.BOUNDED,
}
