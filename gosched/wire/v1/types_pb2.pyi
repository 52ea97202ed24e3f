from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Runtime(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUNTIME_UNSPECIFIED: _ClassVar[Runtime]
    RUNTIME_PROCESS: _ClassVar[Runtime]
    RUNTIME_ROOTFS: _ClassVar[Runtime]
    RUNTIME_DOCKER: _ClassVar[Runtime]
    RUNTIME_SPARK: _ClassVar[Runtime]

class Strategy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STRATEGY_UNSPECIFIED: _ClassVar[Strategy]
    STRATEGY_BINPACK: _ClassVar[Strategy]
    STRATEGY_SPREAD: _ClassVar[Strategy]

class MemberFailure(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEMBER_FAILURE_UNSPECIFIED: _ClassVar[MemberFailure]
    MEMBER_FAILURE_RESTART_GANG: _ClassVar[MemberFailure]
    MEMBER_FAILURE_FAIL_JOB: _ClassVar[MemberFailure]

class RetryCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RETRY_CAUSE_UNSPECIFIED: _ClassVar[RetryCause]
    RETRY_CAUSE_NODE_LOST: _ClassVar[RetryCause]
    RETRY_CAUSE_PREEMPTED: _ClassVar[RetryCause]
    RETRY_CAUSE_FAILED: _ClassVar[RetryCause]

class OnDisconnect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_DISCONNECT_UNSPECIFIED: _ClassVar[OnDisconnect]
    ON_DISCONNECT_KEEP: _ClassVar[OnDisconnect]
    ON_DISCONNECT_STOP: _ClassVar[OnDisconnect]

class Framework(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FRAMEWORK_UNSPECIFIED: _ClassVar[Framework]
    FRAMEWORK_NONE: _ClassVar[Framework]
    FRAMEWORK_TORCH: _ClassVar[Framework]
    FRAMEWORK_MPI: _ClassVar[Framework]

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_STATE_UNSPECIFIED: _ClassVar[JobState]
    JOB_STATE_PENDING: _ClassVar[JobState]
    JOB_STATE_RUNNING: _ClassVar[JobState]
    JOB_STATE_SUSPENDED: _ClassVar[JobState]
    JOB_STATE_SUCCEEDED: _ClassVar[JobState]
    JOB_STATE_FAILED: _ClassVar[JobState]
    JOB_STATE_CANCELLED: _ClassVar[JobState]

class JobIntent(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_INTENT_UNSPECIFIED: _ClassVar[JobIntent]
    JOB_INTENT_RUN: _ClassVar[JobIntent]
    JOB_INTENT_RESTART: _ClassVar[JobIntent]
    JOB_INTENT_CANCEL: _ClassVar[JobIntent]
    JOB_INTENT_FAIL: _ClassVar[JobIntent]

class TaskState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_STATE_UNSPECIFIED: _ClassVar[TaskState]
    TASK_STATE_PENDING: _ClassVar[TaskState]
    TASK_STATE_PLACED: _ClassVar[TaskState]
    TASK_STATE_STARTING: _ClassVar[TaskState]
    TASK_STATE_RUNNING: _ClassVar[TaskState]
    TASK_STATE_STOPPING: _ClassVar[TaskState]
    TASK_STATE_SUCCEEDED: _ClassVar[TaskState]
    TASK_STATE_FAILED: _ClassVar[TaskState]
    TASK_STATE_KILLED: _ClassVar[TaskState]
    TASK_STATE_LOST: _ClassVar[TaskState]

class NodeState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_STATE_UNSPECIFIED: _ClassVar[NodeState]
    NODE_STATE_READY: _ClassVar[NodeState]
    NODE_STATE_CORDONED: _ClassVar[NodeState]
    NODE_STATE_DRAINING: _ClassVar[NodeState]
    NODE_STATE_DEAD: _ClassVar[NodeState]

class QueueType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUEUE_TYPE_UNSPECIFIED: _ClassVar[QueueType]
    QUEUE_TYPE_FIFO: _ClassVar[QueueType]
    QUEUE_TYPE_FAIR: _ClassVar[QueueType]
    QUEUE_TYPE_CAPACITY: _ClassVar[QueueType]

class Code(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CODE_UNSPECIFIED: _ClassVar[Code]
    CODE_INVALID: _ClassVar[Code]
    CODE_NOT_FOUND: _ClassVar[Code]
    CODE_ALREADY_EXISTS: _ClassVar[Code]
    CODE_STALE_EPOCH: _ClassVar[Code]
    CODE_STALE_INCARNATION: _ClassVar[Code]
    CODE_CONFLICT: _ClassVar[Code]
    CODE_EXHAUSTED: _ClassVar[Code]
RUNTIME_UNSPECIFIED: Runtime
RUNTIME_PROCESS: Runtime
RUNTIME_ROOTFS: Runtime
RUNTIME_DOCKER: Runtime
RUNTIME_SPARK: Runtime
STRATEGY_UNSPECIFIED: Strategy
STRATEGY_BINPACK: Strategy
STRATEGY_SPREAD: Strategy
MEMBER_FAILURE_UNSPECIFIED: MemberFailure
MEMBER_FAILURE_RESTART_GANG: MemberFailure
MEMBER_FAILURE_FAIL_JOB: MemberFailure
RETRY_CAUSE_UNSPECIFIED: RetryCause
RETRY_CAUSE_NODE_LOST: RetryCause
RETRY_CAUSE_PREEMPTED: RetryCause
RETRY_CAUSE_FAILED: RetryCause
ON_DISCONNECT_UNSPECIFIED: OnDisconnect
ON_DISCONNECT_KEEP: OnDisconnect
ON_DISCONNECT_STOP: OnDisconnect
FRAMEWORK_UNSPECIFIED: Framework
FRAMEWORK_NONE: Framework
FRAMEWORK_TORCH: Framework
FRAMEWORK_MPI: Framework
JOB_STATE_UNSPECIFIED: JobState
JOB_STATE_PENDING: JobState
JOB_STATE_RUNNING: JobState
JOB_STATE_SUSPENDED: JobState
JOB_STATE_SUCCEEDED: JobState
JOB_STATE_FAILED: JobState
JOB_STATE_CANCELLED: JobState
JOB_INTENT_UNSPECIFIED: JobIntent
JOB_INTENT_RUN: JobIntent
JOB_INTENT_RESTART: JobIntent
JOB_INTENT_CANCEL: JobIntent
JOB_INTENT_FAIL: JobIntent
TASK_STATE_UNSPECIFIED: TaskState
TASK_STATE_PENDING: TaskState
TASK_STATE_PLACED: TaskState
TASK_STATE_STARTING: TaskState
TASK_STATE_RUNNING: TaskState
TASK_STATE_STOPPING: TaskState
TASK_STATE_SUCCEEDED: TaskState
TASK_STATE_FAILED: TaskState
TASK_STATE_KILLED: TaskState
TASK_STATE_LOST: TaskState
NODE_STATE_UNSPECIFIED: NodeState
NODE_STATE_READY: NodeState
NODE_STATE_CORDONED: NodeState
NODE_STATE_DRAINING: NodeState
NODE_STATE_DEAD: NodeState
QUEUE_TYPE_UNSPECIFIED: QueueType
QUEUE_TYPE_FIFO: QueueType
QUEUE_TYPE_FAIR: QueueType
QUEUE_TYPE_CAPACITY: QueueType
CODE_UNSPECIFIED: Code
CODE_INVALID: Code
CODE_NOT_FOUND: Code
CODE_ALREADY_EXISTS: Code
CODE_STALE_EPOCH: Code
CODE_STALE_INCARNATION: Code
CODE_CONFLICT: Code
CODE_EXHAUSTED: Code

class Resources(_message.Message):
    __slots__ = ("cpu_millis", "memory_bytes", "storage_bytes", "gpu_millis")
    CPU_MILLIS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    STORAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPU_MILLIS_FIELD_NUMBER: _ClassVar[int]
    cpu_millis: int
    memory_bytes: int
    storage_bytes: int
    gpu_millis: int
    def __init__(self, cpu_millis: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., storage_bytes: _Optional[int] = ..., gpu_millis: _Optional[int] = ...) -> None: ...

class TaskGroup(_message.Message):
    __slots__ = ("name", "count", "resources", "gpu_model", "runtime", "image", "command", "env", "working_dir", "node_selector", "strategy", "framework")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class NodeSelectorEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    GPU_MODEL_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIR_FIELD_NUMBER: _ClassVar[int]
    NODE_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    FRAMEWORK_FIELD_NUMBER: _ClassVar[int]
    name: str
    count: int
    resources: Resources
    gpu_model: str
    runtime: Runtime
    image: str
    command: _containers.RepeatedScalarFieldContainer[str]
    env: _containers.ScalarMap[str, str]
    working_dir: str
    node_selector: _containers.ScalarMap[str, str]
    strategy: Strategy
    framework: Framework
    def __init__(self, name: _Optional[str] = ..., count: _Optional[int] = ..., resources: _Optional[_Union[Resources, _Mapping]] = ..., gpu_model: _Optional[str] = ..., runtime: _Optional[_Union[Runtime, str]] = ..., image: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., env: _Optional[_Mapping[str, str]] = ..., working_dir: _Optional[str] = ..., node_selector: _Optional[_Mapping[str, str]] = ..., strategy: _Optional[_Union[Strategy, str]] = ..., framework: _Optional[_Union[Framework, str]] = ...) -> None: ...

class GangPolicy(_message.Message):
    __slots__ = ("min_tasks", "on_member_failure")
    MIN_TASKS_FIELD_NUMBER: _ClassVar[int]
    ON_MEMBER_FAILURE_FIELD_NUMBER: _ClassVar[int]
    min_tasks: int
    on_member_failure: MemberFailure
    def __init__(self, min_tasks: _Optional[int] = ..., on_member_failure: _Optional[_Union[MemberFailure, str]] = ...) -> None: ...

class RetryPolicy(_message.Message):
    __slots__ = ("max_restarts", "backoff_ms", "when")
    MAX_RESTARTS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MS_FIELD_NUMBER: _ClassVar[int]
    WHEN_FIELD_NUMBER: _ClassVar[int]
    max_restarts: int
    backoff_ms: int
    when: _containers.RepeatedScalarFieldContainer[RetryCause]
    def __init__(self, max_restarts: _Optional[int] = ..., backoff_ms: _Optional[int] = ..., when: _Optional[_Iterable[_Union[RetryCause, str]]] = ...) -> None: ...

class JobSpec(_message.Message):
    __slots__ = ("name", "queue", "tenant", "priority", "labels", "gang", "groups", "retry", "on_disconnect", "stop_grace_ms")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    GANG_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    ON_DISCONNECT_FIELD_NUMBER: _ClassVar[int]
    STOP_GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    queue: str
    tenant: str
    priority: int
    labels: _containers.ScalarMap[str, str]
    gang: GangPolicy
    groups: _containers.RepeatedCompositeFieldContainer[TaskGroup]
    retry: RetryPolicy
    on_disconnect: OnDisconnect
    stop_grace_ms: int
    def __init__(self, name: _Optional[str] = ..., queue: _Optional[str] = ..., tenant: _Optional[str] = ..., priority: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., gang: _Optional[_Union[GangPolicy, _Mapping]] = ..., groups: _Optional[_Iterable[_Union[TaskGroup, _Mapping]]] = ..., retry: _Optional[_Union[RetryPolicy, _Mapping]] = ..., on_disconnect: _Optional[_Union[OnDisconnect, str]] = ..., stop_grace_ms: _Optional[int] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("id", "spec", "state", "intent", "reason", "detail", "sequence", "attempt", "restarts", "active", "running", "succeeded", "failed", "submitted_at_ms", "not_before_ms", "started_at_ms", "ended_at_ms", "exit_code")
    ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    INTENT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    id: str
    spec: JobSpec
    state: JobState
    intent: JobIntent
    reason: str
    detail: str
    sequence: int
    attempt: int
    restarts: int
    active: int
    running: int
    succeeded: int
    failed: int
    submitted_at_ms: int
    not_before_ms: int
    started_at_ms: int
    ended_at_ms: int
    exit_code: int
    def __init__(self, id: _Optional[str] = ..., spec: _Optional[_Union[JobSpec, _Mapping]] = ..., state: _Optional[_Union[JobState, str]] = ..., intent: _Optional[_Union[JobIntent, str]] = ..., reason: _Optional[str] = ..., detail: _Optional[str] = ..., sequence: _Optional[int] = ..., attempt: _Optional[int] = ..., restarts: _Optional[int] = ..., active: _Optional[int] = ..., running: _Optional[int] = ..., succeeded: _Optional[int] = ..., failed: _Optional[int] = ..., submitted_at_ms: _Optional[int] = ..., not_before_ms: _Optional[int] = ..., started_at_ms: _Optional[int] = ..., ended_at_ms: _Optional[int] = ..., exit_code: _Optional[int] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("id", "job_id", "group", "index", "rank", "state", "attempt", "allocation_id", "node_id", "gpus", "reason", "detail", "placed_at_ms", "started_at_ms", "ended_at_ms", "exit_code")
    ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    PLACED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    id: str
    job_id: str
    group: str
    index: int
    rank: int
    state: TaskState
    attempt: int
    allocation_id: str
    node_id: str
    gpus: _containers.RepeatedScalarFieldContainer[int]
    reason: str
    detail: str
    placed_at_ms: int
    started_at_ms: int
    ended_at_ms: int
    exit_code: int
    def __init__(self, id: _Optional[str] = ..., job_id: _Optional[str] = ..., group: _Optional[str] = ..., index: _Optional[int] = ..., rank: _Optional[int] = ..., state: _Optional[_Union[TaskState, str]] = ..., attempt: _Optional[int] = ..., allocation_id: _Optional[str] = ..., node_id: _Optional[str] = ..., gpus: _Optional[_Iterable[int]] = ..., reason: _Optional[str] = ..., detail: _Optional[str] = ..., placed_at_ms: _Optional[int] = ..., started_at_ms: _Optional[int] = ..., ended_at_ms: _Optional[int] = ..., exit_code: _Optional[int] = ...) -> None: ...

class Allocation(_message.Message):
    __slots__ = ("id", "task_id", "job_id", "node_id", "resources", "gpus", "placed_at_ms")
    ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    PLACED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    id: str
    task_id: str
    job_id: str
    node_id: str
    resources: Resources
    gpus: _containers.RepeatedScalarFieldContainer[int]
    placed_at_ms: int
    def __init__(self, id: _Optional[str] = ..., task_id: _Optional[str] = ..., job_id: _Optional[str] = ..., node_id: _Optional[str] = ..., resources: _Optional[_Union[Resources, _Mapping]] = ..., gpus: _Optional[_Iterable[int]] = ..., placed_at_ms: _Optional[int] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("id", "name", "address", "capacity", "gpu_model", "labels", "state", "reason", "incarnation", "registered_at_ms", "changed_at_ms")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    GPU_MODEL_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    address: str
    capacity: Resources
    gpu_model: str
    labels: _containers.ScalarMap[str, str]
    state: NodeState
    reason: str
    incarnation: str
    registered_at_ms: int
    changed_at_ms: int
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., address: _Optional[str] = ..., capacity: _Optional[_Union[Resources, _Mapping]] = ..., gpu_model: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., state: _Optional[_Union[NodeState, str]] = ..., reason: _Optional[str] = ..., incarnation: _Optional[str] = ..., registered_at_ms: _Optional[int] = ..., changed_at_ms: _Optional[int] = ...) -> None: ...

class Queue(_message.Message):
    __slots__ = ("path", "type", "weight", "capacity_pct", "max_pct")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_PCT_FIELD_NUMBER: _ClassVar[int]
    MAX_PCT_FIELD_NUMBER: _ClassVar[int]
    path: str
    type: QueueType
    weight: int
    capacity_pct: int
    max_pct: int
    def __init__(self, path: _Optional[str] = ..., type: _Optional[_Union[QueueType, str]] = ..., weight: _Optional[int] = ..., capacity_pct: _Optional[int] = ..., max_pct: _Optional[int] = ...) -> None: ...

class Tenant(_message.Message):
    __slots__ = ("name", "created_at_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    created_at_ms: int
    def __init__(self, name: _Optional[str] = ..., created_at_ms: _Optional[int] = ...) -> None: ...

class Master(_message.Message):
    __slots__ = ("id", "grpc_address", "http_address")
    ID_FIELD_NUMBER: _ClassVar[int]
    GRPC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HTTP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    id: str
    grpc_address: str
    http_address: str
    def __init__(self, id: _Optional[str] = ..., grpc_address: _Optional[str] = ..., http_address: _Optional[str] = ...) -> None: ...
