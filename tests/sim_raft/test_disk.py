"""The simulated disk keeps what a real one promises, and nothing more."""

from __future__ import annotations

from random import Random

import pytest

from gosched.replication.disk.disk import SECTOR_BYTES, DiskFailed
from gosched.sim.raft.disk import SimCrash, SimDisk

SYNCED, LOST, BLANK = b"s" * SECTOR_BYTES, b"l" * SECTOR_BYTES, bytes(SECTOR_BYTES)


def disk(seed: int = 0) -> SimDisk:
    return SimDisk(Random(seed), lambda seconds: None)


def after_power_loss(seed: int) -> bytes:
    it = disk(seed)
    file = it.append_to("f")
    file.append(SYNCED)
    file.sync()
    file.append(LOST * 2)
    it.lose_power()
    return it.read("f") or b""


def test_what_was_synced_survives_and_the_rest_in_whole_sectors_or_not_to_its_end() -> None:
    found = {after_power_loss(seed) for seed in range(400)}
    assert all(data.startswith(SYNCED) for data in found)
    rests = {data[len(SYNCED) :] for data in found}
    assert {LOST * 2, LOST + BLANK, BLANK + LOST, BLANK * 2} <= rests
    others = rests - {LOST * 2, LOST + BLANK, BLANK + LOST, BLANK * 2}
    assert len(others) > 10
    assert all((LOST * 2).startswith(rest) for rest in others)


def test_a_patch_that_was_not_synced_survives_by_whole_sectors() -> None:
    found = set()
    for seed in range(50):
        it = disk(seed)
        it.replace("f", [SYNCED * 2])
        it.patch("f", 0, LOST * 2, sync=False)
        it.lose_power()
        found.add(it.read("f"))
    assert found == {SYNCED * 2, LOST * 2, SYNCED + LOST, LOST + SYNCED}
    it = disk()
    it.replace("f", [SYNCED * 2])
    it.patch("f", len(SYNCED), LOST, sync=True)
    it.lose_power()
    assert it.read("f") == SYNCED + LOST


def test_a_killed_process_loses_nothing_that_it_wrote() -> None:
    it = disk()
    it.append_to("f").append(b"written")
    assert it.read("f") == b"written"


def replaced_after_crash(operations: int, seed: int) -> bytes | None:
    it = disk(seed)
    it.replace("f", [b"old"])
    it.crash_after(operations)
    with pytest.raises(SimCrash):
        it.replace("f", [b"new ", b"file"])
    it.lose_power()
    return it.read("f")


def test_a_crash_in_a_replacement_leaves_the_old_file_or_the_new_one() -> None:
    found = {n: {replaced_after_crash(n, seed) for seed in range(30)} for n in range(5)}
    assert found == {
        0: {b"old"},  # first chunk
        1: {b"old"},  # second chunk
        2: {b"old"},  # sync
        3: {b"old"},  # rename
        4: {b"old", b"new file"},  # sync of the folder
    }


def test_a_replacement_that_returned_survives() -> None:
    it = disk()
    it.replace("f", [b"new"])
    it.lose_power()
    assert it.read("f") == b"new"


def test_a_full_disk_writes_a_part_and_says_so() -> None:
    it = disk()
    file = it.append_to("f")
    it.full = True
    with pytest.raises(DiskFailed, match="No space left"):
        file.append(b"0123456789")
    assert len(it.read("f") or b"") <= 5
