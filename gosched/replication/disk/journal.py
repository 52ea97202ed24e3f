"""The Raft log on disk: append-only, checksummed, synced beside the turns; term and vote stand in a file of their own.

It takes the place of PySyncObj's journal, whose method names it therefore has. Invariant: what `synced_index` tells of
survives a power cut, nothing damaged is loaded, and after a failure every call raises.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import structlog

from gosched.replication.disk.damage import DamagedLog, advice
from gosched.replication.disk.disk import MAX_SYNCS, AppendFile, Disk, SyncUnderWay
from gosched.replication.disk.journal_format import (
    FILE,
    Entry,
    Kind,
    Loaded,
    Place,
    Stamp,
    encode_batch,
    encode_file,
    record,
)
from gosched.replication.disk.log_files import LogFiles, read_log
from gosched.replication.disk.vote import Vote, VoteFile
from gosched.replication.peer_messages import MEMBERS

_CHUNK_BYTES = 1 << 20

log = structlog.get_logger()


@dataclass(slots=True)
class _Sync:
    """A sync of the log's file that is under way."""

    sync: SyncUnderWay
    #: The last entry that it covers.
    index: int
    #: How many bytes of the file it covers.
    size: int


class Journal:
    """Entries are contiguous by index. While `keep_below` is set, entries before it neither go nor come (rule R2)."""

    def __init__(self, disk: Disk, found: LogFiles | None = None) -> None:
        """Open the log, or make one, and count a boot. Raises DamagedLog before anything is changed; DiskFailed."""
        found = found or read_log(disk)
        loaded = found.loaded or Loaded(stamp=Stamp(generation=0, boot=0, votes=0, commit=1))
        self._disk = disk
        self.torn_bytes = found.torn_bytes
        self._entries = loaded.entries
        self.naming = _naming(self._entries)  # the entries that name the members
        self.bytes = sum(len(e[0]) for e in self._entries)  # of the commands alone: see `file_bytes`
        self._commit = loaded.stamp.commit
        self._generation, self._batch, self._size = loaded.stamp.generation, loaded.batch, loaded.size
        self.announced = loaded.announced
        self.keep_below: int | None = None
        self._buffer = bytearray()
        self._vote_due = self._unsynced = self._stamp_due = False
        self._under_way: deque[_Sync] = deque()
        self.synced_index = 0  # the last entry that is on the disk
        self._synced_size = 0  # how much of the file is
        self._file: AppendFile | None = None
        self._votes = self._open_vote(found)
        self._term, self._vote = self._votes.record.term, self._votes.record.vote
        self._stamp = self._stamp_now()
        if found.loaded is None or found.old:
            self._rewrite(self._entries)
        elif self.torn_bytes:
            disk.truncate(FILE, self._size)
        self._count_boot()
        self._file = self._file or disk.append_to(FILE)
        self._unsynced = self._stamp_due = True  # what a killed process wrote may have been read from memory, too
        self.sync()

    def _open_vote(self, found: LogFiles) -> VoteFile:
        if found.vote is None or found.old:
            return VoteFile.create(self._disk, Vote() if found.vote is None else found.vote.record)
        if found.vote.mended:
            log.warning("a damaged copy of the vote was mended from its twin", copies=found.vote.mended)
            found.vote.mend()
        return found.vote

    def _count_boot(self) -> None:
        record = self._votes.record
        if record.generation != self._generation:  # a rewrite was cut short just before it was noted
            record = replace(record, generation=self._generation, log_bytes=0)
        self._votes.write(replace(record, boot=record.boot + 1), sync=True)

    # What PySyncObj calls

    def add(self, command: bytes, idx: int, term: int) -> None:
        if self.keep_below is not None and idx < self.keep_below:
            return  # this very entry is there
        self._entries.append((command, idx, term))
        if command[:1] == MEMBERS:
            self.naming.append((command, idx, term))
        self.bytes += len(command)
        self._write(Kind.ENTRY, idx, term, command)

    def clear(self) -> None:
        self._entries, self.naming = [], []
        self._synced_at_most(0)
        self.bytes = 0
        self.announced = None
        self._write(Kind.CLEAR, 0, 0)

    def deleteEntriesFrom(self, entryFrom: int) -> None:
        if self.keep_below is not None:
            entryFrom = max(entryFrom, self.keep_below - self._entries[0][1])
        if entryFrom >= len(self._entries):
            return
        index = self._entries[entryFrom][1]
        if 1 < index <= self._commit:
            raise DamagedLog(advice(f"entry {index} is committed and was to be cut off"))
        self._write(Kind.TRUNCATE, index, 0)
        self._synced_at_most(index - 1)
        self.bytes -= sum(len(e[0]) for e in self._entries[entryFrom:])
        del self._entries[entryFrom:]
        self.naming = [entry for entry in self.naming if entry[1] < index]

    def deleteEntriesTo(self, entryTo: int) -> None:
        """Compact the log: the entries left over become a new file."""
        self._rewrite(self._entries[entryTo:])

    def __getitem__(self, item: int | slice) -> Entry | list[Entry]:
        return self._entries[item]

    def __len__(self) -> int:
        return len(self._entries)

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:
        """Set it; it is on disk with the next batch, or after a second (`onOneSecondTimer`)."""
        self._commit = max(self._commit, raftCommitIndex)

    def getRaftCommitIndex(self) -> int:
        return min(self._commit, self._entries[-1][1] if self._entries else 1)

    def setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:
        """Set term and vote.

        A vote is on the disk when this returns, with one sync. A term alone is with the next `sync`, before any entry,
        vote or success is told: without those a member has promised nothing in it.
        """
        self._disk.check()
        if (term, votedForNodeId or "") == (self._term, self._vote):
            return
        self._term, self._vote = term, votedForNodeId or ""
        self._vote_due = True
        if votedForNodeId:
            self._sync_vote()

    def getCurrentTerm(self) -> int:
        return self._term

    def getVotedForNodeId(self) -> str | None:
        return self._vote or None

    def onOneSecondTimer(self) -> None:
        """Note what has no batch to travel with, and the log's length where the log itself is not (unsynced: it proves
        nothing).
        """
        self._disk.check()
        self._stamp_due = self._stamp_due or self._stamp != self._stamp_now()
        self._note_length()

    def _destroy(self) -> None:
        self._wait_for_syncs()
        self._stamp_due = self._stamp_due or self._stamp != self._stamp_now()
        self.sync()
        self._note_length()
        if self._file is not None:
            self._file.close()

    # What we call

    def sync(self) -> bool:
        """Sync all that was written so far before this returns; return whether there was any.

        Raises DiskFailed; the process must end then.
        """
        self.sync_term()
        file = self._write_out()
        needed = self._unsynced or bool(self._under_way)
        if needed:
            file.sync()
            self._unsynced = False
        self.synced_index, self._synced_size = self.last_index, self._size
        return needed

    def sync_term(self) -> None:
        """Sync a term that was set without a vote: nothing may be told in it before."""
        self._disk.check()
        if self._vote_due:
            self._sync_vote()

    def begin_sync(self) -> bool:
        """Begin to sync all that was written so far, beside the caller, unless nothing was, or too many syncs are under
        way. Raises DiskFailed."""
        self.sync_term()
        if not (self._buffer or self._stamp_due or self._unsynced) or len(self._under_way) == MAX_SYNCS:
            return False
        file = self._write_out()
        self._under_way.append(_Sync(file.begin_sync(), self.last_index, self._size))
        self._unsynced = False
        return True

    def end_syncs(self, wait_s: float) -> bool:
        """Note the syncs that have ended, and return whether one has; wait so long for the first. Raises DiskFailed."""
        noted = False
        while self._under_way and self._under_way[0].sync.ended(0.0 if noted else wait_s):
            ended = self._under_way.popleft()
            self.synced_index = max(self.synced_index, ended.index)
            self._synced_size = max(self._synced_size, ended.size)
            noted = True
        return noted

    @property
    def syncs_under_way(self) -> int:
        return len(self._under_way)

    def started(self) -> None:
        """Call once all other files of the directory carry this boot's number."""
        record = self._votes.record
        self._votes.write(replace(record, started=record.boot, log_bytes=self._synced_size), sync=True)

    def announce(self, last: Entry) -> None:
        """Note that a snapshot is about to be put in place that ends with this entry."""
        self.announced = last[1], last[2]
        self._write(Kind.SNAPSHOT, last[1], last[2])
        self.sync()

    def start_with(self, previous: Entry, last: Entry) -> None:
        """Make the log agree with a snapshot whose last two applied entries are these (see `log_files.check_fit`).

        A crash may have come between the snapshot's rename and the compaction. Entries after the snapshot that
        follow it stay: they may have been acknowledged.
        """
        at = last[1] - self._entries[0][1] if self._entries else -1
        if not _follows(self._entries, previous, last):
            self._rewrite([previous, last])
        elif at > 1:
            self._rewrite(self._entries[at - 1 :])

    def take_over(self, entries: list[Entry], *, commit: int) -> None:
        """Hold another member's entries instead of none."""
        self._commit = commit
        self._rewrite(entries)

    def replace_entry(self, index: int, command: bytes) -> None:
        """Give an entry another content, at its index and of its term."""
        at = index - self.first_index
        _, _, term = self._entries[at]
        self._rewrite([*self._entries[:at], (command, index, term), *self._entries[at + 1 :]])

    def close(self) -> None:
        """Sync what is left and close the log's file."""
        self._destroy()

    def term_at(self, index: int) -> int | None:
        at = index - self.first_index
        return self._entries[at][2] if 0 <= at < len(self._entries) else None

    @property
    def boot(self) -> int:
        return self._votes.record.boot

    @property
    def first_index(self) -> int:
        return self._entries[0][1] if self._entries else 1

    @property
    def last_index(self) -> int:
        return self._entries[-1][1] if self._entries else 0

    @property
    def file_bytes(self) -> int:
        """Return what the file takes: all its batches, whole sectors."""
        return self._size

    def _sync_vote(self) -> None:
        record = self._votes.record
        size = max(record.log_bytes, self._synced_size)
        changed = replace(record, term=self._term, vote=self._vote, votes=record.votes + 1, log_bytes=size)
        self._votes.write(changed, sync=True)
        self._vote_due = False

    def _note_length(self) -> None:
        record = self._votes.record
        if record.log_bytes < self._synced_size:
            self._votes.write(replace(record, log_bytes=self._synced_size), sync=False)

    def _write_out(self) -> AppendFile:
        """Append what is waiting to the file, as one batch."""
        assert self._file is not None
        if self._buffer or self._stamp_due:
            stamp = self._stamp_now()
            number, records = self._batch + 1, bytes(self._buffer)
            batch = encode_batch(stamp, Place.APPENDED, number, self._size, records, synced=self._synced_size)
            self._file.append(batch)
            self._batch += 1
            self._size += len(batch)
            self._stamp, self._stamp_due, self._unsynced = stamp, False, True
            self._buffer.clear()
        return self._file

    def _synced_at_most(self, index: int) -> None:
        """Lower the synced index: what follows is no longer what was synced under its index."""
        self.synced_index = min(self.synced_index, index)
        for each in self._under_way:
            each.index = min(each.index, index)

    def _wait_for_syncs(self) -> None:
        """Wait for the syncs under way, before the file is closed that they work on."""
        while self._under_way:
            self._under_way.popleft().sync.wait()

    def _rewrite(self, entries: list[Entry]) -> None:
        self.sync_term()
        self._wait_for_syncs()
        self._buffer.clear()  # all of it is in the new file
        self._generation += 1
        self._stamp = self._stamp_now()
        self._size = self._batch = 0
        self._disk.replace(FILE, self._counted(encode_file(self._stamp, _chunks(entries))))
        if self._file is not None:
            self._file.close()
        self._file = self._disk.append_to(FILE)
        self._entries, self.naming, self.announced = entries, _naming(entries), None
        self.synced_index, self._synced_size = self.last_index, self._size
        self._unsynced = self._stamp_due = False
        self.bytes = sum(len(e[0]) for e in entries)
        note = replace(self._votes.record, generation=self._generation, log_bytes=self._size)
        self._votes.write(note, sync=True)

    def _counted(self, batches: Iterator[bytes]) -> Iterator[bytes]:
        for batch in batches:
            self._batch += 1
            self._size += len(batch)
            yield batch

    def _stamp_now(self) -> Stamp:
        record = self._votes.record
        return Stamp(generation=self._generation, boot=record.boot, votes=record.votes, commit=self._commit)

    def _write(self, kind: Kind, a: int, b: int, payload: bytes = b"") -> None:
        self._disk.check()
        self._buffer += record(kind, a, b, payload)


def _follows(entries: list[Entry], previous: Entry, last: Entry) -> bool:
    at = last[1] - entries[0][1] if entries else -1
    return 1 <= at < len(entries) and entries[at] == last and entries[at - 1] == previous


def _naming(entries: list[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry[0][:1] == MEMBERS]


def _chunks(entries: list[Entry]) -> Iterator[bytes]:
    chunk = bytearray()
    for command, index, term in entries:
        chunk += record(Kind.ENTRY, index, term, command)
        if len(chunk) >= _CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk)
