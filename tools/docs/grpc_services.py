"""The reference of gRPC, from the comments of the proto files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from grpc_tools import protoc

from tools.docs.markdown import code, page, table

_PROTO = Path(__file__).parents[2] / "proto"
#: The files of services, in the order of the page. log.proto and raft.proto are internal.
_FILES = ("scheduler", "node", "cluster", "history", "access", "secret", "join", "worker", "types")
_INTERNAL = ("log", "raft")
_INTRO = """\
Every master serves the first seven services at `server.grpc_addr`, with reflection and `grpc.health.v1`; a follower
forwards to the leader. Agents serve `WorkerService`, to masters. The files are in
[proto/gosched/v1](../../proto/gosched/v1). Times are milliseconds since 1970 (`_ms`), amounts are bytes and
thousandths (`_millis`); a field that is not set is 0 or empty. A mutation carries a `request_id`: a repeat gets the
first answer."""
_SERVICE, _METHOD, _MESSAGE, _FIELD, _NESTED = 6, 2, 4, 2, 3  # field numbers of descriptor.proto


def grpc_services() -> str:
    """Return the page: services first, then the messages of each file."""
    files = _descriptors()
    parts = [_INTRO]
    for name in _FILES:
        parts += _services(files[name])
    parts.append("## Messages")
    for name in _FILES:
        for place, message in enumerate(files[name].message_type):
            parts += _message(files[name], message, (_MESSAGE, place))
    return page("gRPC", *parts)


def _descriptors() -> dict[str, FileDescriptorProto]:
    sources = sorted(path for path in (_PROTO / "gosched/v1").glob("*.proto"))
    unknown = {path.stem for path in sources} - {*_FILES, *_INTERNAL}
    if unknown:
        raise ValueError(f"tools/docs/grpc_services.py does not name {', '.join(sorted(unknown))}.proto")
    with tempfile.NamedTemporaryFile() as made:
        flags = ["--include_source_info", f"--descriptor_set_out={made.name}"]
        if protoc.main(["protoc", f"-I{_PROTO}", *flags, *map(str, sources)]) != 0:
            raise RuntimeError("protoc failed")
        found = FileDescriptorSet.FromString(Path(made.name).read_bytes())
    return {Path(file.name).stem: file for file in found.file}


def _comment(file: FileDescriptorProto, path: tuple[int, ...]) -> str:
    for location in file.source_code_info.location:
        if tuple(location.path) == path:
            return " ".join(f"{location.leading_comments} {location.trailing_comments}".split())
    return ""


def _services(file: FileDescriptorProto) -> Iterator[str]:
    for place, service in enumerate(file.service):
        yield f"## {service.name}"
        yield _comment(file, (_SERVICE, place)) or _comment(file, (12,))  # of the file: of its line `syntax`
        rows = []
        for number, method in enumerate(service.method):
            asks = f"{'stream ' if method.client_streaming else ''}{_link(method.input_type)}"
            answers = f"{'stream ' if method.server_streaming else ''}{_link(method.output_type)}"
            rows.append((code(method.name), asks, answers, _comment(file, (_SERVICE, place, _METHOD, number))))
        yield table(("method", "request", "answer", "meaning"), rows)


def _message(file: FileDescriptorProto, message: DescriptorProto, path: tuple[int, ...]) -> Iterator[str]:
    yield f"### {message.name}"
    yield _comment(file, path)
    if not message.field:
        yield "No fields."
        return
    rows = [
        (code(field.name), _kind(message, field), _comment(file, (*path, _FIELD, place)))
        for place, field in enumerate(message.field)
    ]
    yield table(("field", "type", "meaning"), rows)


def _kind(message: DescriptorProto, field: FieldDescriptorProto) -> str:
    entry = next((one for one in message.nested_type if field.type_name.endswith(f".{one.name}")), None)
    if entry is not None and entry.options.map_entry:
        key, value = entry.field
        return f"map of {_plain(key)} to {_plain(value)}"
    return ("repeated " if field.label == FieldDescriptorProto.LABEL_REPEATED else "") + _plain(field)


def _plain(field: FieldDescriptorProto) -> str:
    if field.type == FieldDescriptorProto.TYPE_MESSAGE:
        return _link(field.type_name)
    if field.type == FieldDescriptorProto.TYPE_ENUM:
        return code(field.type_name.rpartition(".")[2])
    return FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def _link(type_name: str) -> str:
    name = type_name.rpartition(".")[2]
    return f"[{name}](#{name.lower()})"
