"""What must hold for every message between replicas, whatever carries it: rules R1 to R17.

PySyncObj 0.3.17 acknowledges commands that never commit and loses acknowledged ones. Each rule below mends one
fault, by looking at a message before the library does, or before it leaves. The real transport and the simulated one
are both made from this class.

R1  A snapshot message never raises the commit index above our own (it proves nothing about our log).
R2  The log is cut only at the first entry that conflicts; entries that are there stay; the commit index rises at
    most to the last entry that the message proves.
R3  A successful reply never lowers `nextIndex` (replies to pipelined messages arrive late).
R4  While a leader looks for the common prefix, `nextIndex` only goes down, a whole term at a time.
R5  Only members speak, and only about Raft: no admin messages, no forwarded commands.
R6  A reply counts only in the term it answers.
R7  A reply of success tells only of entries that are synced; what it leaves out is told after their sync.
R8  A follower answers each part of a snapshot, or the leader would count it as gone while it loads.
R9  A member that joins with an empty disk votes only once it holds all that the leader had committed when it came.
R10 A leader that may not send the next part of a snapshot yet sends one heartbeat (the library sends them without end).
R11 What is applied here is committed, so it is never given up: a snapshot of no more than that is not installed (it
    would drop acknowledged entries that follow); a message that begins before our log is cut to what may be new. A
    leader that contradicts an entry which was committed here has lost it: this member stops, and says who is right.
R12 No term is raised before a majority would vote for us (pre-votes, `elections.py`). A member that heard a live leader
    lately says no. Votes themselves are not refused so: who stands has a higher term, and could not follow any more.
R13 Who may not follow a leader because its term is older tells it; the leader stands anew at once in a later term.
R14 A leader's own disk counts as one: what it has not synced is committed only where a majority of the others has. A
    leader that is the only voter commits nothing before. What a peer had on a disk that it has lost counts no more.
R15 A member with an empty disk that waits to found the cluster neither votes nor answers.
R16 Votes and copies count of those alone that vote by the newest members in our log, committed or not; who asks for a
    vote need not be among them, since our log may be the older one. A learner is not counted, and does not stand.
R17 A member that joins does not vote before its log names it: an older log, in which it was a member once, proves
    nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import pysyncobj.syncobj as library
from pysyncobj.transport import Transport

from gosched.replication.disk.journal import Journal
from gosched.replication.members.membership import Membership
from gosched.replication.peer_messages import Message
from gosched.replication.raft.elections import Elections


class LogsDiverged(Exception):
    """A leader contradicts an entry that was committed here: it, or the majority that elected it, lost entries."""


class RuledTransport(Transport):
    """`deliver` takes what came from a member, `send` what the library wants sent; `_transmit` carries it."""

    def __init__(
        self, sync_obj: Any, self_node: Any, other_nodes: Any, *, journal: Journal, membership: Membership
    ) -> None:
        super().__init__(sync_obj, self_node, other_nodes)
        self._raft = sync_obj
        self._journal = journal
        self._elections: Elections = sync_obj.elections
        self._held: dict[Any, Message] = {}  # R7: replies whose entries are not all synced yet, or not told of
        self._told: dict[Any, int] = {}  # R7: the newest nextIndex of a held reply that was told of
        self._reported: dict[Any, tuple[int, int]] = {}  # R14: peer -> term, the last entry that it has synced
        self._floors: dict[Any, tuple[int, int]] = {}  # peer -> term, lowest nextIndex in it
        self._waiting: dict[Any, int] = {}  # peer that waits for a part of a snapshot -> its nextIndex
        self._join_target: int | None = None
        self._heard: dict[Any, tuple[float, bool]] = {}  # when each last answered, and whether it is joining
        self.membership = membership

    def knows_pre_votes(self, node: Any) -> bool:
        """Return whether a connected member knows pre-votes: one of an older release does not."""
        return True

    @abstractmethod
    def _transmit(self, node: Any, message: Message) -> bool: ...

    # In

    @property
    def joining(self) -> bool:
        return self.membership.identity.joining

    def deliver(self, node: Any, message: Message) -> None:
        now = library.monotonicTime()
        if not self.membership.takes_part(now):  # R9, R15
            if message["type"] == "append_entries":
                self.membership.hears_leader(node.id, now)
            return
        match message["type"]:
            case "append_entries":
                self._deliver_append(node, message)
                self._raft.follow_members()  # R16
            case "next_node_idx":
                self._deliver_reply(node, message)
            case "request_vote" | "pre_vote" if self.joining:
                pass  # R9
            case "pre_vote":
                self._elections.on_pre_vote(node, message)
            case "pre_vote_reply" if self._raft._isLeader() and node not in self._raft.match_index:
                pass  # a term of its own, of one that was removed, deposes nobody
            case "pre_vote_reply":
                self._elections.on_reply(node, message)
            case "response_vote" if node not in self._raft.voters:
                pass  # R16
            case _:
                self._onMessageReceived(node, message)

    def _deliver_append(self, node: Any, message: Message) -> None:
        current = message["term"] >= self._raft.raftCurrentTerm
        if current:
            self._elections.heard_leader()
        else:
            self._elections.on_old_term(node)  # R13
        if current and self.joining and self._join_target is None:
            self._join_target = message["commit_index"]
        if "prevLogIdx" not in message:
            message["commit_index"] = min(message["commit_index"], self._raft.raftCommitIndex)  # R1
            self._onMessageReceived(node, message)
            if current:
                self._answer_part(node, last=bool(message["serialized"] and message["serialized"][2]))
            return
        if current:
            self._cut_to_log(message)
        previous, entries = message["prevLogIdx"], message["entries"]
        if current and previous is not None:
            self._check_committed(node, previous, message["prevLogTerm"])
        if not current or previous is None or self._journal.term_at(previous) != message["prevLogTerm"]:
            self._onMessageReceived(node, message)
            return
        conflict = self._first_conflict(node, entries)  # R2
        proven = entries[-1][1] if entries else previous
        message["commit_index"] = min(message["commit_index"], max(proven, self._raft.raftCommitIndex))
        self._journal.keep_below = conflict
        try:
            self._onMessageReceived(node, message)
        finally:
            self._journal.keep_below = None

    def _answer_part(self, node: Any, *, last: bool) -> None:
        """Answer a part of a snapshot (R8); after the last one the leader hears how far we are, needed or not (R11)."""
        index = self._raft.raftLastApplied + 1 if last else 0
        self.send(node, {"type": "next_node_idx", "next_node_idx": index, "reset": False, "success": last})

    def _cut_to_log(self, message: Message) -> None:  # R11
        first = self._journal.first_index
        if message["prevLogIdx"] is not None and message["prevLogIdx"] < first:
            message["prevLogIdx"], message["prevLogTerm"] = first, self._journal.term_at(first)
            message["entries"] = [entry for entry in message["entries"] if entry[1] > first]

    def _check_committed(self, node: Any, index: int, term: int) -> None:  # R11
        ours, committed = self._journal.term_at(index), self._committed
        if ours is not None and ours != term and index <= committed:
            raise LogsDiverged(
                f"this master holds entries that were committed up to {committed}; {node.id} leads without them (entry "
                f"{index} has term {ours} here and term {term} there): the disk of {node.id}, or of the majority that "
                "elected it, was rolled back. This master stops. Keep its data directory and do not wipe it: it holds "
                "what the others lost. Stop them; docs/operations/masters.md says how to restore the cluster from it"
            )

    @property
    def _committed(self) -> int:
        return max(int(self._raft.raftLastApplied), self._journal.getRaftCommitIndex())

    def _first_conflict(self, node: Any, entries: list[tuple[bytes, int, int]]) -> int:
        """Return the index from which the log may be cut: that of the first entry that we lack or hold with another
        term.
        """
        for _, index, term in entries:
            ours = self._journal.term_at(index)
            if ours is None and index > self._journal.last_index:
                return index
            if ours is not None and ours != term:
                self._check_committed(node, index, term)
                return index
        return int(self._journal.last_index) + 1

    def _deliver_reply(self, node: Any, message: Message) -> None:
        if message["term"] != self._raft.raftCurrentTerm:  # R6
            return
        if node not in self._raft.match_index:
            return  # no member any more
        self._heard[node] = library.monotonicTime(), message.get("joining", False)
        self._resume(node)
        if message["success"]:
            self._floors.pop(node, None)
            self._take_success(node, message)
            return
        if message["reset"]:  # R4
            term, floor = self._floors.get(node, (0, 0))
            if term == message["term"]:
                message["next_node_idx"] = min(message["next_node_idx"], floor)
            self._floors[node] = (message["term"], message["next_node_idx"])
        self._onMessageReceived(node, message)

    def _take_success(self, node: Any, message: Message) -> None:
        next_index = self._raft.next_index
        before = next_index.get(node)
        self._reported[node] = message["term"], message["next_node_idx"] - 1
        message["next_node_idx"] = min(message["next_node_idx"], self._journal.synced_index + 1)  # R14
        self._onMessageReceived(node, message)
        if before is not None and next_index.get(node, before) < before:  # R3
            next_index[node] = before

    def _count_synced(self) -> None:
        """Count copies no earlier than our own sync (R14): the library takes our own copy of each entry for synced."""
        term, match_index, voters = self._raft.raftCurrentTerm, self._raft.match_index, self._raft.voters
        told = self._reported.items()
        reported = {node: index for node, (told_in, index) in told if told_in == term and node in match_index}
        counted = [index for node, index in reported.items() if node in voters]  # R16
        majority = (len(voters) + 1) // 2 + 1
        without_us = sorted(counted, reverse=True)[majority - 1] if len(counted) >= majority else 0
        countable = max(self._journal.synced_index, without_us)
        for node, index in reported.items():
            match_index[node] = max(match_index[node], min(index, countable))

    def forget_report(self, node: Any) -> None:
        """Forget what a peer has said that it has: it came with another disk (R14)."""
        self._reported.pop(node, None)

    def _onNodeDisconnected(self, node: Any) -> None:
        super()._onNodeDisconnected(node)
        self._heard.pop(node, None)
        self._raft.peer_lost(node)

    # Out

    def send(self, node: Any, message: Message) -> bool:
        match message["type"]:
            case "next_node_idx":
                message["term"] = self._raft.raftCurrentTerm  # R6
                message["joining"] = self.joining
                if message["success"]:
                    return self._hold(node, message)
                if message["reset"]:
                    message["next_node_idx"] = self._start_of_term(message["next_node_idx"])
                return self._transmit(node, message)
            case "append_entries" if "serialized" in message and message["serialized"] is None:  # R10
                self._waiting.setdefault(node, self._raft.next_index[node])
                self._raft.next_index[node] = self._journal.last_index + 1  # this ends the library's loop
                return self._transmit(node, message)
            case "apply_command" | "apply_command_response":  # R5: fronts forward, replicas do not
                return False
            case _:
                return self._transmit(node, message)

    def flush(self) -> None:
        """Call after each look at the journal's sync."""
        for node, message in list(self._held.items()):
            self._tell(node, message)
        if self._raft._isLeader():
            self._count_synced()
        for node in list(self._waiting):
            self._resume(node)
        if not self.joining or self._join_target is None:
            return
        if self._raft.members.is_one and self._caught_up(self._join_target):  # R17
            self.membership.caught_up()

    def _resume(self, node: Any) -> None:
        """Go on with the peer where it waited (R10)."""
        if node in self._waiting:
            index = self._waiting.pop(node)
            if node in self._raft.next_index:
                self._raft.next_index[node] = index

    def hears_voter(self, node: Any, within_s: float) -> bool:
        """Return whether it has answered lately, over the connection that it has now, as one that may vote."""
        answered, joining = self._heard.get(node, (0.0, True))
        return not joining and library.monotonicTime() - answered < within_s

    def set_members(self) -> None:
        """Follow the members in force: they have changed, and `voters` and `match_index` with them."""
        for kept in (self._reported, self._floors, self._waiting, self._heard):
            for gone in [node for node in kept if node not in self._raft.match_index]:
                del kept[gone]

    def _hold(self, node: Any, message: Message) -> bool:  # R7
        held = self._held.get(node)
        if held is None or held["term"] != message["term"] or held["next_node_idx"] <= message["next_node_idx"]:
            self._held[node] = message
        self._told.pop(node, None)  # the leader waits for a word
        return True

    def _tell(self, node: Any, message: Message) -> None:  # R7
        synced = min(message["next_node_idx"], self._journal.synced_index + 1)
        if message["term"] != self._raft.raftCurrentTerm:
            del self._held[node]
        elif synced > self._told.get(node, -1):
            self._told[node] = synced
            if synced == message["next_node_idx"]:
                del self._held[node]
            self._transmit(node, {**message, "next_node_idx": synced})

    def _start_of_term(self, index: int) -> int:
        """Return the first index of the term that `index` has here, but never one that is committed (R4)."""
        term = self._journal.term_at(index)
        if term is None:
            return index
        lowest = max(self._journal.first_index, self._raft.raftCommitIndex) + 1
        while index > lowest and self._journal.term_at(index - 1) == term:
            index -= 1
        return index

    def _caught_up(self, target: int) -> bool:
        """Return whether an entry of the leader's own term is applied: all that was committed before it is (Raft,
        5.4.3).
        """
        applied: int = self._raft.raftLastApplied
        return applied >= target and self._journal.term_at(applied) == int(self._raft.raftCurrentTerm)
