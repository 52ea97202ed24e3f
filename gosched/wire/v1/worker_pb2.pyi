from gosched.wire.v1 import scheduler_pb2 as _scheduler_pb2
from gosched.wire.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaskOrder(_message.Message):
    __slots__ = ("allocation_id", "task_id", "job_id", "runtime", "image", "command", "env", "working_dir", "resources", "gpus", "cpus", "isolation", "stop_alone", "stop_grace_ms", "mpi_ranks", "mpi_implementation", "port", "secrets", "account_number", "tenant", "user")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIR_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    STOP_ALONE_FIELD_NUMBER: _ClassVar[int]
    STOP_GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    MPI_RANKS_FIELD_NUMBER: _ClassVar[int]
    MPI_IMPLEMENTATION_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    allocation_id: str
    task_id: str
    job_id: str
    runtime: _types_pb2.Runtime
    image: str
    command: _containers.RepeatedScalarFieldContainer[str]
    env: _containers.ScalarMap[str, str]
    working_dir: str
    resources: _types_pb2.Resources
    gpus: _containers.RepeatedScalarFieldContainer[int]
    cpus: str
    isolation: _types_pb2.Isolation
    stop_alone: bool
    stop_grace_ms: int
    mpi_ranks: int
    mpi_implementation: str
    port: int
    secrets: _containers.RepeatedCompositeFieldContainer[_types_pb2.SecretUse]
    account_number: int
    tenant: str
    user: str
    def __init__(self, allocation_id: _Optional[str] = ..., task_id: _Optional[str] = ..., job_id: _Optional[str] = ..., runtime: _Optional[_Union[_types_pb2.Runtime, str]] = ..., image: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., env: _Optional[_Mapping[str, str]] = ..., working_dir: _Optional[str] = ..., resources: _Optional[_Union[_types_pb2.Resources, _Mapping]] = ..., gpus: _Optional[_Iterable[int]] = ..., cpus: _Optional[str] = ..., isolation: _Optional[_Union[_types_pb2.Isolation, _Mapping]] = ..., stop_alone: bool = ..., stop_grace_ms: _Optional[int] = ..., mpi_ranks: _Optional[int] = ..., mpi_implementation: _Optional[str] = ..., port: _Optional[int] = ..., secrets: _Optional[_Iterable[_Union[_types_pb2.SecretUse, _Mapping]]] = ..., account_number: _Optional[int] = ..., tenant: _Optional[str] = ..., user: _Optional[str] = ...) -> None: ...

class TaskSecrets(_message.Message):
    __slots__ = ("allocation_id", "values", "problem")
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    allocation_id: str
    values: _containers.RepeatedCompositeFieldContainer[SecretValue]
    problem: str
    def __init__(self, allocation_id: _Optional[str] = ..., values: _Optional[_Iterable[_Union[SecretValue, _Mapping]]] = ..., problem: _Optional[str] = ...) -> None: ...

class SecretValue(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: bytes
    def __init__(self, name: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class StopOrder(_message.Message):
    __slots__ = ("allocation_id", "grace_ms", "reason", "checkpoint_signal", "checkpoint_ms")
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_MS_FIELD_NUMBER: _ClassVar[int]
    allocation_id: str
    grace_ms: int
    reason: str
    checkpoint_signal: int
    checkpoint_ms: int
    def __init__(self, allocation_id: _Optional[str] = ..., grace_ms: _Optional[int] = ..., reason: _Optional[str] = ..., checkpoint_signal: _Optional[int] = ..., checkpoint_ms: _Optional[int] = ...) -> None: ...

class StartTasksRequest(_message.Message):
    __slots__ = ("epoch", "node_id", "incarnation", "orders", "cluster_id", "secrets", "registration", "revision")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ORDERS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    node_id: str
    incarnation: str
    orders: _containers.RepeatedCompositeFieldContainer[TaskOrder]
    cluster_id: str
    secrets: _containers.RepeatedCompositeFieldContainer[TaskSecrets]
    registration: int
    revision: int
    def __init__(self, epoch: _Optional[int] = ..., node_id: _Optional[str] = ..., incarnation: _Optional[str] = ..., orders: _Optional[_Iterable[_Union[TaskOrder, _Mapping]]] = ..., cluster_id: _Optional[str] = ..., secrets: _Optional[_Iterable[_Union[TaskSecrets, _Mapping]]] = ..., registration: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...

class StartTasksResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StopTasksRequest(_message.Message):
    __slots__ = ("epoch", "node_id", "incarnation", "orders", "cluster_id", "registration", "revision")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ORDERS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    node_id: str
    incarnation: str
    orders: _containers.RepeatedCompositeFieldContainer[StopOrder]
    cluster_id: str
    registration: int
    revision: int
    def __init__(self, epoch: _Optional[int] = ..., node_id: _Optional[str] = ..., incarnation: _Optional[str] = ..., orders: _Optional[_Iterable[_Union[StopOrder, _Mapping]]] = ..., cluster_id: _Optional[str] = ..., registration: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...

class StopTasksResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FreezeTasksRequest(_message.Message):
    __slots__ = ("epoch", "node_id", "incarnation", "freeze", "thaw", "cluster_id", "registration", "revision")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    FREEZE_FIELD_NUMBER: _ClassVar[int]
    THAW_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    node_id: str
    incarnation: str
    freeze: _containers.RepeatedScalarFieldContainer[str]
    thaw: _containers.RepeatedScalarFieldContainer[str]
    cluster_id: str
    registration: int
    revision: int
    def __init__(self, epoch: _Optional[int] = ..., node_id: _Optional[str] = ..., incarnation: _Optional[str] = ..., freeze: _Optional[_Iterable[str]] = ..., thaw: _Optional[_Iterable[str]] = ..., cluster_id: _Optional[str] = ..., registration: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...

class FreezeTasksResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StreamLogsRequest(_message.Message):
    __slots__ = ("allocation_id", "follow", "tail", "since_ms", "timestamps")
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    allocation_id: str
    follow: bool
    tail: int
    since_ms: int
    timestamps: bool
    def __init__(self, allocation_id: _Optional[str] = ..., follow: bool = ..., tail: _Optional[int] = ..., since_ms: _Optional[int] = ..., timestamps: bool = ..., **kwargs) -> None: ...

class GetIdentityRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetIdentityResponse(_message.Message):
    __slots__ = ("node_id", "incarnation")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    incarnation: str
    def __init__(self, node_id: _Optional[str] = ..., incarnation: _Optional[str] = ...) -> None: ...
