from gosched.wire.v1 import types_pb2 as _types_pb2
from gosched.wire.v1 import worker_pb2 as _worker_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RegisterNodeRequest(_message.Message):
    __slots__ = ("node_id", "name", "address", "incarnation", "capacity", "gpu_model", "labels", "tasks", "clock_ms", "version", "taints", "hardware", "isolation", "cluster_id", "numbered")
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
    TASKS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_MS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TAINTS_FIELD_NUMBER: _ClassVar[int]
    HARDWARE_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBERED_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    name: str
    address: str
    incarnation: str
    capacity: _types_pb2.Resources
    gpu_model: str
    labels: _containers.ScalarMap[str, str]
    tasks: _containers.RepeatedCompositeFieldContainer[_types_pb2.TaskReport]
    clock_ms: int
    version: str
    taints: _containers.RepeatedCompositeFieldContainer[_types_pb2.Taint]
    hardware: _types_pb2.Hardware
    isolation: str
    cluster_id: str
    numbered: bool
    def __init__(self, node_id: _Optional[str] = ..., name: _Optional[str] = ..., address: _Optional[str] = ..., incarnation: _Optional[str] = ..., capacity: _Optional[_Union[_types_pb2.Resources, _Mapping]] = ..., gpu_model: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., tasks: _Optional[_Iterable[_Union[_types_pb2.TaskReport, _Mapping]]] = ..., clock_ms: _Optional[int] = ..., version: _Optional[str] = ..., taints: _Optional[_Iterable[_Union[_types_pb2.Taint, _Mapping]]] = ..., hardware: _Optional[_Union[_types_pb2.Hardware, _Mapping]] = ..., isolation: _Optional[str] = ..., cluster_id: _Optional[str] = ..., numbered: bool = ...) -> None: ...

class RegisterNodeResponse(_message.Message):
    __slots__ = ("stop_first", "heartbeat_ms", "epoch", "lease_ms", "cluster_id", "epoch_confirmed", "lineage", "forget", "registration")
    STOP_FIRST_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_MS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    LINEAGE_FIELD_NUMBER: _ClassVar[int]
    FORGET_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    stop_first: _containers.RepeatedScalarFieldContainer[str]
    heartbeat_ms: int
    epoch: int
    lease_ms: int
    cluster_id: str
    epoch_confirmed: bool
    lineage: _containers.RepeatedScalarFieldContainer[str]
    forget: _containers.RepeatedScalarFieldContainer[str]
    registration: int
    def __init__(self, stop_first: _Optional[_Iterable[str]] = ..., heartbeat_ms: _Optional[int] = ..., epoch: _Optional[int] = ..., lease_ms: _Optional[int] = ..., cluster_id: _Optional[str] = ..., epoch_confirmed: bool = ..., lineage: _Optional[_Iterable[str]] = ..., forget: _Optional[_Iterable[str]] = ..., registration: _Optional[int] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("node_id", "incarnation", "tasks", "epoch", "unfit", "usage", "version", "revoked_etag", "log_jobs", "clock_ms", "spark", "registration", "number", "heard", "goodbye")
    class SparkEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: SparkProgress
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[SparkProgress, _Mapping]] = ...) -> None: ...
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    UNFIT_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REVOKED_ETAG_FIELD_NUMBER: _ClassVar[int]
    LOG_JOBS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_MS_FIELD_NUMBER: _ClassVar[int]
    SPARK_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    incarnation: str
    tasks: _containers.RepeatedCompositeFieldContainer[_types_pb2.TaskReport]
    epoch: int
    unfit: str
    usage: NodeUsage
    version: str
    revoked_etag: str
    log_jobs: _containers.RepeatedScalarFieldContainer[str]
    clock_ms: int
    spark: _containers.MessageMap[str, SparkProgress]
    registration: int
    number: int
    heard: int
    goodbye: bool
    def __init__(self, node_id: _Optional[str] = ..., incarnation: _Optional[str] = ..., tasks: _Optional[_Iterable[_Union[_types_pb2.TaskReport, _Mapping]]] = ..., epoch: _Optional[int] = ..., unfit: _Optional[str] = ..., usage: _Optional[_Union[NodeUsage, _Mapping]] = ..., version: _Optional[str] = ..., revoked_etag: _Optional[str] = ..., log_jobs: _Optional[_Iterable[str]] = ..., clock_ms: _Optional[int] = ..., spark: _Optional[_Mapping[str, SparkProgress]] = ..., registration: _Optional[int] = ..., number: _Optional[int] = ..., heard: _Optional[int] = ..., goodbye: bool = ...) -> None: ...

class NodeUsage(_message.Message):
    __slots__ = ("cpu_milli", "memory_bytes", "disk_bytes", "cpu_pressure_milli", "memory_pressure_milli", "io_pressure_milli", "gpus")
    CPU_MILLI_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_BYTES_FIELD_NUMBER: _ClassVar[int]
    CPU_PRESSURE_MILLI_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PRESSURE_MILLI_FIELD_NUMBER: _ClassVar[int]
    IO_PRESSURE_MILLI_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    cpu_milli: int
    memory_bytes: int
    disk_bytes: int
    cpu_pressure_milli: int
    memory_pressure_milli: int
    io_pressure_milli: int
    gpus: _containers.RepeatedCompositeFieldContainer[GpuUsage]
    def __init__(self, cpu_milli: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., disk_bytes: _Optional[int] = ..., cpu_pressure_milli: _Optional[int] = ..., memory_pressure_milli: _Optional[int] = ..., io_pressure_milli: _Optional[int] = ..., gpus: _Optional[_Iterable[_Union[GpuUsage, _Mapping]]] = ...) -> None: ...

class GpuUsage(_message.Message):
    __slots__ = ("gpu", "name", "uuid", "busy_milli", "memory_bytes", "problem")
    GPU_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    BUSY_MILLI_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    gpu: int
    name: str
    uuid: str
    busy_milli: int
    memory_bytes: int
    problem: str
    def __init__(self, gpu: _Optional[int] = ..., name: _Optional[str] = ..., uuid: _Optional[str] = ..., busy_milli: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., problem: _Optional[str] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("epoch", "start", "stop", "forget", "register_again", "freeze", "thaw", "lease_ms", "heartbeat_ms", "cluster_id", "masters", "forgotten_jobs", "secrets", "lineage", "revoked", "revoked_etag", "revision", "under_way", "away_ms")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    FORGET_FIELD_NUMBER: _ClassVar[int]
    REGISTER_AGAIN_FIELD_NUMBER: _ClassVar[int]
    FREEZE_FIELD_NUMBER: _ClassVar[int]
    THAW_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_MS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    MASTERS_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_JOBS_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    LINEAGE_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    REVOKED_ETAG_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UNDER_WAY_FIELD_NUMBER: _ClassVar[int]
    AWAY_MS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    start: _containers.RepeatedCompositeFieldContainer[_worker_pb2.TaskOrder]
    stop: _containers.RepeatedCompositeFieldContainer[_worker_pb2.StopOrder]
    forget: _containers.RepeatedScalarFieldContainer[str]
    register_again: bool
    freeze: _containers.RepeatedScalarFieldContainer[str]
    thaw: _containers.RepeatedScalarFieldContainer[str]
    lease_ms: int
    heartbeat_ms: int
    cluster_id: str
    masters: _containers.RepeatedScalarFieldContainer[str]
    forgotten_jobs: _containers.RepeatedScalarFieldContainer[str]
    secrets: _containers.RepeatedCompositeFieldContainer[_worker_pb2.TaskSecrets]
    lineage: _containers.RepeatedScalarFieldContainer[str]
    revoked: _containers.RepeatedScalarFieldContainer[str]
    revoked_etag: str
    revision: int
    under_way: _containers.RepeatedScalarFieldContainer[str]
    away_ms: int
    def __init__(self, epoch: _Optional[int] = ..., start: _Optional[_Iterable[_Union[_worker_pb2.TaskOrder, _Mapping]]] = ..., stop: _Optional[_Iterable[_Union[_worker_pb2.StopOrder, _Mapping]]] = ..., forget: _Optional[_Iterable[str]] = ..., register_again: bool = ..., freeze: _Optional[_Iterable[str]] = ..., thaw: _Optional[_Iterable[str]] = ..., lease_ms: _Optional[int] = ..., heartbeat_ms: _Optional[int] = ..., cluster_id: _Optional[str] = ..., masters: _Optional[_Iterable[str]] = ..., forgotten_jobs: _Optional[_Iterable[str]] = ..., secrets: _Optional[_Iterable[_Union[_worker_pb2.TaskSecrets, _Mapping]]] = ..., lineage: _Optional[_Iterable[str]] = ..., revoked: _Optional[_Iterable[str]] = ..., revoked_etag: _Optional[str] = ..., revision: _Optional[int] = ..., under_way: _Optional[_Iterable[str]] = ..., away_ms: _Optional[int] = ...) -> None: ...

class ControlNodeRequest(_message.Message):
    __slots__ = ("request_id", "client_id", "node", "reason", "drain_in_ms")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DRAIN_IN_MS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    client_id: str
    node: str
    reason: str
    drain_in_ms: int
    def __init__(self, request_id: _Optional[str] = ..., client_id: _Optional[str] = ..., node: _Optional[str] = ..., reason: _Optional[str] = ..., drain_in_ms: _Optional[int] = ...) -> None: ...

class LabelNodeRequest(_message.Message):
    __slots__ = ("request_id", "client_id", "node", "labels", "drop_labels", "taints", "drop_taints")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    DROP_LABELS_FIELD_NUMBER: _ClassVar[int]
    TAINTS_FIELD_NUMBER: _ClassVar[int]
    DROP_TAINTS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    client_id: str
    node: str
    labels: _containers.ScalarMap[str, str]
    drop_labels: _containers.RepeatedScalarFieldContainer[str]
    taints: _containers.RepeatedCompositeFieldContainer[_types_pb2.Taint]
    drop_taints: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, request_id: _Optional[str] = ..., client_id: _Optional[str] = ..., node: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., drop_labels: _Optional[_Iterable[str]] = ..., taints: _Optional[_Iterable[_Union[_types_pb2.Taint, _Mapping]]] = ..., drop_taints: _Optional[_Iterable[str]] = ...) -> None: ...

class ControlNodeResponse(_message.Message):
    __slots__ = ("node_id", "unchanged", "revision", "staying")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    STAYING_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    unchanged: bool
    revision: int
    staying: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node_id: _Optional[str] = ..., unchanged: bool = ..., revision: _Optional[int] = ..., staying: _Optional[_Iterable[str]] = ...) -> None: ...

class ListUsageRequest(_message.Message):
    __slots__ = ("job", "tasks", "node")
    JOB_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    job: str
    tasks: bool
    node: str
    def __init__(self, job: _Optional[str] = ..., tasks: bool = ..., node: _Optional[str] = ...) -> None: ...

class ListUsageResponse(_message.Message):
    __slots__ = ("nodes", "tasks", "revision")
    NODES_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeUsageView]
    tasks: _containers.RepeatedCompositeFieldContainer[TaskUsageView]
    revision: int
    def __init__(self, nodes: _Optional[_Iterable[_Union[NodeUsageView, _Mapping]]] = ..., tasks: _Optional[_Iterable[_Union[TaskUsageView, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class NodeUsageView(_message.Message):
    __slots__ = ("node_id", "name", "usage", "age_ms", "version")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    name: str
    usage: NodeUsage
    age_ms: int
    version: str
    def __init__(self, node_id: _Optional[str] = ..., name: _Optional[str] = ..., usage: _Optional[_Union[NodeUsage, _Mapping]] = ..., age_ms: _Optional[int] = ..., version: _Optional[str] = ...) -> None: ...

class TaskUsageView(_message.Message):
    __slots__ = ("task_id", "job_id", "node_id", "cpu_milli", "usage", "spark")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    CPU_MILLI_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    SPARK_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    job_id: str
    node_id: str
    cpu_milli: int
    usage: _types_pb2.Usage
    spark: SparkProgress
    def __init__(self, task_id: _Optional[str] = ..., job_id: _Optional[str] = ..., node_id: _Optional[str] = ..., cpu_milli: _Optional[int] = ..., usage: _Optional[_Union[_types_pb2.Usage, _Mapping]] = ..., spark: _Optional[_Union[SparkProgress, _Mapping]] = ...) -> None: ...

class SparkProgress(_message.Message):
    __slots__ = ("application", "ui", "history", "stages", "more_stages", "executors")
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    UI_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    MORE_STAGES_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    application: str
    ui: str
    history: str
    stages: _containers.RepeatedCompositeFieldContainer[StageProgress]
    more_stages: int
    executors: int
    def __init__(self, application: _Optional[str] = ..., ui: _Optional[str] = ..., history: _Optional[str] = ..., stages: _Optional[_Iterable[_Union[StageProgress, _Mapping]]] = ..., more_stages: _Optional[int] = ..., executors: _Optional[int] = ...) -> None: ...

class StageProgress(_message.Message):
    __slots__ = ("id", "attempt", "name", "tasks", "done", "running", "failed")
    ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    id: int
    attempt: int
    name: str
    tasks: int
    done: int
    running: int
    failed: int
    def __init__(self, id: _Optional[int] = ..., attempt: _Optional[int] = ..., name: _Optional[str] = ..., tasks: _Optional[int] = ..., done: _Optional[int] = ..., running: _Optional[int] = ..., failed: _Optional[int] = ...) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ("labels", "node", "page_size", "page_token")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LABELS_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.ScalarMap[str, str]
    node: str
    page_size: int
    page_token: str
    def __init__(self, labels: _Optional[_Mapping[str, str]] = ..., node: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListNodesResponse(_message.Message):
    __slots__ = ("nodes", "revision", "next_page_token")
    NODES_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeView]
    revision: int
    next_page_token: str
    def __init__(self, nodes: _Optional[_Iterable[_Union[NodeView, _Mapping]]] = ..., revision: _Optional[int] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class NodeView(_message.Message):
    __slots__ = ("node", "used", "tasks", "heartbeat_age_ms")
    NODE_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    node: _types_pb2.Node
    used: _types_pb2.Resources
    tasks: int
    heartbeat_age_ms: int
    def __init__(self, node: _Optional[_Union[_types_pb2.Node, _Mapping]] = ..., used: _Optional[_Union[_types_pb2.Resources, _Mapping]] = ..., tasks: _Optional[int] = ..., heartbeat_age_ms: _Optional[int] = ...) -> None: ...
