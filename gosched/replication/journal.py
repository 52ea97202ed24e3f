"""The Raft log on disk: append-only, checksummed, synced beside the turns; term and vote at once.

Each record is `length | crc32 | kind | payload`, little-endian. It takes the place of PySyncObj's journal, whose
method names it therefore has. Rule: what `sync` returned from survives a power cut, and nothing damaged is loaded.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from gosched.replication.disk import MAX_SYNCS, Disk, SyncUnderWay

Entry = tuple[bytes, int, int]  # command, index, term

FILE = "raft.journal"
MAX_RECORD_BYTES = 16 * 1024 * 1024

_HEAD = struct.Struct("<II")  # length of what follows, its crc
_BODY = struct.Struct("<BQQ")  # kind, two numbers
_FORMAT_VERSION = 1


class _Kind(IntEnum):
    ENTRY = 1
    TRUNCATE = 2
    TERM = 3
    COMMIT = 4
    CLEAR = 5
    FORMAT = 6


class DamagedLog(Exception):
    """The log or the snapshot on disk cannot be trusted. The message says what to do."""


@dataclass
class _Loaded:
    entries: list[Entry] = field(default_factory=list)
    term: int = 0
    vote: str | None = None
    commit: int = 1
    size: int = 0


class Journal:
    """Entries are contiguous by index. While `keep_below` is set, entries before it neither go nor come (rule R2)."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        data = disk.read(FILE) or b""
        loaded = _load(data)
        self.torn_bytes = len(data) - loaded.size
        if self.torn_bytes:
            disk.truncate(FILE, loaded.size)
        self._entries = loaded.entries
        self._term, self._vote, self._commit = loaded.term, loaded.vote, loaded.commit
        self._commit_on_disk = loaded.commit
        self._file = disk.append_to(FILE)
        self._buffer = bytearray()
        self._unsynced = False
        self._under_way: deque[tuple[SyncUnderWay, int]] = deque()  # with the last entry that each covers
        self.synced_index = 0  # the last entry that is on the disk
        self.bytes = sum(len(e[0]) for e in self._entries)
        self.keep_below: int | None = None
        if not loaded.size:
            self._write(_Kind.FORMAT, _FORMAT_VERSION, 0)
        self._unsynced = True  # what a killed process had written may have been read from memory, not from the disk
        self.sync()

    # What PySyncObj calls

    def add(self, command: bytes, idx: int, term: int) -> None:
        if self.keep_below is not None and idx < self.keep_below:
            return  # this very entry is there
        self._entries.append((command, idx, term))
        self.bytes += len(command)
        self._write(_Kind.ENTRY, idx, term, command)

    def clear(self) -> None:
        self._entries = []
        self._synced_at_most(0)
        self.bytes = 0
        self._write(_Kind.CLEAR, 0, 0)

    def deleteEntriesFrom(self, entryFrom: int) -> None:
        if self.keep_below is not None:
            entryFrom = max(entryFrom, self.keep_below - self._entries[0][1])
        if entryFrom >= len(self._entries):
            return
        self._write(_Kind.TRUNCATE, self._entries[entryFrom][1], 0)
        self._synced_at_most(self._entries[entryFrom][1] - 1)
        self.bytes -= sum(len(e[0]) for e in self._entries[entryFrom:])
        del self._entries[entryFrom:]

    def deleteEntriesTo(self, entryTo: int) -> None:
        """Compaction: the entries left over become a new file."""
        self._rewrite(self._entries[entryTo:])

    def __getitem__(self, item: int | slice) -> Entry | list[Entry]:
        return self._entries[item]

    def __len__(self) -> int:
        return len(self._entries)

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:
        self._commit = raftCommitIndex

    def getRaftCommitIndex(self) -> int:
        return min(self._commit, self._entries[-1][1] if self._entries else 1)

    def setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:
        self._term, self._vote = term, votedForNodeId
        self._write(_Kind.TERM, term, 0, (votedForNodeId or "").encode())
        self.sync()

    def getCurrentTerm(self) -> int:
        return self._term

    def getVotedForNodeId(self) -> str | None:
        return self._vote

    def onOneSecondTimer(self) -> None:
        # Saves time at a restart, no more: a leader tells the commit index anew.
        if self._commit != self._commit_on_disk:
            self._commit_on_disk = self._commit
            self._write(_Kind.COMMIT, self._commit, 0)

    def _destroy(self) -> None:
        self._wait_for_syncs()
        self.sync()
        self._file.close()

    # What we call

    def sync(self) -> None:
        """After an OSError the process must end: the kernel may have dropped what it could not write."""
        self._write_out()
        if self._unsynced or self._under_way:
            self._file.sync()
            self._unsynced = False
        self.synced_index = self.last_index

    def begin_sync(self) -> bool:
        """Begins to sync all that was written so far, beside the caller, unless nothing was or too many do."""
        if not (self._buffer or self._unsynced) or len(self._under_way) == MAX_SYNCS:
            return False
        self._write_out()
        self._under_way.append((self._file.begin_sync(), self.last_index))
        self._unsynced = False
        return True

    def end_syncs(self, wait_s: float) -> bool:
        """Notes those that have ended; the first one is waited for so long. Whether one has. Raises their OSError."""
        noted = False
        while self._under_way and self._under_way[0][0].ended(0.0 if noted else wait_s):
            self.synced_index = max(self.synced_index, self._under_way.popleft()[1])
            noted = True
        return noted

    @property
    def syncs_under_way(self) -> int:
        return len(self._under_way)

    def start_with(self, previous: Entry, last: Entry) -> None:
        """Makes the log agree with a snapshot whose last two applied entries are these.

        A crash may have come between the snapshot's rename and the compaction. Entries after the snapshot that
        follow it stay: they may have been acknowledged. A log that does not contain the snapshot's end is replaced.
        """
        at = last[1] - self._entries[0][1] if self._entries else -1
        follows = 1 <= at < len(self._entries) and self._entries[at] == last and self._entries[at - 1] == previous
        if follows and at == 1:
            return
        self._rewrite(self._entries[at - 1 :] if follows else [previous, last])

    def term_at(self, index: int) -> int | None:
        at = index - self.first_index
        return self._entries[at][2] if 0 <= at < len(self._entries) else None

    @property
    def first_index(self) -> int:
        return self._entries[0][1] if self._entries else 1

    @property
    def last_index(self) -> int:
        return self._entries[-1][1] if self._entries else 0

    def _wait_for_syncs(self) -> None:
        """Before the file is closed that they work on."""
        while self._under_way:
            self._under_way.popleft()[0].wait()

    def _write_out(self) -> None:
        if self._buffer:
            self._file.append(bytes(self._buffer))
            self._buffer.clear()

    def _synced_at_most(self, index: int) -> None:
        """What follows is no longer what was synced under its index."""
        self.synced_index = min(self.synced_index, index)
        self._under_way = deque((sync, min(to, index)) for sync, to in self._under_way)

    def _rewrite(self, entries: list[Entry]) -> None:
        self._wait_for_syncs()
        self._buffer.clear()  # all of it is in the new file
        self._unsynced = False
        self._disk.replace(FILE, self._records_of(entries))
        self._file.close()
        self._file = self._disk.append_to(FILE)
        self._entries = entries
        self.synced_index = self.last_index
        self._commit_on_disk = self._commit
        self.bytes = sum(len(e[0]) for e in entries)

    def _records_of(self, entries: list[Entry]) -> Iterator[bytes]:
        yield _record(_Kind.FORMAT, _FORMAT_VERSION, 0)
        yield _record(_Kind.TERM, self._term, 0, (self._vote or "").encode())
        yield _record(_Kind.COMMIT, self._commit, 0)
        for command, index, term in entries:
            yield _record(_Kind.ENTRY, index, term, command)

    def _write(self, kind: int, a: int, b: int, payload: bytes = b"") -> None:
        self._buffer += _record(kind, a, b, payload)
        self._unsynced = True


def _record(kind: int, a: int, b: int, payload: bytes = b"") -> bytes:
    body = _BODY.pack(kind, a, b) + payload
    return _HEAD.pack(len(body), zlib.crc32(body)) + body


def is_unused(data: bytes) -> bool:
    """A journal whose very first start was cut short: it never held a term, a vote or an entry."""
    return len(data) <= len(_record(_Kind.FORMAT, _FORMAT_VERSION, 0))


def _load(data: bytes) -> _Loaded:
    loaded = _Loaded()
    offset = 0
    while (body := _body_at(data, offset)) is not None:
        _replay(loaded, body, offset)
        offset += _HEAD.size + len(body)
    if offset == 0 and data:
        _refuse_unless_torn(data, 0)
    elif offset < len(data):
        _refuse_unless_torn(data, offset)
    loaded.size = offset
    return loaded


def _replay(loaded: _Loaded, body: bytes, offset: int) -> None:
    kind, a, b = _BODY.unpack_from(body)
    match kind:
        case _Kind.ENTRY:
            if loaded.entries and a != loaded.entries[-1][1] + 1:
                raise DamagedLog(_advice(f"entry {a} follows entry {loaded.entries[-1][1]}", offset))
            loaded.entries.append((body[_BODY.size :], a, b))
        case _Kind.TRUNCATE:
            keep = a - loaded.entries[0][1] if loaded.entries else 0
            del loaded.entries[max(keep, 0) :]
        case _Kind.TERM:
            loaded.term, loaded.vote = a, body[_BODY.size :].decode() or None
        case _Kind.COMMIT:
            loaded.commit = a
        case _Kind.CLEAR:
            loaded.entries.clear()
        case _Kind.FORMAT:
            if a != _FORMAT_VERSION:
                raise DamagedLog(
                    f"{FILE} has format {a}; this gosched knows {_FORMAT_VERSION}: use the gosched that wrote it"
                )
        case _:
            raise DamagedLog(_advice(f"unknown record kind {kind}", offset))


def _body_at(data: bytes, offset: int) -> bytes | None:
    """The record's body at this offset, or None when there is no whole, sound record."""
    if offset + _HEAD.size > len(data):
        return None
    length, crc = _HEAD.unpack_from(data, offset)
    start = offset + _HEAD.size
    if not _BODY.size <= length <= MAX_RECORD_BYTES or start + length > len(data):
        return None
    body = data[start : start + length]
    return body if zlib.crc32(body) == crc else None


def _refuse_unless_torn(data: bytes, offset: int) -> None:
    """A write that a crash cut short is the end of the file; a sound record behind it means damage."""
    for later in range(offset + 1, len(data) - _HEAD.size - _BODY.size + 1):
        if data[later + _HEAD.size] <= _Kind.FORMAT and _body_at(data, later) is not None:
            raise DamagedLog(_advice("a damaged record has sound ones after it", offset))


def _advice(what: str, offset: int) -> str:
    return (
        f"{FILE} is damaged at byte {offset} ({what}). Nothing was changed. Check the disk; if the other masters are "
        "well, move this master's data directory away and start it with `bootstrap: false`: it will copy their state"
    )
