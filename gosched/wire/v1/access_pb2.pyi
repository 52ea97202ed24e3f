from gosched.wire.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SetBindingsRequest(_message.Message):
    __slots__ = ("client_id", "request_id", "bindings", "dry_run", "if_match")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    BINDINGS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    IF_MATCH_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    request_id: str
    bindings: _containers.RepeatedCompositeFieldContainer[_types_pb2.Binding]
    dry_run: bool
    if_match: str
    def __init__(self, client_id: _Optional[str] = ..., request_id: _Optional[str] = ..., bindings: _Optional[_Iterable[_Union[_types_pb2.Binding, _Mapping]]] = ..., dry_run: bool = ..., if_match: _Optional[str] = ...) -> None: ...

class SetBindingsResponse(_message.Message):
    __slots__ = ("unchanged", "revision")
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    unchanged: bool
    revision: int
    def __init__(self, unchanged: bool = ..., revision: _Optional[int] = ...) -> None: ...

class ListBindingsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListBindingsResponse(_message.Message):
    __slots__ = ("bindings", "from_config", "etag", "revision")
    BINDINGS_FIELD_NUMBER: _ClassVar[int]
    FROM_CONFIG_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    bindings: _containers.RepeatedCompositeFieldContainer[_types_pb2.Binding]
    from_config: _types_pb2.Binding
    etag: str
    revision: int
    def __init__(self, bindings: _Optional[_Iterable[_Union[_types_pb2.Binding, _Mapping]]] = ..., from_config: _Optional[_Union[_types_pb2.Binding, _Mapping]] = ..., etag: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class CheckAccessRequest(_message.Message):
    __slots__ = ("permission", "tenant", "queue", "job", "user", "groups")
    PERMISSION_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    permission: str
    tenant: str
    queue: str
    job: str
    user: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, permission: _Optional[str] = ..., tenant: _Optional[str] = ..., queue: _Optional[str] = ..., job: _Optional[str] = ..., user: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ...) -> None: ...

class CheckAccessResponse(_message.Message):
    __slots__ = ("user", "groups", "allowed", "by", "roles")
    USER_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    user: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    allowed: bool
    by: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, user: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ..., allowed: bool = ..., by: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ...) -> None: ...

class CreateTokenRequest(_message.Message):
    __slots__ = ("client_id", "request_id", "name", "user", "groups", "role", "tenants", "queues", "lasts_ms")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    LASTS_MS_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    request_id: str
    name: str
    user: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    role: _types_pb2.AccessRole
    tenants: _containers.RepeatedScalarFieldContainer[str]
    queues: _containers.RepeatedScalarFieldContainer[str]
    lasts_ms: int
    def __init__(self, client_id: _Optional[str] = ..., request_id: _Optional[str] = ..., name: _Optional[str] = ..., user: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ..., role: _Optional[_Union[_types_pb2.AccessRole, str]] = ..., tenants: _Optional[_Iterable[str]] = ..., queues: _Optional[_Iterable[str]] = ..., lasts_ms: _Optional[int] = ...) -> None: ...

class CreateTokenResponse(_message.Message):
    __slots__ = ("token", "secret", "revision")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    token: _types_pb2.Token
    secret: str
    revision: int
    def __init__(self, token: _Optional[_Union[_types_pb2.Token, _Mapping]] = ..., secret: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class ListTokensRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTokensResponse(_message.Message):
    __slots__ = ("tokens", "revision")
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedCompositeFieldContainer[_types_pb2.Token]
    revision: int
    def __init__(self, tokens: _Optional[_Iterable[_Union[_types_pb2.Token, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class RevokeTokenRequest(_message.Message):
    __slots__ = ("client_id", "request_id", "id")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    request_id: str
    id: str
    def __init__(self, client_id: _Optional[str] = ..., request_id: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class RevokeTokenResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...

class RevokeCertificateRequest(_message.Message):
    __slots__ = ("client_id", "request_id", "certificate", "serial", "reason", "force")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    request_id: str
    certificate: bytes
    serial: str
    reason: str
    force: bool
    def __init__(self, client_id: _Optional[str] = ..., request_id: _Optional[str] = ..., certificate: _Optional[bytes] = ..., serial: _Optional[str] = ..., reason: _Optional[str] = ..., force: bool = ...) -> None: ...

class RevokeCertificateResponse(_message.Message):
    __slots__ = ("revocation", "unchanged", "revision")
    REVOCATION_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revocation: _types_pb2.Revocation
    unchanged: bool
    revision: int
    def __init__(self, revocation: _Optional[_Union[_types_pb2.Revocation, _Mapping]] = ..., unchanged: bool = ..., revision: _Optional[int] = ...) -> None: ...

class ListRevocationsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListRevocationsResponse(_message.Message):
    __slots__ = ("revocations", "revision")
    REVOCATIONS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revocations: _containers.RepeatedCompositeFieldContainer[_types_pb2.Revocation]
    revision: int
    def __init__(self, revocations: _Optional[_Iterable[_Union[_types_pb2.Revocation, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class UnrevokeCertificateRequest(_message.Message):
    __slots__ = ("client_id", "request_id", "serial")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    request_id: str
    serial: str
    def __init__(self, client_id: _Optional[str] = ..., request_id: _Optional[str] = ..., serial: _Optional[str] = ...) -> None: ...

class UnrevokeCertificateResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...
