"""Reads the log's file as the release before wrote it, with term and vote among its records.

It is rewritten in today's format when it is opened; nothing writes this one any more.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

from gosched.replication.disk.damage import DamagedLog, advice
from gosched.replication.disk.journal_format import FILE, Entry

_MAX_RECORD_BYTES = 16 * 1024 * 1024
_HEAD = struct.Struct("<II")  # length of what follows, its crc
_BODY = struct.Struct("<BQQ")  # kind, two numbers
_FORMAT = 6  # the kind of the first record


@dataclass
class LoadedV1:
    entries: list[Entry] = field(default_factory=list)
    term: int = 0
    vote: str = ""
    commit: int = 1
    size: int = 0


def is_v1(data: bytes) -> bool:
    body = _body_at(data, 0)
    return body is not None and _BODY.unpack_from(body)[:2] == (_FORMAT, 1)


def load_v1(data: bytes) -> LoadedV1:
    """Read a file of the release before. Raises DamagedLog.

    This format cannot tell damage in the last record from a torn write, and takes it for one.
    """
    loaded = LoadedV1()
    while (body := _body_at(data, loaded.size)) is not None:
        _replay(loaded, body)
        loaded.size += _HEAD.size + len(body)
    for later in range(loaded.size + 1, len(data) - _HEAD.size - _BODY.size + 1):
        if data[later + _HEAD.size] <= _FORMAT and _body_at(data, later) is not None:
            raise DamagedLog(
                advice(f"{FILE} is damaged at byte {loaded.size}: a damaged record has sound ones after it")
            )
    return loaded


def _replay(loaded: LoadedV1, body: bytes) -> None:
    kind, a, b = _BODY.unpack_from(body)
    entries = loaded.entries
    match kind:
        case 1:  # entry
            if entries and a != entries[-1][1] + 1:
                raise DamagedLog(advice(f"{FILE} is damaged: entry {a} follows entry {entries[-1][1]}"))
            entries.append((body[_BODY.size :], a, b))
        case 2:  # truncate
            del entries[max(a - entries[0][1], 0) if entries else 0 :]
        case 3:  # term and vote
            loaded.term, loaded.vote = a, body[_BODY.size :].decode()
        case 4:  # commit index
            loaded.commit = a
        case 5:  # clear
            entries.clear()


def _body_at(data: bytes, offset: int) -> bytes | None:
    """Return the record's body at this offset, or None when there is no whole, sound record."""
    if offset + _HEAD.size > len(data):
        return None
    length, crc = _HEAD.unpack_from(data, offset)
    start = offset + _HEAD.size
    if not _BODY.size <= length <= _MAX_RECORD_BYTES or start + length > len(data):
        return None
    body = data[start : start + length]
    return body if zlib.crc32(body) == crc else None
