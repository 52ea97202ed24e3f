from gosched.wire.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Cause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CAUSE_UNSPECIFIED: _ClassVar[Cause]
    CAUSE_PREEMPT: _ClassVar[Cause]
    CAUSE_RECLAIM: _ClassVar[Cause]
    CAUSE_BACKFILL: _ClassVar[Cause]
    CAUSE_WINDOW: _ClassVar[Cause]
    CAUSE_REPAIR: _ClassVar[Cause]

class FollowUpKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FOLLOW_UP_KIND_UNSPECIFIED: _ClassVar[FollowUpKind]
    FOLLOW_UP_KIND_DEPENDENTS: _ClassVar[FollowUpKind]
    FOLLOW_UP_KIND_FILL: _ClassVar[FollowUpKind]
    FOLLOW_UP_KIND_CANCEL: _ClassVar[FollowUpKind]
    FOLLOW_UP_KIND_SUSPEND: _ClassVar[FollowUpKind]
    FOLLOW_UP_KIND_FREEZE: _ClassVar[FollowUpKind]
    FOLLOW_UP_KIND_RESUME: _ClassVar[FollowUpKind]
    FOLLOW_UP_KIND_REQUEUE: _ClassVar[FollowUpKind]
CAUSE_UNSPECIFIED: Cause
CAUSE_PREEMPT: Cause
CAUSE_RECLAIM: Cause
CAUSE_BACKFILL: Cause
CAUSE_WINDOW: Cause
CAUSE_REPAIR: Cause
FOLLOW_UP_KIND_UNSPECIFIED: FollowUpKind
FOLLOW_UP_KIND_DEPENDENTS: FollowUpKind
FOLLOW_UP_KIND_FILL: FollowUpKind
FOLLOW_UP_KIND_CANCEL: FollowUpKind
FOLLOW_UP_KIND_SUSPEND: FollowUpKind
FOLLOW_UP_KIND_FREEZE: FollowUpKind
FOLLOW_UP_KIND_RESUME: FollowUpKind
FOLLOW_UP_KIND_REQUEUE: FollowUpKind

class CommandBatch(_message.Message):
    __slots__ = ("schema", "proposer", "proposal", "commands")
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    PROPOSER_FIELD_NUMBER: _ClassVar[int]
    PROPOSAL_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    schema: int
    proposer: str
    proposal: int
    commands: _containers.RepeatedCompositeFieldContainer[Command]
    def __init__(self, schema: _Optional[int] = ..., proposer: _Optional[str] = ..., proposal: _Optional[int] = ..., commands: _Optional[_Iterable[_Union[Command, _Mapping]]] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("client_id", "request_id", "epoch", "at_ms", "noop", "open_epoch", "set_queues", "announce_master", "submit_job", "cancel_job", "drop_finished_jobs", "register_node", "mark_node_dead", "commit_plan", "report_tasks", "set_quotas", "control_job", "run_schedule", "pass_time", "set_window", "drop_window", "control_node", "set_feature_level", "set_clock", "remove_node", "set_members", "note_wait_reasons", "label_node", "set_bindings", "create_token", "revoke_token", "set_secret", "delete_secret", "reseal_secret", "revoke_certificate", "unrevoke_certificate", "create_join_token", "revoke_join_token", "use_join_token", "renew_joined_node", "await_node", "skipped")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    NOOP_FIELD_NUMBER: _ClassVar[int]
    OPEN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SET_QUEUES_FIELD_NUMBER: _ClassVar[int]
    ANNOUNCE_MASTER_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_JOB_FIELD_NUMBER: _ClassVar[int]
    CANCEL_JOB_FIELD_NUMBER: _ClassVar[int]
    DROP_FINISHED_JOBS_FIELD_NUMBER: _ClassVar[int]
    REGISTER_NODE_FIELD_NUMBER: _ClassVar[int]
    MARK_NODE_DEAD_FIELD_NUMBER: _ClassVar[int]
    COMMIT_PLAN_FIELD_NUMBER: _ClassVar[int]
    REPORT_TASKS_FIELD_NUMBER: _ClassVar[int]
    SET_QUOTAS_FIELD_NUMBER: _ClassVar[int]
    CONTROL_JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    PASS_TIME_FIELD_NUMBER: _ClassVar[int]
    SET_WINDOW_FIELD_NUMBER: _ClassVar[int]
    DROP_WINDOW_FIELD_NUMBER: _ClassVar[int]
    CONTROL_NODE_FIELD_NUMBER: _ClassVar[int]
    SET_FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    SET_CLOCK_FIELD_NUMBER: _ClassVar[int]
    REMOVE_NODE_FIELD_NUMBER: _ClassVar[int]
    SET_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    NOTE_WAIT_REASONS_FIELD_NUMBER: _ClassVar[int]
    LABEL_NODE_FIELD_NUMBER: _ClassVar[int]
    SET_BINDINGS_FIELD_NUMBER: _ClassVar[int]
    CREATE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REVOKE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SET_SECRET_FIELD_NUMBER: _ClassVar[int]
    DELETE_SECRET_FIELD_NUMBER: _ClassVar[int]
    RESEAL_SECRET_FIELD_NUMBER: _ClassVar[int]
    REVOKE_CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    UNREVOKE_CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    CREATE_JOIN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REVOKE_JOIN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    USE_JOIN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    RENEW_JOINED_NODE_FIELD_NUMBER: _ClassVar[int]
    AWAIT_NODE_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    request_id: str
    epoch: int
    at_ms: int
    noop: Noop
    open_epoch: OpenEpoch
    set_queues: SetQueues
    announce_master: AnnounceMaster
    submit_job: SubmitJob
    cancel_job: CancelJob
    drop_finished_jobs: DropFinishedJobs
    register_node: RegisterNode
    mark_node_dead: MarkNodeDead
    commit_plan: CommitPlan
    report_tasks: ReportTasks
    set_quotas: SetQuotas
    control_job: ControlJob
    run_schedule: RunSchedule
    pass_time: PassTime
    set_window: SetWindow
    drop_window: DropWindow
    control_node: ControlNode
    set_feature_level: SetFeatureLevel
    set_clock: SetClock
    remove_node: RemoveNode
    set_members: SetMembers
    note_wait_reasons: NoteWaitReasons
    label_node: LabelNode
    set_bindings: SetBindings
    create_token: CreateToken
    revoke_token: RevokeToken
    set_secret: SetSecret
    delete_secret: DeleteSecret
    reseal_secret: ResealSecret
    revoke_certificate: RevokeCertificate
    unrevoke_certificate: UnrevokeCertificate
    create_join_token: CreateJoinToken
    revoke_join_token: RevokeJoinToken
    use_join_token: UseJoinToken
    renew_joined_node: RenewJoinedNode
    await_node: AwaitNode
    skipped: Skipped
    def __init__(self, client_id: _Optional[str] = ..., request_id: _Optional[str] = ..., epoch: _Optional[int] = ..., at_ms: _Optional[int] = ..., noop: _Optional[_Union[Noop, _Mapping]] = ..., open_epoch: _Optional[_Union[OpenEpoch, _Mapping]] = ..., set_queues: _Optional[_Union[SetQueues, _Mapping]] = ..., announce_master: _Optional[_Union[AnnounceMaster, _Mapping]] = ..., submit_job: _Optional[_Union[SubmitJob, _Mapping]] = ..., cancel_job: _Optional[_Union[CancelJob, _Mapping]] = ..., drop_finished_jobs: _Optional[_Union[DropFinishedJobs, _Mapping]] = ..., register_node: _Optional[_Union[RegisterNode, _Mapping]] = ..., mark_node_dead: _Optional[_Union[MarkNodeDead, _Mapping]] = ..., commit_plan: _Optional[_Union[CommitPlan, _Mapping]] = ..., report_tasks: _Optional[_Union[ReportTasks, _Mapping]] = ..., set_quotas: _Optional[_Union[SetQuotas, _Mapping]] = ..., control_job: _Optional[_Union[ControlJob, _Mapping]] = ..., run_schedule: _Optional[_Union[RunSchedule, _Mapping]] = ..., pass_time: _Optional[_Union[PassTime, _Mapping]] = ..., set_window: _Optional[_Union[SetWindow, _Mapping]] = ..., drop_window: _Optional[_Union[DropWindow, _Mapping]] = ..., control_node: _Optional[_Union[ControlNode, _Mapping]] = ..., set_feature_level: _Optional[_Union[SetFeatureLevel, _Mapping]] = ..., set_clock: _Optional[_Union[SetClock, _Mapping]] = ..., remove_node: _Optional[_Union[RemoveNode, _Mapping]] = ..., set_members: _Optional[_Union[SetMembers, _Mapping]] = ..., note_wait_reasons: _Optional[_Union[NoteWaitReasons, _Mapping]] = ..., label_node: _Optional[_Union[LabelNode, _Mapping]] = ..., set_bindings: _Optional[_Union[SetBindings, _Mapping]] = ..., create_token: _Optional[_Union[CreateToken, _Mapping]] = ..., revoke_token: _Optional[_Union[RevokeToken, _Mapping]] = ..., set_secret: _Optional[_Union[SetSecret, _Mapping]] = ..., delete_secret: _Optional[_Union[DeleteSecret, _Mapping]] = ..., reseal_secret: _Optional[_Union[ResealSecret, _Mapping]] = ..., revoke_certificate: _Optional[_Union[RevokeCertificate, _Mapping]] = ..., unrevoke_certificate: _Optional[_Union[UnrevokeCertificate, _Mapping]] = ..., create_join_token: _Optional[_Union[CreateJoinToken, _Mapping]] = ..., revoke_join_token: _Optional[_Union[RevokeJoinToken, _Mapping]] = ..., use_join_token: _Optional[_Union[UseJoinToken, _Mapping]] = ..., renew_joined_node: _Optional[_Union[RenewJoinedNode, _Mapping]] = ..., await_node: _Optional[_Union[AwaitNode, _Mapping]] = ..., skipped: _Optional[_Union[Skipped, _Mapping]] = ...) -> None: ...

class Noop(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class OpenEpoch(_message.Message):
    __slots__ = ("leader",)
    LEADER_FIELD_NUMBER: _ClassVar[int]
    leader: _types_pb2.Master
    def __init__(self, leader: _Optional[_Union[_types_pb2.Master, _Mapping]] = ...) -> None: ...

class SetFeatureLevel(_message.Message):
    __slots__ = ("level", "cluster_id", "task_key")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_KEY_FIELD_NUMBER: _ClassVar[int]
    level: int
    cluster_id: str
    task_key: str
    def __init__(self, level: _Optional[int] = ..., cluster_id: _Optional[str] = ..., task_key: _Optional[str] = ...) -> None: ...

class SetQueues(_message.Message):
    __slots__ = ("queues", "quotas", "sets_quotas")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    SETS_QUOTAS_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[_types_pb2.Queue]
    quotas: _containers.RepeatedCompositeFieldContainer[_types_pb2.Quota]
    sets_quotas: bool
    def __init__(self, queues: _Optional[_Iterable[_Union[_types_pb2.Queue, _Mapping]]] = ..., quotas: _Optional[_Iterable[_Union[_types_pb2.Quota, _Mapping]]] = ..., sets_quotas: bool = ...) -> None: ...

class SetQuotas(_message.Message):
    __slots__ = ("quotas", "replace")
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    quotas: _containers.RepeatedCompositeFieldContainer[_types_pb2.Quota]
    replace: bool
    def __init__(self, quotas: _Optional[_Iterable[_Union[_types_pb2.Quota, _Mapping]]] = ..., replace: bool = ...) -> None: ...

class AnnounceMaster(_message.Message):
    __slots__ = ("master",)
    MASTER_FIELD_NUMBER: _ClassVar[int]
    master: _types_pb2.Master
    def __init__(self, master: _Optional[_Union[_types_pb2.Master, _Mapping]] = ...) -> None: ...

class SetMembers(_message.Message):
    __slots__ = ("configuration",)
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    configuration: _types_pb2.Configuration
    def __init__(self, configuration: _Optional[_Union[_types_pb2.Configuration, _Mapping]] = ...) -> None: ...

class SubmitJob(_message.Message):
    __slots__ = ("job_id", "spec", "reservation", "next_run_at_ms", "user", "authenticated", "traceparent", "unseen")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    NEXT_RUN_AT_MS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATED_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    UNSEEN_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    spec: _types_pb2.JobSpec
    reservation: _containers.RepeatedCompositeFieldContainer[_types_pb2.Reservation]
    next_run_at_ms: int
    user: str
    authenticated: bool
    traceparent: str
    unseen: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_id: _Optional[str] = ..., spec: _Optional[_Union[_types_pb2.JobSpec, _Mapping]] = ..., reservation: _Optional[_Iterable[_Union[_types_pb2.Reservation, _Mapping]]] = ..., next_run_at_ms: _Optional[int] = ..., user: _Optional[str] = ..., authenticated: bool = ..., traceparent: _Optional[str] = ..., unseen: _Optional[_Iterable[str]] = ...) -> None: ...

class CancelJob(_message.Message):
    __slots__ = ("job_id", "reason")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    reason: str
    def __init__(self, job_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ControlJob(_message.Message):
    __slots__ = ("job_id", "action", "tasks")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    action: _types_pb2.Action
    tasks: int
    def __init__(self, job_id: _Optional[str] = ..., action: _Optional[_Union[_types_pb2.Action, str]] = ..., tasks: _Optional[int] = ...) -> None: ...

class ControlNode(_message.Message):
    __slots__ = ("node_id", "action", "by", "reason", "drain_by_ms")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DRAIN_BY_MS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    action: _types_pb2.NodeAction
    by: _types_pb2.ClosedBy
    reason: str
    drain_by_ms: int
    def __init__(self, node_id: _Optional[str] = ..., action: _Optional[_Union[_types_pb2.NodeAction, str]] = ..., by: _Optional[_Union[_types_pb2.ClosedBy, str]] = ..., reason: _Optional[str] = ..., drain_by_ms: _Optional[int] = ...) -> None: ...

class LabelNode(_message.Message):
    __slots__ = ("node_id", "labels", "drop_labels", "taints", "drop_taints")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    DROP_LABELS_FIELD_NUMBER: _ClassVar[int]
    TAINTS_FIELD_NUMBER: _ClassVar[int]
    DROP_TAINTS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    labels: _containers.ScalarMap[str, str]
    drop_labels: _containers.RepeatedScalarFieldContainer[str]
    taints: _containers.RepeatedCompositeFieldContainer[_types_pb2.Taint]
    drop_taints: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node_id: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., drop_labels: _Optional[_Iterable[str]] = ..., taints: _Optional[_Iterable[_Union[_types_pb2.Taint, _Mapping]]] = ..., drop_taints: _Optional[_Iterable[str]] = ...) -> None: ...

class RunSchedule(_message.Message):
    __slots__ = ("job_id", "child_id", "due_at_ms", "next_run_at_ms")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    CHILD_ID_FIELD_NUMBER: _ClassVar[int]
    DUE_AT_MS_FIELD_NUMBER: _ClassVar[int]
    NEXT_RUN_AT_MS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    child_id: str
    due_at_ms: int
    next_run_at_ms: int
    def __init__(self, job_id: _Optional[str] = ..., child_id: _Optional[str] = ..., due_at_ms: _Optional[int] = ..., next_run_at_ms: _Optional[int] = ...) -> None: ...

class WaitNote(_message.Message):
    __slots__ = ("job_id", "code", "message")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    code: str
    message: str
    def __init__(self, job_id: _Optional[str] = ..., code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class NoteWaitReasons(_message.Message):
    __slots__ = ("notes",)
    NOTES_FIELD_NUMBER: _ClassVar[int]
    notes: _containers.RepeatedCompositeFieldContainer[WaitNote]
    def __init__(self, notes: _Optional[_Iterable[_Union[WaitNote, _Mapping]]] = ...) -> None: ...

class PassTime(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NextRun(_message.Message):
    __slots__ = ("job_id", "at_ms")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    at_ms: int
    def __init__(self, job_id: _Optional[str] = ..., at_ms: _Optional[int] = ...) -> None: ...

class SetClock(_message.Message):
    __slots__ = ("to_ms", "runs")
    TO_MS_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    to_ms: int
    runs: _containers.RepeatedCompositeFieldContainer[NextRun]
    def __init__(self, to_ms: _Optional[int] = ..., runs: _Optional[_Iterable[_Union[NextRun, _Mapping]]] = ...) -> None: ...

class SetWindow(_message.Message):
    __slots__ = ("window",)
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    window: _types_pb2.Window
    def __init__(self, window: _Optional[_Union[_types_pb2.Window, _Mapping]] = ...) -> None: ...

class SetBindings(_message.Message):
    __slots__ = ("bindings",)
    BINDINGS_FIELD_NUMBER: _ClassVar[int]
    bindings: _containers.RepeatedCompositeFieldContainer[_types_pb2.Binding]
    def __init__(self, bindings: _Optional[_Iterable[_Union[_types_pb2.Binding, _Mapping]]] = ...) -> None: ...

class CreateToken(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: _types_pb2.Token
    def __init__(self, token: _Optional[_Union[_types_pb2.Token, _Mapping]] = ...) -> None: ...

class RevokeToken(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class SetSecret(_message.Message):
    __slots__ = ("tenant", "name", "sealed", "key_id", "cluster_id", "user")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    name: str
    sealed: str
    key_id: str
    cluster_id: str
    user: str
    def __init__(self, tenant: _Optional[str] = ..., name: _Optional[str] = ..., sealed: _Optional[str] = ..., key_id: _Optional[str] = ..., cluster_id: _Optional[str] = ..., user: _Optional[str] = ...) -> None: ...

class DeleteSecret(_message.Message):
    __slots__ = ("tenant", "name")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    name: str
    def __init__(self, tenant: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ResealSecret(_message.Message):
    __slots__ = ("tenant", "name", "version", "sealed", "key_id", "cluster_id")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    name: str
    version: int
    sealed: str
    key_id: str
    cluster_id: str
    def __init__(self, tenant: _Optional[str] = ..., name: _Optional[str] = ..., version: _Optional[int] = ..., sealed: _Optional[str] = ..., key_id: _Optional[str] = ..., cluster_id: _Optional[str] = ...) -> None: ...

class RevokeCertificate(_message.Message):
    __slots__ = ("revocation",)
    REVOCATION_FIELD_NUMBER: _ClassVar[int]
    revocation: _types_pb2.Revocation
    def __init__(self, revocation: _Optional[_Union[_types_pb2.Revocation, _Mapping]] = ...) -> None: ...

class UnrevokeCertificate(_message.Message):
    __slots__ = ("certificate",)
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    certificate: str
    def __init__(self, certificate: _Optional[str] = ...) -> None: ...

class CreateJoinToken(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: _types_pb2.JoinToken
    def __init__(self, token: _Optional[_Union[_types_pb2.JoinToken, _Mapping]] = ...) -> None: ...

class RevokeJoinToken(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class UseJoinToken(_message.Message):
    __slots__ = ("id", "digest", "key", "node", "hosts", "ends_at_ms", "certificate")
    ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    ENDS_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    id: str
    digest: str
    key: str
    node: str
    hosts: _containers.RepeatedScalarFieldContainer[str]
    ends_at_ms: int
    certificate: str
    def __init__(self, id: _Optional[str] = ..., digest: _Optional[str] = ..., key: _Optional[str] = ..., node: _Optional[str] = ..., hosts: _Optional[_Iterable[str]] = ..., ends_at_ms: _Optional[int] = ..., certificate: _Optional[str] = ...) -> None: ...

class RenewJoinedNode(_message.Message):
    __slots__ = ("name", "hosts", "ends_at_ms", "certificate", "shown")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    ENDS_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SHOWN_FIELD_NUMBER: _ClassVar[int]
    name: str
    hosts: _containers.RepeatedScalarFieldContainer[str]
    ends_at_ms: int
    certificate: str
    shown: str
    def __init__(self, name: _Optional[str] = ..., hosts: _Optional[_Iterable[str]] = ..., ends_at_ms: _Optional[int] = ..., certificate: _Optional[str] = ..., shown: _Optional[str] = ...) -> None: ...

class Skipped(_message.Message):
    __slots__ = ("kind",)
    KIND_FIELD_NUMBER: _ClassVar[int]
    kind: str
    def __init__(self, kind: _Optional[str] = ...) -> None: ...

class DropWindow(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DropFinishedJobs(_message.Message):
    __slots__ = ("keep", "ended_before_ms")
    KEEP_FIELD_NUMBER: _ClassVar[int]
    ENDED_BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    keep: int
    ended_before_ms: int
    def __init__(self, keep: _Optional[int] = ..., ended_before_ms: _Optional[int] = ...) -> None: ...

class RegisterNode(_message.Message):
    __slots__ = ("node_id", "name", "address", "incarnation", "capacity", "gpu_model", "labels", "taints", "hardware", "isolation", "numbered")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    GPU_MODEL_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    TAINTS_FIELD_NUMBER: _ClassVar[int]
    HARDWARE_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    NUMBERED_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    name: str
    address: str
    incarnation: str
    capacity: _types_pb2.Resources
    gpu_model: str
    labels: _containers.ScalarMap[str, str]
    taints: _containers.RepeatedCompositeFieldContainer[_types_pb2.Taint]
    hardware: _types_pb2.Hardware
    isolation: str
    numbered: bool
    def __init__(self, node_id: _Optional[str] = ..., name: _Optional[str] = ..., address: _Optional[str] = ..., incarnation: _Optional[str] = ..., capacity: _Optional[_Union[_types_pb2.Resources, _Mapping]] = ..., gpu_model: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., taints: _Optional[_Iterable[_Union[_types_pb2.Taint, _Mapping]]] = ..., hardware: _Optional[_Union[_types_pb2.Hardware, _Mapping]] = ..., isolation: _Optional[str] = ..., numbered: bool = ...) -> None: ...

class MarkNodeDead(_message.Message):
    __slots__ = ("node_id", "incarnation", "reason", "registration", "heard_at_ms", "waited_ms")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    HEARD_AT_MS_FIELD_NUMBER: _ClassVar[int]
    WAITED_MS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    incarnation: str
    reason: str
    registration: int
    heard_at_ms: int
    waited_ms: int
    def __init__(self, node_id: _Optional[str] = ..., incarnation: _Optional[str] = ..., reason: _Optional[str] = ..., registration: _Optional[int] = ..., heard_at_ms: _Optional[int] = ..., waited_ms: _Optional[int] = ...) -> None: ...

class AwaitNode(_message.Message):
    __slots__ = ("node_id", "incarnation", "registration", "for_ms")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    FOR_MS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    incarnation: str
    registration: int
    for_ms: int
    def __init__(self, node_id: _Optional[str] = ..., incarnation: _Optional[str] = ..., registration: _Optional[int] = ..., for_ms: _Optional[int] = ...) -> None: ...

class RemoveNode(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    def __init__(self, node_id: _Optional[str] = ...) -> None: ...

class CommitPlan(_message.Message):
    __slots__ = ("revision", "gangs", "planned_at_ms", "seed", "reservations", "withdrawn")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    GANGS_FIELD_NUMBER: _ClassVar[int]
    PLANNED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    revision: int
    gangs: _containers.RepeatedCompositeFieldContainer[GangPlacement]
    planned_at_ms: int
    seed: int
    reservations: _containers.RepeatedCompositeFieldContainer[_types_pb2.Reservation]
    withdrawn: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, revision: _Optional[int] = ..., gangs: _Optional[_Iterable[_Union[GangPlacement, _Mapping]]] = ..., planned_at_ms: _Optional[int] = ..., seed: _Optional[int] = ..., reservations: _Optional[_Iterable[_Union[_types_pb2.Reservation, _Mapping]]] = ..., withdrawn: _Optional[_Iterable[str]] = ...) -> None: ...

class GangPlacement(_message.Message):
    __slots__ = ("job_id", "attempt", "tasks", "evictions", "until_ms")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    EVICTIONS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    attempt: int
    tasks: _containers.RepeatedCompositeFieldContainer[_types_pb2.TaskPlacement]
    evictions: _containers.RepeatedCompositeFieldContainer[Eviction]
    until_ms: int
    def __init__(self, job_id: _Optional[str] = ..., attempt: _Optional[int] = ..., tasks: _Optional[_Iterable[_Union[_types_pb2.TaskPlacement, _Mapping]]] = ..., evictions: _Optional[_Iterable[_Union[Eviction, _Mapping]]] = ..., until_ms: _Optional[int] = ...) -> None: ...

class Eviction(_message.Message):
    __slots__ = ("job_id", "attempt", "ranks", "cause")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    attempt: int
    ranks: _containers.RepeatedScalarFieldContainer[int]
    cause: Cause
    def __init__(self, job_id: _Optional[str] = ..., attempt: _Optional[int] = ..., ranks: _Optional[_Iterable[int]] = ..., cause: _Optional[_Union[Cause, str]] = ...) -> None: ...

class ReportTasks(_message.Message):
    __slots__ = ("node_id", "incarnation", "reports", "registration")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    incarnation: str
    reports: _containers.RepeatedCompositeFieldContainer[_types_pb2.TaskReport]
    registration: int
    def __init__(self, node_id: _Optional[str] = ..., incarnation: _Optional[str] = ..., reports: _Optional[_Iterable[_Union[_types_pb2.TaskReport, _Mapping]]] = ..., registration: _Optional[int] = ...) -> None: ...

class SnapshotHeader(_message.Message):
    __slots__ = ("schema", "previous", "last", "revision", "clock_ms", "epoch", "leader", "next_sequence", "records", "feature_level", "cluster_id", "task_key", "requests_from_ms", "lineage")
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CLOCK_MS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    NEXT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_KEY_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FROM_MS_FIELD_NUMBER: _ClassVar[int]
    LINEAGE_FIELD_NUMBER: _ClassVar[int]
    schema: int
    previous: LogEntry
    last: LogEntry
    revision: int
    clock_ms: int
    epoch: int
    leader: str
    next_sequence: int
    records: int
    feature_level: int
    cluster_id: str
    task_key: str
    requests_from_ms: int
    lineage: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, schema: _Optional[int] = ..., previous: _Optional[_Union[LogEntry, _Mapping]] = ..., last: _Optional[_Union[LogEntry, _Mapping]] = ..., revision: _Optional[int] = ..., clock_ms: _Optional[int] = ..., epoch: _Optional[int] = ..., leader: _Optional[str] = ..., next_sequence: _Optional[int] = ..., records: _Optional[int] = ..., feature_level: _Optional[int] = ..., cluster_id: _Optional[str] = ..., task_key: _Optional[str] = ..., requests_from_ms: _Optional[int] = ..., lineage: _Optional[_Iterable[str]] = ...) -> None: ...

class SnapshotRecord(_message.Message):
    __slots__ = ("node", "queue", "tenant", "master", "job", "task", "allocation", "answer", "quota", "account", "fence", "reservation", "window", "spec_part", "stored_job", "follow_up", "binding", "token", "secret", "revocation", "join_token", "joined_node", "answered", "unix_account", "run_history", "configuration")
    NODE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    MASTER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    SPEC_PART_FIELD_NUMBER: _ClassVar[int]
    STORED_JOB_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_UP_FIELD_NUMBER: _ClassVar[int]
    BINDING_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    REVOCATION_FIELD_NUMBER: _ClassVar[int]
    JOIN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    JOINED_NODE_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    UNIX_ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    RUN_HISTORY_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    node: _types_pb2.Node
    queue: _types_pb2.Queue
    tenant: _types_pb2.Tenant
    master: _types_pb2.Master
    job: _types_pb2.Job
    task: _types_pb2.Task
    allocation: _types_pb2.Allocation
    answer: Answer
    quota: _types_pb2.Quota
    account: _types_pb2.Account
    fence: _types_pb2.Fence
    reservation: _types_pb2.Reservation
    window: _types_pb2.Window
    spec_part: SpecPart
    stored_job: StoredJob
    follow_up: FollowUp
    binding: _types_pb2.Binding
    token: _types_pb2.Token
    secret: _types_pb2.Secret
    revocation: _types_pb2.Revocation
    join_token: _types_pb2.JoinToken
    joined_node: _types_pb2.JoinedNode
    answered: Answered
    unix_account: _types_pb2.UnixAccount
    run_history: _types_pb2.RunHistory
    configuration: _types_pb2.Configuration
    def __init__(self, node: _Optional[_Union[_types_pb2.Node, _Mapping]] = ..., queue: _Optional[_Union[_types_pb2.Queue, _Mapping]] = ..., tenant: _Optional[_Union[_types_pb2.Tenant, _Mapping]] = ..., master: _Optional[_Union[_types_pb2.Master, _Mapping]] = ..., job: _Optional[_Union[_types_pb2.Job, _Mapping]] = ..., task: _Optional[_Union[_types_pb2.Task, _Mapping]] = ..., allocation: _Optional[_Union[_types_pb2.Allocation, _Mapping]] = ..., answer: _Optional[_Union[Answer, _Mapping]] = ..., quota: _Optional[_Union[_types_pb2.Quota, _Mapping]] = ..., account: _Optional[_Union[_types_pb2.Account, _Mapping]] = ..., fence: _Optional[_Union[_types_pb2.Fence, _Mapping]] = ..., reservation: _Optional[_Union[_types_pb2.Reservation, _Mapping]] = ..., window: _Optional[_Union[_types_pb2.Window, _Mapping]] = ..., spec_part: _Optional[_Union[SpecPart, _Mapping]] = ..., stored_job: _Optional[_Union[StoredJob, _Mapping]] = ..., follow_up: _Optional[_Union[FollowUp, _Mapping]] = ..., binding: _Optional[_Union[_types_pb2.Binding, _Mapping]] = ..., token: _Optional[_Union[_types_pb2.Token, _Mapping]] = ..., secret: _Optional[_Union[_types_pb2.Secret, _Mapping]] = ..., revocation: _Optional[_Union[_types_pb2.Revocation, _Mapping]] = ..., join_token: _Optional[_Union[_types_pb2.JoinToken, _Mapping]] = ..., joined_node: _Optional[_Union[_types_pb2.JoinedNode, _Mapping]] = ..., answered: _Optional[_Union[Answered, _Mapping]] = ..., unix_account: _Optional[_Union[_types_pb2.UnixAccount, _Mapping]] = ..., run_history: _Optional[_Union[_types_pb2.RunHistory, _Mapping]] = ..., configuration: _Optional[_Union[_types_pb2.Configuration, _Mapping]] = ...) -> None: ...

class SpecPart(_message.Message):
    __slots__ = ("group", "labels", "array", "after")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    group: _types_pb2.TaskGroup
    labels: _containers.ScalarMap[str, str]
    array: _types_pb2.Array
    after: _containers.RepeatedCompositeFieldContainer[_types_pb2.Dependency]
    def __init__(self, group: _Optional[_Union[_types_pb2.TaskGroup, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., array: _Optional[_Union[_types_pb2.Array, _Mapping]] = ..., after: _Optional[_Iterable[_Union[_types_pb2.Dependency, _Mapping]]] = ...) -> None: ...

class StoredJob(_message.Message):
    __slots__ = ("job", "groups", "labels", "array", "after")
    JOB_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    job: _types_pb2.Job
    groups: _containers.RepeatedScalarFieldContainer[int]
    labels: int
    array: int
    after: int
    def __init__(self, job: _Optional[_Union[_types_pb2.Job, _Mapping]] = ..., groups: _Optional[_Iterable[int]] = ..., labels: _Optional[int] = ..., array: _Optional[int] = ..., after: _Optional[int] = ...) -> None: ...

class FollowUp(_message.Message):
    __slots__ = ("job_id", "steps")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    steps: _containers.RepeatedCompositeFieldContainer[FollowUpStep]
    def __init__(self, job_id: _Optional[str] = ..., steps: _Optional[_Iterable[_Union[FollowUpStep, _Mapping]]] = ...) -> None: ...

class FollowUpStep(_message.Message):
    __slots__ = ("kind", "after")
    KIND_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    kind: FollowUpKind
    after: int
    def __init__(self, kind: _Optional[_Union[FollowUpKind, str]] = ..., after: _Optional[int] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("client_id", "request_id", "code", "detail", "subject", "unchanged")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    request_id: str
    code: _types_pb2.Code
    detail: str
    subject: str
    unchanged: bool
    def __init__(self, client_id: _Optional[str] = ..., request_id: _Optional[str] = ..., code: _Optional[_Union[_types_pb2.Code, str]] = ..., detail: _Optional[str] = ..., subject: _Optional[str] = ..., unchanged: bool = ...) -> None: ...

class Answered(_message.Message):
    __slots__ = ("key", "user", "until_ms", "code", "detail", "subject", "unchanged")
    KEY_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    key: str
    user: str
    until_ms: int
    code: _types_pb2.Code
    detail: str
    subject: str
    unchanged: bool
    def __init__(self, key: _Optional[str] = ..., user: _Optional[str] = ..., until_ms: _Optional[int] = ..., code: _Optional[_Union[_types_pb2.Code, str]] = ..., detail: _Optional[str] = ..., subject: _Optional[str] = ..., unchanged: bool = ...) -> None: ...

class LogEntry(_message.Message):
    __slots__ = ("command", "index", "term")
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    command: bytes
    index: int
    term: int
    def __init__(self, command: _Optional[bytes] = ..., index: _Optional[int] = ..., term: _Optional[int] = ...) -> None: ...
