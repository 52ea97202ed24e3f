"""Rules that show in a few messages: one real member on a virtual clock, and a hand that plays the others.

Each claim is checked twice: it holds, and without its mend it does not.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gosched.core.state.cluster_state import ClusterState
from gosched.replication.disk.disk import Disk, PosixDisk
from gosched.replication.disk.journal import Journal
from gosched.replication.members.configuration import Members
from gosched.replication.members.identity import save_identity
from gosched.replication.members.membership import JOIN_QUIET_S, Membership
from gosched.replication.peer_messages import NO_OP, REGULAR, Message
from gosched.replication.raft.member_node import MemberNode, member_node
from gosched.replication.raft.raft_node import RaftNode
from gosched.replication.raft.raft_rules import RuledTransport
from gosched.replication.raft.timing import Timing
from gosched.replication.snapshots.snapshot import FILE as SNAPSHOT
from gosched.replication.snapshots.snapshot import Snapshot, encode, ends
from gosched.replication.snapshots.snapshots import Snapshots
from gosched.replication.storage import open_storage
from gosched.sim.raft.clock import Clock, virtual
from gosched.sim.raft.disk import SimCrash, SimDisk
from tests.sim_raft.mutations import MUTATIONS

B, C = member_node("b"), member_node("c")


class Hand(RuledTransport):
    """Keeps what the member sends."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sent: list[tuple[str, Message]] = []

    def _transmit(self, node: Any, message: Message) -> bool:
        self.sent.append((node.id, dict(message)))
        return True

    def destroy(self) -> None:
        pass


class Bench:
    """Member `a` of a, b and c."""

    def __init__(self, disk: Disk, clock: Clock, joining: bool, founded: bool) -> None:
        self.clock = clock
        storage = open_storage(disk, cluster="a,b,c", member="a", bootstrap=not joining)
        self.journal, self.known = storage.journal, storage.known
        self.membership = Membership(disk, storage.identity, ["b", "c"], now=clock.now - JOIN_QUIET_S)
        if founded:
            for peer in ("b", "c"):
                self.membership.heard(peer, empty=True)
            self.membership.decide(clock.now)
        snapshots = Snapshots(disk, state=ClusterState, install=lambda state, index: None)
        self.node = RaftNode(
            Members("a", self.journal, ClusterState, dict.fromkeys("abc", "")),
            journal=self.journal,
            snapshots=snapshots,
            apply=lambda data: None,
            transport=lambda raft, me, others: Hand(raft, me, others, journal=self.journal, membership=self.membership),
            timing=Timing(),
        )
        self.node.disk_slow_until = math.inf  # syncs go on beside the turns
        if storage.has_snapshot:
            self.node.load_snapshot()
        self.hand = self.node.transport
        assert isinstance(self.hand, Hand)
        self._arriving: list[tuple[MemberNode, Message]] = []
        clock.receive = self._receive
        for peer in (B, C):
            self.hand._onNodeConnected(peer)

    def tick(self, after: float = 0.01) -> list[Message]:
        """What it sent to b in this turn."""
        self.clock.now += after
        assert isinstance(self.hand, Hand)
        self.hand.sent.clear()
        self.node.tick(0.0)
        return [message for to, message in self.hand.sent if to == "b"]

    def arrives(self, node: MemberNode, **message: Any) -> None:
        """It is taken in the next turn, as from a socket."""
        self._arriving.append((node, message))

    def follow(self, **append: Any) -> list[Message]:
        values = {"type": "append_entries", "term": 1, "commit_index": 1, **append}
        self.arrives(B, **values)
        return self.tick()

    def stand(self) -> None:
        self.tick(1.0)  # beyond any election timeout: it asks
        self.grants(B)
        self.tick()

    def grants(self, node: MemberNode, *, granted: bool = True, own_term: int = 0) -> None:
        term = self.node.raftCurrentTerm + 1
        self.arrives(node, type="pre_vote_reply", term=term, own_term=own_term, granted=granted)
        self.tick()

    def lead(self) -> None:
        self.stand()
        self.arrives(B, type="response_vote", term=self.node.raftCurrentTerm)
        self.tick()
        assert self.node._isLeader()

    def propose(self, count: int) -> None:
        for _ in range(count):
            self.node.propose(b"x", lambda definite, why: None)
            self.tick()

    def b_replies(self, *, next_index: int, term: int | None = None) -> None:
        term = self.node.raftCurrentTerm if term is None else term
        self.arrives(B, type="next_node_idx", term=term, next_node_idx=next_index, reset=False, success=True)
        self.tick()

    def _receive(self) -> None:
        arriving, self._arriving = self._arriving, []
        for node, message in arriving:
            self.hand.deliver(node, message)


@contextlib.contextmanager
def bench(disk: Disk | None = None, *, joining: bool = False, founded: bool = True) -> Iterator[Bench]:
    clock = Clock()
    clock.now = 100.0
    clock.local = lambda: clock.now
    with virtual(clock, Random(1), lambda line: None, chunk_bytes=1000):
        yield Bench(disk or a_disk(), clock, joining, founded)


def a_disk() -> SimDisk:
    return SimDisk(Random(1), lambda seconds: None)


def a_late_success_does_not_rewind() -> bool:
    with bench() as it:
        it.lead()
        it.propose(5)
        ahead = it.node.next_index[B]
        it.b_replies(next_index=3)
        return it.node.next_index[B] == ahead


def old_entries_beyond_the_proven_are_not_committed() -> bool:
    with bench() as it:
        of_term_1 = [(REGULAR + b"x", index, 1) for index in range(2, 11)]
        it.follow(prevLogIdx=1, prevLogTerm=0, entries=of_term_1)
        it.follow(term=2, commit_index=10, prevLogIdx=1, prevLogTerm=0, entries=of_term_1[:2])
        return int(it.node.raftCommitIndex) == 3


def a_leader_goes_back_and_not_forth() -> bool:
    with bench() as it:
        it.lead()
        it.propose(9)
        for hint in (3, 8):  # the second answers an older message
            it.arrives(
                B, type="next_node_idx", term=it.node.raftCurrentTerm, next_node_idx=hint, reset=True, success=False
            )
        it.tick()
        return it.node.next_index[B] == 3


def a_follower_gives_up_a_whole_term_at_once() -> bool:
    with bench() as it:
        of_term_1 = [(REGULAR + b"x", index, 1) for index in range(2, 11)]
        it.follow(prevLogIdx=1, prevLogTerm=0, entries=of_term_1)
        replies = it.follow(term=3, prevLogIdx=9, prevLogTerm=2, entries=[])
        return [(r["reset"], r["next_node_idx"]) for r in replies] == [(True, 2)]


def an_empty_disk_has_no_vote() -> bool:
    with bench(joining=True) as it:
        it.arrives(B, type="request_vote", term=5, last_log_index=1, last_log_term=0)
        return it.tick() == []


def an_empty_disk_neither_votes_nor_stands_before_all_others_were_heard() -> bool:
    with bench(founded=False) as it:
        it.membership.heard("b", empty=True)
        it.membership.decide(it.clock.now)
        it.arrives(B, type="request_vote", term=5, last_log_index=1, last_log_term=0)
        return it.tick() == [] and it.tick(2.0) == [] and not it.membership.votes


def an_old_snapshot_does_not_cut_off_what_was_acknowledged() -> bool:
    with bench() as it:
        entries = [(REGULAR + b"x", index, 1) for index in range(2, 13)]
        it.follow(prevLogIdx=1, prevLogTerm=0, entries=entries)
        it.follow(prevLogIdx=12, prevLogTerm=1, entries=[], commit_index=12)
        it.tick()
        replies = it.follow(serialized=(snapshot_file(10), True, True))
        return it.journal.last_index == 12 and [r["next_node_idx"] for r in replies] == [13]


def our_own_older_snapshot_does_not_replace_a_received_one() -> bool:
    jobs: list[Callable[[], None]] = []
    disk = a_disk()
    snapshots = Snapshots(disk, state=ClusterState, install=lambda state, index: None, run=jobs.append)
    snapshots.serialize((None, (b"x", 5, 1), (b"x", 4, 1), None), 4)
    received = snapshots.setTransmissionData((snapshot_file(10), True, True))
    jobs[0]()
    on_disk = disk.read(SNAPSHOT)
    assert on_disk is not None
    return not received or ends(on_disk)[1][1] == 10


def a_reply_of_an_old_term_commits_nothing() -> bool:
    with bench() as it:
        it.lead()
        it.propose(2)
        it.b_replies(next_index=4, term=it.node.raftCurrentTerm - 1)
        it.tick()
        return int(it.node.raftCommitIndex) == 1


def a_follower_answers_each_part_of_a_snapshot() -> bool:
    with bench() as it:
        replies = it.follow(serialized=(b"part", True, False))
        return [r["type"] for r in replies] == ["next_node_idx"]


def a_message_that_begins_before_the_log_is_answered_with_success() -> bool:
    with bench(disk_with_snapshot(10)) as it:
        old = [(REGULAR + b"x", index, 1) for index in range(8, 10)]
        new = [(REGULAR + b"x", 11, 1)]
        end: list[tuple[bytes, int, int]] = [(REGULAR + b"x", 10, 1)]
        replies = it.follow(prevLogIdx=7, prevLogTerm=1, entries=old + end + new)
        return [(r["success"], r["next_node_idx"]) for r in replies] == [(True, 12)] and it.journal.last_index == 11


def a_member_that_was_stopped_lets_the_leader_speak_first() -> bool:
    with bench() as it:
        beat = {"prevLogIdx": 1, "prevLogTerm": 0, "entries": []}
        it.follow(**beat)
        it.follow(**beat)
        it.arrives(B, type="append_entries", term=1, commit_index=1, **beat)
        sent = it.tick(10.0)  # stopped, while b went on sending
        return all(message["type"] != "pre_vote" for message in sent)


def what_a_killed_process_wrote_is_synced_before_it_counts() -> bool:
    for seed in range(20):
        disk = SimDisk(Random(seed), lambda seconds: None)
        journal = Journal(disk)
        journal.add(NO_OP, 1, 0)
        disk.crash_after(1)  # between the write and the sync
        with pytest.raises(SimCrash):
            journal.sync()
        again = Journal(disk)  # reads it from the memory of the kernel
        told = again.last_index
        disk.lose_power()
        if Journal(disk).last_index < told:
            return False
    return True


BEAT: dict[str, Any] = {"prevLogIdx": 1, "prevLogTerm": 0, "entries": []}


def a_member_asks_before_it_raises_the_term() -> bool:
    with bench() as it:
        asked = [message["type"] for message in it.tick(1.0)]
        it.grants(B, granted=False)
        it.tick()
        return asked == ["pre_vote"] and int(it.node.raftCurrentTerm) == 0


def who_hears_a_leader_grants_no_pre_vote() -> bool:
    with bench() as it:
        it.follow(**BEAT)
        it.arrives(C, type="pre_vote", term=9, last_log_index=99, last_log_term=1)
        it.tick(0.1)
        assert isinstance(it.hand, Hand)
        answers = [message["granted"] for to, message in it.hand.sent if to == "c"]
        return answers == [False] and int(it.node.raftCurrentTerm) == 1


def of_two_that_ask_at_once_one_waits() -> bool:
    with bench() as it:
        it.tick(1.0)
        for peer in (B, member_node("A")):  # logs are alike: the greater id goes first
            it.arrives(peer, type="pre_vote", term=1, last_log_index=1, last_log_term=0)
        it.tick()
        assert isinstance(it.hand, Hand)
        return [(to, m["granted"]) for to, m in it.hand.sent if "granted" in m] == [("b", True), ("A", False)]


def a_leader_of_an_older_term_hears_of_ours() -> bool:
    with bench() as it:
        it.follow(term=5, **BEAT)
        replies = it.follow(term=4, **BEAT)
        return [(r["type"], r["own_term"]) for r in replies] == [("pre_vote_reply", 5)]


def a_leader_that_hears_of_a_later_term_stands_in_one_after_it() -> bool:
    with bench() as it:
        it.lead()
        it.arrives(B, type="pre_vote_reply", term=0, own_term=7, granted=False)
        it.tick()
        asked = it.tick()
        return [(m["type"], m["term"]) for m in asked] == [("request_vote", 8)]


def a_leader_commits_nothing_that_only_one_other_has_synced() -> bool:
    disk = a_disk()
    with bench(disk) as it:
        it.lead()
        disk.slow = 1000.0
        disk.now = lambda: it.clock.now
        it.propose(2)
        it.b_replies(next_index=4)
        it.tick()
        return it.journal.synced_index == 2 and int(it.node.raftCommitIndex) < 3


def a_leader_commits_what_a_majority_without_it_has_synced() -> bool:
    disk = a_disk()
    with bench(disk) as it:
        it.lead()
        disk.slow = 1000.0
        disk.now = lambda: it.clock.now
        it.propose(1)
        it.b_replies(next_index=4)
        it.arrives(C, type="next_node_idx", term=it.node.raftCurrentTerm, next_node_idx=4, reset=False, success=True)
        it.tick()
        it.tick()
        return int(it.node.raftCommitIndex) == 3


def a_leader_counts_no_copy_on_a_disk_that_was_lost() -> bool:
    with bench() as it:
        it.lead()
        it.propose(1)
        it.b_replies(next_index=4)
        it.tick()
        had = it.node.match_index[B]
        it.node.forget_match(B)  # b is back, with another disk
        it.tick()
        return (had, it.node.match_index[B]) == (3, 0)


def a_follower_whose_disk_is_slow_answers_at_once_what_is_synced() -> bool:
    disk = a_disk()
    with bench(disk) as it:
        it.follow(**BEAT)
        disk.slow = 1000.0
        disk.now = lambda: it.clock.now
        replies = it.follow(prevLogIdx=1, prevLogTerm=0, entries=[(REGULAR + b"x", 2, 1)])
        return [(r["success"], r["next_node_idx"]) for r in replies] == [(True, 2)]


def a_vote_is_one_write() -> bool:
    disk = a_disk()
    with bench(disk) as it:
        syncs: list[str] = []
        sync = disk._sync
        disk._sync = lambda inode, what: (syncs.append(what), sync(inode, what))[1]  # type: ignore[method-assign, func-returns-value]
        it.arrives(B, type="request_vote", term=5, last_log_index=1, last_log_term=0)
        replies = it.tick()
        return [r["type"] for r in replies] == ["response_vote"] and len(syncs) == 1


def disk_with_snapshot(last: int) -> SimDisk:
    disk = a_disk()
    storage = open_storage(disk, cluster="a,b,c", member="a", bootstrap=True)
    save_identity(disk, replace(storage.identity, founding=False))
    journal = storage.journal
    previous, end = (REGULAR + b"x", last - 1, 1), (REGULAR + b"x", last, 1)
    journal.announce(end)
    disk.replace(SNAPSHOT, [snapshot_file(last)])
    journal.start_with(previous, end)
    return disk


def snapshot_file(last: int) -> bytes:
    previous, end = (REGULAR + b"x", last - 1, 1), (REGULAR + b"x", last, 1)
    return b"".join(encode(Snapshot(ClusterState().freeze(), previous, end)))


@pytest.mark.parametrize(
    ("claim", "mutation"),
    [
        (old_entries_beyond_the_proven_are_not_committed, "R2: the commit index rises beyond what the message proves"),
        (a_leader_goes_back_and_not_forth, "R4: nextIndex goes up while the common prefix is looked for"),
        (a_follower_gives_up_a_whole_term_at_once, "R4: no hint at the start of the term"),
        (an_empty_disk_has_no_vote, "R9: an empty disk votes at once"),
        (
            an_empty_disk_neither_votes_nor_stands_before_all_others_were_heard,
            "R15: an empty disk founds a cluster without hearing from all",
        ),
        (an_old_snapshot_does_not_cut_off_what_was_acknowledged, "R11: an old snapshot is installed"),
        (our_own_older_snapshot_does_not_replace_a_received_one, "a snapshot is received while one is taken"),
        (a_late_success_does_not_rewind, "R3: a late success lowers nextIndex"),
        (a_reply_of_an_old_term_commits_nothing, "R6: replies count in any term"),
        (a_follower_answers_each_part_of_a_snapshot, "R8: parts of a snapshot are not answered"),
        (
            a_message_that_begins_before_the_log_is_answered_with_success,
            "R11: a message that begins before the log is refused",
        ),
        (a_member_that_was_stopped_lets_the_leader_speak_first, "a stall of one's own starts an election"),
        (a_member_asks_before_it_raises_the_term, "R12: who stands does not ask before"),
        (who_hears_a_leader_grants_no_pre_vote, "R12: who hears a leader says yes"),
        (of_two_that_ask_at_once_one_waits, "R12: of two who ask at once, both say yes"),
        (a_leader_of_an_older_term_hears_of_ours, "R13: a leader is not told of a later term"),
        (a_leader_that_hears_of_a_later_term_stands_in_one_after_it, "R13: a leader takes no notice of a later term"),
        (a_leader_commits_nothing_that_only_one_other_has_synced, "R14: a leader counts what it has not synced"),
        (a_leader_commits_what_a_majority_without_it_has_synced, "R14: a leader's own disk is waited for"),
        (a_leader_counts_no_copy_on_a_disk_that_was_lost, "R14: a lost disk's copies count"),
        (a_follower_whose_disk_is_slow_answers_at_once_what_is_synced, "R7: success is told of more than is synced"),
        (a_vote_is_one_write, "a term alone is a write"),
        (what_a_killed_process_wrote_is_synced_before_it_counts, "what a killed process wrote is taken for synced"),
    ],
)
def test_claim_holds_and_fails_without_its_mend(claim: Callable[[], bool], mutation: str) -> None:
    assert claim()
    with MUTATIONS[mutation].applied():
        assert not claim()


def test_a_member_of_an_older_release_counts_as_a_yes_and_an_old_leader_of_it_is_told_by_an_election() -> None:
    with bench() as it:
        it.node.elections.knows = lambda node: node != B
        assert "pre_vote" not in [message["type"] for message in it.tick(1.0)]
        it.tick()
        assert it.node.raftCurrentTerm == 1, "b would vote, as far as a can know"
        it.follow(term=5, **BEAT)
        assert [m["type"] for m in it.follow(term=4, **BEAT)] == []
        it.tick()
        assert it.node.raftCurrentTerm == 6


def test_a_replica_neither_forwards_commands_nor_answers_forwarded_ones() -> None:  # R5
    with bench() as it:
        assert not it.hand.send(B, {"type": "apply_command", "command": b"x"})
        assert not it.hand.send(B, {"type": "apply_command_response", "request_id": 1})
        assert isinstance(it.hand, Hand)
        assert it.hand.sent == []


def test_a_folder_is_synced_before_its_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was killed may have renamed a file without syncing the folder."""
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    PosixDisk(tmp_path)
    assert synced == [str(tmp_path)]
