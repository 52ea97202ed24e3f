"""The journal on a real disk: what it keeps, what it cuts, what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from gosched.replication.disk import PosixDisk
from gosched.replication.journal import FILE, DamagedLog, Journal

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


@pytest.mark.parametrize("cut", [1, 5, 17, 24])
def test_a_torn_tail_is_cut_and_the_rest_kept(tmp_path: Path, cut: int) -> None:
    written(tmp_path, A, B, C)
    file = tmp_path / FILE
    file.write_bytes(file.read_bytes()[:-cut])
    journal = open_journal(tmp_path)
    assert journal.torn_bytes > 0
    assert journal[:] == [A, B]
    journal.add(*C)
    journal.sync()
    assert open_journal(tmp_path)[:] == [A, B, C]


def test_a_tail_of_zeros_is_cut(tmp_path: Path) -> None:
    written(tmp_path, A)
    with (tmp_path / FILE).open("ab") as file:
        file.write(bytes(4096))
    assert open_journal(tmp_path)[:] == [A]


def test_any_flipped_byte_before_the_last_record_refuses_the_start_and_changes_nothing(tmp_path: Path) -> None:
    written(tmp_path, A, B, C)
    file = tmp_path / FILE
    sound = file.read_bytes()
    last_record = len(sound) - (8 + 17 + len(C[0]))
    for at in range(last_record):
        damaged = bytearray(sound)
        damaged[at] ^= 0x40
        file.write_bytes(damaged)
        with pytest.raises(DamagedLog, match="bootstrap: false"):
            open_journal(tmp_path)
        assert file.read_bytes() == damaged, "nothing may be changed on the way out"


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    import struct
    import zlib

    body = struct.pack("<BQQ", 6, 99, 0)
    (tmp_path / FILE).write_bytes(struct.pack("<II", len(body), zlib.crc32(body)) + body)
    with pytest.raises(DamagedLog, match="format 99"):
        open_journal(tmp_path)


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


def test_a_log_that_contradicts_the_snapshot_is_replaced(tmp_path: Path) -> None:
    journal = written(tmp_path, A, B, C)
    newer = [(b"\x00x", 2, 5), (b"\x00y", 3, 5)]
    journal.start_with(*newer)
    assert open_journal(tmp_path)[:] == newer
