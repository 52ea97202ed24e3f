from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SetSecretRequest(_message.Message):
    __slots__ = ("client_id", "request_id", "tenant", "name", "value")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    request_id: str
    tenant: str
    name: str
    value: bytes
    def __init__(self, client_id: _Optional[str] = ..., request_id: _Optional[str] = ..., tenant: _Optional[str] = ..., name: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class SetSecretResponse(_message.Message):
    __slots__ = ("version", "revision")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    version: int
    revision: int
    def __init__(self, version: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...

class ListSecretsRequest(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    def __init__(self, tenant: _Optional[str] = ...) -> None: ...

class ListSecretsResponse(_message.Message):
    __slots__ = ("secrets", "revision")
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    secrets: _containers.RepeatedCompositeFieldContainer[SecretInfo]
    revision: int
    def __init__(self, secrets: _Optional[_Iterable[_Union[SecretInfo, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class SecretInfo(_message.Message):
    __slots__ = ("tenant", "name", "key_id", "version", "changed_at_ms", "changed_by")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_BY_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    name: str
    key_id: str
    version: int
    changed_at_ms: int
    changed_by: str
    def __init__(self, tenant: _Optional[str] = ..., name: _Optional[str] = ..., key_id: _Optional[str] = ..., version: _Optional[int] = ..., changed_at_ms: _Optional[int] = ..., changed_by: _Optional[str] = ...) -> None: ...

class DeleteSecretRequest(_message.Message):
    __slots__ = ("client_id", "request_id", "tenant", "name")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    request_id: str
    tenant: str
    name: str
    def __init__(self, client_id: _Optional[str] = ..., request_id: _Optional[str] = ..., tenant: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class DeleteSecretResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...

class RotateSecretsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RotateSecretsResponse(_message.Message):
    __slots__ = ("key_id", "resealed", "revision")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    RESEALED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    resealed: int
    revision: int
    def __init__(self, key_id: _Optional[str] = ..., resealed: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...
