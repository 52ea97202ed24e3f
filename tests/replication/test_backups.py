"""Files of a master's directory that were damaged, or that come from different times: noticed, or provably harmless."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random

import pytest

from gosched.core.state.cluster_state import ClusterState
from gosched.replication.disk.damage import DamagedLog
from gosched.replication.disk.journal import Journal
from gosched.replication.disk.journal_format import FILE as JOURNAL
from gosched.replication.disk.vote import FILE as VOTE
from gosched.replication.members.identity import IDENTITY, PEERS, Met, save_identity
from gosched.replication.peer_messages import REGULAR
from gosched.replication.snapshots.snapshot import FILE as SNAPSHOT
from gosched.replication.snapshots.snapshot import Snapshot, encode
from gosched.replication.storage import Storage, open_storage
from gosched.sim.raft.disk import SimDisk

FILES = (VOTE, JOURNAL, IDENTITY, PEERS, SNAPSHOT)
Files = dict[str, bytes]


@dataclass(frozen=True)
class Known:
    """All that a start learns from the directory."""

    entries: tuple[tuple[bytes, int, int], ...]
    term: int
    vote: str | None
    commit: int
    disk: str
    joining: bool
    cluster_id: str
    refuses_another_disk: bool


def disk_of(files: Files) -> SimDisk:
    disk = SimDisk(Random(1), lambda seconds: None)
    for name, data in files.items():
        disk.replace(name, [data])
    return disk


def files_of(disk: SimDisk) -> Files:
    return {name: data for name in FILES if (data := disk.read(name)) is not None}


def opened(disk: SimDisk) -> Storage:
    return open_storage(disk, cluster="a,b,c", member="a", bootstrap=True)


def known(storage: Storage) -> Known:
    journal, identity = storage.journal, storage.identity
    entries = journal[:]
    assert isinstance(entries, list)
    return Known(
        entries=tuple(entries),
        term=journal.getCurrentTerm(),
        vote=journal.getVotedForNodeId(),
        commit=journal.getRaftCommitIndex(),
        disk=identity.disk,
        joining=identity.joining,
        cluster_id=identity.cluster_id,
        refuses_another_disk=bool(storage.known.refusal("b", Met(disk="another"))),
    )


def entry(index: int, term: int = 1) -> tuple[bytes, int, int]:
    return REGULAR + b"command %d" % index * 20, index, term


def add(journal: Journal, first: int, last: int, term: int = 1) -> None:
    for index in range(first, last + 1):
        journal.add(*entry(index, term))
        journal.sync()
    journal.setRaftCommitIndex(last)
    journal.onOneSecondTimer()
    journal.sync()
    journal.onOneSecondTimer()


def snapshot(last: int, term: int = 1) -> bytes:
    return b"".join(encode(Snapshot(ClusterState().freeze(), entry(last - 1, term), entry(last, term))))


def a_life() -> dict[str, Files]:
    """The files of one member at moments at least a second apart; between some of them it was started again."""
    moments: dict[str, Files] = {}
    disk = SimDisk(Random(1), lambda seconds: None)
    storage = opened(disk)
    save_identity(disk, replace(storage.identity, founding=False))
    storage.known.note("b", Met(disk="disk of b", boot=1, run="r"))
    storage.journal.setCurrentTerm(1, "b")
    add(storage.journal, 1, 4)
    moments["founded"] = files_of(disk)
    add(storage.journal, 5, 8)
    moments["same start, more entries"] = files_of(disk)
    storage.journal.setCurrentTerm(3, "c")
    storage.journal.onOneSecondTimer()
    storage.journal.sync()
    moments["same start, another vote"] = files_of(disk)
    storage = opened(disk)
    save_identity(disk, replace(storage.identity, founding=False, cluster_id="c-1"))
    moments["second start"] = files_of(disk)
    add(storage.journal, 9, 12, 3)
    moments["second start, more entries"] = files_of(disk)
    storage.journal.announce(entry(8))
    disk.replace(SNAPSHOT, [snapshot(8)])
    storage.journal.deleteEntriesTo(6)
    moments["second start, compacted"] = files_of(disk)
    storage = opened(disk)
    add(storage.journal, 13, 14, 3)
    storage.journal.setCurrentTerm(4, None)
    storage.journal.sync()
    moments["third start"] = files_of(disk)
    storage.journal.announce(entry(12, 3))
    disk.replace(SNAPSHOT, [snapshot(12, 3)])
    storage.journal.deleteEntriesTo(4)
    moments["third start, compacted"] = files_of(disk)
    storage = opened(disk)
    moments["fourth start"] = files_of(disk)
    return moments


def outcome(files: Files, truth: Known) -> str:
    """`refused`, `harmless`, or what was lost without a word."""
    disk = disk_of(files)
    try:
        found = known(opened(disk))
    except DamagedLog as refusal:
        assert files_of(disk) == files, "a refusal changes nothing"
        told = str(refusal)
        assert "\n" not in told
        assert "docs/operations/masters.md" in told or "remove peers.json" in told, told
        return "refused"
    # An older identity or list of peers of the same start is learned anew, and grants nothing.
    if replace(found, cluster_id=truth.cluster_id, refuses_another_disk=True) == truth:
        return "harmless"
    return f"SILENT: {found} instead of {truth}"


def test_every_byte_of_every_file_flipped_is_noticed_or_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    files = a_life()["third start"]
    truth = known(opened(disk_of(files)))
    counts: Counter[tuple[str, str]] = Counter()
    for name, data in files.items():
        for at in range(len(data)):
            if name == VOTE and at % 2048 > 600 and at % 64:
                continue  # nothing reads these zeros: a sample will do
            damaged = bytearray(data)
            damaged[at] ^= 1 << (at % 8)
            what = outcome({**files, name: bytes(damaged)}, truth)
            assert not what.startswith("SILENT"), f"{name} byte {at}: {what}"
            counts[name, what] += 1
    assert counts[JOURNAL, "harmless"] == 0
    assert counts[SNAPSHOT, "harmless"] == 0
    with capsys.disabled():
        print("\nflipped bytes:", {f"{name} {what}": n for (name, what), n in sorted(counts.items())})


def test_every_mixture_of_files_of_two_times_is_noticed_or_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    moments = a_life()
    counts: Counter[str] = Counter()
    for (old_name, old), (new_name, new) in combinations(moments.items(), 2):
        truth = known(opened(disk_of(new)))
        for size in range(1, len(FILES)):
            for chosen in combinations(FILES, size):
                mixed = {n: d for n in FILES if (d := (old if n in chosen else new).get(n)) is not None}
                if mixed == old:
                    continue  # the whole directory is an older one: see the peers' part, in test_rolled_back
                what = outcome(mixed, truth)
                assert not what.startswith("SILENT"), f"{chosen} of {old_name!r} in {new_name!r}: {what}"
                counts[what] += 1
    with capsys.disabled():
        print("\nmixtures of two times:", dict(counts))


@pytest.mark.parametrize("missing", FILES)
def test_each_file_that_is_gone_or_empty_is_noticed_or_harmless(missing: str) -> None:
    files = a_life()["third start"]
    truth = known(opened(disk_of(files)))
    gone = {name: data for name, data in files.items() if name != missing}
    for harmed in (gone, {**files, missing: b""}):
        assert outcome(harmed, truth) in (("refused", "harmless") if missing == PEERS else ("refused",))


def test_what_no_sync_had_returned_from_is_cut_and_the_rest_kept() -> None:
    """The other side of the rule: a crash never refuses a start. See also the profile `crash` of the simulator."""
    disk = disk_of(a_life()["third start"])
    before = known(opened(disk))
    files = files_of(disk)
    for seed in range(300):
        crashed = disk_of(files)
        crashed._rng = Random(seed)
        storage = opened(crashed)
        file = storage.journal._file
        assert file is not None
        file.sync = lambda: None  # type: ignore[method-assign] # the power goes before it is done
        for index in (15, 16, 17):
            storage.journal.add(*entry(index, 4))
        storage.journal.sync()
        crashed.lose_power()
        found = known(opened(crashed))
        assert found.entries in (before.entries, (*before.entries, *(entry(i, 4) for i in (15, 16, 17))))
