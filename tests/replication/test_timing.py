"""Timeouts follow from the largest round trip, and patience from what was measured lately."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pysyncobj.syncobj as library
import pytest

from gosched.config import ConfigError, load_master_settings
from gosched.replication.disk.disk import DiskFailed, PosixDisk
from gosched.replication.disk.journal import Journal
from gosched.replication.peer_messages import REGULAR
from gosched.replication.raft.timing import Slowest, Timing
from gosched.replication.replica_config import ReplicaConfig

LIMIT_S = 20.0


def test_the_usual_round_trip_gives_the_usual_timing_and_a_longer_one_a_patient_one() -> None:
    assert Timing.for_round_trip(0.2) == Timing()
    long = Timing.for_round_trip(1.0)
    assert (long.election_min, long.election_max, long.leader_fallback, long.connection) == (1.75, 3.5, 4.0, 10.0)


def test_the_round_trip_is_a_setting(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("raft: {max_round_trip: 400ms}\n")
    assert ReplicaConfig.from_settings(load_master_settings(str(config), {})).timing == Timing.for_round_trip(0.4)
    config.write_text("raft: {max_round_trip: 5s}\n")
    with pytest.raises(ConfigError, match="max_round_trip"):
        load_master_settings(str(config), {})


def test_a_slow_sync_is_forgotten_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(library, "monotonicTime", lambda: now)
    slowest = Slowest()
    slowest.note(3.0)
    now += 14.0
    slowest.note(0.1)
    assert slowest.value == 3.0
    now += 20.0
    assert slowest.value == 0.0


def test_an_error_of_a_sync_beside_the_turns_reaches_the_owner_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(PosixDisk(tmp_path))
    real = os.fdatasync
    failing = True

    def fail(fd: int) -> None:
        if failing:
            raise OSError(errno.EIO, "Input/output error")
        real(fd)

    monkeypatch.setattr(os, "fdatasync", fail)
    journal.add(REGULAR, 1, 0)
    assert journal.begin_sync()
    with pytest.raises(DiskFailed, match="Input/output"):
        journal.end_syncs(LIMIT_S)
    failing = False  # the kernel has dropped what it could not write: a later success means nothing
    with pytest.raises(DiskFailed, match="Input/output"):
        journal.end_syncs(0.0)
    assert journal.synced_index == 0


def test_what_is_added_while_a_sync_works_is_not_covered_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(PosixDisk(tmp_path))
    monkeypatch.setattr(os, "fdatasync", lambda fd: time.sleep(0.3))
    journal.add(REGULAR, 1, 0)
    assert journal.begin_sync()
    journal.add(REGULAR, 2, 0)
    assert journal.begin_sync()
    journal.deleteEntriesFrom(1)
    journal.add(REGULAR + b"other", 2, 1)
    ends = time.monotonic() + LIMIT_S
    while journal.syncs_under_way and time.monotonic() < ends:
        journal.end_syncs(LIMIT_S)
    assert journal.synced_index == 1
