"""The journal on a real disk: what it keeps, what it cuts, what it refuses."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from gosched.replication.disk import journal_format
from gosched.replication.disk.damage import DamagedLog
from gosched.replication.disk.disk import SECTOR_BYTES, PosixDisk
from gosched.replication.disk.journal import Journal
from gosched.replication.disk.journal_format import FILE
from gosched.replication.disk.journal_v1 import is_v1
from gosched.replication.disk.log_files import check_fit, read_log

A, B, C = (b"\x00a", 1, 1), (b"\x00b", 2, 1), (b"\x00c", 3, 2)


def open_journal(folder: Path) -> Journal:
    return Journal(PosixDisk(folder))


def written(folder: Path, *entries: tuple[bytes, int, int]) -> Journal:
    journal = open_journal(folder)
    for entry in entries:
        journal.add(*entry)
    journal.sync()
    return journal


def test_entries_term_vote_and_commit_are_back_after_a_restart(tmp_path: Path) -> None:
    journal = written(tmp_path, A, B, C)
    journal.setCurrentTerm(7, "m2")
    journal.setRaftCommitIndex(2)
    journal.onOneSecondTimer()
    journal.sync()
    again = open_journal(tmp_path)
    assert again[:] == [A, B, C]
    assert (again.getCurrentTerm(), again.getVotedForNodeId(), again.getRaftCommitIndex()) == (7, "m2", 2)


def test_the_vote_is_on_disk_before_set_current_term_returns(tmp_path: Path) -> None:
    open_journal(tmp_path).setCurrentTerm(3, "m1")  # neither synced nor closed by us
    assert open_journal(tmp_path).getVotedForNodeId() == "m1"


def test_the_bytes_of_the_file_are_those_on_the_disk_with_their_padding(tmp_path: Path) -> None:
    journal = written(tmp_path, A, B)
    for index in range(4, 50):
        journal.add(b"\x00d", index, 3)
        journal.sync()
        assert journal.file_bytes == (tmp_path / FILE).stat().st_size > journal.bytes
    journal.deleteEntriesTo(40)
    assert journal.file_bytes == (tmp_path / FILE).stat().st_size
    journal.close()
    assert open_journal(tmp_path).file_bytes == (tmp_path / FILE).stat().st_size


@pytest.mark.parametrize("cut", [1, 5, 511, 512])
def test_a_torn_tail_is_cut_and_the_rest_kept(tmp_path: Path, cut: int) -> None:
    cut_off_batch(tmp_path, lambda data: data[:-cut])
    journal = open_journal(tmp_path)
    assert bool(journal.torn_bytes) == (cut < SECTOR_BYTES)
    assert journal[:] == [A, B]
    journal.add(*C)
    journal.sync()
    assert open_journal(tmp_path)[:] == [A, B, C]


def test_a_batch_whose_sectors_are_still_zeros_is_cut(tmp_path: Path) -> None:
    cut_off_batch(
        tmp_path, lambda data: data[: -2 * SECTOR_BYTES] + bytes(SECTOR_BYTES) + data[-SECTOR_BYTES:], wide=True
    )
    journal = open_journal(tmp_path)
    assert journal.torn_bytes == 4 * SECTOR_BYTES
    assert journal[:] == [A, B]


def cut_off_batch(folder: Path, harm: Callable[[bytes], bytes], *, wide: bool = False) -> None:
    """A process that dies in the middle of a write: the vote file has not heard of the batch."""
    journal = written(folder, A, B)
    journal.add(b"\0" * 1800 if wide else C[0], 3, 2)
    journal.sync()
    file = folder / FILE
    file.write_bytes(harm(file.read_bytes()))


def test_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(journal_format, "FORMAT", 99)
        written(tmp_path, A)
    with pytest.raises(DamagedLog, match="format 99"):
        open_journal(tmp_path)


def test_a_log_of_the_release_before_is_read_and_rewritten(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(v1_log(A, B, C, term=7, vote="m2", commit=2))
    for _ in range(2):
        journal = open_journal(tmp_path)
        assert journal[:] == [A, B, C]
        assert (journal.getCurrentTerm(), journal.getVotedForNodeId(), journal.getRaftCommitIndex()) == (7, "m2", 2)
    assert not is_v1((tmp_path / FILE).read_bytes())


def test_a_log_of_the_release_before_beside_files_of_this_one_is_refused(tmp_path: Path) -> None:
    written(tmp_path, A, B, C)
    (tmp_path / FILE).write_bytes(v1_log(A, B, term=7, vote="m2", commit=2))
    with pytest.raises(DamagedLog, match="older release"):
        open_journal(tmp_path)


def v1_log(*entries: tuple[bytes, int, int], term: int, vote: str, commit: int) -> bytes:
    records = [(6, 1, 0, b""), (3, term, 0, vote.encode()), (4, commit, 0, b"")]
    records += [(1, index, at, command) for command, index, at in entries]
    bodies = [struct.pack("<BQQ", kind, a, b) + payload for kind, a, b, payload in records]
    return b"".join(struct.pack("<II", len(body), zlib.crc32(body)) + body for body in bodies)


def test_entries_below_keep_below_are_neither_cut_nor_doubled(tmp_path: Path) -> None:
    journal = written(tmp_path, A, B, C)
    journal.keep_below = 4
    journal.deleteEntriesFrom(1)
    journal.add(*B)
    assert journal[:] == [A, B, C]
    journal.keep_below = 3
    journal.deleteEntriesFrom(1)
    assert journal[:] == [A, B]


def test_compaction_keeps_the_rest_and_survives_a_restart(tmp_path: Path) -> None:
    journal = written(tmp_path, A, B, C)
    journal.setCurrentTerm(9, "m3")
    journal.deleteEntriesTo(1)
    journal.add(b"\x00d", 4, 2)
    journal.sync()
    again = open_journal(tmp_path)
    assert again[:] == [B, C, (b"\x00d", 4, 2)]
    assert (again.getCurrentTerm(), again.getVotedForNodeId()) == (9, "m3")
    assert (again.first_index, again.last_index, again.term_at(3), again.term_at(1)) == (2, 4, 2, None)


def test_a_log_that_contains_the_snapshot_keeps_the_entries_after_it(tmp_path: Path) -> None:
    """A crash between the snapshot's rename and the compaction: PySyncObj alone would drop entry 3."""
    journal = written(tmp_path, A, B, C)
    journal.start_with(A, B)
    assert journal[:] == [A, B, C]
    written(tmp_path / "other", A, B, C, (b"\x00d", 4, 2)).start_with(B, C)
    assert open_journal(tmp_path / "other")[:] == [B, C, (b"\x00d", 4, 2)]


def test_a_log_is_replaced_only_by_a_snapshot_that_was_announced(tmp_path: Path) -> None:
    newer = [(b"\x00x", 8, 5), (b"\x00y", 9, 5)]
    journal = written(tmp_path, A, B, C)
    found = read_log(PosixDisk(tmp_path))
    with pytest.raises(DamagedLog, match="ends with entry 9, the log with entry 3"):
        check_fit(found.loaded, *newer)
    journal.announce(newer[1])
    check_fit(read_log(PosixDisk(tmp_path)).loaded, *newer)
    journal.start_with(*newer)
    again = open_journal(tmp_path)
    assert again[:] == newer
    assert again.announced is None


def test_a_vote_takes_one_sync_and_a_term_alone_none_before_the_next_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = written(tmp_path, A)
    syncs: list[int] = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (syncs.append(fd), real(fd)))
    journal.setCurrentTerm(5, None)
    assert len(syncs) == 0
    journal.setCurrentTerm(5, "m2")
    assert len(syncs) == 1
    journal.setCurrentTerm(6, None)
    journal.sync()
    assert len(syncs) == 2
    assert open_journal(tmp_path).getCurrentTerm() == 6


def test_a_committed_entry_is_never_cut(tmp_path: Path) -> None:
    journal = written(tmp_path, A, B, C)
    journal.setRaftCommitIndex(2)
    journal.deleteEntriesFrom(2)
    with pytest.raises(DamagedLog, match="entry 2 is committed"):
        journal.deleteEntriesFrom(1)
    assert journal[:] == [A, B]


def test_the_commit_index_is_on_disk_with_the_next_batch_and_within_a_second(tmp_path: Path) -> None:
    journal = written(tmp_path, A, B, C)
    journal.setRaftCommitIndex(2)
    journal.onOneSecondTimer()
    journal.sync()
    assert read_log(PosixDisk(tmp_path)).loaded.stamp.commit == 2  # type: ignore[union-attr]
    journal.setRaftCommitIndex(3)
    journal.add(b"\x00d", 4, 2)
    journal.sync()
    assert read_log(PosixDisk(tmp_path)).loaded.stamp.commit == 3  # type: ignore[union-attr]
