from gosched.wire.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class HistoryEvent(_message.Message):
    __slots__ = ("revision", "number", "at_ms", "kind", "job_id", "job_name", "queue", "tenant", "user", "task_id", "node_id", "attempt", "code", "message")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    revision: int
    number: int
    at_ms: int
    kind: str
    job_id: str
    job_name: str
    queue: str
    tenant: str
    user: str
    task_id: str
    node_id: str
    attempt: int
    code: str
    message: str
    def __init__(self, revision: _Optional[int] = ..., number: _Optional[int] = ..., at_ms: _Optional[int] = ..., kind: _Optional[str] = ..., job_id: _Optional[str] = ..., job_name: _Optional[str] = ..., queue: _Optional[str] = ..., tenant: _Optional[str] = ..., user: _Optional[str] = ..., task_id: _Optional[str] = ..., node_id: _Optional[str] = ..., attempt: _Optional[int] = ..., code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class ListEventsRequest(_message.Message):
    __slots__ = ("after", "job", "node", "kinds", "since_ms", "page_size", "queue", "tenant")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    after: int
    job: str
    node: str
    kinds: _containers.RepeatedScalarFieldContainer[str]
    since_ms: int
    page_size: int
    queue: str
    tenant: str
    def __init__(self, after: _Optional[int] = ..., job: _Optional[str] = ..., node: _Optional[str] = ..., kinds: _Optional[_Iterable[str]] = ..., since_ms: _Optional[int] = ..., page_size: _Optional[int] = ..., queue: _Optional[str] = ..., tenant: _Optional[str] = ...) -> None: ...

class ListEventsResponse(_message.Message):
    __slots__ = ("events", "revision", "more", "oldest")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    OLDEST_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[HistoryEvent]
    revision: int
    more: bool
    oldest: int
    def __init__(self, events: _Optional[_Iterable[_Union[HistoryEvent, _Mapping]]] = ..., revision: _Optional[int] = ..., more: bool = ..., oldest: _Optional[int] = ...) -> None: ...

class EventBatch(_message.Message):
    __slots__ = ("events", "revision")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[HistoryEvent]
    revision: int
    def __init__(self, events: _Optional[_Iterable[_Union[HistoryEvent, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class ListAttemptsRequest(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: str
    def __init__(self, job: _Optional[str] = ...) -> None: ...

class ListAttemptsResponse(_message.Message):
    __slots__ = ("attempts", "revision")
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    attempts: _containers.RepeatedCompositeFieldContainer[Attempt]
    revision: int
    def __init__(self, attempts: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("number", "state", "reason", "detail", "exit_code", "placed_at_ms", "started_at_ms", "ended_at_ms", "tasks")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    PLACED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    number: int
    state: _types_pb2.JobState
    reason: str
    detail: str
    exit_code: int
    placed_at_ms: int
    started_at_ms: int
    ended_at_ms: int
    tasks: _containers.RepeatedCompositeFieldContainer[TaskAttempt]
    def __init__(self, number: _Optional[int] = ..., state: _Optional[_Union[_types_pb2.JobState, str]] = ..., reason: _Optional[str] = ..., detail: _Optional[str] = ..., exit_code: _Optional[int] = ..., placed_at_ms: _Optional[int] = ..., started_at_ms: _Optional[int] = ..., ended_at_ms: _Optional[int] = ..., tasks: _Optional[_Iterable[_Union[TaskAttempt, _Mapping]]] = ...) -> None: ...

class TaskAttempt(_message.Message):
    __slots__ = ("task_id", "group", "index", "allocation_id", "node_id", "node_name", "state", "reason", "detail", "exit_code", "placed_at_ms", "started_at_ms", "ended_at_ms", "gpus")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    PLACED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    group: str
    index: int
    allocation_id: str
    node_id: str
    node_name: str
    state: _types_pb2.TaskState
    reason: str
    detail: str
    exit_code: int
    placed_at_ms: int
    started_at_ms: int
    ended_at_ms: int
    gpus: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, task_id: _Optional[str] = ..., group: _Optional[str] = ..., index: _Optional[int] = ..., allocation_id: _Optional[str] = ..., node_id: _Optional[str] = ..., node_name: _Optional[str] = ..., state: _Optional[_Union[_types_pb2.TaskState, str]] = ..., reason: _Optional[str] = ..., detail: _Optional[str] = ..., exit_code: _Optional[int] = ..., placed_at_ms: _Optional[int] = ..., started_at_ms: _Optional[int] = ..., ended_at_ms: _Optional[int] = ..., gpus: _Optional[_Iterable[int]] = ...) -> None: ...

class ListFinishedJobsRequest(_message.Message):
    __slots__ = ("since_ms", "until_ms", "tenant", "queue", "user", "states", "page_size", "page_token")
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    since_ms: int
    until_ms: int
    tenant: str
    queue: str
    user: str
    states: _containers.RepeatedScalarFieldContainer[_types_pb2.JobState]
    page_size: int
    page_token: str
    def __init__(self, since_ms: _Optional[int] = ..., until_ms: _Optional[int] = ..., tenant: _Optional[str] = ..., queue: _Optional[str] = ..., user: _Optional[str] = ..., states: _Optional[_Iterable[_Union[_types_pb2.JobState, str]]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListFinishedJobsResponse(_message.Message):
    __slots__ = ("jobs", "next_page_token")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[FinishedJob]
    next_page_token: str
    def __init__(self, jobs: _Optional[_Iterable[_Union[FinishedJob, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class FinishedJob(_message.Message):
    __slots__ = ("job_id", "name", "queue", "tenant", "user", "state", "reason", "exit_code", "attempts", "tasks", "submitted_at_ms", "started_at_ms", "ended_at_ms", "spent")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    name: str
    queue: str
    tenant: str
    user: str
    state: _types_pb2.JobState
    reason: str
    exit_code: int
    attempts: int
    tasks: int
    submitted_at_ms: int
    started_at_ms: int
    ended_at_ms: int
    spent: _types_pb2.Spent
    def __init__(self, job_id: _Optional[str] = ..., name: _Optional[str] = ..., queue: _Optional[str] = ..., tenant: _Optional[str] = ..., user: _Optional[str] = ..., state: _Optional[_Union[_types_pb2.JobState, str]] = ..., reason: _Optional[str] = ..., exit_code: _Optional[int] = ..., attempts: _Optional[int] = ..., tasks: _Optional[int] = ..., submitted_at_ms: _Optional[int] = ..., started_at_ms: _Optional[int] = ..., ended_at_ms: _Optional[int] = ..., spent: _Optional[_Union[_types_pb2.Spent, _Mapping]] = ...) -> None: ...

class StreamHistoryRequest(_message.Message):
    __slots__ = ("after", "before")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    after: int
    before: int
    def __init__(self, after: _Optional[int] = ..., before: _Optional[int] = ...) -> None: ...

class HistoryRows(_message.Message):
    __slots__ = ("first", "table", "columns", "rows")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    first: int
    table: str
    columns: _containers.RepeatedScalarFieldContainer[str]
    rows: bytes
    def __init__(self, first: _Optional[int] = ..., table: _Optional[str] = ..., columns: _Optional[_Iterable[str]] = ..., rows: _Optional[bytes] = ...) -> None: ...
