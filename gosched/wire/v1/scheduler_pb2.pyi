from gosched.wire.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobOrder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_ORDER_UNSPECIFIED: _ClassVar[JobOrder]
    JOB_ORDER_SUBMITTED: _ClassVar[JobOrder]
    JOB_ORDER_STARTED: _ClassVar[JobOrder]
    JOB_ORDER_ENDED: _ClassVar[JobOrder]
    JOB_ORDER_NAME: _ClassVar[JobOrder]
    JOB_ORDER_PRIORITY: _ClassVar[JobOrder]

class Direction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DIRECTION_UNSPECIFIED: _ClassVar[Direction]
    DIRECTION_ASCENDING: _ClassVar[Direction]
    DIRECTION_DESCENDING: _ClassVar[Direction]

class LogStream(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOG_STREAM_UNSPECIFIED: _ClassVar[LogStream]
    LOG_STREAM_STDOUT: _ClassVar[LogStream]
    LOG_STREAM_STDERR: _ClassVar[LogStream]
JOB_ORDER_UNSPECIFIED: JobOrder
JOB_ORDER_SUBMITTED: JobOrder
JOB_ORDER_STARTED: JobOrder
JOB_ORDER_ENDED: JobOrder
JOB_ORDER_NAME: JobOrder
JOB_ORDER_PRIORITY: JobOrder
DIRECTION_UNSPECIFIED: Direction
DIRECTION_ASCENDING: Direction
DIRECTION_DESCENDING: Direction
LOG_STREAM_UNSPECIFIED: LogStream
LOG_STREAM_STDOUT: LogStream
LOG_STREAM_STDERR: LogStream

class ControlJobRequest(_message.Message):
    __slots__ = ("request_id", "client_id", "job", "action", "tasks")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    client_id: str
    job: str
    action: _types_pb2.Action
    tasks: int
    def __init__(self, request_id: _Optional[str] = ..., client_id: _Optional[str] = ..., job: _Optional[str] = ..., action: _Optional[_Union[_types_pb2.Action, str]] = ..., tasks: _Optional[int] = ...) -> None: ...

class ControlJobResponse(_message.Message):
    __slots__ = ("job_id", "unchanged", "revision")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    unchanged: bool
    revision: int
    def __init__(self, job_id: _Optional[str] = ..., unchanged: bool = ..., revision: _Optional[int] = ...) -> None: ...

class PlanJobRequest(_message.Message):
    __slots__ = ("specs",)
    SPECS_FIELD_NUMBER: _ClassVar[int]
    specs: _containers.RepeatedCompositeFieldContainer[_types_pb2.JobSpec]
    def __init__(self, specs: _Optional[_Iterable[_Union[_types_pb2.JobSpec, _Mapping]]] = ...) -> None: ...

class PlanJobResponse(_message.Message):
    __slots__ = ("jobs", "moved", "revision")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[PlannedJob]
    moved: _containers.RepeatedCompositeFieldContainer[MovedStart]
    revision: int
    def __init__(self, jobs: _Optional[_Iterable[_Union[PlannedJob, _Mapping]]] = ..., moved: _Optional[_Iterable[_Union[MovedStart, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class PlannedJob(_message.Message):
    __slots__ = ("name", "outcome", "nodes", "victims", "start_ms", "explanation", "warnings", "expected_end_ms", "likely_end_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    VICTIMS_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_END_MS_FIELD_NUMBER: _ClassVar[int]
    LIKELY_END_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    outcome: str
    nodes: _containers.RepeatedCompositeFieldContainer[NodeTasks]
    victims: _containers.RepeatedCompositeFieldContainer[Victim]
    start_ms: int
    explanation: JobExplanation
    warnings: _containers.RepeatedScalarFieldContainer[str]
    expected_end_ms: int
    likely_end_ms: int
    def __init__(self, name: _Optional[str] = ..., outcome: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[NodeTasks, _Mapping]]] = ..., victims: _Optional[_Iterable[_Union[Victim, _Mapping]]] = ..., start_ms: _Optional[int] = ..., explanation: _Optional[_Union[JobExplanation, _Mapping]] = ..., warnings: _Optional[_Iterable[str]] = ..., expected_end_ms: _Optional[int] = ..., likely_end_ms: _Optional[int] = ...) -> None: ...

class Victim(_message.Message):
    __slots__ = ("job_id", "name", "tasks", "whole", "cause", "lost_ms")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    LOST_MS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    name: str
    tasks: int
    whole: bool
    cause: str
    lost_ms: int
    def __init__(self, job_id: _Optional[str] = ..., name: _Optional[str] = ..., tasks: _Optional[int] = ..., whole: bool = ..., cause: _Optional[str] = ..., lost_ms: _Optional[int] = ...) -> None: ...

class MovedStart(_message.Message):
    __slots__ = ("job_id", "name", "before_ms", "after_ms")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    name: str
    before_ms: int
    after_ms: int
    def __init__(self, job_id: _Optional[str] = ..., name: _Optional[str] = ..., before_ms: _Optional[int] = ..., after_ms: _Optional[int] = ...) -> None: ...

class SetClockRequest(_message.Message):
    __slots__ = ("request_id", "client_id")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    client_id: str
    def __init__(self, request_id: _Optional[str] = ..., client_id: _Optional[str] = ...) -> None: ...

class SetClockResponse(_message.Message):
    __slots__ = ("from_ms", "to_ms", "unchanged", "revision")
    FROM_MS_FIELD_NUMBER: _ClassVar[int]
    TO_MS_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    from_ms: int
    to_ms: int
    unchanged: bool
    revision: int
    def __init__(self, from_ms: _Optional[int] = ..., to_ms: _Optional[int] = ..., unchanged: bool = ..., revision: _Optional[int] = ...) -> None: ...

class SetWindowRequest(_message.Message):
    __slots__ = ("request_id", "client_id", "window", "resources")
    class ResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    client_id: str
    window: _types_pb2.Window
    resources: _containers.ScalarMap[str, int]
    def __init__(self, request_id: _Optional[str] = ..., client_id: _Optional[str] = ..., window: _Optional[_Union[_types_pb2.Window, _Mapping]] = ..., resources: _Optional[_Mapping[str, int]] = ...) -> None: ...

class SetWindowResponse(_message.Message):
    __slots__ = ("window", "in_the_way", "revision")
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    IN_THE_WAY_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    window: _types_pb2.Window
    in_the_way: _containers.RepeatedScalarFieldContainer[str]
    revision: int
    def __init__(self, window: _Optional[_Union[_types_pb2.Window, _Mapping]] = ..., in_the_way: _Optional[_Iterable[str]] = ..., revision: _Optional[int] = ...) -> None: ...

class DropWindowRequest(_message.Message):
    __slots__ = ("request_id", "client_id", "name")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    client_id: str
    name: str
    def __init__(self, request_id: _Optional[str] = ..., client_id: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class DropWindowResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...

class ListReservationsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListReservationsResponse(_message.Message):
    __slots__ = ("windows", "reservations", "fences", "revision")
    WINDOWS_FIELD_NUMBER: _ClassVar[int]
    RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    FENCES_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    windows: _containers.RepeatedCompositeFieldContainer[_types_pb2.Window]
    reservations: _containers.RepeatedCompositeFieldContainer[_types_pb2.Reservation]
    fences: _containers.RepeatedCompositeFieldContainer[_types_pb2.Fence]
    revision: int
    def __init__(self, windows: _Optional[_Iterable[_Union[_types_pb2.Window, _Mapping]]] = ..., reservations: _Optional[_Iterable[_Union[_types_pb2.Reservation, _Mapping]]] = ..., fences: _Optional[_Iterable[_Union[_types_pb2.Fence, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class ReadJobsRequest(_message.Message):
    __slots__ = ("text", "source", "overrides", "sets")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    OVERRIDES_FIELD_NUMBER: _ClassVar[int]
    SETS_FIELD_NUMBER: _ClassVar[int]
    text: bytes
    source: str
    overrides: _containers.RepeatedCompositeFieldContainer[JobOverride]
    sets: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, text: _Optional[bytes] = ..., source: _Optional[str] = ..., overrides: _Optional[_Iterable[_Union[JobOverride, _Mapping]]] = ..., sets: _Optional[_Iterable[str]] = ...) -> None: ...

class JobOverride(_message.Message):
    __slots__ = ("path", "value", "origin", "adds", "of_group")
    PATH_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    ADDS_FIELD_NUMBER: _ClassVar[int]
    OF_GROUP_FIELD_NUMBER: _ClassVar[int]
    path: _containers.RepeatedScalarFieldContainer[str]
    value: str
    origin: str
    adds: bool
    of_group: bool
    def __init__(self, path: _Optional[_Iterable[str]] = ..., value: _Optional[str] = ..., origin: _Optional[str] = ..., adds: bool = ..., of_group: bool = ...) -> None: ...

class ReadJobsResponse(_message.Message):
    __slots__ = ("specs", "problem")
    SPECS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    specs: _containers.RepeatedCompositeFieldContainer[_types_pb2.JobSpec]
    problem: str
    def __init__(self, specs: _Optional[_Iterable[_Union[_types_pb2.JobSpec, _Mapping]]] = ..., problem: _Optional[str] = ...) -> None: ...

class SubmitJobRequest(_message.Message):
    __slots__ = ("request_id", "client_id", "spec", "user")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    client_id: str
    spec: _types_pb2.JobSpec
    user: str
    def __init__(self, request_id: _Optional[str] = ..., client_id: _Optional[str] = ..., spec: _Optional[_Union[_types_pb2.JobSpec, _Mapping]] = ..., user: _Optional[str] = ...) -> None: ...

class SubmitJobResponse(_message.Message):
    __slots__ = ("job_id", "warnings", "unchanged", "revision")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    unchanged: bool
    revision: int
    def __init__(self, job_id: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ..., unchanged: bool = ..., revision: _Optional[int] = ...) -> None: ...

class SubmitJobsRequest(_message.Message):
    __slots__ = ("request_id", "client_id", "specs", "all_or_nothing", "user")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    SPECS_FIELD_NUMBER: _ClassVar[int]
    ALL_OR_NOTHING_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    client_id: str
    specs: _containers.RepeatedCompositeFieldContainer[_types_pb2.JobSpec]
    all_or_nothing: bool
    user: str
    def __init__(self, request_id: _Optional[str] = ..., client_id: _Optional[str] = ..., specs: _Optional[_Iterable[_Union[_types_pb2.JobSpec, _Mapping]]] = ..., all_or_nothing: bool = ..., user: _Optional[str] = ...) -> None: ...

class SubmitJobsResponse(_message.Message):
    __slots__ = ("outcomes", "revision")
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[SubmitOutcome]
    revision: int
    def __init__(self, outcomes: _Optional[_Iterable[_Union[SubmitOutcome, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class SubmitOutcome(_message.Message):
    __slots__ = ("job_id", "warnings", "unchanged", "code", "problem")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    unchanged: bool
    code: str
    problem: str
    def __init__(self, job_id: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ..., unchanged: bool = ..., code: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: str
    def __init__(self, job: _Optional[str] = ...) -> None: ...

class JobView(_message.Message):
    __slots__ = ("job", "tasks", "explanation", "revision", "failed_elements", "expected_end_ms", "likely_end_ms")
    JOB_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    FAILED_ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_END_MS_FIELD_NUMBER: _ClassVar[int]
    LIKELY_END_MS_FIELD_NUMBER: _ClassVar[int]
    job: _types_pb2.Job
    tasks: _containers.RepeatedCompositeFieldContainer[_types_pb2.Task]
    explanation: Explanation
    revision: int
    failed_elements: _containers.RepeatedScalarFieldContainer[str]
    expected_end_ms: int
    likely_end_ms: int
    def __init__(self, job: _Optional[_Union[_types_pb2.Job, _Mapping]] = ..., tasks: _Optional[_Iterable[_Union[_types_pb2.Task, _Mapping]]] = ..., explanation: _Optional[_Union[Explanation, _Mapping]] = ..., revision: _Optional[int] = ..., failed_elements: _Optional[_Iterable[str]] = ..., expected_end_ms: _Optional[int] = ..., likely_end_ms: _Optional[int] = ...) -> None: ...

class Explanation(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class JobExplanation(_message.Message):
    __slots__ = ("job", "code", "message", "position", "limit", "refused", "nearest", "nodes", "queue", "revision", "start_ms", "start_from", "holders", "change", "victims", "expected_end_ms", "likely_end_ms")
    JOB_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    NEAREST_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    START_FROM_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    VICTIMS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_END_MS_FIELD_NUMBER: _ClassVar[int]
    LIKELY_END_MS_FIELD_NUMBER: _ClassVar[int]
    job: _types_pb2.Job
    code: str
    message: str
    position: int
    limit: str
    refused: _containers.RepeatedCompositeFieldContainer[Refused]
    nearest: str
    nodes: _containers.RepeatedCompositeFieldContainer[NodeTasks]
    queue: QueueStatus
    revision: int
    start_ms: int
    start_from: str
    holders: _containers.RepeatedCompositeFieldContainer[Holder]
    change: str
    victims: _containers.RepeatedCompositeFieldContainer[Victim]
    expected_end_ms: int
    likely_end_ms: int
    def __init__(self, job: _Optional[_Union[_types_pb2.Job, _Mapping]] = ..., code: _Optional[str] = ..., message: _Optional[str] = ..., position: _Optional[int] = ..., limit: _Optional[str] = ..., refused: _Optional[_Iterable[_Union[Refused, _Mapping]]] = ..., nearest: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[NodeTasks, _Mapping]]] = ..., queue: _Optional[_Union[QueueStatus, _Mapping]] = ..., revision: _Optional[int] = ..., start_ms: _Optional[int] = ..., start_from: _Optional[str] = ..., holders: _Optional[_Iterable[_Union[Holder, _Mapping]]] = ..., change: _Optional[str] = ..., victims: _Optional[_Iterable[_Union[Victim, _Mapping]]] = ..., expected_end_ms: _Optional[int] = ..., likely_end_ms: _Optional[int] = ...) -> None: ...

class ListWaitsRequest(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, jobs: _Optional[_Iterable[str]] = ...) -> None: ...

class ListWaitsResponse(_message.Message):
    __slots__ = ("waits", "revision")
    WAITS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    waits: _containers.RepeatedCompositeFieldContainer[JobWait]
    revision: int
    def __init__(self, waits: _Optional[_Iterable[_Union[JobWait, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class JobWait(_message.Message):
    __slots__ = ("job_id", "code", "message", "start_ms")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    code: str
    message: str
    start_ms: int
    def __init__(self, job_id: _Optional[str] = ..., code: _Optional[str] = ..., message: _Optional[str] = ..., start_ms: _Optional[int] = ...) -> None: ...

class Holder(_message.Message):
    __slots__ = ("job_id", "name", "queue", "held", "until_ms")
    class HeldEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    name: str
    queue: str
    held: _containers.ScalarMap[str, int]
    until_ms: int
    def __init__(self, job_id: _Optional[str] = ..., name: _Optional[str] = ..., queue: _Optional[str] = ..., held: _Optional[_Mapping[str, int]] = ..., until_ms: _Optional[int] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("filter", "nodes")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    filter: str
    nodes: int
    def __init__(self, filter: _Optional[str] = ..., nodes: _Optional[int] = ...) -> None: ...

class NodeTasks(_message.Message):
    __slots__ = ("node_id", "tasks")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    tasks: int
    def __init__(self, node_id: _Optional[str] = ..., tasks: _Optional[int] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("states", "queue", "labels", "page_size", "page_token", "tenant", "user", "since_ms", "order", "direction", "ended_since_ms", "parent", "rows")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    STATES_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    ENDED_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedScalarFieldContainer[_types_pb2.JobState]
    queue: str
    labels: _containers.ScalarMap[str, str]
    page_size: int
    page_token: str
    tenant: str
    user: str
    since_ms: int
    order: JobOrder
    direction: Direction
    ended_since_ms: int
    parent: str
    rows: bool
    def __init__(self, states: _Optional[_Iterable[_Union[_types_pb2.JobState, str]]] = ..., queue: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., tenant: _Optional[str] = ..., user: _Optional[str] = ..., since_ms: _Optional[int] = ..., order: _Optional[_Union[JobOrder, str]] = ..., direction: _Optional[_Union[Direction, str]] = ..., ended_since_ms: _Optional[int] = ..., parent: _Optional[str] = ..., rows: bool = ...) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ("jobs", "next_page_token", "revision", "understood", "rows")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UNDERSTOOD_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[_types_pb2.Job]
    next_page_token: str
    revision: int
    understood: bool
    rows: _containers.RepeatedCompositeFieldContainer[JobRow]
    def __init__(self, jobs: _Optional[_Iterable[_Union[_types_pb2.Job, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., revision: _Optional[int] = ..., understood: bool = ..., rows: _Optional[_Iterable[_Union[JobRow, _Mapping]]] = ...) -> None: ...

class JobRow(_message.Message):
    __slots__ = ("id", "name", "queue", "tenant", "user", "authenticated", "priority", "labels", "state", "reason", "detail", "attempt", "restarts", "preemptions", "task_count", "running", "succeeded", "failed", "exit_code", "parent", "element", "array_size", "cron", "timezone", "overlap", "children", "held", "frozen", "waits_for", "deadline_ms", "deadline_missed", "estimate_ms", "timeout_ms", "checkpoint_at_ms", "until_ms", "spent", "submitted_at_ms", "placed_at_ms", "started_at_ms", "ended_at_ms", "wait_code", "wait_message", "waits_since_ms", "start_ms", "begin_ms", "wanted")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATED_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    TASK_COUNT_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    ELEMENT_FIELD_NUMBER: _ClassVar[int]
    ARRAY_SIZE_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    FROZEN_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MISSED_FIELD_NUMBER: _ClassVar[int]
    ESTIMATE_MS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_AT_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    PLACED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    WAIT_CODE_FIELD_NUMBER: _ClassVar[int]
    WAIT_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    WAITS_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    BEGIN_MS_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    queue: str
    tenant: str
    user: str
    authenticated: bool
    priority: int
    labels: _containers.ScalarMap[str, str]
    state: _types_pb2.JobState
    reason: str
    detail: str
    attempt: int
    restarts: int
    preemptions: int
    task_count: int
    running: int
    succeeded: int
    failed: int
    exit_code: int
    parent: str
    element: int
    array_size: int
    cron: str
    timezone: str
    overlap: _types_pb2.Overlap
    children: _types_pb2.Children
    held: bool
    frozen: bool
    waits_for: _containers.RepeatedCompositeFieldContainer[_types_pb2.Dependency]
    deadline_ms: int
    deadline_missed: bool
    estimate_ms: int
    timeout_ms: int
    checkpoint_at_ms: int
    until_ms: int
    spent: _types_pb2.Spent
    submitted_at_ms: int
    placed_at_ms: int
    started_at_ms: int
    ended_at_ms: int
    wait_code: str
    wait_message: str
    waits_since_ms: int
    start_ms: int
    begin_ms: int
    wanted: int
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., queue: _Optional[str] = ..., tenant: _Optional[str] = ..., user: _Optional[str] = ..., authenticated: bool = ..., priority: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., state: _Optional[_Union[_types_pb2.JobState, str]] = ..., reason: _Optional[str] = ..., detail: _Optional[str] = ..., attempt: _Optional[int] = ..., restarts: _Optional[int] = ..., preemptions: _Optional[int] = ..., task_count: _Optional[int] = ..., running: _Optional[int] = ..., succeeded: _Optional[int] = ..., failed: _Optional[int] = ..., exit_code: _Optional[int] = ..., parent: _Optional[str] = ..., element: _Optional[int] = ..., array_size: _Optional[int] = ..., cron: _Optional[str] = ..., timezone: _Optional[str] = ..., overlap: _Optional[_Union[_types_pb2.Overlap, str]] = ..., children: _Optional[_Union[_types_pb2.Children, _Mapping]] = ..., held: bool = ..., frozen: bool = ..., waits_for: _Optional[_Iterable[_Union[_types_pb2.Dependency, _Mapping]]] = ..., deadline_ms: _Optional[int] = ..., deadline_missed: bool = ..., estimate_ms: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., checkpoint_at_ms: _Optional[int] = ..., until_ms: _Optional[int] = ..., spent: _Optional[_Union[_types_pb2.Spent, _Mapping]] = ..., submitted_at_ms: _Optional[int] = ..., placed_at_ms: _Optional[int] = ..., started_at_ms: _Optional[int] = ..., ended_at_ms: _Optional[int] = ..., wait_code: _Optional[str] = ..., wait_message: _Optional[str] = ..., waits_since_ms: _Optional[int] = ..., start_ms: _Optional[int] = ..., begin_ms: _Optional[int] = ..., wanted: _Optional[int] = ...) -> None: ...

class CancelJobRequest(_message.Message):
    __slots__ = ("request_id", "client_id", "job", "reason")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    client_id: str
    job: str
    reason: str
    def __init__(self, request_id: _Optional[str] = ..., client_id: _Optional[str] = ..., job: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class CancelJobResponse(_message.Message):
    __slots__ = ("job_id", "revision", "unchanged")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    revision: int
    unchanged: bool
    def __init__(self, job_id: _Optional[str] = ..., revision: _Optional[int] = ..., unchanged: bool = ...) -> None: ...

class StreamJobLogsRequest(_message.Message):
    __slots__ = ("job", "task", "follow", "attempt", "previous", "tail", "since_ms", "timestamps")
    JOB_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    job: str
    task: str
    follow: bool
    attempt: int
    previous: bool
    tail: int
    since_ms: int
    timestamps: bool
    def __init__(self, job: _Optional[str] = ..., task: _Optional[str] = ..., follow: bool = ..., attempt: _Optional[int] = ..., previous: bool = ..., tail: _Optional[int] = ..., since_ms: _Optional[int] = ..., timestamps: bool = ..., **kwargs) -> None: ...

class LogPosition(_message.Message):
    __slots__ = ("allocation_id", "stream", "offset")
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    allocation_id: str
    stream: LogStream
    offset: int
    def __init__(self, allocation_id: _Optional[str] = ..., stream: _Optional[_Union[LogStream, str]] = ..., offset: _Optional[int] = ...) -> None: ...

class LogChunk(_message.Message):
    __slots__ = ("task_id", "allocation_id", "stream", "offset", "data", "end", "note", "missing", "start", "times", "job_name")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    allocation_id: str
    stream: LogStream
    offset: int
    data: bytes
    end: bool
    note: str
    missing: bool
    start: bool
    times: _containers.RepeatedCompositeFieldContainer[LogTime]
    job_name: str
    def __init__(self, task_id: _Optional[str] = ..., allocation_id: _Optional[str] = ..., stream: _Optional[_Union[LogStream, str]] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., end: bool = ..., note: _Optional[str] = ..., missing: bool = ..., start: bool = ..., times: _Optional[_Iterable[_Union[LogTime, _Mapping]]] = ..., job_name: _Optional[str] = ...) -> None: ...

class LogTime(_message.Message):
    __slots__ = ("offset", "at_ms")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    offset: int
    at_ms: int
    def __init__(self, offset: _Optional[int] = ..., at_ms: _Optional[int] = ...) -> None: ...

class ExecRequest(_message.Message):
    __slots__ = ("start", "stdin", "stdin_end", "resize", "signal")
    START_FIELD_NUMBER: _ClassVar[int]
    STDIN_FIELD_NUMBER: _ClassVar[int]
    STDIN_END_FIELD_NUMBER: _ClassVar[int]
    RESIZE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    start: ExecStart
    stdin: bytes
    stdin_end: bool
    resize: TerminalSize
    signal: int
    def __init__(self, start: _Optional[_Union[ExecStart, _Mapping]] = ..., stdin: _Optional[bytes] = ..., stdin_end: bool = ..., resize: _Optional[_Union[TerminalSize, _Mapping]] = ..., signal: _Optional[int] = ...) -> None: ...

class ExecStart(_message.Message):
    __slots__ = ("job", "task", "allocation_id", "command", "terminal", "size", "env", "registration", "epoch")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    JOB_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    job: str
    task: str
    allocation_id: str
    command: _containers.RepeatedScalarFieldContainer[str]
    terminal: bool
    size: TerminalSize
    env: _containers.ScalarMap[str, str]
    registration: int
    epoch: int
    def __init__(self, job: _Optional[str] = ..., task: _Optional[str] = ..., allocation_id: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., terminal: bool = ..., size: _Optional[_Union[TerminalSize, _Mapping]] = ..., env: _Optional[_Mapping[str, str]] = ..., registration: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class TerminalSize(_message.Message):
    __slots__ = ("rows", "columns")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    columns: int
    def __init__(self, rows: _Optional[int] = ..., columns: _Optional[int] = ...) -> None: ...

class ExecResponse(_message.Message):
    __slots__ = ("stdout", "stderr", "exit_code")
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    stdout: bytes
    stderr: bytes
    exit_code: int
    def __init__(self, stdout: _Optional[bytes] = ..., stderr: _Optional[bytes] = ..., exit_code: _Optional[int] = ...) -> None: ...

class GetClusterStatusRequest(_message.Message):
    __slots__ = ("digest", "fresh")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    FRESH_FIELD_NUMBER: _ClassVar[int]
    digest: bool
    fresh: bool
    def __init__(self, digest: bool = ..., fresh: bool = ...) -> None: ...

class ClusterStatus(_message.Message):
    __slots__ = ("leader", "epoch", "revision", "masters", "nodes", "nodes_ready", "jobs", "pending", "running", "total", "used", "queues", "digest", "version", "state_bytes", "state_bytes_limit", "clock_ms", "load_problem", "clock_problem", "feature_level", "newest_feature_level", "backup")
    LEADER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    MASTERS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    NODES_READY_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_BYTES_FIELD_NUMBER: _ClassVar[int]
    STATE_BYTES_LIMIT_FIELD_NUMBER: _ClassVar[int]
    CLOCK_MS_FIELD_NUMBER: _ClassVar[int]
    LOAD_PROBLEM_FIELD_NUMBER: _ClassVar[int]
    CLOCK_PROBLEM_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    BACKUP_FIELD_NUMBER: _ClassVar[int]
    leader: str
    epoch: int
    revision: int
    masters: _containers.RepeatedCompositeFieldContainer[MasterStatus]
    nodes: int
    nodes_ready: int
    jobs: int
    pending: int
    running: int
    total: _types_pb2.Resources
    used: _types_pb2.Resources
    queues: _containers.RepeatedCompositeFieldContainer[QueueStatus]
    digest: str
    version: str
    state_bytes: int
    state_bytes_limit: int
    clock_ms: int
    load_problem: str
    clock_problem: str
    feature_level: int
    newest_feature_level: int
    backup: BackupStatus
    def __init__(self, leader: _Optional[str] = ..., epoch: _Optional[int] = ..., revision: _Optional[int] = ..., masters: _Optional[_Iterable[_Union[MasterStatus, _Mapping]]] = ..., nodes: _Optional[int] = ..., nodes_ready: _Optional[int] = ..., jobs: _Optional[int] = ..., pending: _Optional[int] = ..., running: _Optional[int] = ..., total: _Optional[_Union[_types_pb2.Resources, _Mapping]] = ..., used: _Optional[_Union[_types_pb2.Resources, _Mapping]] = ..., queues: _Optional[_Iterable[_Union[QueueStatus, _Mapping]]] = ..., digest: _Optional[str] = ..., version: _Optional[str] = ..., state_bytes: _Optional[int] = ..., state_bytes_limit: _Optional[int] = ..., clock_ms: _Optional[int] = ..., load_problem: _Optional[str] = ..., clock_problem: _Optional[str] = ..., feature_level: _Optional[int] = ..., newest_feature_level: _Optional[int] = ..., backup: _Optional[_Union[BackupStatus, _Mapping]] = ...) -> None: ...

class BackupStatus(_message.Message):
    __slots__ = ("last_success_ms", "last_bytes", "failures", "problem")
    LAST_SUCCESS_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_BYTES_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    last_success_ms: int
    last_bytes: int
    failures: int
    problem: str
    def __init__(self, last_success_ms: _Optional[int] = ..., last_bytes: _Optional[int] = ..., failures: _Optional[int] = ..., problem: _Optional[str] = ...) -> None: ...

class MasterStatus(_message.Message):
    __slots__ = ("id", "address", "role", "healthy", "grpc_address", "http_address", "clock_offset_ms", "newest_feature_level", "version")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    GRPC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HTTP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_OFFSET_MS_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    id: str
    address: str
    role: str
    healthy: bool
    grpc_address: str
    http_address: str
    clock_offset_ms: int
    newest_feature_level: int
    version: str
    def __init__(self, id: _Optional[str] = ..., address: _Optional[str] = ..., role: _Optional[str] = ..., healthy: bool = ..., grpc_address: _Optional[str] = ..., http_address: _Optional[str] = ..., clock_offset_ms: _Optional[int] = ..., newest_feature_level: _Optional[int] = ..., version: _Optional[str] = ...) -> None: ...

class QueueStatus(_message.Message):
    __slots__ = ("path", "type", "pending", "running", "used", "demand", "fair_share", "ceiling", "rules")
    class UsedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class DemandEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class FairShareEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class CeilingEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    PATH_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    DEMAND_FIELD_NUMBER: _ClassVar[int]
    FAIR_SHARE_FIELD_NUMBER: _ClassVar[int]
    CEILING_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    path: str
    type: str
    pending: int
    running: int
    used: _containers.ScalarMap[str, int]
    demand: _containers.ScalarMap[str, int]
    fair_share: _containers.ScalarMap[str, int]
    ceiling: _containers.ScalarMap[str, int]
    rules: _types_pb2.Queue
    def __init__(self, path: _Optional[str] = ..., type: _Optional[str] = ..., pending: _Optional[int] = ..., running: _Optional[int] = ..., used: _Optional[_Mapping[str, int]] = ..., demand: _Optional[_Mapping[str, int]] = ..., fair_share: _Optional[_Mapping[str, int]] = ..., ceiling: _Optional[_Mapping[str, int]] = ..., rules: _Optional[_Union[_types_pb2.Queue, _Mapping]] = ...) -> None: ...

class SetQueuesRequest(_message.Message):
    __slots__ = ("request_id", "client_id", "queues", "quotas", "sets_quotas", "if_match", "dry_run")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    SETS_QUOTAS_FIELD_NUMBER: _ClassVar[int]
    IF_MATCH_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    client_id: str
    queues: _containers.RepeatedCompositeFieldContainer[_types_pb2.Queue]
    quotas: _containers.RepeatedCompositeFieldContainer[_types_pb2.Quota]
    sets_quotas: bool
    if_match: str
    dry_run: bool
    def __init__(self, request_id: _Optional[str] = ..., client_id: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[_types_pb2.Queue, _Mapping]]] = ..., quotas: _Optional[_Iterable[_Union[_types_pb2.Quota, _Mapping]]] = ..., sets_quotas: bool = ..., if_match: _Optional[str] = ..., dry_run: bool = ...) -> None: ...

class SetQueuesResponse(_message.Message):
    __slots__ = ("unchanged", "revision")
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    unchanged: bool
    revision: int
    def __init__(self, unchanged: bool = ..., revision: _Optional[int] = ...) -> None: ...

class SetQuotasRequest(_message.Message):
    __slots__ = ("request_id", "client_id", "quotas", "replace", "if_match", "dry_run")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    IF_MATCH_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    client_id: str
    quotas: _containers.RepeatedCompositeFieldContainer[_types_pb2.Quota]
    replace: bool
    if_match: str
    dry_run: bool
    def __init__(self, request_id: _Optional[str] = ..., client_id: _Optional[str] = ..., quotas: _Optional[_Iterable[_Union[_types_pb2.Quota, _Mapping]]] = ..., replace: bool = ..., if_match: _Optional[str] = ..., dry_run: bool = ...) -> None: ...

class SetQuotasResponse(_message.Message):
    __slots__ = ("unchanged", "revision")
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    unchanged: bool
    revision: int
    def __init__(self, unchanged: bool = ..., revision: _Optional[int] = ...) -> None: ...

class ListQuotasRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListQuotasResponse(_message.Message):
    __slots__ = ("quotas", "revision")
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    quotas: _containers.RepeatedCompositeFieldContainer[QuotaStatus]
    revision: int
    def __init__(self, quotas: _Optional[_Iterable[_Union[QuotaStatus, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class QuotaStatus(_message.Message):
    __slots__ = ("quota", "used", "running_jobs", "spent")
    class UsedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_JOBS_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    quota: _types_pb2.Quota
    used: _containers.ScalarMap[str, int]
    running_jobs: int
    spent: _types_pb2.Spent
    def __init__(self, quota: _Optional[_Union[_types_pb2.Quota, _Mapping]] = ..., used: _Optional[_Mapping[str, int]] = ..., running_jobs: _Optional[int] = ..., spent: _Optional[_Union[_types_pb2.Spent, _Mapping]] = ...) -> None: ...
