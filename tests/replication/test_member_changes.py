"""What a leader lets be changed, and what the one that connects is to a member."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gosched.core.features import FeatureLevel
from gosched.core.records.master import Configuration
from gosched.core.state.cluster_state import ClusterState
from gosched.replication.disk.disk import PosixDisk
from gosched.replication.disk.journal import Journal
from gosched.replication.members.configuration import Members, Placed, configuration, entry_naming, ids, voters
from gosched.replication.members.member_changes import MAX_VOTERS, MemberChanges
from gosched.replication.peer_messages import REGULAR
from gosched.replication.peers.hello import Introduction, MemberStatus, member_status
from gosched.replication.raft.raft_node import RaftNode

from .test_hazards import lead_alone, make_node

BOUNDED = FeatureLevel.BOUNDED


def named(version: int, voting: str, learning: str = "") -> Configuration:
    return configuration(version, {m: f"{m}:7000" for m in voting + learning}, frozenset(learning))


class Leader:
    """Member a leads in term 1; all that it hears may vote."""

    def __init__(self, folder: Path, first: Configuration) -> None:
        self.journal = Journal(PosixDisk(folder))
        self.journal.add(b"\x01", 1, 0)
        self.journal.add(b"\x01", 2, 1)
        self.raftCommitIndex, self.raftCurrentTerm = 2, 1
        self.heard = set("abcdefgh")
        self.has: dict[str, int] = {}
        self.transfers = 0
        state = ClusterState(feature_level=BOUNDED)
        self.members = Members("a", self.journal, lambda: state, {"a": "a:7000"})
        self.changes = MemberChanges(self, self.members, self.journal, lambda: state)
        self.append_naming(entry_naming(first, level=BOUNDED))
        self.commit()

    @property
    def now(self) -> Configuration:
        return self.members.newest().configuration

    def commit(self) -> None:
        self.raftCommitIndex = self.journal.last_index
        self.has = dict.fromkeys("bcdefgh", self.raftCommitIndex)

    def refusal(self, change: str, member: str, address: str = "") -> tuple[str, bool]:
        made = self.changes.add(member, address) if change == "add" else self.changes.remove(member)
        assert made is not None
        return made.detail, made.again

    def _isLeader(self) -> bool:
        return True

    def append_naming(self, entry: bytes) -> None:
        self.journal.add(entry, self.journal.last_index + 1, self.raftCurrentTerm)

    def acknowledged(self) -> Mapping[str, int]:
        return self.has

    def hears_voter(self, member: str) -> bool:
        return member in self.heard

    def transferLeadership(self) -> None:
        self.transfers += 1


def test_a_new_member_learns_first_and_votes_once_it_has_the_log_and_may_vote(tmp_path: Path) -> None:
    leader = Leader(tmp_path, named(1, "abc"))
    assert leader.changes.add("d", "d:7000") is None
    assert leader.now == named(2, "abc", "d")
    assert leader.changes.add("d", "d:7000") is None  # the same again is no other change
    leader.changes.turn()
    assert leader.now == named(2, "abc", "d"), "its own entry is not committed yet"
    leader.commit()
    leader.heard = set("abc")
    leader.changes.turn()
    assert leader.now == named(2, "abc", "d"), "it has not said that it may vote"
    leader.heard = set("abcd")
    leader.has["d"] = 0
    leader.changes.turn()
    assert leader.now == named(2, "abc", "d"), "it lacks the log"
    leader.commit()
    leader.changes.turn()
    assert leader.now == named(3, "abcd")


def test_no_change_begins_before_the_last_one_is_committed_nor_before_an_entry_of_the_leaders_term_is(
    tmp_path: Path,
) -> None:
    leader = Leader(tmp_path, named(1, "abc"))
    assert leader.changes.remove("b") is None
    assert leader.refusal("remove", "c") == ("another change of the masters is under way: ask again", True)
    assert leader.refusal("add", "d", "d:7000") == ("another change of the masters is under way: ask again", True)
    leader.commit()
    leader.raftCurrentTerm = 2
    assert leader.refusal("add", "d", "d:7000") == ("the leader has just taken over: ask again", True)
    leader.journal.add(b"\x01", leader.journal.last_index + 1, 2)
    assert leader.refusal("add", "d", "d:7000")[1], "it is in the log, and not committed"
    leader.commit()
    assert leader.changes.add("d", "d:7000") is None


def test_what_would_end_the_cluster_or_confuse_it_is_refused(tmp_path: Path) -> None:
    leader = Leader(tmp_path / "three", named(1, "abc"))
    leader.heard = {"b"}
    assert leader.refusal("remove", "b")[0].startswith("without b the masters had no majority: c is not reached")
    assert leader.changes.remove("c") is None  # the dead one
    leader.commit()
    assert leader.refusal("add", "b", "other:7000")[0].startswith("b is a master already, at b:7000")
    assert leader.refusal("add", "d", "b:7000")[0] == "b:7000 is the Raft address of b: name the address of d"
    assert leader.refusal("remove", "a") == ("a leads, and hands over before it is removed: ask again", True)
    assert leader.transfers == 1
    alone = Leader(tmp_path / "one", named(1, "a"))
    assert alone.refusal("remove", "a")[0].startswith("a is the last master")
    assert alone.changes.remove("z") is None
    many = Leader(tmp_path / "many", named(1, "abcdefgh"[:MAX_VOTERS]))
    assert many.refusal("add", "z", "z:7000")[0].startswith(f"a cluster has at most {MAX_VOTERS} masters")


def test_the_members_follow_the_log_when_it_grows_is_cut_and_is_read_again(tmp_path: Path) -> None:
    leader = Leader(tmp_path, named(1, "abc"))
    last = leader.journal.last_index
    leader.append_naming(entry_naming(named(2, "abcd"), level=BOUNDED))
    leader.journal.add(REGULAR + b"x", last + 2, 1)
    assert voters(leader.now) == set("abcd")
    leader.journal.deleteEntriesFrom(last)  # by position: the entry after the first one that names members
    assert leader.now == named(1, "abc")
    leader.append_naming(entry_naming(named(2, "ab"), level=BOUNDED))
    leader.journal.sync()
    state = ClusterState()
    again = Members("a", Journal(PosixDisk(tmp_path)), lambda: state, {})
    assert again.newest().configuration == named(2, "ab")
    leader.journal.deleteEntriesTo(len(leader.journal) - 1)
    leader.journal.add(REGULAR + b"x", last + 2, 1)
    leader.journal.deleteEntriesTo(1)  # compacted away: the applied state says it
    state.set_configuration(named(2, "ab"))
    applied = Members("a", leader.journal, lambda: state, {})
    assert applied.newest() == Placed(0, named(2, "ab"), frozenset("ab"))


@pytest.mark.parametrize(
    ("who", "newest", "applied", "place"),
    [
        (Introduction(member="b", version=0, catching_up=True), named(2, "abc"), named(2, "abc"), MemberStatus.MEMBER),
        (Introduction(member="d", version=5, catching_up=False), named(2, "abc"), named(2, "abc"), MemberStatus.GUEST),
        (Introduction(member="c", version=2, catching_up=False), named(3, "ab"), named(2, "abc"), MemberStatus.GUEST),
        (Introduction(member="c", version=2, catching_up=False), named(3, "ab"), named(3, "ab"), MemberStatus.REMOVED),
        (Introduction(member="c", version=3, catching_up=False), named(3, "ab"), named(3, "ab"), MemberStatus.REMOVED),
        # Reads an old log, in which it was a member once, and may have been added since.
        (Introduction(member="c", version=2, catching_up=True), named(3, "ab"), named(3, "ab"), MemberStatus.UNKNOWN),
        (Introduction(member="d", version=0, catching_up=True), named(3, "ab"), named(3, "ab"), MemberStatus.UNKNOWN),
        (Introduction(member="d", version=4, catching_up=False), named(0, "abc"), None, MemberStatus.GUEST),
        (Introduction(member="d", version=0, catching_up=False), named(0, "abc"), None, MemberStatus.UNKNOWN),
    ],
)
def test_who_connects_is_judged_by_what_both_know(
    who: Introduction, newest: Configuration, applied: Configuration | None, place: MemberStatus
) -> None:
    assert member_status(who, newest, applied) is place
    assert (place is MemberStatus.MEMBER) == (who.member in ids(newest))


def test_a_leader_that_is_the_only_voter_commits_nothing_before_its_disk_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied: list[bytes] = []
    node: RaftNode = make_node(tmp_path, [], applied.append)
    lead_alone(node)
    for _ in range(5):
        node.tick(0.0)
    node.disk_slow_until = float("inf")
    with monkeypatch.context() as slow:
        slow.setattr(Journal, "end_syncs", lambda self, wait_s: False)
        node.propose(b"entry", lambda definite, why: None)
        for _ in range(20):
            node.tick(0.0)
        assert node._journal.last_index > node._journal.synced_index >= node.raftCommitIndex
        assert not applied
    for _ in range(200):
        node.tick(0.01)
    assert applied == [b"entry"]
