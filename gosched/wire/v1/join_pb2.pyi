from gosched.wire.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetAuthorityRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetAuthorityResponse(_message.Message):
    __slots__ = ("authorities", "signer")
    AUTHORITIES_FIELD_NUMBER: _ClassVar[int]
    SIGNER_FIELD_NUMBER: _ClassVar[int]
    authorities: bytes
    signer: str
    def __init__(self, authorities: _Optional[bytes] = ..., signer: _Optional[str] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("token", "csr", "node", "hosts")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CSR_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    token: str
    csr: bytes
    node: str
    hosts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, token: _Optional[str] = ..., csr: _Optional[bytes] = ..., node: _Optional[str] = ..., hosts: _Optional[_Iterable[str]] = ...) -> None: ...

class JoinResponse(_message.Message):
    __slots__ = ("certificate", "authorities", "cluster_id", "masters")
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    AUTHORITIES_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    MASTERS_FIELD_NUMBER: _ClassVar[int]
    certificate: bytes
    authorities: bytes
    cluster_id: str
    masters: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, certificate: _Optional[bytes] = ..., authorities: _Optional[bytes] = ..., cluster_id: _Optional[str] = ..., masters: _Optional[_Iterable[str]] = ...) -> None: ...

class RenewCertificateRequest(_message.Message):
    __slots__ = ("csr", "hosts")
    CSR_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    csr: bytes
    hosts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, csr: _Optional[bytes] = ..., hosts: _Optional[_Iterable[str]] = ...) -> None: ...

class CreateJoinTokenRequest(_message.Message):
    __slots__ = ("client_id", "request_id", "name", "node", "labels", "hosts", "lasts_ms")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    LASTS_MS_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    request_id: str
    name: str
    node: str
    labels: _containers.ScalarMap[str, str]
    hosts: _containers.RepeatedScalarFieldContainer[str]
    lasts_ms: int
    def __init__(self, client_id: _Optional[str] = ..., request_id: _Optional[str] = ..., name: _Optional[str] = ..., node: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., hosts: _Optional[_Iterable[str]] = ..., lasts_ms: _Optional[int] = ...) -> None: ...

class CreateJoinTokenResponse(_message.Message):
    __slots__ = ("token", "secret", "address", "revision")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    token: _types_pb2.JoinToken
    secret: str
    address: str
    revision: int
    def __init__(self, token: _Optional[_Union[_types_pb2.JoinToken, _Mapping]] = ..., secret: _Optional[str] = ..., address: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class ListJoinTokensRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListJoinTokensResponse(_message.Message):
    __slots__ = ("tokens", "revision")
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedCompositeFieldContainer[_types_pb2.JoinToken]
    revision: int
    def __init__(self, tokens: _Optional[_Iterable[_Union[_types_pb2.JoinToken, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class RevokeJoinTokenRequest(_message.Message):
    __slots__ = ("client_id", "request_id", "id")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    request_id: str
    id: str
    def __init__(self, client_id: _Optional[str] = ..., request_id: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class RevokeJoinTokenResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...
