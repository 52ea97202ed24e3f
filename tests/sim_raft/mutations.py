"""Single mends of the replicated log, switched off one at a time: the code as it would be without them."""

from __future__ import annotations

import contextlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from gosched.replication.disk.journal import Journal
from gosched.replication.members.member_changes import MemberChanges
from gosched.replication.members.membership import Membership
from gosched.replication.raft.elections import Elections
from gosched.replication.raft.raft_node import RaftNode
from gosched.replication.raft.raft_rules import RuledTransport
from gosched.replication.snapshots.snapshots import Snapshots


@dataclass(frozen=True)
class Mutation:
    """In the source of `owner.method`, `old` becomes `new`. It is an error when `old` is not there exactly once."""

    owner: type
    method: str
    old: str
    new: str

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        original = self.owner.__dict__[self.method]
        source = textwrap.dedent(inspect.getsource(original))
        assert source.count(self.old) == 1, f"{self.old!r} is not once in {self.owner.__name__}.{self.method}"
        made: dict[str, object] = {}
        exec(source.replace(self.old, self.new), vars(sys.modules[self.owner.__module__]), made)  # noqa: S102 - our own source
        setattr(self.owner, self.method, made[self.method])
        try:
            yield
        finally:
            setattr(self.owner, self.method, original)


MUTATIONS = {
    "R1: a snapshot message raises the commit index": Mutation(
        RuledTransport,
        "_deliver_append",
        'message["commit_index"] = min(message["commit_index"], self._raft.raftCommitIndex)  # R1',
        "pass",
    ),
    "R2: entries that are there are cut off and sent anew": Mutation(
        RuledTransport, "_deliver_append", "self._journal.keep_below = conflict", "pass"
    ),
    "R2: the commit index rises beyond what the message proves": Mutation(
        RuledTransport,
        "_deliver_append",
        'min(message["commit_index"], max(proven, self._raft.raftCommitIndex))',
        'message["commit_index"]',
    ),
    "R3: a late success lowers nextIndex": Mutation(
        RuledTransport, "_take_success", "next_index.get(node, before) < before", "False"
    ),
    "R4: nextIndex goes up while the common prefix is looked for": Mutation(
        RuledTransport, "_deliver_reply", 'if message["reset"]:', "if False:"
    ),
    "R4: no hint at the start of the term": Mutation(
        RuledTransport, "send", 'self._start_of_term(message["next_node_idx"])', 'message["next_node_idx"]'
    ),
    "R6: replies count in any term": Mutation(
        RuledTransport, "_deliver_reply", 'message["term"] != self._raft.raftCurrentTerm', "False"
    ),
    "R7: success is told before the journal is synced": Mutation(
        RuledTransport, "send", "return self._hold(node, message)", "return self._transmit(node, message)"
    ),
    "R8: parts of a snapshot are not answered": Mutation(
        RuledTransport, "_answer_part", "self.send(", "(lambda *_: 0)("
    ),
    "R7: success is told of more than is synced": Mutation(
        RuledTransport,
        "_tell",
        'min(message["next_node_idx"], self._journal.synced_index + 1)',
        'message["next_node_idx"]',
    ),
    "R9: an empty disk votes at once": Mutation(
        RuledTransport,
        "deliver",
        'case "request_vote" | "pre_vote" if self.joining:',
        'case "request_vote" | "pre_vote" if False:',
    ),
    "R15: an empty disk founds a cluster without hearing from all": Mutation(
        Membership, "decide", "elif not self._unheard:", "elif True:"
    ),
    "R10: heartbeats without end while a snapshot waits": Mutation(
        RuledTransport, "send", 'message["serialized"] is None:', "False:"
    ),
    "R11: an old snapshot is installed": Mutation(
        Snapshots, "setTransmissionData", "last_entry[1] <= self.applied()", "False"
    ),
    "R11: a message that begins before the log is refused": Mutation(
        RuledTransport, "_cut_to_log", 'message["prevLogIdx"] < first', "False"
    ),
    "R12: who stands does not ask before": Mutation(
        Elections, "_stand_if_won", "1 + len(asked.yes) > (1 + len(self._others)) / 2", "True"
    ),
    "R12: who hears a leader says yes": Mutation(
        Elections, "_would_vote", "library.monotonicTime() - self._heard_at < self._timing.election_min", "False"
    ),
    "R12: of two who ask at once, both say yes": Mutation(
        Elections, "_would_vote", "self._current_round() is None", "True"
    ),
    "R13: a leader is not told of a later term": Mutation(
        RuledTransport, "_deliver_append", "self._elections.on_old_term(node)  # R13", "pass"
    ),
    "R13: a leader takes no notice of a later term": Mutation(
        Elections, "on_reply", 'message["own_term"] > raft.raftCurrentTerm', "False"
    ),
    "R14: a leader counts what it has not synced": Mutation(
        RuledTransport,
        "_take_success",
        'min(message["next_node_idx"], self._journal.synced_index + 1)',
        'message["next_node_idx"]',
    ),
    "R14: a leader's own disk is waited for": Mutation(
        RuledTransport, "_count_synced", "len(counted) >= majority", "False"
    ),
    "R14: a lost disk's copies count": Mutation(RaftNode, "forget_match", "self.transport.forget_report(node)", "pass"),
    "R14: a leader that is the only voter commits at once": Mutation(
        RaftNode, "_commit_synced", "self._isLeader() and not self.voters", "False"
    ),
    "R16: learners are counted": Mutation(
        RaftNode, "_set_members", "(counted if node.id in voting else copies).add(node)", "counted.add(node)"
    ),
    "R16: another change begins before the last one is committed": Mutation(
        MemberChanges, "_not_now", "self._members.newest().index > committed", "False"
    ),
    "R16: a leader changes the members before it has committed an entry of its term": Mutation(
        MemberChanges, "_not_now", "self._journal.term_at(committed) != self._raft.raftCurrentTerm", "False"
    ),
    "the journal is not synced": Mutation(
        Journal, "end_syncs", "self._under_way[0].sync.ended(0.0 if noted else wait_s)", "True"
    ),
    "a term alone is a write": Mutation(Journal, "setCurrentTerm", "if votedForNodeId:", "if True:"),
    "term and vote are not synced": Mutation(Journal, "setCurrentTerm", "self._sync_vote()", "pass"),
    "what a killed process wrote is taken for synced": Mutation(Journal, "__init__", "self.sync()", "pass"),
    "entries after the snapshot are dropped at the start": Mutation(
        Journal, "start_with", "self._rewrite(self._entries[at - 1 :])", "self._rewrite([previous, last])"
    ),
    "the log is not made to agree with the snapshot": Mutation(
        Journal, "start_with", "self._rewrite(self._entries[at - 1 :])", "pass"
    ),
    "a snapshot is received while one is taken": Mutation(
        Snapshots, "setTransmissionData", "if self._taking:", "if False:"
    ),
    "a stall of one's own starts an election": Mutation(
        RaftNode, "_forgive_own_stall", "stalled and not self._forgave_stall", "False"
    ),
}
