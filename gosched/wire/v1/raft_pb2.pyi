from gosched.wire.v1 import log_pb2 as _log_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PeerHello(_message.Message):
    __slots__ = ("cluster", "member", "protocol", "disk", "joining", "refusal", "cluster_id", "newest_level", "empty", "boot", "run", "term", "last_index", "members_version", "catching_up", "joins_at", "removed", "unknown", "proof")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    DISK_FIELD_NUMBER: _ClassVar[int]
    JOINING_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    NEWEST_LEVEL_FIELD_NUMBER: _ClassVar[int]
    EMPTY_FIELD_NUMBER: _ClassVar[int]
    BOOT_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_VERSION_FIELD_NUMBER: _ClassVar[int]
    CATCHING_UP_FIELD_NUMBER: _ClassVar[int]
    JOINS_AT_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    member: str
    protocol: int
    disk: str
    joining: bool
    refusal: str
    cluster_id: str
    newest_level: int
    empty: bool
    boot: int
    run: str
    term: int
    last_index: int
    members_version: int
    catching_up: bool
    joins_at: str
    removed: bool
    unknown: bool
    proof: str
    def __init__(self, cluster: _Optional[str] = ..., member: _Optional[str] = ..., protocol: _Optional[int] = ..., disk: _Optional[str] = ..., joining: bool = ..., refusal: _Optional[str] = ..., cluster_id: _Optional[str] = ..., newest_level: _Optional[int] = ..., empty: bool = ..., boot: _Optional[int] = ..., run: _Optional[str] = ..., term: _Optional[int] = ..., last_index: _Optional[int] = ..., members_version: _Optional[int] = ..., catching_up: bool = ..., joins_at: _Optional[str] = ..., removed: bool = ..., unknown: bool = ..., proof: _Optional[str] = ...) -> None: ...

class PeerFrame(_message.Message):
    __slots__ = ("hello", "request_vote", "vote", "append_entries", "append_reply", "timeout_now", "pre_vote", "pre_vote_reply")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    REQUEST_VOTE_FIELD_NUMBER: _ClassVar[int]
    VOTE_FIELD_NUMBER: _ClassVar[int]
    APPEND_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    APPEND_REPLY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NOW_FIELD_NUMBER: _ClassVar[int]
    PRE_VOTE_FIELD_NUMBER: _ClassVar[int]
    PRE_VOTE_REPLY_FIELD_NUMBER: _ClassVar[int]
    hello: PeerHello
    request_vote: RequestVote
    vote: Vote
    append_entries: AppendEntries
    append_reply: AppendReply
    timeout_now: TimeoutNow
    pre_vote: PreVote
    pre_vote_reply: PreVoteReply
    def __init__(self, hello: _Optional[_Union[PeerHello, _Mapping]] = ..., request_vote: _Optional[_Union[RequestVote, _Mapping]] = ..., vote: _Optional[_Union[Vote, _Mapping]] = ..., append_entries: _Optional[_Union[AppendEntries, _Mapping]] = ..., append_reply: _Optional[_Union[AppendReply, _Mapping]] = ..., timeout_now: _Optional[_Union[TimeoutNow, _Mapping]] = ..., pre_vote: _Optional[_Union[PreVote, _Mapping]] = ..., pre_vote_reply: _Optional[_Union[PreVoteReply, _Mapping]] = ...) -> None: ...

class RequestVote(_message.Message):
    __slots__ = ("term", "last_index", "last_term")
    TERM_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_TERM_FIELD_NUMBER: _ClassVar[int]
    term: int
    last_index: int
    last_term: int
    def __init__(self, term: _Optional[int] = ..., last_index: _Optional[int] = ..., last_term: _Optional[int] = ...) -> None: ...

class Vote(_message.Message):
    __slots__ = ("term",)
    TERM_FIELD_NUMBER: _ClassVar[int]
    term: int
    def __init__(self, term: _Optional[int] = ...) -> None: ...

class PreVote(_message.Message):
    __slots__ = ("term", "last_index", "last_term")
    TERM_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_TERM_FIELD_NUMBER: _ClassVar[int]
    term: int
    last_index: int
    last_term: int
    def __init__(self, term: _Optional[int] = ..., last_index: _Optional[int] = ..., last_term: _Optional[int] = ...) -> None: ...

class PreVoteReply(_message.Message):
    __slots__ = ("term", "own_term", "granted")
    TERM_FIELD_NUMBER: _ClassVar[int]
    OWN_TERM_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    term: int
    own_term: int
    granted: bool
    def __init__(self, term: _Optional[int] = ..., own_term: _Optional[int] = ..., granted: bool = ...) -> None: ...

class AppendEntries(_message.Message):
    __slots__ = ("term", "commit_index", "entries", "snapshot")
    TERM_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    term: int
    commit_index: int
    entries: Entries
    snapshot: SnapshotChunk
    def __init__(self, term: _Optional[int] = ..., commit_index: _Optional[int] = ..., entries: _Optional[_Union[Entries, _Mapping]] = ..., snapshot: _Optional[_Union[SnapshotChunk, _Mapping]] = ...) -> None: ...

class Entries(_message.Message):
    __slots__ = ("previous_index", "previous_term", "entries")
    PREVIOUS_INDEX_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_TERM_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    previous_index: int
    previous_term: int
    entries: _containers.RepeatedCompositeFieldContainer[_log_pb2.LogEntry]
    def __init__(self, previous_index: _Optional[int] = ..., previous_term: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[_log_pb2.LogEntry, _Mapping]]] = ...) -> None: ...

class SnapshotChunk(_message.Message):
    __slots__ = ("data", "first", "last")
    DATA_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    first: bool
    last: bool
    def __init__(self, data: _Optional[bytes] = ..., first: bool = ..., last: bool = ...) -> None: ...

class AppendReply(_message.Message):
    __slots__ = ("term", "next_index", "reset", "success", "joining")
    TERM_FIELD_NUMBER: _ClassVar[int]
    NEXT_INDEX_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    JOINING_FIELD_NUMBER: _ClassVar[int]
    term: int
    next_index: int
    reset: bool
    success: bool
    joining: bool
    def __init__(self, term: _Optional[int] = ..., next_index: _Optional[int] = ..., reset: bool = ..., success: bool = ..., joining: bool = ...) -> None: ...

class TimeoutNow(_message.Message):
    __slots__ = ("term",)
    TERM_FIELD_NUMBER: _ClassVar[int]
    term: int
    def __init__(self, term: _Optional[int] = ...) -> None: ...

class ReplicaFrame(_message.Message):
    __slots__ = ("propose", "propose_failed", "applied", "snapshot", "role", "transfer", "take_snapshot", "started", "failed", "front_alive", "change_members", "members_changed", "set_log_level")
    PROPOSE_FIELD_NUMBER: _ClassVar[int]
    PROPOSE_FAILED_FIELD_NUMBER: _ClassVar[int]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_FIELD_NUMBER: _ClassVar[int]
    TAKE_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    FRONT_ALIVE_FIELD_NUMBER: _ClassVar[int]
    CHANGE_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_CHANGED_FIELD_NUMBER: _ClassVar[int]
    SET_LOG_LEVEL_FIELD_NUMBER: _ClassVar[int]
    propose: Propose
    propose_failed: ProposeFailed
    applied: Applied
    snapshot: SnapshotReady
    role: RoleChange
    transfer: TransferLeadership
    take_snapshot: TakeSnapshot
    started: Started
    failed: Failed
    front_alive: FrontAlive
    change_members: ChangeMembers
    members_changed: MembersChanged
    set_log_level: SetLogLevel
    def __init__(self, propose: _Optional[_Union[Propose, _Mapping]] = ..., propose_failed: _Optional[_Union[ProposeFailed, _Mapping]] = ..., applied: _Optional[_Union[Applied, _Mapping]] = ..., snapshot: _Optional[_Union[SnapshotReady, _Mapping]] = ..., role: _Optional[_Union[RoleChange, _Mapping]] = ..., transfer: _Optional[_Union[TransferLeadership, _Mapping]] = ..., take_snapshot: _Optional[_Union[TakeSnapshot, _Mapping]] = ..., started: _Optional[_Union[Started, _Mapping]] = ..., failed: _Optional[_Union[Failed, _Mapping]] = ..., front_alive: _Optional[_Union[FrontAlive, _Mapping]] = ..., change_members: _Optional[_Union[ChangeMembers, _Mapping]] = ..., members_changed: _Optional[_Union[MembersChanged, _Mapping]] = ..., set_log_level: _Optional[_Union[SetLogLevel, _Mapping]] = ...) -> None: ...

class Propose(_message.Message):
    __slots__ = ("proposal", "batch")
    PROPOSAL_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    proposal: int
    batch: bytes
    def __init__(self, proposal: _Optional[int] = ..., batch: _Optional[bytes] = ...) -> None: ...

class TransferLeadership(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SetLogLevel(_message.Message):
    __slots__ = ("level",)
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    level: str
    def __init__(self, level: _Optional[str] = ...) -> None: ...

class TakeSnapshot(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ChangeMembers(_message.Message):
    __slots__ = ("change", "member", "address")
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    change: int
    member: str
    address: str
    def __init__(self, change: _Optional[int] = ..., member: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class FrontAlive(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Started(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Failed(_message.Message):
    __slots__ = ("detail",)
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    detail: str
    def __init__(self, detail: _Optional[str] = ...) -> None: ...

class ProposeFailed(_message.Message):
    __slots__ = ("proposal", "definite", "detail")
    PROPOSAL_FIELD_NUMBER: _ClassVar[int]
    DEFINITE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    proposal: int
    definite: bool
    detail: str
    def __init__(self, proposal: _Optional[int] = ..., definite: bool = ..., detail: _Optional[str] = ...) -> None: ...

class MembersChanged(_message.Message):
    __slots__ = ("change", "refusal", "again")
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    change: int
    refusal: str
    again: bool
    def __init__(self, change: _Optional[int] = ..., refusal: _Optional[str] = ..., again: bool = ...) -> None: ...

class Applied(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: _log_pb2.LogEntry
    def __init__(self, entry: _Optional[_Union[_log_pb2.LogEntry, _Mapping]] = ...) -> None: ...

class SnapshotReady(_message.Message):
    __slots__ = ("path", "index")
    PATH_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    path: str
    index: int
    def __init__(self, path: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class RoleChange(_message.Message):
    __slots__ = ("role", "term", "leader", "commit_index", "applied_index", "connected", "log_bytes", "newest_levels", "last_index", "acknowledged", "applicants")
    class NewestLevelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class AcknowledgedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class ApplicantsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    APPLIED_INDEX_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    NEWEST_LEVELS_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    APPLICANTS_FIELD_NUMBER: _ClassVar[int]
    role: str
    term: int
    leader: str
    commit_index: int
    applied_index: int
    connected: _containers.RepeatedScalarFieldContainer[str]
    log_bytes: int
    newest_levels: _containers.ScalarMap[str, int]
    last_index: int
    acknowledged: _containers.ScalarMap[str, int]
    applicants: _containers.ScalarMap[str, str]
    def __init__(self, role: _Optional[str] = ..., term: _Optional[int] = ..., leader: _Optional[str] = ..., commit_index: _Optional[int] = ..., applied_index: _Optional[int] = ..., connected: _Optional[_Iterable[str]] = ..., log_bytes: _Optional[int] = ..., newest_levels: _Optional[_Mapping[str, int]] = ..., last_index: _Optional[int] = ..., acknowledged: _Optional[_Mapping[str, int]] = ..., applicants: _Optional[_Mapping[str, str]] = ...) -> None: ...
