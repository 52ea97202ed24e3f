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
    STRATEGY_FRAGMENTATION: _ClassVar[Strategy]
    STRATEGY_EXPECTED_WASTE: _ClassVar[Strategy]

class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODE_UNSPECIFIED: _ClassVar[Mode]
    MODE_REQUIRED: _ClassVar[Mode]
    MODE_PREFERRED: _ClassVar[Mode]

class LabelOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LABEL_OP_UNSPECIFIED: _ClassVar[LabelOp]
    LABEL_OP_IN: _ClassVar[LabelOp]
    LABEL_OP_NOT_IN: _ClassVar[LabelOp]
    LABEL_OP_EXISTS: _ClassVar[LabelOp]
    LABEL_OP_NOT_EXISTS: _ClassVar[LabelOp]
    LABEL_OP_GT: _ClassVar[LabelOp]
    LABEL_OP_LT: _ClassVar[LabelOp]

class TaintEffect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TAINT_EFFECT_UNSPECIFIED: _ClassVar[TaintEffect]
    TAINT_EFFECT_NO_SCHEDULE: _ClassVar[TaintEffect]
    TAINT_EFFECT_PREFER_NO_SCHEDULE: _ClassVar[TaintEffect]
    TAINT_EFFECT_NO_EXECUTE: _ClassVar[TaintEffect]

class TolerationOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOLERATION_OP_UNSPECIFIED: _ClassVar[TolerationOp]
    TOLERATION_OP_EXISTS: _ClassVar[TolerationOp]
    TOLERATION_OP_EQUAL: _ClassVar[TolerationOp]

class MemberFailure(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEMBER_FAILURE_UNSPECIFIED: _ClassVar[MemberFailure]
    MEMBER_FAILURE_RESTART_GANG: _ClassVar[MemberFailure]
    MEMBER_FAILURE_FAIL_JOB: _ClassVar[MemberFailure]
    MEMBER_FAILURE_CONTINUE: _ClassVar[MemberFailure]

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

class PreemptionPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PREEMPTION_POLICY_UNSPECIFIED: _ClassVar[PreemptionPolicy]
    PREEMPTION_POLICY_NEVER: _ClassVar[PreemptionPolicy]
    PREEMPTION_POLICY_LOWER_PRIORITY: _ClassVar[PreemptionPolicy]
    PREEMPTION_POLICY_OBSERVE_ONLY: _ClassVar[PreemptionPolicy]

class OnMiss(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_MISS_UNSPECIFIED: _ClassVar[OnMiss]
    ON_MISS_CONTINUE: _ClassVar[OnMiss]
    ON_MISS_REFUSE: _ClassVar[OnMiss]

class Condition(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONDITION_UNSPECIFIED: _ClassVar[Condition]
    CONDITION_SUCCESS: _ClassVar[Condition]
    CONDITION_FAILURE: _ClassVar[Condition]
    CONDITION_ANY: _ClassVar[Condition]

class Overlap(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OVERLAP_UNSPECIFIED: _ClassVar[Overlap]
    OVERLAP_ALLOW: _ClassVar[Overlap]
    OVERLAP_FORBID: _ClassVar[Overlap]
    OVERLAP_REPLACE: _ClassVar[Overlap]

class Action(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACTION_UNSPECIFIED: _ClassVar[Action]
    ACTION_HOLD: _ClassVar[Action]
    ACTION_RELEASE: _ClassVar[Action]
    ACTION_SUSPEND: _ClassVar[Action]
    ACTION_RESUME: _ClassVar[Action]
    ACTION_REQUEUE: _ClassVar[Action]
    ACTION_FREEZE: _ClassVar[Action]
    ACTION_SCALE: _ClassVar[Action]

class NodeAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_ACTION_UNSPECIFIED: _ClassVar[NodeAction]
    NODE_ACTION_CORDON: _ClassVar[NodeAction]
    NODE_ACTION_UNCORDON: _ClassVar[NodeAction]
    NODE_ACTION_DRAIN: _ClassVar[NodeAction]

class ClosedBy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLOSED_BY_UNSPECIFIED: _ClassVar[ClosedBy]
    CLOSED_BY_OPERATOR: _ClassVar[ClosedBy]
    CLOSED_BY_AGENT: _ClassVar[ClosedBy]
    CLOSED_BY_FAILURES: _ClassVar[ClosedBy]

class Pull(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PULL_UNSPECIFIED: _ClassVar[Pull]
    PULL_MISSING: _ClassVar[Pull]
    PULL_ALWAYS: _ClassVar[Pull]
    PULL_NEVER: _ClassVar[Pull]

class Network(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NETWORK_UNSPECIFIED: _ClassVar[Network]
    NETWORK_HOST: _ClassVar[Network]
    NETWORK_NONE: _ClassVar[Network]

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
    JOB_INTENT_SUSPEND: _ClassVar[JobIntent]
    JOB_INTENT_SUCCEED: _ClassVar[JobIntent]

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

class QueueOrder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUEUE_ORDER_UNSPECIFIED: _ClassVar[QueueOrder]
    QUEUE_ORDER_FIFO: _ClassVar[QueueOrder]
    QUEUE_ORDER_PRIORITY: _ClassVar[QueueOrder]
    QUEUE_ORDER_FAIR: _ClassVar[QueueOrder]
    QUEUE_ORDER_DEADLINE: _ClassVar[QueueOrder]

class AccessRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACCESS_ROLE_UNSPECIFIED: _ClassVar[AccessRole]
    ACCESS_ROLE_VIEWER: _ClassVar[AccessRole]
    ACCESS_ROLE_SUBMITTER: _ClassVar[AccessRole]
    ACCESS_ROLE_TENANT_ADMIN: _ClassVar[AccessRole]
    ACCESS_ROLE_OPERATOR: _ClassVar[AccessRole]
    ACCESS_ROLE_ADMIN: _ClassVar[AccessRole]

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
    CODE_MACHINE_BUG: _ClassVar[Code]
    CODE_OUT_OF_TIME: _ClassVar[Code]
RUNTIME_UNSPECIFIED: Runtime
RUNTIME_PROCESS: Runtime
RUNTIME_ROOTFS: Runtime
RUNTIME_DOCKER: Runtime
RUNTIME_SPARK: Runtime
STRATEGY_UNSPECIFIED: Strategy
STRATEGY_BINPACK: Strategy
STRATEGY_SPREAD: Strategy
STRATEGY_FRAGMENTATION: Strategy
STRATEGY_EXPECTED_WASTE: Strategy
MODE_UNSPECIFIED: Mode
MODE_REQUIRED: Mode
MODE_PREFERRED: Mode
LABEL_OP_UNSPECIFIED: LabelOp
LABEL_OP_IN: LabelOp
LABEL_OP_NOT_IN: LabelOp
LABEL_OP_EXISTS: LabelOp
LABEL_OP_NOT_EXISTS: LabelOp
LABEL_OP_GT: LabelOp
LABEL_OP_LT: LabelOp
TAINT_EFFECT_UNSPECIFIED: TaintEffect
TAINT_EFFECT_NO_SCHEDULE: TaintEffect
TAINT_EFFECT_PREFER_NO_SCHEDULE: TaintEffect
TAINT_EFFECT_NO_EXECUTE: TaintEffect
TOLERATION_OP_UNSPECIFIED: TolerationOp
TOLERATION_OP_EXISTS: TolerationOp
TOLERATION_OP_EQUAL: TolerationOp
MEMBER_FAILURE_UNSPECIFIED: MemberFailure
MEMBER_FAILURE_RESTART_GANG: MemberFailure
MEMBER_FAILURE_FAIL_JOB: MemberFailure
MEMBER_FAILURE_CONTINUE: MemberFailure
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
PREEMPTION_POLICY_UNSPECIFIED: PreemptionPolicy
PREEMPTION_POLICY_NEVER: PreemptionPolicy
PREEMPTION_POLICY_LOWER_PRIORITY: PreemptionPolicy
PREEMPTION_POLICY_OBSERVE_ONLY: PreemptionPolicy
ON_MISS_UNSPECIFIED: OnMiss
ON_MISS_CONTINUE: OnMiss
ON_MISS_REFUSE: OnMiss
CONDITION_UNSPECIFIED: Condition
CONDITION_SUCCESS: Condition
CONDITION_FAILURE: Condition
CONDITION_ANY: Condition
OVERLAP_UNSPECIFIED: Overlap
OVERLAP_ALLOW: Overlap
OVERLAP_FORBID: Overlap
OVERLAP_REPLACE: Overlap
ACTION_UNSPECIFIED: Action
ACTION_HOLD: Action
ACTION_RELEASE: Action
ACTION_SUSPEND: Action
ACTION_RESUME: Action
ACTION_REQUEUE: Action
ACTION_FREEZE: Action
ACTION_SCALE: Action
NODE_ACTION_UNSPECIFIED: NodeAction
NODE_ACTION_CORDON: NodeAction
NODE_ACTION_UNCORDON: NodeAction
NODE_ACTION_DRAIN: NodeAction
CLOSED_BY_UNSPECIFIED: ClosedBy
CLOSED_BY_OPERATOR: ClosedBy
CLOSED_BY_AGENT: ClosedBy
CLOSED_BY_FAILURES: ClosedBy
PULL_UNSPECIFIED: Pull
PULL_MISSING: Pull
PULL_ALWAYS: Pull
PULL_NEVER: Pull
NETWORK_UNSPECIFIED: Network
NETWORK_HOST: Network
NETWORK_NONE: Network
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
JOB_INTENT_SUSPEND: JobIntent
JOB_INTENT_SUCCEED: JobIntent
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
QUEUE_ORDER_UNSPECIFIED: QueueOrder
QUEUE_ORDER_FIFO: QueueOrder
QUEUE_ORDER_PRIORITY: QueueOrder
QUEUE_ORDER_FAIR: QueueOrder
QUEUE_ORDER_DEADLINE: QueueOrder
ACCESS_ROLE_UNSPECIFIED: AccessRole
ACCESS_ROLE_VIEWER: AccessRole
ACCESS_ROLE_SUBMITTER: AccessRole
ACCESS_ROLE_TENANT_ADMIN: AccessRole
ACCESS_ROLE_OPERATOR: AccessRole
ACCESS_ROLE_ADMIN: AccessRole
CODE_UNSPECIFIED: Code
CODE_INVALID: Code
CODE_NOT_FOUND: Code
CODE_ALREADY_EXISTS: Code
CODE_STALE_EPOCH: Code
CODE_STALE_INCARNATION: Code
CODE_CONFLICT: Code
CODE_EXHAUSTED: Code
CODE_MACHINE_BUG: Code
CODE_OUT_OF_TIME: Code

class Resources(_message.Message):
    __slots__ = ("cpu_millis", "memory_bytes", "storage_bytes", "gpu_millis", "custom")
    class CustomEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    CPU_MILLIS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    STORAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPU_MILLIS_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_FIELD_NUMBER: _ClassVar[int]
    cpu_millis: int
    memory_bytes: int
    storage_bytes: int
    gpu_millis: int
    custom: _containers.ScalarMap[str, int]
    def __init__(self, cpu_millis: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., storage_bytes: _Optional[int] = ..., gpu_millis: _Optional[int] = ..., custom: _Optional[_Mapping[str, int]] = ...) -> None: ...

class TopologyRule(_message.Message):
    __slots__ = ("level", "mode")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    level: str
    mode: Mode
    def __init__(self, level: _Optional[str] = ..., mode: _Optional[_Union[Mode, str]] = ...) -> None: ...

class SpreadRule(_message.Message):
    __slots__ = ("level", "max_skew", "mode")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    MAX_SKEW_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    level: str
    max_skew: int
    mode: Mode
    def __init__(self, level: _Optional[str] = ..., max_skew: _Optional[int] = ..., mode: _Optional[_Union[Mode, str]] = ...) -> None: ...

class Affinity(_message.Message):
    __slots__ = ("label", "op", "values", "weight")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    label: str
    op: LabelOp
    values: _containers.RepeatedScalarFieldContainer[str]
    weight: int
    def __init__(self, label: _Optional[str] = ..., op: _Optional[_Union[LabelOp, str]] = ..., values: _Optional[_Iterable[str]] = ..., weight: _Optional[int] = ...) -> None: ...

class AntiAffinity(_message.Message):
    __slots__ = ("job", "level")
    JOB_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    job: str
    level: str
    def __init__(self, job: _Optional[str] = ..., level: _Optional[str] = ...) -> None: ...

class Toleration(_message.Message):
    __slots__ = ("key", "op", "value", "effect")
    KEY_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    key: str
    op: TolerationOp
    value: str
    effect: TaintEffect
    def __init__(self, key: _Optional[str] = ..., op: _Optional[_Union[TolerationOp, str]] = ..., value: _Optional[str] = ..., effect: _Optional[_Union[TaintEffect, str]] = ...) -> None: ...

class Taint(_message.Message):
    __slots__ = ("key", "value", "effect")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    effect: TaintEffect
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ..., effect: _Optional[_Union[TaintEffect, str]] = ...) -> None: ...

class Volume(_message.Message):
    __slots__ = ("host", "to", "read_only")
    HOST_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    host: str
    to: str
    read_only: bool
    def __init__(self, host: _Optional[str] = ..., to: _Optional[str] = ..., read_only: bool = ...) -> None: ...

class Rlimit(_message.Message):
    __slots__ = ("name", "soft", "hard")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOFT_FIELD_NUMBER: _ClassVar[int]
    HARD_FIELD_NUMBER: _ClassVar[int]
    name: str
    soft: int
    hard: int
    def __init__(self, name: _Optional[str] = ..., soft: _Optional[int] = ..., hard: _Optional[int] = ...) -> None: ...

class Isolation(_message.Message):
    __slots__ = ("user", "umask", "rlimits", "volumes", "network", "read_only", "pull", "registry", "cpu_soft", "memory_low_bytes", "memory_high_bytes", "swap_bytes", "pids", "hugepages", "io_weight", "io_read_bytes", "io_write_bytes", "io_reads", "io_writes")
    class HugepagesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    USER_FIELD_NUMBER: _ClassVar[int]
    UMASK_FIELD_NUMBER: _ClassVar[int]
    RLIMITS_FIELD_NUMBER: _ClassVar[int]
    VOLUMES_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    PULL_FIELD_NUMBER: _ClassVar[int]
    REGISTRY_FIELD_NUMBER: _ClassVar[int]
    CPU_SOFT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LOW_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_HIGH_BYTES_FIELD_NUMBER: _ClassVar[int]
    SWAP_BYTES_FIELD_NUMBER: _ClassVar[int]
    PIDS_FIELD_NUMBER: _ClassVar[int]
    HUGEPAGES_FIELD_NUMBER: _ClassVar[int]
    IO_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    IO_READ_BYTES_FIELD_NUMBER: _ClassVar[int]
    IO_WRITE_BYTES_FIELD_NUMBER: _ClassVar[int]
    IO_READS_FIELD_NUMBER: _ClassVar[int]
    IO_WRITES_FIELD_NUMBER: _ClassVar[int]
    user: str
    umask: int
    rlimits: _containers.RepeatedCompositeFieldContainer[Rlimit]
    volumes: _containers.RepeatedCompositeFieldContainer[Volume]
    network: Network
    read_only: bool
    pull: Pull
    registry: str
    cpu_soft: bool
    memory_low_bytes: int
    memory_high_bytes: int
    swap_bytes: int
    pids: int
    hugepages: _containers.ScalarMap[str, int]
    io_weight: int
    io_read_bytes: int
    io_write_bytes: int
    io_reads: int
    io_writes: int
    def __init__(self, user: _Optional[str] = ..., umask: _Optional[int] = ..., rlimits: _Optional[_Iterable[_Union[Rlimit, _Mapping]]] = ..., volumes: _Optional[_Iterable[_Union[Volume, _Mapping]]] = ..., network: _Optional[_Union[Network, str]] = ..., read_only: bool = ..., pull: _Optional[_Union[Pull, str]] = ..., registry: _Optional[str] = ..., cpu_soft: bool = ..., memory_low_bytes: _Optional[int] = ..., memory_high_bytes: _Optional[int] = ..., swap_bytes: _Optional[int] = ..., pids: _Optional[int] = ..., hugepages: _Optional[_Mapping[str, int]] = ..., io_weight: _Optional[int] = ..., io_read_bytes: _Optional[int] = ..., io_write_bytes: _Optional[int] = ..., io_reads: _Optional[int] = ..., io_writes: _Optional[int] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("cpu_ms", "throttled_ms", "memory_bytes", "memory_peak_bytes", "read_bytes", "written_bytes", "oom_kills", "cpu_stalled_ms", "memory_stalled_ms", "io_stalled_ms")
    CPU_MS_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_MS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PEAK_BYTES_FIELD_NUMBER: _ClassVar[int]
    READ_BYTES_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_BYTES_FIELD_NUMBER: _ClassVar[int]
    OOM_KILLS_FIELD_NUMBER: _ClassVar[int]
    CPU_STALLED_MS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_STALLED_MS_FIELD_NUMBER: _ClassVar[int]
    IO_STALLED_MS_FIELD_NUMBER: _ClassVar[int]
    cpu_ms: int
    throttled_ms: int
    memory_bytes: int
    memory_peak_bytes: int
    read_bytes: int
    written_bytes: int
    oom_kills: int
    cpu_stalled_ms: int
    memory_stalled_ms: int
    io_stalled_ms: int
    def __init__(self, cpu_ms: _Optional[int] = ..., throttled_ms: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., memory_peak_bytes: _Optional[int] = ..., read_bytes: _Optional[int] = ..., written_bytes: _Optional[int] = ..., oom_kills: _Optional[int] = ..., cpu_stalled_ms: _Optional[int] = ..., memory_stalled_ms: _Optional[int] = ..., io_stalled_ms: _Optional[int] = ...) -> None: ...

class Spent(_message.Message):
    __slots__ = ("cpu_ms", "gpu_milli_s", "memory_mib_s")
    CPU_MS_FIELD_NUMBER: _ClassVar[int]
    GPU_MILLI_S_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MIB_S_FIELD_NUMBER: _ClassVar[int]
    cpu_ms: int
    gpu_milli_s: int
    memory_mib_s: int
    def __init__(self, cpu_ms: _Optional[int] = ..., gpu_milli_s: _Optional[int] = ..., memory_mib_s: _Optional[int] = ...) -> None: ...

class TaskGroup(_message.Message):
    __slots__ = ("name", "count", "resources", "gpu_model", "runtime", "image", "command", "env", "working_dir", "node_selector", "strategy", "framework", "min_count", "gpu_memory_bytes", "topology", "spread", "affinity", "anti_affinity", "tolerations", "isolation", "mpi_ranks", "mpi_implementation", "secrets")
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
    MIN_COUNT_FIELD_NUMBER: _ClassVar[int]
    GPU_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    AFFINITY_FIELD_NUMBER: _ClassVar[int]
    ANTI_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    TOLERATIONS_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    MPI_RANKS_FIELD_NUMBER: _ClassVar[int]
    MPI_IMPLEMENTATION_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
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
    min_count: int
    gpu_memory_bytes: int
    topology: _containers.RepeatedCompositeFieldContainer[TopologyRule]
    spread: _containers.RepeatedCompositeFieldContainer[SpreadRule]
    affinity: _containers.RepeatedCompositeFieldContainer[Affinity]
    anti_affinity: _containers.RepeatedCompositeFieldContainer[AntiAffinity]
    tolerations: _containers.RepeatedCompositeFieldContainer[Toleration]
    isolation: Isolation
    mpi_ranks: int
    mpi_implementation: str
    secrets: _containers.RepeatedCompositeFieldContainer[SecretUse]
    def __init__(self, name: _Optional[str] = ..., count: _Optional[int] = ..., resources: _Optional[_Union[Resources, _Mapping]] = ..., gpu_model: _Optional[str] = ..., runtime: _Optional[_Union[Runtime, str]] = ..., image: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., env: _Optional[_Mapping[str, str]] = ..., working_dir: _Optional[str] = ..., node_selector: _Optional[_Mapping[str, str]] = ..., strategy: _Optional[_Union[Strategy, str]] = ..., framework: _Optional[_Union[Framework, str]] = ..., min_count: _Optional[int] = ..., gpu_memory_bytes: _Optional[int] = ..., topology: _Optional[_Iterable[_Union[TopologyRule, _Mapping]]] = ..., spread: _Optional[_Iterable[_Union[SpreadRule, _Mapping]]] = ..., affinity: _Optional[_Iterable[_Union[Affinity, _Mapping]]] = ..., anti_affinity: _Optional[_Iterable[_Union[AntiAffinity, _Mapping]]] = ..., tolerations: _Optional[_Iterable[_Union[Toleration, _Mapping]]] = ..., isolation: _Optional[_Union[Isolation, _Mapping]] = ..., mpi_ranks: _Optional[int] = ..., mpi_implementation: _Optional[str] = ..., secrets: _Optional[_Iterable[_Union[SecretUse, _Mapping]]] = ...) -> None: ...

class SecretUse(_message.Message):
    __slots__ = ("name", "file", "env")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    name: str
    file: str
    env: str
    def __init__(self, name: _Optional[str] = ..., file: _Optional[str] = ..., env: _Optional[str] = ...) -> None: ...

class GangPolicy(_message.Message):
    __slots__ = ("min_tasks", "on_member_failure", "wait_ms", "ends_with", "initial_tasks", "replace_after_ms")
    MIN_TASKS_FIELD_NUMBER: _ClassVar[int]
    ON_MEMBER_FAILURE_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    ENDS_WITH_FIELD_NUMBER: _ClassVar[int]
    INITIAL_TASKS_FIELD_NUMBER: _ClassVar[int]
    REPLACE_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    min_tasks: int
    on_member_failure: MemberFailure
    wait_ms: int
    ends_with: str
    initial_tasks: int
    replace_after_ms: int
    def __init__(self, min_tasks: _Optional[int] = ..., on_member_failure: _Optional[_Union[MemberFailure, str]] = ..., wait_ms: _Optional[int] = ..., ends_with: _Optional[str] = ..., initial_tasks: _Optional[int] = ..., replace_after_ms: _Optional[int] = ...) -> None: ...

class RetryPolicy(_message.Message):
    __slots__ = ("max_restarts", "backoff_ms", "when")
    MAX_RESTARTS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MS_FIELD_NUMBER: _ClassVar[int]
    WHEN_FIELD_NUMBER: _ClassVar[int]
    max_restarts: int
    backoff_ms: int
    when: _containers.RepeatedScalarFieldContainer[RetryCause]
    def __init__(self, max_restarts: _Optional[int] = ..., backoff_ms: _Optional[int] = ..., when: _Optional[_Iterable[_Union[RetryCause, str]]] = ...) -> None: ...

class Preemption(_message.Message):
    __slots__ = ("policy", "preemptible", "grace_ms", "checkpoint_signal", "min_runtime_ms", "cheap")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIBLE_FIELD_NUMBER: _ClassVar[int]
    GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    MIN_RUNTIME_MS_FIELD_NUMBER: _ClassVar[int]
    CHEAP_FIELD_NUMBER: _ClassVar[int]
    policy: PreemptionPolicy
    preemptible: bool
    grace_ms: int
    checkpoint_signal: int
    min_runtime_ms: int
    cheap: bool
    def __init__(self, policy: _Optional[_Union[PreemptionPolicy, str]] = ..., preemptible: bool = ..., grace_ms: _Optional[int] = ..., checkpoint_signal: _Optional[int] = ..., min_runtime_ms: _Optional[int] = ..., cheap: bool = ...) -> None: ...

class Dependency(_message.Message):
    __slots__ = ("job", "condition")
    JOB_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    job: str
    condition: Condition
    def __init__(self, job: _Optional[str] = ..., condition: _Optional[_Union[Condition, str]] = ...) -> None: ...

class Axis(_message.Message):
    __slots__ = ("name", "values")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    name: str
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., values: _Optional[_Iterable[str]] = ...) -> None: ...

class Array(_message.Message):
    __slots__ = ("first", "last", "step", "matrix", "parallelism", "max_failures")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    MATRIX_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    MAX_FAILURES_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    step: int
    matrix: _containers.RepeatedCompositeFieldContainer[Axis]
    parallelism: int
    max_failures: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ..., step: _Optional[int] = ..., matrix: _Optional[_Iterable[_Union[Axis, _Mapping]]] = ..., parallelism: _Optional[int] = ..., max_failures: _Optional[int] = ...) -> None: ...

class JobSpec(_message.Message):
    __slots__ = ("name", "queue", "tenant", "priority", "labels", "gang", "groups", "retry", "on_disconnect", "stop_grace_ms", "deadline_at_ms", "deadline_in_ms", "on_miss", "estimate_ms", "timeout_ms", "preemption", "hold", "after", "array", "cron", "timezone", "overlap", "begin_at_ms", "begin_in_ms")
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
    DEADLINE_AT_MS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_IN_MS_FIELD_NUMBER: _ClassVar[int]
    ON_MISS_FIELD_NUMBER: _ClassVar[int]
    ESTIMATE_MS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    BEGIN_AT_MS_FIELD_NUMBER: _ClassVar[int]
    BEGIN_IN_MS_FIELD_NUMBER: _ClassVar[int]
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
    deadline_at_ms: int
    deadline_in_ms: int
    on_miss: OnMiss
    estimate_ms: int
    timeout_ms: int
    preemption: Preemption
    hold: bool
    after: _containers.RepeatedCompositeFieldContainer[Dependency]
    array: Array
    cron: str
    timezone: str
    overlap: Overlap
    begin_at_ms: int
    begin_in_ms: int
    def __init__(self, name: _Optional[str] = ..., queue: _Optional[str] = ..., tenant: _Optional[str] = ..., priority: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., gang: _Optional[_Union[GangPolicy, _Mapping]] = ..., groups: _Optional[_Iterable[_Union[TaskGroup, _Mapping]]] = ..., retry: _Optional[_Union[RetryPolicy, _Mapping]] = ..., on_disconnect: _Optional[_Union[OnDisconnect, str]] = ..., stop_grace_ms: _Optional[int] = ..., deadline_at_ms: _Optional[int] = ..., deadline_in_ms: _Optional[int] = ..., on_miss: _Optional[_Union[OnMiss, str]] = ..., estimate_ms: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., preemption: _Optional[_Union[Preemption, _Mapping]] = ..., hold: bool = ..., after: _Optional[_Iterable[_Union[Dependency, _Mapping]]] = ..., array: _Optional[_Union[Array, _Mapping]] = ..., cron: _Optional[str] = ..., timezone: _Optional[str] = ..., overlap: _Optional[_Union[Overlap, str]] = ..., begin_at_ms: _Optional[int] = ..., begin_in_ms: _Optional[int] = ...) -> None: ...

class Children(_message.Message):
    __slots__ = ("made", "live", "succeeded", "failed", "cancelled", "next_run_at_ms")
    MADE_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    NEXT_RUN_AT_MS_FIELD_NUMBER: _ClassVar[int]
    made: int
    live: int
    succeeded: int
    failed: int
    cancelled: int
    next_run_at_ms: int
    def __init__(self, made: _Optional[int] = ..., live: _Optional[int] = ..., succeeded: _Optional[int] = ..., failed: _Optional[int] = ..., cancelled: _Optional[int] = ..., next_run_at_ms: _Optional[int] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("id", "spec", "state", "intent", "reason", "detail", "sequence", "attempt", "restarts", "active", "running", "succeeded", "failed", "submitted_at_ms", "not_before_ms", "started_at_ms", "ended_at_ms", "exit_code", "unplaced", "parent", "element", "children", "held", "waits_for", "placed_at_ms", "checkpoint_at_ms", "until_ms", "preemptions", "deadline_missed", "deadline_promised", "evicted_for", "frozen", "spent", "user", "authenticated", "traceparent", "port", "scaled_to", "end_known_at_ms", "failed_at_ms", "member_restarts", "member_failed_at_ms", "lost_at_ms", "likely_ms", "requeued_at_ms")
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
    UNPLACED_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    ELEMENT_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    PLACED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_AT_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MISSED_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_PROMISED_FIELD_NUMBER: _ClassVar[int]
    EVICTED_FOR_FIELD_NUMBER: _ClassVar[int]
    FROZEN_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATED_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    SCALED_TO_FIELD_NUMBER: _ClassVar[int]
    END_KNOWN_AT_MS_FIELD_NUMBER: _ClassVar[int]
    FAILED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_RESTARTS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FAILED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    LOST_AT_MS_FIELD_NUMBER: _ClassVar[int]
    LIKELY_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEUED_AT_MS_FIELD_NUMBER: _ClassVar[int]
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
    unplaced: int
    parent: str
    element: int
    children: Children
    held: bool
    waits_for: _containers.RepeatedCompositeFieldContainer[Dependency]
    placed_at_ms: int
    checkpoint_at_ms: int
    until_ms: int
    preemptions: int
    deadline_missed: bool
    deadline_promised: bool
    evicted_for: _containers.RepeatedScalarFieldContainer[str]
    frozen: bool
    spent: Spent
    user: str
    authenticated: bool
    traceparent: str
    port: int
    scaled_to: int
    end_known_at_ms: int
    failed_at_ms: int
    member_restarts: int
    member_failed_at_ms: int
    lost_at_ms: int
    likely_ms: int
    requeued_at_ms: int
    def __init__(self, id: _Optional[str] = ..., spec: _Optional[_Union[JobSpec, _Mapping]] = ..., state: _Optional[_Union[JobState, str]] = ..., intent: _Optional[_Union[JobIntent, str]] = ..., reason: _Optional[str] = ..., detail: _Optional[str] = ..., sequence: _Optional[int] = ..., attempt: _Optional[int] = ..., restarts: _Optional[int] = ..., active: _Optional[int] = ..., running: _Optional[int] = ..., succeeded: _Optional[int] = ..., failed: _Optional[int] = ..., submitted_at_ms: _Optional[int] = ..., not_before_ms: _Optional[int] = ..., started_at_ms: _Optional[int] = ..., ended_at_ms: _Optional[int] = ..., exit_code: _Optional[int] = ..., unplaced: _Optional[int] = ..., parent: _Optional[str] = ..., element: _Optional[int] = ..., children: _Optional[_Union[Children, _Mapping]] = ..., held: bool = ..., waits_for: _Optional[_Iterable[_Union[Dependency, _Mapping]]] = ..., placed_at_ms: _Optional[int] = ..., checkpoint_at_ms: _Optional[int] = ..., until_ms: _Optional[int] = ..., preemptions: _Optional[int] = ..., deadline_missed: bool = ..., deadline_promised: bool = ..., evicted_for: _Optional[_Iterable[str]] = ..., frozen: bool = ..., spent: _Optional[_Union[Spent, _Mapping]] = ..., user: _Optional[str] = ..., authenticated: bool = ..., traceparent: _Optional[str] = ..., port: _Optional[int] = ..., scaled_to: _Optional[int] = ..., end_known_at_ms: _Optional[int] = ..., failed_at_ms: _Optional[int] = ..., member_restarts: _Optional[int] = ..., member_failed_at_ms: _Optional[int] = ..., lost_at_ms: _Optional[int] = ..., likely_ms: _Optional[int] = ..., requeued_at_ms: _Optional[int] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("id", "job_id", "group", "index", "rank", "state", "attempt", "allocation_id", "node_id", "gpus", "reason", "detail", "placed_at_ms", "started_at_ms", "ended_at_ms", "exit_code", "cpus", "moves", "usage")
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
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
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
    cpus: str
    moves: int
    usage: Usage
    def __init__(self, id: _Optional[str] = ..., job_id: _Optional[str] = ..., group: _Optional[str] = ..., index: _Optional[int] = ..., rank: _Optional[int] = ..., state: _Optional[_Union[TaskState, str]] = ..., attempt: _Optional[int] = ..., allocation_id: _Optional[str] = ..., node_id: _Optional[str] = ..., gpus: _Optional[_Iterable[int]] = ..., reason: _Optional[str] = ..., detail: _Optional[str] = ..., placed_at_ms: _Optional[int] = ..., started_at_ms: _Optional[int] = ..., ended_at_ms: _Optional[int] = ..., exit_code: _Optional[int] = ..., cpus: _Optional[str] = ..., moves: _Optional[int] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ...) -> None: ...

class TaskReport(_message.Message):
    __slots__ = ("allocation_id", "state", "exit_code", "reason", "detail", "started_at_ms", "ended_at_ms", "checkpoint_at_ms", "usage", "frozen", "blames_node")
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_AT_MS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    FROZEN_FIELD_NUMBER: _ClassVar[int]
    BLAMES_NODE_FIELD_NUMBER: _ClassVar[int]
    allocation_id: str
    state: TaskState
    exit_code: int
    reason: str
    detail: str
    started_at_ms: int
    ended_at_ms: int
    checkpoint_at_ms: int
    usage: Usage
    frozen: bool
    blames_node: bool
    def __init__(self, allocation_id: _Optional[str] = ..., state: _Optional[_Union[TaskState, str]] = ..., exit_code: _Optional[int] = ..., reason: _Optional[str] = ..., detail: _Optional[str] = ..., started_at_ms: _Optional[int] = ..., ended_at_ms: _Optional[int] = ..., checkpoint_at_ms: _Optional[int] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., frozen: bool = ..., blames_node: bool = ...) -> None: ...

class Allocation(_message.Message):
    __slots__ = ("id", "task_id", "job_id", "node_id", "resources", "gpus", "placed_at_ms", "cpus", "gpu_model", "evicted_for_fence")
    ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    PLACED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_MODEL_FIELD_NUMBER: _ClassVar[int]
    EVICTED_FOR_FENCE_FIELD_NUMBER: _ClassVar[int]
    id: str
    task_id: str
    job_id: str
    node_id: str
    resources: Resources
    gpus: _containers.RepeatedScalarFieldContainer[int]
    placed_at_ms: int
    cpus: str
    gpu_model: str
    evicted_for_fence: str
    def __init__(self, id: _Optional[str] = ..., task_id: _Optional[str] = ..., job_id: _Optional[str] = ..., node_id: _Optional[str] = ..., resources: _Optional[_Union[Resources, _Mapping]] = ..., gpus: _Optional[_Iterable[int]] = ..., placed_at_ms: _Optional[int] = ..., cpus: _Optional[str] = ..., gpu_model: _Optional[str] = ..., evicted_for_fence: _Optional[str] = ...) -> None: ...

class TaskPlacement(_message.Message):
    __slots__ = ("rank", "node_id", "gpus", "cpus")
    RANK_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    rank: int
    node_id: str
    gpus: _containers.RepeatedScalarFieldContainer[int]
    cpus: str
    def __init__(self, rank: _Optional[int] = ..., node_id: _Optional[str] = ..., gpus: _Optional[_Iterable[int]] = ..., cpus: _Optional[str] = ...) -> None: ...

class Fence(_message.Message):
    __slots__ = ("job_id", "attempt", "tasks", "made_at_ms", "until_ms", "by_ms", "not_before_ms")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    MADE_AT_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    BY_MS_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    attempt: int
    tasks: _containers.RepeatedCompositeFieldContainer[TaskPlacement]
    made_at_ms: int
    until_ms: int
    by_ms: int
    not_before_ms: int
    def __init__(self, job_id: _Optional[str] = ..., attempt: _Optional[int] = ..., tasks: _Optional[_Iterable[_Union[TaskPlacement, _Mapping]]] = ..., made_at_ms: _Optional[int] = ..., until_ms: _Optional[int] = ..., by_ms: _Optional[int] = ..., not_before_ms: _Optional[int] = ...) -> None: ...

class Share(_message.Message):
    __slots__ = ("group", "node_id", "count")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    group: str
    node_id: str
    count: int
    def __init__(self, group: _Optional[str] = ..., node_id: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class Reservation(_message.Message):
    __slots__ = ("job_id", "attempt", "start_ms", "end_ms", "shares", "for_deadline", "made_at_ms", "standing")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    END_MS_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    FOR_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    MADE_AT_MS_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    attempt: int
    start_ms: int
    end_ms: int
    shares: _containers.RepeatedCompositeFieldContainer[Share]
    for_deadline: bool
    made_at_ms: int
    standing: bool
    def __init__(self, job_id: _Optional[str] = ..., attempt: _Optional[int] = ..., start_ms: _Optional[int] = ..., end_ms: _Optional[int] = ..., shares: _Optional[_Iterable[_Union[Share, _Mapping]]] = ..., for_deadline: bool = ..., made_at_ms: _Optional[int] = ..., standing: bool = ...) -> None: ...

class Window(_message.Message):
    __slots__ = ("name", "start_ms", "end_ms", "nodes", "queues", "tenants", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    END_MS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    start_ms: int
    end_ms: int
    nodes: _containers.RepeatedScalarFieldContainer[str]
    queues: _containers.RepeatedScalarFieldContainer[str]
    tenants: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    def __init__(self, name: _Optional[str] = ..., start_ms: _Optional[int] = ..., end_ms: _Optional[int] = ..., nodes: _Optional[_Iterable[str]] = ..., queues: _Optional[_Iterable[str]] = ..., tenants: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ...) -> None: ...

class Binding(_message.Message):
    __slots__ = ("name", "role", "users", "groups", "tenants", "queues", "accounts", "ceiling")
    class CeilingEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    CEILING_FIELD_NUMBER: _ClassVar[int]
    name: str
    role: AccessRole
    users: _containers.RepeatedScalarFieldContainer[str]
    groups: _containers.RepeatedScalarFieldContainer[str]
    tenants: _containers.RepeatedScalarFieldContainer[str]
    queues: _containers.RepeatedScalarFieldContainer[str]
    accounts: _containers.RepeatedScalarFieldContainer[str]
    ceiling: _containers.ScalarMap[str, int]
    def __init__(self, name: _Optional[str] = ..., role: _Optional[_Union[AccessRole, str]] = ..., users: _Optional[_Iterable[str]] = ..., groups: _Optional[_Iterable[str]] = ..., tenants: _Optional[_Iterable[str]] = ..., queues: _Optional[_Iterable[str]] = ..., accounts: _Optional[_Iterable[str]] = ..., ceiling: _Optional[_Mapping[str, int]] = ...) -> None: ...

class Token(_message.Message):
    __slots__ = ("id", "name", "user", "groups", "role", "tenants", "queues", "digest", "created_at_ms", "expires_at_ms", "certificate")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    user: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    role: AccessRole
    tenants: _containers.RepeatedScalarFieldContainer[str]
    queues: _containers.RepeatedScalarFieldContainer[str]
    digest: str
    created_at_ms: int
    expires_at_ms: int
    certificate: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., user: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ..., role: _Optional[_Union[AccessRole, str]] = ..., tenants: _Optional[_Iterable[str]] = ..., queues: _Optional[_Iterable[str]] = ..., digest: _Optional[str] = ..., created_at_ms: _Optional[int] = ..., expires_at_ms: _Optional[int] = ..., certificate: _Optional[str] = ...) -> None: ...

class Secret(_message.Message):
    __slots__ = ("tenant", "name", "sealed", "key_id", "cluster_id", "version", "changed_at_ms", "changed_by")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_BY_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    name: str
    sealed: str
    key_id: str
    cluster_id: str
    version: int
    changed_at_ms: int
    changed_by: str
    def __init__(self, tenant: _Optional[str] = ..., name: _Optional[str] = ..., sealed: _Optional[str] = ..., key_id: _Optional[str] = ..., cluster_id: _Optional[str] = ..., version: _Optional[int] = ..., changed_at_ms: _Optional[int] = ..., changed_by: _Optional[str] = ...) -> None: ...

class UnixAccount(_message.Message):
    __slots__ = ("tenant", "user", "number")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    user: str
    number: int
    def __init__(self, tenant: _Optional[str] = ..., user: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class RunHistory(_message.Message):
    __slots__ = ("key", "run_ms", "rank_milli")
    KEY_FIELD_NUMBER: _ClassVar[int]
    RUN_MS_FIELD_NUMBER: _ClassVar[int]
    RANK_MILLI_FIELD_NUMBER: _ClassVar[int]
    key: str
    run_ms: _containers.RepeatedScalarFieldContainer[int]
    rank_milli: int
    def __init__(self, key: _Optional[str] = ..., run_ms: _Optional[_Iterable[int]] = ..., rank_milli: _Optional[int] = ...) -> None: ...

class Revocation(_message.Message):
    __slots__ = ("certificate", "holder", "role", "reason", "by", "at_ms", "ends_at_ms")
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    ENDS_AT_MS_FIELD_NUMBER: _ClassVar[int]
    certificate: str
    holder: str
    role: str
    reason: str
    by: str
    at_ms: int
    ends_at_ms: int
    def __init__(self, certificate: _Optional[str] = ..., holder: _Optional[str] = ..., role: _Optional[str] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ..., at_ms: _Optional[int] = ..., ends_at_ms: _Optional[int] = ...) -> None: ...

class JoinToken(_message.Message):
    __slots__ = ("id", "name", "node", "labels", "hosts", "digest", "created_at_ms", "expires_at_ms", "used_key", "used_by", "used_at_ms", "certificate")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    USED_KEY_FIELD_NUMBER: _ClassVar[int]
    USED_BY_FIELD_NUMBER: _ClassVar[int]
    USED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    node: str
    labels: _containers.ScalarMap[str, str]
    hosts: _containers.RepeatedScalarFieldContainer[str]
    digest: str
    created_at_ms: int
    expires_at_ms: int
    used_key: str
    used_by: str
    used_at_ms: int
    certificate: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., node: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., hosts: _Optional[_Iterable[str]] = ..., digest: _Optional[str] = ..., created_at_ms: _Optional[int] = ..., expires_at_ms: _Optional[int] = ..., used_key: _Optional[str] = ..., used_by: _Optional[str] = ..., used_at_ms: _Optional[int] = ..., certificate: _Optional[str] = ...) -> None: ...

class JoinedNode(_message.Message):
    __slots__ = ("name", "labels", "hosts", "token_id", "joined_at_ms", "ends_at_ms", "removed", "certificates")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    JOINED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ENDS_AT_MS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    name: str
    labels: _containers.ScalarMap[str, str]
    hosts: _containers.RepeatedScalarFieldContainer[str]
    token_id: str
    joined_at_ms: int
    ends_at_ms: int
    removed: bool
    certificates: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., hosts: _Optional[_Iterable[str]] = ..., token_id: _Optional[str] = ..., joined_at_ms: _Optional[int] = ..., ends_at_ms: _Optional[int] = ..., removed: bool = ..., certificates: _Optional[_Iterable[str]] = ...) -> None: ...

class Hardware(_message.Message):
    __slots__ = ("numa_cpus", "gpu_numa", "gpu_links", "gpu_memory_bytes", "bad_gpus")
    NUMA_CPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_NUMA_FIELD_NUMBER: _ClassVar[int]
    GPU_LINKS_FIELD_NUMBER: _ClassVar[int]
    GPU_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    BAD_GPUS_FIELD_NUMBER: _ClassVar[int]
    numa_cpus: _containers.RepeatedScalarFieldContainer[str]
    gpu_numa: _containers.RepeatedScalarFieldContainer[int]
    gpu_links: _containers.RepeatedScalarFieldContainer[int]
    gpu_memory_bytes: int
    bad_gpus: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, numa_cpus: _Optional[_Iterable[str]] = ..., gpu_numa: _Optional[_Iterable[int]] = ..., gpu_links: _Optional[_Iterable[int]] = ..., gpu_memory_bytes: _Optional[int] = ..., bad_gpus: _Optional[_Iterable[int]] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("id", "name", "address", "capacity", "gpu_model", "labels", "state", "reason", "incarnation", "registered_at_ms", "changed_at_ms", "taints", "hardware", "isolation", "closed_by", "drain_by_ms", "failing", "set_labels", "set_taints", "registration", "away_ms")
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
    TAINTS_FIELD_NUMBER: _ClassVar[int]
    HARDWARE_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    CLOSED_BY_FIELD_NUMBER: _ClassVar[int]
    DRAIN_BY_MS_FIELD_NUMBER: _ClassVar[int]
    FAILING_FIELD_NUMBER: _ClassVar[int]
    SET_LABELS_FIELD_NUMBER: _ClassVar[int]
    SET_TAINTS_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    AWAY_MS_FIELD_NUMBER: _ClassVar[int]
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
    taints: _containers.RepeatedCompositeFieldContainer[Taint]
    hardware: Hardware
    isolation: str
    closed_by: ClosedBy
    drain_by_ms: int
    failing: _containers.RepeatedScalarFieldContainer[str]
    set_labels: _containers.RepeatedScalarFieldContainer[str]
    set_taints: _containers.RepeatedCompositeFieldContainer[Taint]
    registration: int
    away_ms: int
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., address: _Optional[str] = ..., capacity: _Optional[_Union[Resources, _Mapping]] = ..., gpu_model: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., state: _Optional[_Union[NodeState, str]] = ..., reason: _Optional[str] = ..., incarnation: _Optional[str] = ..., registered_at_ms: _Optional[int] = ..., changed_at_ms: _Optional[int] = ..., taints: _Optional[_Iterable[_Union[Taint, _Mapping]]] = ..., hardware: _Optional[_Union[Hardware, _Mapping]] = ..., isolation: _Optional[str] = ..., closed_by: _Optional[_Union[ClosedBy, str]] = ..., drain_by_ms: _Optional[int] = ..., failing: _Optional[_Iterable[str]] = ..., set_labels: _Optional[_Iterable[str]] = ..., set_taints: _Optional[_Iterable[_Union[Taint, _Mapping]]] = ..., registration: _Optional[int] = ..., away_ms: _Optional[int] = ...) -> None: ...

class Queue(_message.Message):
    __slots__ = ("path", "type", "weight", "capacity_pct", "max_pct", "guaranteed", "limit", "order", "max_running_jobs", "tenants", "half_life_ms", "preemption")
    class GuaranteedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class LimitEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    PATH_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_PCT_FIELD_NUMBER: _ClassVar[int]
    MAX_PCT_FIELD_NUMBER: _ClassVar[int]
    GUARANTEED_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNNING_JOBS_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    HALF_LIFE_MS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_FIELD_NUMBER: _ClassVar[int]
    path: str
    type: QueueType
    weight: int
    capacity_pct: int
    max_pct: int
    guaranteed: _containers.ScalarMap[str, int]
    limit: _containers.ScalarMap[str, int]
    order: QueueOrder
    max_running_jobs: int
    tenants: _containers.RepeatedScalarFieldContainer[str]
    half_life_ms: int
    preemption: PreemptionPolicy
    def __init__(self, path: _Optional[str] = ..., type: _Optional[_Union[QueueType, str]] = ..., weight: _Optional[int] = ..., capacity_pct: _Optional[int] = ..., max_pct: _Optional[int] = ..., guaranteed: _Optional[_Mapping[str, int]] = ..., limit: _Optional[_Mapping[str, int]] = ..., order: _Optional[_Union[QueueOrder, str]] = ..., max_running_jobs: _Optional[int] = ..., tenants: _Optional[_Iterable[str]] = ..., half_life_ms: _Optional[int] = ..., preemption: _Optional[_Union[PreemptionPolicy, str]] = ...) -> None: ...

class Quota(_message.Message):
    __slots__ = ("tenant", "limit", "max_running_jobs")
    class LimitEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TENANT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNNING_JOBS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    limit: _containers.ScalarMap[str, int]
    max_running_jobs: int
    def __init__(self, tenant: _Optional[str] = ..., limit: _Optional[_Mapping[str, int]] = ..., max_running_jobs: _Optional[int] = ...) -> None: ...

class Account(_message.Message):
    __slots__ = ("queue", "tenant", "used", "at_ms")
    class UsedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    tenant: str
    used: _containers.ScalarMap[str, int]
    at_ms: int
    def __init__(self, queue: _Optional[str] = ..., tenant: _Optional[str] = ..., used: _Optional[_Mapping[str, int]] = ..., at_ms: _Optional[int] = ...) -> None: ...

class Tenant(_message.Message):
    __slots__ = ("name", "created_at_ms", "spent")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    created_at_ms: int
    spent: Spent
    def __init__(self, name: _Optional[str] = ..., created_at_ms: _Optional[int] = ..., spent: _Optional[_Union[Spent, _Mapping]] = ...) -> None: ...

class Master(_message.Message):
    __slots__ = ("id", "grpc_address", "http_address")
    ID_FIELD_NUMBER: _ClassVar[int]
    GRPC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HTTP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    id: str
    grpc_address: str
    http_address: str
    def __init__(self, id: _Optional[str] = ..., grpc_address: _Optional[str] = ..., http_address: _Optional[str] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("id", "address", "voter")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    VOTER_FIELD_NUMBER: _ClassVar[int]
    id: str
    address: str
    voter: bool
    def __init__(self, id: _Optional[str] = ..., address: _Optional[str] = ..., voter: bool = ...) -> None: ...

class Configuration(_message.Message):
    __slots__ = ("version", "members")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    version: int
    members: _containers.RepeatedCompositeFieldContainer[Member]
    def __init__(self, version: _Optional[int] = ..., members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ...) -> None: ...
