"""Every system call of the disk layer fails once, from each caller: the member ends with its reason, and tells nobody
of what may be lost."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pathlib
import shutil
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from gosched.replication.disk.disk import DiskFailed, PosixDisk
from gosched.replication.disk.journal import Journal
from gosched.replication.disk.journal_format import FILE as JOURNAL
from gosched.replication.members.identity import Met, save_identity
from gosched.replication.peer_messages import REGULAR
from gosched.replication.snapshots.snapshot import FILE as SNAPSHOT
from gosched.replication.storage import open_storage

from .conftest import LIMIT_S
from .test_hazards_rules import B, Bench, Hand, bench, snapshot_file

CALLS = ("open", "write", "fsync", "fdatasync", "ftruncate", "rename", "close")
PROMISES = ("request_vote", "response_vote", "next_node_idx")


@dataclass
class Faults:
    """Counts the calls; one of them fails. `short`: a write first writes a part."""

    fail_at: int = -1
    code: int = errno.EIO
    short: bool = False
    seen: list[str] = field(default_factory=list)
    failed: str = ""

    def meets(self, name: str) -> bool:
        self.seen.append(name)
        if len(self.seen) - 1 != self.fail_at:
            return False
        self.failed = name
        return True


@contextlib.contextmanager
def injected(faults: Faults) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, _failing(name, getattr(os, name), faults))
        patch.setattr(pathlib.Path, "read_bytes", _failing("read", pathlib.Path.read_bytes, faults))
        patch.setattr(fcntl, "flock", _failing("flock", fcntl.flock, faults))
        yield


def _failing(name: str, real: Callable[..., Any], faults: Faults) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        if not faults.meets(name):
            return real(*arguments, **named)
        if name == "write" and faults.short:
            real(arguments[0], memoryview(arguments[1])[: len(arguments[1]) // 2])
        if name == "close":
            real(*arguments)
        raise OSError(faults.code, os.strerror(faults.code))

    return call


@dataclass
class Scene:
    """A member on a real directory, its disk calls so far not failing."""

    folder: Path
    it: Bench

    @property
    def told(self) -> list[tuple[str, bool]]:
        assert isinstance(self.it.hand, Hand)
        sent = [message for _, message in self.it.hand.sent if message["type"] in PROMISES]
        return [(message["type"], message.get("success", False)) for message in sent]


def vote(scene: Scene) -> None:
    scene.it.arrives(B, type="request_vote", term=9, last_log_index=99, last_log_term=9)
    scene.it.tick()


def own_vote(scene: Scene) -> None:
    scene.it.tick(1.0)


def term_from_an_append(scene: Scene) -> None:
    scene.it.follow(term=9, prevLogIdx=3, prevLogTerm=1, entries=[])


def append(scene: Scene) -> None:
    scene.it.follow(term=1, prevLogIdx=3, prevLogTerm=1, entries=[(REGULAR + b"y" * 3000, 4, 1)])


def conflict(scene: Scene) -> None:
    scene.it.follow(term=2, prevLogIdx=2, prevLogTerm=1, entries=[(REGULAR + b"z", 3, 2)])


def commit_record(scene: Scene) -> None:
    scene.it.follow(term=1, commit_index=3, prevLogIdx=3, prevLogTerm=1, entries=[])
    scene.it.tick(1.5)


def proposal(scene: Scene) -> None:
    scene.it.propose(1)


def own_snapshot(scene: Scene) -> None:
    scene.it.node.forceLogCompaction()
    deadline = time.monotonic() + LIMIT_S
    while scene.it.journal.first_index == 1 and time.monotonic() < deadline:
        scene.it.tick(1e-6)  # no election meanwhile


def received_snapshot(scene: Scene) -> None:
    scene.it.follow(term=1, serialized=(snapshot_file(10), True, True))
    scene.it.tick()


def peer_met(scene: Scene) -> None:
    scene.it.known.note("b", Met(disk="d", boot=3, run="r"))


def joined(scene: Scene) -> None:
    scene.it.follow(prevLogIdx=1, prevLogTerm=0, commit_index=2, entries=[(REGULAR + b"x", 2, 1)])
    scene.it.tick()
    scene.it.tick()
    assert scene.it.membership.votes


def founded(scene: Scene) -> None:
    for peer in ("b", "c"):
        scene.it.membership.heard(peer, empty=True)
    scene.it.membership.decide(scene.it.clock.now)


def cluster_named(scene: Scene) -> None:
    scene.it.membership.belongs_to("c-1")


def end(scene: Scene) -> None:
    scene.it.node.destroy()


def nothing(it: Bench) -> None:
    pass


def followed(it: Bench) -> None:
    it.follow(prevLogIdx=1, prevLogTerm=0, entries=[(REGULAR + b"x", index, 1) for index in (2, 3)])


def applied(it: Bench) -> None:
    followed(it)
    it.follow(commit_index=3, prevLogIdx=3, prevLogTerm=1, entries=[])
    it.tick()


def leading(it: Bench) -> None:
    it.lead()


@dataclass(frozen=True)
class Case:
    act: Callable[[Scene], None]
    before: Callable[[Bench], None] = followed
    settings: dict[str, bool] = field(default_factory=dict)
    kept: int = 3


CASES = {
    "a vote": Case(vote),
    "a vote of its own": Case(own_vote),
    "a term from an append": Case(term_from_an_append),
    "entries of the leader": Case(append),
    "a conflict": Case(conflict, kept=2),
    "the commit index": Case(commit_record),
    "a proposal": Case(proposal, leading, kept=2),
    "a snapshot and the compaction": Case(own_snapshot, applied),
    "a snapshot of the leader": Case(received_snapshot),
    "a peer's disk": Case(peer_met),
    "the end of joining": Case(joined, nothing, {"joining": True}, kept=0),
    "founding": Case(founded, nothing, {"founded": False}, kept=0),
    "the cluster's id": Case(cluster_named),
    "the end": Case(end),
}


@contextlib.contextmanager
def scene(folder: Path, case: Case) -> Iterator[Scene]:
    shutil.rmtree(folder, ignore_errors=True)
    with bench(PosixDisk(folder), **case.settings) as it:
        case.before(it)
        assert isinstance(it.hand, Hand)
        it.hand.sent.clear()
        yield Scene(folder, it)


def kinds_of(name: str) -> list[tuple[int, bool]]:
    kinds = [(errno.EIO, False), (errno.ENOSPC, False)]
    return [*kinds, (errno.ENOSPC, True)] if name == "write" else kinds


@pytest.mark.parametrize("name", CASES)
def test_each_call_that_fails_ends_the_member_and_nothing_more_is_told_or_written(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    case = CASES[name]
    counting = Faults()
    with scene(tmp_path / "raft", case) as counted, injected(counting):
        case.act(counted)
    assert counting.seen, "it writes something"
    count = 0
    for at, call in enumerate(counting.seen):
        for code, short in kinds_of(call):
            faults = Faults(fail_at=at, code=code, short=short)
            with scene(tmp_path / "raft", case) as it:
                with injected(faults), pytest.raises(DiskFailed, match=os.strerror(code)):
                    _act(case, it)
                _check_after(it, faults, case.kept)
            count += 1
    record_property("failures injected", count)
    print(f"{name}: {count} failures of {len(counting.seen)} calls")


def _act(case: Case, it: Scene) -> None:
    case.act(it)
    it.it.tick()  # what a thread of its own met is raised by the next turn


def _check_after(it: Scene, faults: Faults, kept: int) -> None:
    told = [kind for kind, success in it.told if success or kind != "next_node_idx"]
    assert told == [] or faults.failed == "close", "no vote or success is told that may be lost"
    again = Faults()
    with injected(again):
        for refused in (it.it.journal.sync, lambda: it.it.journal.setCurrentTerm(99, "a"), it.it.node.tick):
            with pytest.raises(DiskFailed):
                refused(0.0) if refused == it.it.node.tick else refused()
    assert again.seen == [], "nothing is tried again"
    reopened = open_storage(PosixDisk(it.folder), cluster="a,b,c", member="a", bootstrap=True)
    assert reopened.journal.last_index >= kept, "what was acknowledged before is there"


OPENINGS: dict[str, Callable[[Path], None]] = {}


def opening(make: Callable[[Path], None]) -> Callable[[Path], None]:
    OPENINGS[make.__name__] = make
    return make


@opening
def an_empty_folder(folder: Path) -> None:
    pass


@opening
def a_folder_with_a_torn_log(folder: Path) -> None:
    storage = open_storage(PosixDisk(folder), cluster="a", member="a", bootstrap=True)
    storage.journal.add(REGULAR + b"x" * 2000, 1, 1)
    storage.journal.sync()
    file = folder / JOURNAL
    file.write_bytes(file.read_bytes()[:-700])


@opening
def a_folder_with_a_snapshot_newer_than_the_log(folder: Path) -> None:
    storage = open_storage(PosixDisk(folder), cluster="a", member="a", bootstrap=True)
    save_identity(PosixDisk(folder), replace(storage.identity, founding=False))
    storage.journal.announce((REGULAR + b"x", 10, 1))
    PosixDisk(folder).replace(SNAPSHOT, [snapshot_file(10)])


@opening
def a_folder_of_the_release_before(folder: Path) -> None:
    folder.mkdir()
    bodies = [struct.pack("<BQQ", *numbers) for numbers in ((6, 1, 0), (3, 7, 0), (1, 1, 0))]
    data = b"".join(struct.pack("<II", len(body), zlib.crc32(body)) + body for body in bodies)
    (folder / JOURNAL).write_bytes(data)
    (folder / "identity.json").write_text('{"cluster": "a", "member": "a", "disk": "d", "joining": false}')


@pytest.mark.parametrize("name", OPENINGS)
def test_each_call_that_fails_at_a_start_ends_it_and_the_next_start_finds_everything(name: str, tmp_path: Path) -> None:
    def start(folder: Path) -> None:
        disk = PosixDisk(folder)
        disk.lock()
        open_storage(disk, cluster="a", member="a", bootstrap=True)

    OPENINGS[name](tmp_path / "made")
    counting, count = Faults(), 0
    _copied(tmp_path)
    with injected(counting):
        start(tmp_path / "raft")
    sound = Journal(PosixDisk(tmp_path / "raft"))
    for at, call in enumerate(counting.seen):
        for code, short in kinds_of(call):
            _copied(tmp_path)
            with injected(Faults(fail_at=at, code=code, short=short)), pytest.raises(DiskFailed):
                start(tmp_path / "raft")
            again = open_storage(PosixDisk(tmp_path / "raft"), cluster="a", member="a", bootstrap=True).journal
            assert (again[:], again.getCurrentTerm()) == (sound[:], sound.getCurrentTerm())
            count += 1
    print(f"{name}: {count} failures of {len(counting.seen)} calls")


def _copied(folder: Path) -> None:
    shutil.rmtree(folder / "raft", ignore_errors=True)
    if (folder / "made").exists():
        shutil.copytree(folder / "made", folder / "raft")
