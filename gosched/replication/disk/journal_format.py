"""The log's file as bytes: batches of records in sectors, each with its checksum, so that torn and damaged differ.

Each sync of the journal begins with a batch, which starts at a sector of its own, and tells how much of the file was
synced by then: a few batches may be on their way to the disk at once. A sector is `crc32 | batch | place in the batch |
bytes used | content`; the checksum also covers the file's generation and the sector's place. A disk writes a sector
whole or not at all. So after a crash each sector that was not synced is sound, blank (zeros), or beyond the end of the
file. Invariant: what is anything else was damaged later, and refuses the start; so does a hole in what a later batch
knows to be synced. Any other hole, and what follows it, was not synced, and is cut as torn.

What looks like a torn batch and is none: whole sectors of the batches that were synced last, zeroed or cut off later
together with all that follows. The vote file knows how long the log was a second ago, or at the last vote (see
`votes`), and the other masters know what was acknowledged to them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from gosched.replication.disk.damage import DamagedLog, advice
from gosched.replication.disk.disk import SECTOR_BYTES

Entry = tuple[bytes, int, int]  # command, index, term

FILE = "raft.journal"
FORMAT = 2

_CRC = struct.Struct("<I")
_SECTOR = struct.Struct("<IIH")  # batch (at least 1: no sound sector is one flip from blank), place in it, bytes used
_CONTENT_AT = _CRC.size + _SECTOR.size
_CONTENT_BYTES = SECTOR_BYTES - _CONTENT_AT
_BATCH = struct.Struct("<8sHHIQQQQQ")  # magic, format, place, sectors, generation, boot, votes, commit, bytes synced
_SYNCED_AT = _BATCH.size - 8
_GENERATION_AT = _CONTENT_AT + 16
_RECORD = struct.Struct("<IBQQ")  # bytes of payload, kind, two numbers
_SYNCED = struct.Struct("<Q")
_SALT = struct.Struct("<QQ")
_MAGIC = b"GOSCHEDJ"
_BLANK = bytes(SECTOR_BYTES)


class Kind(IntEnum):
    """What a record says."""

    ENTRY = 1
    TRUNCATE = 2
    CLEAR = 3
    #: A snapshot that ends with this entry is about to be put in place: taken here, or received.
    SNAPSHOT = 4


class Place(IntEnum):
    """Where a batch stands in its file."""

    #: In a file that was replaced as a whole; more of that follow.
    PART = 1
    #: The last of these.
    LAST_PART = 2
    APPENDED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What each batch says of the member."""

    #: Counts the rewrites of the file.
    generation: int
    #: Counts the starts of the replica.
    boot: int
    #: Counts the changes of term and vote.
    votes: int
    #: The last entry known to be committed.
    commit: int


@dataclass
class Loaded:
    """What a log's file holds."""

    stamp: Stamp
    entries: list[Entry] = field(default_factory=list)
    #: Index and term of the last entry of a snapshot that may be put in place any moment; None: there is none.
    announced: tuple[int, int] | None = None
    #: The number of the last batch.
    batch: int = 0
    #: Bytes of the whole, sound batches.
    size: int = 0


def record(kind: Kind, a: int, b: int, payload: bytes = b"") -> bytes:
    return _RECORD.pack(len(payload), kind, a, b) + payload


def encode_batch(stamp: Stamp, place: Place, number: int, offset: int, records: bytes, *, synced: int = 0) -> bytes:
    """Return the batch as it stands in the file at this offset. `synced`: how many bytes before it are on the disk."""
    count = -(-(_BATCH.size + len(records)) // _CONTENT_BYTES)
    head = (_MAGIC, FORMAT, place, count, stamp.generation, stamp.boot, stamp.votes, stamp.commit, synced)
    content = _BATCH.pack(*head) + records
    at = offset // SECTOR_BYTES
    out = bytearray()
    for i in range(count):
        part = content[i * _CONTENT_BYTES : (i + 1) * _CONTENT_BYTES]
        body = (_SECTOR.pack(number, i, len(part)) + part).ljust(SECTOR_BYTES - _CRC.size, b"\0")
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
    """Return size, place, stamp and records of the batch; None when some of its sectors are blank or missing."""
    first = _sector_at(data, offset, generation, number, 0)
    if first is None:
        return None
    magic, known, place, count, _, boot, votes, commit, _ = _BATCH.unpack_from(first)
    if known != FORMAT or magic != _MAGIC:
        raise DamagedLog(f"{FILE} has format {known}; this gosched knows {FORMAT}: use the gosched that wrote it")
    parts = [first[_BATCH.size :]]
    for i in range(1, count):
        part = _sector_at(data, offset + i * SECTOR_BYTES, generation, number, i)
        if part is None:
            return None
        parts.append(part)
    stamp = Stamp(generation=generation, boot=boot, votes=votes, commit=commit)
    return count * SECTOR_BYTES, Place(place), stamp, b"".join(parts)


def _sector_at(data: bytes, offset: int, generation: int, number: int, place: int) -> bytes | None:
    """Return the content of this sector of the batch; None when it is blank or missing. Raises DamagedLog."""
    sector = _sound_sector(data, offset, generation)
    if sector is None:
        return None
    batch, at, content = sector
    if (batch, at) != (number, place):
        what = f"{FILE} is damaged at byte {offset}: sector {place} of batch {number} is missing before batch {batch}"
        raise DamagedLog(advice(what))
    return content


def _sound_sector(data: bytes, offset: int, generation: int) -> tuple[int, int, bytes] | None:
    """Return batch, place in it and content; None when it is blank or missing. Raises DamagedLog for anything else."""
    sector = data[offset : offset + SECTOR_BYTES]
    if len(sector) < SECTOR_BYTES or sector == _BLANK:
        return None
    body = sector[_CRC.size :]
    batch, place, used = _SECTOR.unpack_from(body)
    if _CRC.unpack_from(sector)[0] != _checksum(body, generation, offset // SECTOR_BYTES):
        raise DamagedLog(advice(f"{FILE} is damaged at byte {offset}: the checksum of a sector is wrong"))
    return batch, place, body[_SECTOR.size : _SECTOR.size + used]


def _refuse_unless_torn(data: bytes, offset: int, generation: int, number: int) -> None:
    """Raise DamagedLog unless all that follows the hole was written while this batch was on its way to the disk."""
    for at in range(offset, len(data), SECTOR_BYTES):
        sector = _sound_sector(data, at, generation)
        if sector is None:
            continue
        batch, place, content = sector
        synced = 0 if place else _SYNCED.unpack_from(content, _SYNCED_AT)[0]
        if batch < number or synced > offset:
            raise DamagedLog(
                advice(f"{FILE} is damaged at byte {offset}: a part of batch {number} is gone, which was synced")
            )


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
