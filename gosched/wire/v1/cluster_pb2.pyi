from gosched.wire.v1 import types_pb2 as _types_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

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
    __slots__ = ("clock_ms",)
    CLOCK_MS_FIELD_NUMBER: _ClassVar[int]
    clock_ms: int
    def __init__(self, clock_ms: _Optional[int] = ...) -> None: ...
