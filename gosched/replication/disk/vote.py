"""Term and vote, in a small file of two slots that are overwritten in turn: one sync for a change.

Each slot holds its record twice, in sectors of their own, and a disk writes a sector whole or not at all. Invariant: a
copy whose checksum is wrong is damage and no torn write; it is mended from its twin, and the start is refused where
both are damaged, since the newest vote may have been there.

A record also says how long the log was, so that a log and a vote file of different times are told apart.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace

from gosched.replication.disk.damage import DamagedLog, advice
from gosched.replication.disk.disk import SECTOR_BYTES, Disk

FILE = "vote"
MAX_MEMBER_BYTES = 256

_SLOT_BYTES = 4096
_COPIES = (0, 2048)  # where in its slot
_CRC = struct.Struct("<I")
_FIELDS = struct.Struct("<8sHHQQQQQQQ")
_MAGIC = b"GOSCHEDV"
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One record of the file."""

    #: Counts the records.
    sequence: int = 1
    #: Counts the starts of the replica.
    boot: int = 0
    #: The last start that got as far as writing all files.
    started: int = 0
    term: int = 0
    #: Member id, empty when the member has not voted in this term.
    vote: str = ""
    #: Counts the changes of term and vote.
    votes: int = 0
    #: Of the log's file: its rewrites, and how many bytes of it were synced.
    generation: int = 0
    log_bytes: int = 0

    @property
    def pristine(self) -> bool:
        """Return whether it was made by a first start that was cut short before the log was written."""
        return self.boot == 0


class VoteFile:
    """`record` is the newest one. `mended`: how many copies were damaged."""

    def __init__(self, disk: Disk, record: Vote, mended: int = 0) -> None:
        self._disk = disk
        self.record = record
        self.mended = mended

    @staticmethod
    def create(disk: Disk, record: Vote) -> VoteFile:
        """Write a new file whose two slots hold the same."""
        newest = replace(record, sequence=record.sequence + 1)
        disk.replace(FILE, _slots(record, newest))
        return VoteFile(disk, newest)

    @staticmethod
    def load(disk: Disk) -> VoteFile | None:
        """Read the file, or return None. Changes nothing. Raises DamagedLog."""
        data = disk.read(FILE)
        if data is None:
            return None
        if len(data) != 2 * _SLOT_BYTES:
            raise DamagedLog(advice(f"{FILE} has {len(data)} bytes instead of {2 * _SLOT_BYTES}"))
        newest, mended = Vote(sequence=0), 0
        for slot in range(2):
            copies = [_copy(data, slot, at) for at in _COPIES]
            sound = [c for c in copies if c is not None]
            if not sound:
                raise DamagedLog(advice(f"{FILE} is damaged in both copies of slot {slot}"))
            mended += len(copies) - len(sound)
            newest = max(newest, *sound, key=lambda v: v.sequence)
        return VoteFile(disk, newest, mended)

    def write(self, record: Vote, *, sync: bool) -> None:
        """Put the record into the slot that does not hold the newest one."""
        record = replace(record, sequence=self.record.sequence + 1)
        self._disk.patch(FILE, record.sequence % 2 * _SLOT_BYTES, _slot(record), sync=sync)
        self.record = record

    def mend(self) -> None:
        """Write both slots anew."""
        self.write(self.record, sync=True)
        self.write(self.record, sync=True)


def _slots(one: Vote, other: Vote) -> list[bytes]:
    return [_slot(v) for v in sorted((one, other), key=lambda v: v.sequence % 2)]


def _slot(record: Vote) -> bytes:
    numbers = (record.sequence, record.boot, record.started, record.term, record.votes, record.generation)
    name = record.vote.encode()
    if len(name) > MAX_MEMBER_BYTES:
        raise ValueError(f"a member id has at most {MAX_MEMBER_BYTES} bytes, {record.vote!r} has {len(name)}")
    body = _FIELDS.pack(_MAGIC, _FORMAT, len(name), *numbers, record.log_bytes) + name
    body = body.ljust(SECTOR_BYTES - _CRC.size, b"\0")
    sector = _CRC.pack(zlib.crc32(body)) + body
    slot = bytearray(_SLOT_BYTES)
    for at in _COPIES:
        slot[at : at + SECTOR_BYTES] = sector
    return bytes(slot)


def _copy(data: bytes, slot: int, at: int) -> Vote | None:
    sector = data[slot * _SLOT_BYTES + at :][:SECTOR_BYTES]
    body = sector[_CRC.size :]
    magic, known, length, sequence, boot, started, term, votes, generation, log_bytes = _FIELDS.unpack_from(body)
    if _CRC.unpack_from(sector)[0] != zlib.crc32(body) or magic != _MAGIC or sequence % 2 != slot:
        return None
    if known != _FORMAT:
        raise DamagedLog(f"{FILE} has format {known}; this gosched knows {_FORMAT}: use the gosched that wrote it")
    return Vote(
        sequence=sequence,
        boot=boot,
        started=started,
        term=term,
        vote=body[_FIELDS.size : _FIELDS.size + length].decode(),
        votes=votes,
        generation=generation,
        log_bytes=log_bytes,
    )
