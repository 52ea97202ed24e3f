"""Snapshots of the state as files: a header, the records, a checksum over all.

A file is written beside the old one, synced and renamed; it is verified whole before anything of it is used. Invariant:
nothing that fails its checksum is ever loaded, and the records are encoded off the tick thread.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from gosched.core.features import FeatureLevel
from gosched.core.records.job import Job
from gosched.core.records.master import Configuration
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.restore import restore
from gosched.core.state.tables import TABLES, FrozenState
from gosched.replication.disk.damage import DamagedLog, advice
from gosched.replication.disk.journal_format import Entry
from gosched.replication.snapshots.stored_jobs import JobReader, JobWriter
from gosched.wire.batch import OLDEST_SCHEMA, SCHEMA
from gosched.wire.codec import fill, to_record
from gosched.wire.v1 import log_pb2

FILE = "snapshot"

_MAGIC = b"GOSCHED1"
_LENGTH = struct.Struct("<I")
_CRC = struct.Struct("<I")
_CHUNK_BYTES = 1 << 20

# Besides the tables: the members, one record or none.
_CONFIGURATION = "configuration"
_KINDS: dict[str, type] = {**{table.record: table.kind for table in TABLES}, _CONFIGURATION: Configuration}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state and the last two entries that made it: PySyncObj starts its log with them."""

    state: FrozenState
    previous: Entry
    last: Entry


def encode(snapshot: Snapshot) -> Iterator[bytes]:
    """Yield the file in chunks, lazily, so that a background thread gives the interpreter away between them."""
    crc = 0
    for chunk in _chunks(snapshot):
        crc = zlib.crc32(chunk, crc)
        yield chunk
    yield _CRC.pack(crc)


def verify(data: bytes) -> None:
    """Raises DamagedLog unless the file is whole and of a format that this gosched knows."""
    if len(data) < len(_MAGIC) + _LENGTH.size + _CRC.size or not data.startswith(_MAGIC):
        raise DamagedLog(_advice("it is not a snapshot"))
    if zlib.crc32(memoryview(data)[: -_CRC.size]) != _CRC.unpack_from(data, len(data) - _CRC.size)[0]:
        raise DamagedLog(_advice("its checksum is wrong"))


def ends(data: bytes) -> tuple[Entry, Entry]:
    """Return the last two entries of a snapshot, after verifying the whole file. Raises DamagedLog."""
    header = header_of(data)
    return _entry(header.previous), _entry(header.last)


def header_of(data: bytes) -> log_pb2.SnapshotHeader:
    """Return what a snapshot says of itself, after verifying the whole file. Raises DamagedLog."""
    verify(data)
    return log_pb2.SnapshotHeader.FromString(next(_frames(data)))


def decode(data: bytes) -> Snapshot:
    """Raises DamagedLog. Run it with the garbage collector off: it makes only records that stay."""
    verify(data)
    frames = _frames(data)
    try:
        header = log_pb2.SnapshotHeader.FromString(next(frames))
        if not OLDEST_SCHEMA <= header.schema <= SCHEMA:
            raise DamagedLog(f"{FILE} has schema {header.schema}, this gosched knows {SCHEMA}: use the newer gosched")
        found: dict[str, list[object]] = {kind: [] for kind in _KINDS}
        jobs = JobReader()
        for frame in frames:
            message = log_pb2.SnapshotRecord.FromString(frame)
            kind = message.WhichOneof("record")
            if kind is None:
                raise DamagedLog(_advice("it holds a record that this gosched does not know"))
            record: object
            if kind == "spec_part":
                jobs.take_part(message.spec_part)
                continue
            if kind == "stored_job":
                kind, record = "job", jobs.stored(message.stored_job)
            elif kind == "job":
                record = jobs.whole(message.job)
            else:
                record = to_record(getattr(message, kind), _KINDS[kind])
            found[kind].append(record)
    except (DecodeError, ValueError) as error:
        raise DamagedLog(_advice(str(error))) from error
    state = _state_of(header, found)
    if sum(len(records) for _, records in _records(state)) != header.records:
        raise DamagedLog(_advice("records are missing"))
    return Snapshot(state, _entry(header.previous), _entry(header.last))


def restored(snapshot: Snapshot) -> ClusterState:
    return restore(snapshot.state)


def _chunks(snapshot: Snapshot) -> Iterator[bytes]:
    state = snapshot.state
    tables = _records(state)
    header = log_pb2.SnapshotHeader(
        schema=state.feature_level,
        previous=log_pb2.LogEntry(command=snapshot.previous[0], index=snapshot.previous[1], term=snapshot.previous[2]),
        last=log_pb2.LogEntry(command=snapshot.last[0], index=snapshot.last[1], term=snapshot.last[2]),
        revision=state.revision,
        feature_level=state.feature_level if state.feature_level > FeatureLevel.FIRST else 0,
        cluster_id=state.cluster_id,
        task_key=state.task_key,
        lineage=state.lineage,
        requests_from_ms=state.requests_from_ms,
        clock_ms=state.clock_ms,
        epoch=state.epoch,
        leader=state.leader,
        next_sequence=state.next_sequence,
        records=sum(len(records) for _, records in tables),
    )
    chunk = bytearray(_MAGIC + _framed(header.SerializeToString()))
    for kind, records in tables:
        for message in _messages(kind, records, shared_parts=state.feature_level >= FeatureLevel.BOUNDED):
            chunk += _framed(message.SerializeToString())
            if len(chunk) >= _CHUNK_BYTES:
                yield bytes(chunk)
                chunk.clear()
    yield bytes(chunk)


def _records(state: FrozenState) -> list[tuple[str, list[object]]]:
    """Return all records, in the order in which they are written, by their names there."""
    tables = [(table.record, [record for _, record in table.items(state)]) for table in TABLES]
    return [*tables, (_CONFIGURATION, [state.configuration] if state.configuration is not None else [])]


def _messages(kind: str, records: list[object], *, shared_parts: bool) -> Iterator[log_pb2.SnapshotRecord]:
    jobs = JobWriter()
    for record in records:
        if shared_parts and isinstance(record, Job):
            yield from jobs.records(record)
            continue
        message = log_pb2.SnapshotRecord()
        body = getattr(message, kind)
        body.SetInParent()
        fill(record, body)
        yield message


def _framed(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def _frames(data: bytes) -> Iterator[bytes]:
    offset, end = len(_MAGIC), len(data) - _CRC.size
    while offset < end:
        (length,) = _LENGTH.unpack_from(data, offset)
        offset += _LENGTH.size
        yield data[offset : offset + length]
        offset += length


def _state_of(header: log_pb2.SnapshotHeader, found: dict[str, list[object]]) -> FrozenState:
    configuration = found[_CONFIGURATION][-1] if found[_CONFIGURATION] else None
    assert configuration is None or isinstance(configuration, Configuration)
    tables: dict[str, Any] = {table.name: table.built(found[table.record]) for table in TABLES}
    return FrozenState(
        revision=header.revision,
        feature_level=header.feature_level or FeatureLevel.FIRST,
        cluster_id=header.cluster_id,
        task_key=header.task_key,
        configuration=configuration,
        lineage=tuple(header.lineage),
        requests_from_ms=header.requests_from_ms,
        clock_ms=header.clock_ms,
        epoch=header.epoch,
        leader=header.leader,
        next_sequence=header.next_sequence,
        **tables,
    )


def _entry(message: log_pb2.LogEntry) -> Entry:
    return message.command, message.index, message.term


def _advice(what: str) -> str:
    return advice(f"{FILE} cannot be used: {what}")
