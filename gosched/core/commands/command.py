"""Commands: everything that may change the state of the cluster. Ids and times travel in them."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.commands.access import CreateToken, RevokeToken, SetBindings
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
    Skipped,
)
from gosched.core.commands.jobs import CancelJob, ControlJob, DropFinishedJobs, NoteWaitReasons, RunSchedule, SubmitJob
from gosched.core.commands.join import CreateJoinToken, RenewJoinedNode, RevokeJoinToken, UseJoinToken
from gosched.core.commands.nodes import (
    AwaitNode,
    ControlNode,
    LabelNode,
    MarkNodeDead,
    RegisterNode,
    RemoveNode,
    ReportTasks,
)
from gosched.core.commands.plans import CommitPlan
from gosched.core.commands.revocation import RevokeCertificate, UnrevokeCertificate
from gosched.core.commands.secrets import DeleteSecret, ResealSecret, SetSecret
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
    | LabelNode
    | RunSchedule
    | NoteWaitReasons
    | PassTime
    | SetClock
    | SetWindow
    | DropWindow
    | SetBindings
    | CreateToken
    | RevokeToken
    | SetSecret
    | DeleteSecret
    | ResealSecret
    | RevokeCertificate
    | UnrevokeCertificate
    | CreateJoinToken
    | RevokeJoinToken
    | UseJoinToken
    | RenewJoinedNode
    | AwaitNode
    | Skipped
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A request to change the state, with its time and its sender."""

    #: What is to be changed.
    body: Body
    #: Of the sender, for `request_id`; empty: there is none.
    client_id: str = ""
    #: The answer is remembered under it, and given again to repeats; empty: it is not remembered.
    request_id: str = ""
    #: The leader's, which is refused once it is over; 0: not fenced.
    epoch: int = 0
    #: When the leader made it, in ms since 1970; 0: it does not move the clock.
    at_ms: int = 0


#: The feature level of each kind of command that masters of the release before do not know.
LEVEL_OF: dict[type[Body], FeatureLevel] = {
    LabelNode: FeatureLevel.BOUNDED,
    RemoveNode: FeatureLevel.BOUNDED,
    SetMembers: FeatureLevel.BOUNDED,
    NoteWaitReasons: FeatureLevel.BOUNDED,
    SetBindings: FeatureLevel.BOUNDED,
    CreateToken: FeatureLevel.BOUNDED,
    RevokeToken: FeatureLevel.BOUNDED,
    SetSecret: FeatureLevel.BOUNDED,
    DeleteSecret: FeatureLevel.BOUNDED,
    ResealSecret: FeatureLevel.BOUNDED,
    RevokeCertificate: FeatureLevel.BOUNDED,
    UnrevokeCertificate: FeatureLevel.BOUNDED,
    CreateJoinToken: FeatureLevel.BOUNDED,
    RevokeJoinToken: FeatureLevel.BOUNDED,
    UseJoinToken: FeatureLevel.BOUNDED,
    RenewJoinedNode: FeatureLevel.BOUNDED,
    AwaitNode: FeatureLevel.BOUNDED,
    Skipped: FeatureLevel.BOUNDED,
}
