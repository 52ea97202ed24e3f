"""PySyncObj as gosched runs it: every change to the library's behaviour that is not a rule for messages.

The library is pinned to 0.3.17, and these are the places where we reach into it:
- the names `createJournal`, `Serializer` and `pickle` in its module, while a node is made: our journal, our snapshots,
  and a pickle that refuses to work;
- the name `PIPE_NOTIFIER_ENABLED` in its module: no pipe wakes a turn;
- `__doApplyCommand`: an entry is our own bytes, applied by us (no pickled call);
- `__applyLogEntries`: in slices, with the heartbeats between them;
- `_checkCommandsToApply`: what it sends is synced before the turn waits for answers;
- `__raftNextIndex` and `__raftMatchIndex`: read and mended by rules R3 and R14;
- `__raftElectionDeadline` and `__generateRaftTimeout`: who stands when is decided in `elections.py`; a stall of our own
  is no sign that the leader is dead, a broken connection is one;
- `__setCurrentTerm`: who stands does so in a term that nobody is beyond;
- `__otherNodes`, `__readonlyNodes`, `__lastResponseTime`: who is counted, and who only gets the log, follows from the
  log (rule R16); the library's own changes of members are switched off, they lose entries;
- `__loadDumpFile`: we load the snapshot before the first tick, after verifying it.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pysyncobj.syncobj as library
import pysyncobj.version
from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf

from gosched.replication.disk.disk import MAX_SYNCS
from gosched.replication.disk.journal import Journal
from gosched.replication.members.configuration import Members, voters
from gosched.replication.peer_messages import BATCHES, NO_OP, REGULAR
from gosched.replication.raft.elections import Elections
from gosched.replication.raft.member_node import MemberNode, member_node
from gosched.replication.raft.raft_rules import RuledTransport
from gosched.replication.raft.timing import Timing
from gosched.replication.snapshots.snapshots import Snapshots

PINNED = "0.3.17"
MAX_ENTRY_BYTES = 512 * 1024
QUEUE_SIZE = 4096
_STALL_S = 0.1
_APPLY_SLICE_S = 0.02
_SYNC_WAIT_S = 0.05  # a usual disk is waited for; the turns go on while a slow one works
_SYNC_LOOK_S = 0.005
_QUICK_SYNC_S = 0.02
_SLOW_FOR_S = 60.0  # a disk counts as slow, after one sync that was
_HAND_OVER_S = 0.5

_DEFINITE = (FAIL_REASON.MISSING_LEADER, FAIL_REASON.QUEUE_FULL, FAIL_REASON.DISCARDED)


class UnsupportedLibrary(Exception):
    """Another PySyncObj is installed than the one whose faults we know."""


class RaftNode(SyncObj):
    """One member. `apply` gets the bytes of each committed entry, in order; what it raises ends the tick."""

    def __init__(
        self,
        members: Members,
        *,
        journal: Journal,
        snapshots: Snapshots,
        apply: Callable[[bytes], None],
        transport: Callable[[Any, MemberNode, list[MemberNode]], RuledTransport],
        timing: Timing,
    ) -> None:
        if pysyncobj.version.VERSION != PINNED:
            raise UnsupportedLibrary(f"pysyncobj {pysyncobj.version.VERSION} is installed; gosched needs {PINNED}")
        self._journal = journal
        self._snapshots = snapshots
        self._apply = apply
        self._last_tick_end: float | None = None
        self._forgave_stall = False
        self._timing = timing
        self._gives_up_at: float | None = None
        self._syncs_began: deque[float] = deque()  # of each that is under way
        self.disk_slow_until = 0.0
        self.may_lead = True
        self._proposed = False  # and not in the log yet
        self.members = members
        self._in_force = members.newest().configuration
        others = [member_node(m.id) for m in self._in_force.members if m.id != members.me]
        self.elections = Elections(self, members.me, others, journal=journal, timing=timing)
        with _plugged_in(journal, snapshots):
            super().__init__(
                member_node(members.me),
                others,
                _conf(timing),
                nodeClass=MemberNode,
                transportClass=transport,
            )
        self.transport: RuledTransport = self._SyncObj__transport
        self.elections.send = self.transport.send
        self.elections.is_connected = self.isNodeConnected
        self.elections.knows = self.transport.knows_pre_votes
        snapshots.applied = lambda: max(int(self.raftLastApplied), journal.getRaftCommitIndex())
        snapshots.announce = journal.announce
        self._set_members()

    def load_snapshot(self) -> None:
        """Load the snapshot, if there is one, before the first tick."""
        self._SyncObj__loadDumpFile(clearJournal=False)
        self._raise_failure()
        self.follow_members()

    def propose(self, entry: bytes, failed: Callable[[bool, str], None]) -> None:
        """Put an entry into the log. `failed(definite, why)` may be called later; success shows as its application."""
        if len(entry) > MAX_ENTRY_BYTES:
            failed(True, f"an entry has at most {MAX_ENTRY_BYTES} bytes, this one {len(entry)}")
        elif not self._isLeader():
            failed(True, "this member does not lead")
        else:
            self._applyCommand(entry, _failure_callback(failed), REGULAR[0])
            self._proposed = True

    def append_naming(self, entry: bytes) -> None:
        """Put an entry into the log that names the members, and follow it at once. Only on the leader."""
        index, term = self._journal.last_index + 1, self.raftCurrentTerm
        self._journal.add(entry, index, term)
        self.follow_members()
        self._SyncObj__sendAppendEntries()

    def follow_members(self) -> None:
        """Count the members that the log names (rule R16)."""
        newest = self.members.newest().configuration
        if newest is not self._in_force and newest != self._in_force:
            self._in_force = newest
            self._set_members()

    def tick(self, wait_s: float) -> None:
        """Run one turn of the loop. Raises DiskFailed: the process must end."""
        self._forgive_own_stall()
        self._give_up_lead()
        self.elections.before_turn()
        if self._journal.syncs_under_way:
            wait_s = min(wait_s, _SYNC_LOOK_S)
        if self._proposed and not self.voters:
            wait_s = 0.0  # nobody's answer wakes this member to commit it
        self._proposed = False
        self.doTick(wait_s if self.raftLastApplied >= self.raftCommitIndex else 0.0)
        self._sync()
        self._raise_failure()  # before any success is told
        self.transport.flush()
        self._last_tick_end = library.monotonicTime()

    def hears_voter(self, member: str) -> bool:
        """Return whether a member has answered this leader lately, and may vote: it does not join with an empty
        disk."""
        return self.transport.hears_voter(member_node(member), self.conf.leaderFallbackTimeout)

    def acknowledged(self) -> dict[str, int]:
        """Return how far each member has said that it has the log."""
        return {node.id: index for node, index in self.match_index.items()}

    def expect_answers_within(self, seconds: float) -> None:
        """Let a leader go on whose majority is slow, but alive."""
        least = self._timing.leader_fallback
        self.conf.leaderFallbackTimeout = min(max(least, 2 * seconds), 4 * least)

    def peer_lost(self, node: MemberNode) -> None:
        """Stand soon where the leader's connection broke; its next heartbeat puts the deadline off again."""
        if node == self._getLeader():
            self.elections.lost_leader()

    def _checkCommandsToApply(self) -> None:
        """Send what was proposed, then sync it while the others do the same: the turn's wait comes after this."""
        super()._checkCommandsToApply()
        if self._isLeader():
            self._sync()

    # For `Elections`

    @property
    def deadline(self) -> float:
        deadline: float = self._SyncObj__raftElectionDeadline
        return deadline

    @deadline.setter
    def deadline(self, at: float) -> None:
        self._SyncObj__raftElectionDeadline: float = at

    def may_stand(self) -> bool:
        """Return whether this member may stand for election.

        One that joins, or waits to found the cluster (rules R9, R15), never does; one whose front is silent could lead
        nothing; nor does a learner (R16).
        """
        return self.may_lead and self.transport.membership.votes and self.members.is_voter

    def forget_leader(self) -> None:
        self._SyncObj__raftLeader: MemberNode | None = None

    def step_down(self) -> None:
        self._SyncObj__setState(library._RAFT_STATE.FOLLOWER)
        self.forget_leader()
        self.deadline = library.monotonicTime() + self.elections.timeout()

    def _SyncObj__setCurrentTerm(self, term: int, vote: str | None) -> None:
        if vote is not None and vote == self.selfNode.id:
            term = self.elections.term_to_vote_in(term)
        began = library.monotonicTime()
        super()._SyncObj__setCurrentTerm(term, vote)
        if vote is not None:
            self.elections.syncs.note(library.monotonicTime() - began)

    def _SyncObj__generateRaftTimeout(self) -> float:
        return self.elections.timeout()

    def forget_match(self, node: MemberNode) -> None:
        """Forget what a peer had acknowledged: it came with another disk."""
        if node in self.match_index:
            self.match_index[node] = 0
        self.transport.forget_report(node)

    @property
    def match_index(self) -> dict[MemberNode, int]:
        """Return how far each peer has acknowledged the log to this leader, in this term."""
        index: dict[MemberNode, int] = self._SyncObj__raftMatchIndex
        return index

    @property
    def voters(self) -> set[MemberNode]:
        """Return the other members that are counted."""
        nodes: set[MemberNode] = self._SyncObj__otherNodes
        return nodes

    @property
    def next_index(self) -> dict[MemberNode, int]:
        index: dict[MemberNode, int] = self._SyncObj__raftNextIndex
        return index

    def _SyncObj__doApplyCommand(self, command: bytes) -> None:
        if command[:1] in BATCHES:
            self._apply(command[1:])
        elif command[:1] != NO_OP:
            raise ValueError("log entry of a kind that is not used")

    def _SyncObj__applyLogEntries(self) -> bool:
        """Apply in slices: the library applies all at once, which after a restart is seconds without a heartbeat."""
        self._commit_synced()
        committed: int = self.raftCommitIndex
        deadline = library.monotonicTime() + _APPLY_SLICE_S
        applied_some = False
        try:
            while self.raftLastApplied < committed and library.monotonicTime() < deadline:
                self._SyncObj__raftCommitIndex: int = self.raftLastApplied + 1
                applied_some |= super()._SyncObj__applyLogEntries()
        finally:
            self._SyncObj__raftCommitIndex = committed
        return applied_some

    def _commit_synced(self) -> None:
        """Commit what is synced (R14): the library commits at once what its only voter is to hold."""
        if self._isLeader() and not self.voters:
            synced = max(self.raftLastApplied, self._journal.synced_index)
            self._SyncObj__raftCommitIndex = min(self.raftCommitIndex, synced)

    def _set_members(self) -> None:
        me, now, last = self.members.me, library.monotonicTime(), self._journal.last_index
        voting = voters(self._in_force) - {me}
        nodes = [member_node(member.id) for member in self._in_force.members if member.id != me]
        counted: set[MemberNode] = self._SyncObj__otherNodes
        copies: set[MemberNode] = self._SyncObj__readonlyNodes
        for gone in (counted | copies) - set(nodes):
            self._snapshots.cancelTransmisstion(gone)
            for kept in (self.next_index, self.match_index, self._SyncObj__lastResponseTime):
                kept.pop(gone, None)
        counted.clear()
        copies.clear()
        for node in nodes:
            (counted if node.id in voting else copies).add(node)
            self.next_index.setdefault(node, last + 1)
            self.match_index.setdefault(node, 0)
            self._SyncObj__lastResponseTime.setdefault(node, now)
        self.elections.set_voters([node for node in nodes if node.id in voting])
        self.transport.set_members()

    def _sync(self) -> None:
        """Sync the log.

        A quick disk is waited for: a thread would cost more. Syncs that last go on beside the turns, and are joined by
        others, spread over their time, so that what comes meanwhile waits less.
        """
        journal, now, wait_s = self._journal, library.monotonicTime(), 0.0
        alone = not journal.syncs_under_way
        if alone:  # a log that was written anew has waited for those that were under way
            self._syncs_began.clear()
        if alone and now > self.disk_slow_until:
            if journal.sync():
                self._note_sync(library.monotonicTime() - now)
            return
        journal.sync_term()
        if (alone or now - self._syncs_began[-1] >= self.elections.syncs.value / MAX_SYNCS) and journal.begin_sync():
            self._syncs_began.append(now)
            wait_s = _SYNC_WAIT_S if alone else 0.0
        if journal.end_syncs(wait_s):
            now = library.monotonicTime()
            while len(self._syncs_began) > journal.syncs_under_way:
                self._note_sync(now - self._syncs_began.popleft())

    def _note_sync(self, took_s: float) -> None:
        self.elections.syncs.note(took_s)
        if took_s > _QUICK_SYNC_S:
            self.disk_slow_until = library.monotonicTime() + _SLOW_FOR_S

    def _give_up_lead(self) -> None:
        """Hands the lead over where it may not be held, or drops it when nobody takes it."""
        if self.may_lead or not self._isLeader():
            self._gives_up_at = None
        elif self._gives_up_at is None:
            self._gives_up_at = library.monotonicTime() + _HAND_OVER_S
            self.transferLeadership()
        elif library.monotonicTime() > self._gives_up_at:
            self.step_down()

    def _forgive_own_stall(self) -> None:
        """Put the election off by the time in which this process did not run (a long apply, a slow disk, SIGSTOP).

        Only once in a row, so that a member that is always slow can still stand for election.
        """
        now = library.monotonicTime()
        stalled = self._last_tick_end is not None and now - self._last_tick_end > _STALL_S
        if stalled and not self._forgave_stall:
            self.deadline = max(self.deadline, now + self.elections.timeout())
            self.elections.stood_still()
        self._forgave_stall = stalled

    def _raise_failure(self) -> None:
        if self._snapshots.failure is not None:
            raise self._snapshots.failure


def _failure_callback(failed: Callable[[bool, str], None]) -> Callable[[Any, int], None]:
    def callback(_result: Any, reason: int) -> None:
        if reason != FAIL_REASON.SUCCESS:
            failed(reason in _DEFINITE, f"not committed (reason {reason})")

    return callback


def _conf(timing: Timing) -> SyncObjConf:
    return SyncObjConf(
        autoTick=False,
        appendEntriesUseBatch=False,
        appendEntriesPeriod=timing.append_period,
        appendEntriesBatchSizeBytes=2 * MAX_ENTRY_BYTES,
        raftMinTimeout=timing.election_min,
        raftMaxTimeout=timing.election_max,
        leaderFallbackTimeout=timing.leader_fallback,
        connectionTimeout=timing.connection,
        commandsWaitLeader=False,
        commandsQueueSize=QUEUE_SIZE,
        useFork=False,
        dynamicMembershipChange=False,
        # Compaction is asked for by us (forceLogCompaction), by the size of the log.
        logCompactionMinEntries=1 << 62,
        logCompactionMinTime=1 << 62,
    )


class _NotTruncating(logging.Filter):
    """The library warns of cutting applied entries off when it asks the journal to; by rule R2 it does not happen."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("truncating already-applied")


logging.getLogger("pysyncobj.syncobj").addFilter(_NotTruncating())
library.PIPE_NOTIFIER_ENABLED = False  # entries are proposed between the turns: no thread has to wake one


class _NoPickle:
    """Nothing of ours is pickled, and nothing that comes is unpickled."""

    @staticmethod
    def loads(data: bytes) -> Any:
        raise ValueError("pickle is not used")

    dumps = loads


@contextlib.contextmanager
def _plugged_in(journal: Journal, snapshots: Snapshots) -> Iterator[None]:
    make_journal, serializer = library.createJournal, library.Serializer
    library.createJournal = lambda _path: journal
    library.Serializer = lambda *_: snapshots
    library.pickle = _NoPickle
    try:
        yield
    finally:
        library.createJournal, library.Serializer = make_journal, serializer
