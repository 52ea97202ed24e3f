"""Reads vote and log together, and tells whether they, and the snapshot, are of the same time. Changes nothing.

Each batch of the log carries the number of the start and the count of votes; the vote file carries the log's generation
and length. Invariant: files of which one came from a backup are refused, with what to do.
"""

from __future__ import annotations

from dataclasses import dataclass

from gosched.replication.disk.damage import DamagedLog, advice
from gosched.replication.disk.disk import Disk
from gosched.replication.disk.journal_format import FILE, Entry, Loaded, Stamp, load
from gosched.replication.disk.journal_v1 import is_v1, load_v1
from gosched.replication.disk.vote import FILE as VOTE
from gosched.replication.disk.vote import Vote, VoteFile


@dataclass(frozen=True, slots=True)
class LogFiles:
    """What is on the disk, read and checked, before anything is written."""

    #: None: there is no file.
    vote: VoteFile | None
    #: None: there is no file.
    loaded: Loaded | None
    #: Bytes at the log's end that were never synced.
    torn_bytes: int = 0
    #: The log is of the release before.
    old: bool = False

    @property
    def boot(self) -> int:
        return self.vote.record.boot if self.vote else 0

    @property
    def is_unused(self) -> bool:
        """Return whether a start that was cut short left it: it never held a vote, nor an entry of a leader."""
        term = self.vote.record.term if self.vote else 0
        return not term and (self.loaded is None or (len(self.loaded.entries) <= 1 and self.loaded.stamp.commit <= 1))


def read_log(disk: Disk) -> LogFiles:
    """Raises DamagedLog, DiskFailed."""
    vote, data = VoteFile.load(disk), disk.read(FILE)
    if vote is not None and not vote.record.pristine:
        if data is None:
            raise DamagedLog(advice(f"{FILE} is gone but {VOTE} is there"))
        if is_v1(data):
            raise DamagedLog(advice(f"{FILE} is of an older release than {VOTE}: it came from a backup"))
    if data is None or (not data and vote is None):
        return LogFiles(vote, None)
    if is_v1(data):
        return _read_v1(disk, data)
    loaded = load(data)
    if vote is None:
        raise DamagedLog(advice(f"{VOTE} is gone but {FILE} is there"))
    _check_times(vote.record, loaded)
    return LogFiles(vote, loaded, len(data) - loaded.size)


def entries_in(data: bytes) -> list[Entry]:
    """Return what a log's file holds, of this format or the one before. Raises DamagedLog."""
    return load_v1(data).entries if is_v1(data) else load(data).entries


def _read_v1(disk: Disk, data: bytes) -> LogFiles:
    """Read a log of the release before, with the term and vote that stand in it.

    A vote file beside it is of a rewrite that a crash cut short.
    """
    old = load_v1(data)
    stamp = Stamp(generation=0, boot=0, votes=1, commit=old.commit)
    vote = VoteFile(disk, Vote(term=old.term, vote=old.vote, votes=1))
    return LogFiles(vote, Loaded(stamp=stamp, entries=old.entries), len(data) - old.size, old=True)


def _check_times(vote: Vote, loaded: Loaded) -> None:
    """Raise DamagedLog where vote and log are of different times.

    A rewrite of the log is followed by a record in the vote file; a change of the vote is in the next batch.
    """
    stamp = loaded.stamp
    newer_log = stamp.boot > vote.boot or stamp.votes > vote.votes or stamp.generation > vote.generation + 1
    older_log = (
        stamp.boot < vote.started
        or stamp.generation < vote.generation
        or (stamp.generation == vote.generation and loaded.size < vote.log_bytes)
    )
    if newer_log and older_log:
        raise DamagedLog(advice(f"{FILE} and {VOTE} are of different members or times"))
    if newer_log:
        raise DamagedLog(advice(f"{VOTE} is older than {FILE}: it came from a backup, and the newest vote is lost"))
    if older_log:
        raise DamagedLog(advice(f"{FILE} is older than {VOTE}, or its end is gone: what was acknowledged may be lost"))


def check_fit(loaded: Loaded | None, previous: Entry, last: Entry) -> None:
    """Raise DamagedLog where a snapshot cannot be of the same time as the log.

    The log begins with the snapshot's last two entries, or announces it.
    """
    entries = loaded.entries if loaded else []
    if entries[:2] == [previous, last] or (loaded and loaded.announced == (last[1], last[2])):
        return
    first, end = (entries[0][1], entries[-1][1]) if entries else (1, 0)
    if last[1] > end:
        what = f"the snapshot ends with entry {last[1]}, the log with entry {end}: {FILE} is older, or its end is gone"
    elif last[1] <= first:
        what = f"the snapshot ends with entry {last[1]}, the log begins with entry {first}: the snapshot is older"
    else:
        what = f"the log knows of no snapshot that ends with entry {last[1]}"
    raise DamagedLog(advice(f"{what}. One of them came from a backup"))
