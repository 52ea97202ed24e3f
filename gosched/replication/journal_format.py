"""The log's file as bytes: batches of records in sectors, each with its checksum, so that torn and damaged differ.

One `sync` of the journal writes one batch, which begins at a sector of its own, and no batch is written before the one
before it is synced. A sector is `crc32 | batch number | bytes used | content`; the checksum also covers the file's
generation and the sector's place. A disk writes a sector whole or not at all. So after a crash each sector of the last
batch is sound, blank (zeros), or beyond the end of the file. Invariant: what is anything else was damaged later, and
refuses the start; only a last batch of which sectors are blank or missing, and no other is damaged, is cut as torn.

What looks like a torn batch and is none: whole sectors of the very last batch zeroed or cut off later. The vote file
knows how long the log was a second ago, or at the last vote (see `votes`), and the other masters know what was
acknowledged to them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from gosched.replication.damage import DamagedLog, advice
from gosched.replication.disk import SECTOR_BYTES

Entry = tuple[bytes, int, int]  # command, index, term

FILE = "raft.journal"
FORMAT = 2

_CRC = struct.Struct("<I")
_SECTOR = struct.Struct("<IH")  # batch, bytes used; both at least 1, so that no sound sector is one flip from blank
_CONTENT_AT = _CRC.size + _SECTOR.size
_CONTENT_BYTES = SECTOR_BYTES - _CONTENT_AT
_BATCH = struct.Struct("<8sHHIQQQQ")  # magic, format, place, sectors, generation, boot, votes, commit
_GENERATION_AT = _CONTENT_AT + 16
_RECORD = struct.Struct("<IBQQ")  # bytes of payload, kind, two numbers
_SALT = struct.Struct("<QQ")
_MAGIC = b"GOSCHEDJ"
_BLANK = bytes(SECTOR_BYTES)


class Kind(IntEnum):
    """`SNAPSHOT`: one that ends with this entry is about to be put in place: taken here, or received."""

    ENTRY = 1
    TRUNCATE = 2
    CLEAR = 3
    SNAPSHOT = 4


class Place(IntEnum):
    """Of a batch: in a file that was replaced as a whole (more follow, or the last of these), or appended later."""

    PART = 1
    LAST_PART = 2
    APPENDED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What each batch says of the member: `generation` counts the rewrites of the file, `boot` the starts of the
    replica, `votes` the changes of term and vote; `commit` is the last entry known to be committed."""

    generation: int
    boot: int
    votes: int
    commit: int


@dataclass
class Loaded:
    """`size`: of the whole, sound batches. `announced`: where the snapshot ends that may be put in place any moment."""

    stamp: Stamp
    entries: list[Entry] = field(default_factory=list)
    announced: tuple[int, int] | None = None
    batch: int = 0
    size: int = 0


def record(kind: Kind, a: int, b: int, payload: bytes = b"") -> bytes:
    return _RECORD.pack(len(payload), kind, a, b) + payload


def encode_batch(stamp: Stamp, place: Place, number: int, offset: int, records: bytes) -> bytes:
    """Return the batch as it stands in the file at this offset."""
    count = -(-(_BATCH.size + len(records)) // _CONTENT_BYTES)
    head = (_MAGIC, FORMAT, place, count, stamp.generation, stamp.boot, stamp.votes, stamp.commit)
    content = _BATCH.pack(*head) + records
    at = offset // SECTOR_BYTES
    out = bytearray()
    for i in range(count):
        part = content[i * _CONTENT_BYTES : (i + 1) * _CONTENT_BYTES]
        body = (_SECTOR.pack(number, len(part)) + part).ljust(SECTOR_BYTES - _CRC.size, b"\0")
        out += _CRC.pack(_checksum(body, stamp.generation, at + i)) + body
    return bytes(out)


def encode_file(stamp: Stamp, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the batches of a file that is replaced as a whole, one for each chunk of records and one to end it."""
    offset = number = 0
    for chunk in chunks:
        number += 1
        batch = encode_batch(stamp, Place.PART, number, offset, chunk)
        offset += len(batch)
        yield batch
    yield encode_batch(stamp, Place.LAST_PART, number + 1, offset, b"")


def load(data: bytes) -> Loaded:
    """Read a whole file. Raises DamagedLog."""
    if len(data) < SECTOR_BYTES or not any(data[:SECTOR_BYTES]):
        raise DamagedLog(advice(f"{FILE} is empty or cut off"))
    (generation,) = struct.unpack_from("<Q", data, _GENERATION_AT)
    loaded = Loaded(stamp=Stamp(generation=generation, boot=0, votes=0, commit=0))
    place = Place.PART
    while loaded.size < len(data):
        batch = _batch_at(data, loaded.size, generation, loaded.batch + 1)
        if batch is None:
            _refuse_unless_torn(data, loaded.size, generation, loaded.batch + 1)
            break
        size, place, stamp, content = batch
        loaded.stamp = stamp
        for kind, a, b, payload in _records(content, loaded.size):
            _replay(loaded, kind, a, b, payload)
        loaded.batch += 1
        loaded.size += size
    if place is Place.PART:
        raise DamagedLog(advice(f"{FILE} is cut off at byte {loaded.size}"))
    return loaded


def _batch_at(data: bytes, offset: int, generation: int, number: int) -> tuple[int, Place, Stamp, bytes] | None:
    """Size, place, stamp and records of the batch; None when some of its sectors are blank or missing."""
    first = _content(data, offset, generation, number)
    if first is None:
        return None
    magic, known, place, count, _, boot, votes, commit = _BATCH.unpack_from(first)
    if known != FORMAT or magic != _MAGIC:
        raise DamagedLog(f"{FILE} has format {known}; this gosched knows {FORMAT}: use the gosched that wrote it")
    parts = [first[_BATCH.size :]]
    for i in range(1, count):
        part = _content(data, offset + i * SECTOR_BYTES, generation, number)
        if part is None:
            return None
        parts.append(part)
    stamp = Stamp(generation=generation, boot=boot, votes=votes, commit=commit)
    return count * SECTOR_BYTES, Place(place), stamp, b"".join(parts)


def _content(data: bytes, offset: int, generation: int, number: int) -> bytes | None:
    """The sector's content; None when it is blank or missing. Raises DamagedLog for anything else."""
    sector = data[offset : offset + SECTOR_BYTES]
    if len(sector) < SECTOR_BYTES or sector == _BLANK:
        return None
    body = sector[_CRC.size :]
    batch, used = _SECTOR.unpack_from(body)
    if _CRC.unpack_from(sector)[0] != _checksum(body, generation, offset // SECTOR_BYTES):
        raise DamagedLog(advice(f"{FILE} is damaged at byte {offset}: the checksum of a sector is wrong"))
    if batch != number:
        raise DamagedLog(advice(f"{FILE} is damaged at byte {offset}: batch {number} is missing before batch {batch}"))
    return body[_SECTOR.size : _SECTOR.size + used]


def _refuse_unless_torn(data: bytes, offset: int, generation: int, number: int) -> None:
    """Whatever follows belongs to this one batch: the next would only have been written after its sync."""
    for at in range(offset, len(data), SECTOR_BYTES):
        _content(data, at, generation, number)


def _records(content: bytes, offset: int) -> Iterator[tuple[int, int, int, bytes]]:
    at = 0
    while at < len(content):
        length, kind, a, b = _RECORD.unpack_from(content, at)
        at += _RECORD.size + length
        if at > len(content):
            raise DamagedLog(advice(f"{FILE} is damaged in the batch at byte {offset}: a record is cut off"))
        yield kind, a, b, content[at - length : at]


def _replay(loaded: Loaded, kind: int, a: int, b: int, payload: bytes) -> None:
    entries = loaded.entries
    match kind:
        case Kind.ENTRY:
            if entries and a != entries[-1][1] + 1:
                raise DamagedLog(advice(f"{FILE} is damaged: entry {a} follows entry {entries[-1][1]}"))
            entries.append((payload, a, b))
        case Kind.TRUNCATE:
            del entries[max(a - entries[0][1], 0) if entries else 0 :]
        case Kind.CLEAR:
            entries.clear()
            loaded.announced = None
        case Kind.SNAPSHOT:
            loaded.announced = a, b
        case _:
            raise DamagedLog(advice(f"{FILE} is damaged: unknown record kind {kind}"))


def _checksum(body: bytes, generation: int, sector: int) -> int:
    return zlib.crc32(body, zlib.crc32(_SALT.pack(generation, sector)))
