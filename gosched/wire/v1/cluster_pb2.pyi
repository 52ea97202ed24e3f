from gosched.wire.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SetLogLevelRequest(_message.Message):
    __slots__ = ("level",)
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    level: str
    def __init__(self, level: _Optional[str] = ...) -> None: ...

class SetLogLevelResponse(_message.Message):
    __slots__ = ("id", "before")
    ID_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    id: str
    before: str
    def __init__(self, id: _Optional[str] = ..., before: _Optional[str] = ...) -> None: ...

class MemberStatus(_message.Message):
    __slots__ = ("id", "address", "role", "healthy", "behind", "grpc_address")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    GRPC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    id: str
    address: str
    role: str
    healthy: bool
    behind: int
    grpc_address: str
    def __init__(self, id: _Optional[str] = ..., address: _Optional[str] = ..., role: _Optional[str] = ..., healthy: bool = ..., behind: _Optional[int] = ..., grpc_address: _Optional[str] = ...) -> None: ...

class AddMasterRequest(_message.Message):
    __slots__ = ("id", "address")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    id: str
    address: str
    def __init__(self, id: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class AddMasterResponse(_message.Message):
    __slots__ = ("member",)
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    member: MemberStatus
    def __init__(self, member: _Optional[_Union[MemberStatus, _Mapping]] = ...) -> None: ...

class RemoveMasterRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class RemoveMasterResponse(_message.Message):
    __slots__ = ("unchanged",)
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    unchanged: bool
    def __init__(self, unchanged: bool = ...) -> None: ...

class ListMembersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListMembersResponse(_message.Message):
    __slots__ = ("members", "version")
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[MemberStatus]
    version: int
    def __init__(self, members: _Optional[_Iterable[_Union[MemberStatus, _Mapping]]] = ..., version: _Optional[int] = ...) -> None: ...

class TransferLeadershipRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TransferLeadershipResponse(_message.Message):
    __slots__ = ("leader",)
    LEADER_FIELD_NUMBER: _ClassVar[int]
    leader: str
    def __init__(self, leader: _Optional[str] = ...) -> None: ...

class TakeSnapshotRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TakeSnapshotResponse(_message.Message):
    __slots__ = ("master", "revision")
    MASTER_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    master: str
    revision: int
    def __init__(self, master: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class AnnounceMasterRequest(_message.Message):
    __slots__ = ("master",)
    MASTER_FIELD_NUMBER: _ClassVar[int]
    master: _types_pb2.Master
    def __init__(self, master: _Optional[_Union[_types_pb2.Master, _Mapping]] = ...) -> None: ...

class AnnounceMasterResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReadClockRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReadClockResponse(_message.Message):
    __slots__ = ("clock_ms", "version")
    CLOCK_MS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    clock_ms: int
    version: str
    def __init__(self, clock_ms: _Optional[int] = ..., version: _Optional[str] = ...) -> None: ...

class FinalizeUpgradeRequest(_message.Message):
    __slots__ = ("request_id", "client_id")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    client_id: str
    def __init__(self, request_id: _Optional[str] = ..., client_id: _Optional[str] = ...) -> None: ...

class FinalizeUpgradeResponse(_message.Message):
    __slots__ = ("feature_level", "unchanged", "revision")
    FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    feature_level: int
    unchanged: bool
    revision: int
    def __init__(self, feature_level: _Optional[int] = ..., unchanged: bool = ..., revision: _Optional[int] = ...) -> None: ...

class GetStateDigestsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStateDigestsResponse(_message.Message):
    __slots__ = ("digests",)
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    digests: _containers.RepeatedCompositeFieldContainer[StateDigest]
    def __init__(self, digests: _Optional[_Iterable[_Union[StateDigest, _Mapping]]] = ...) -> None: ...

class StateDigest(_message.Message):
    __slots__ = ("revision", "part", "digest")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    revision: int
    part: int
    digest: str
    def __init__(self, revision: _Optional[int] = ..., part: _Optional[int] = ..., digest: _Optional[str] = ...) -> None: ...

class TakeBackupRequest(_message.Message):
    __slots__ = ("min_revision",)
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    min_revision: int
    def __init__(self, min_revision: _Optional[int] = ...) -> None: ...

class BackupPart(_message.Message):
    __slots__ = ("info", "data")
    INFO_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    info: BackupInfo
    data: bytes
    def __init__(self, info: _Optional[_Union[BackupInfo, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class BackupInfo(_message.Message):
    __slots__ = ("release", "master", "cluster_id", "revision", "feature_level", "taken_at_ms", "jobs", "nodes", "allocations")
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    MASTER_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    TAKEN_AT_MS_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    release: str
    master: str
    cluster_id: str
    revision: int
    feature_level: int
    taken_at_ms: int
    jobs: int
    nodes: int
    allocations: int
    def __init__(self, release: _Optional[str] = ..., master: _Optional[str] = ..., cluster_id: _Optional[str] = ..., revision: _Optional[int] = ..., feature_level: _Optional[int] = ..., taken_at_ms: _Optional[int] = ..., jobs: _Optional[int] = ..., nodes: _Optional[int] = ..., allocations: _Optional[int] = ...) -> None: ...

class GetMasterHealthRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MasterHealth(_message.Message):
    __slots__ = ("id", "release", "feature_level", "newest_feature_level", "applied_index", "commit_index", "revision", "leader", "clock_ms", "disk_free_bytes", "disk_needed_bytes", "role", "term", "last_index", "masters")
    class MastersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    APPLIED_INDEX_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    CLOCK_MS_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_NEEDED_BYTES_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    MASTERS_FIELD_NUMBER: _ClassVar[int]
    id: str
    release: str
    feature_level: int
    newest_feature_level: int
    applied_index: int
    commit_index: int
    revision: int
    leader: str
    clock_ms: int
    disk_free_bytes: int
    disk_needed_bytes: int
    role: str
    term: int
    last_index: int
    masters: _containers.ScalarMap[str, str]
    def __init__(self, id: _Optional[str] = ..., release: _Optional[str] = ..., feature_level: _Optional[int] = ..., newest_feature_level: _Optional[int] = ..., applied_index: _Optional[int] = ..., commit_index: _Optional[int] = ..., revision: _Optional[int] = ..., leader: _Optional[str] = ..., clock_ms: _Optional[int] = ..., disk_free_bytes: _Optional[int] = ..., disk_needed_bytes: _Optional[int] = ..., role: _Optional[str] = ..., term: _Optional[int] = ..., last_index: _Optional[int] = ..., masters: _Optional[_Mapping[str, str]] = ...) -> None: ...
