"""One simulated master's replica: the real log, snapshots, rules and state machine, opened as a real replica does.

Invariant: a member knows what the real code knows. The simulation gives it time, a disk and links, and ends it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

from gosched.core.records.master import Configuration
from gosched.core.state.cluster_state import ClusterState
from gosched.replication.applier import Applier
from gosched.replication.disk.damage import DamagedLog
from gosched.replication.disk.disk import DiskFailed
from gosched.replication.disk.journal import Journal
from gosched.replication.members.configuration import Members, ids, voters
from gosched.replication.members.identity import Met, Removed
from gosched.replication.members.member_changes import MemberChanges
from gosched.replication.members.membership import Membership
from gosched.replication.peer_messages import Message, decode, encode
from gosched.replication.peers.hello import Introduction
from gosched.replication.raft.member_node import MemberNode, member_node
from gosched.replication.raft.raft_node import RaftNode
from gosched.replication.raft.raft_rules import LogsDiverged, RuledTransport
from gosched.replication.replica import TICK_S
from gosched.replication.snapshots.snapshots import Snapshots
from gosched.replication.storage import Storage, open_storage
from gosched.sim.raft.clock import Clock
from gosched.sim.raft.disk import SimCrash, SimDisk
from gosched.sim.raft.history import History, Violation
from gosched.sim.raft.network import Network
from gosched.sim.raft.peers import Peers
from gosched.sim.raft.run import Counts, Owner, Settings
from gosched.sim.raft.transport import SimTransport
from gosched.sim.raft.turns import Turns
from gosched.state_machine import MachineBug
from gosched.wire.batch import UnknownSchema

_LEFT_FOR_LATER = 0.05  # of the frames: the rest waits for the next turn, as when a read comes back short
_SEND_S = 2e-5
_APPLY_S = 0.001
_MAX_SENT = 2000  # in one turn
_STOPS = (LogsDiverged, DamagedLog, UnknownSchema, MachineBug)


class Member:
    """One member: see the module. It restarts only when its owner says so."""

    def __init__(
        self,
        name: str,
        listed: dict[str, str],
        *,
        clock: Clock,
        network: Network,
        history: History,
        counts: Counts,
        rng: Random,
        settings: Settings,
        note: Callable[[str], None],
        owner: Owner[Member],
    ) -> None:
        self.name = name
        self._listed = listed
        self._clock, self._network, self._history, self.counts = clock, network, history, counts
        self._rng, self._settings = rng, settings
        self._note = note
        self._owner = owner
        self.disk = SimDisk(rng, lambda seconds: self.turns.spend(seconds), lambda: self.turns.now)
        self.disk.slow = settings.slow_sync
        self.node: RaftNode | None = None
        self.joining = False
        self.started = False  # once at least
        self.turns = Turns(clock, rng, self._take_turn, lambda: self.node is not None)
        self._sent = 0
        self._boot = 0
        self._promised: tuple[int, str | None] = (0, None)
        self.is_removed = False
        self._voted = True  # by the members in force
        self.peers = Peers(self, clock, network)
        self._on_disk: Journal | None = None  # while down

    # Life

    def start(self) -> None:
        """Start as Replica.open does."""
        if self.node is not None:
            return
        self._boot += 1
        self.turns.boot()
        self._note(f"{self.name} starts")
        self._run(self._open)
        if self.node is not None:
            self.turns.plan(0.0)

    def crash(self) -> None:
        """Crash between two turns."""
        if self.node is not None:
            self._die("between two turns")

    def crash_soon(self, operations: int) -> None:
        """Crash in the middle of a turn, before the n-th write from now."""
        self.disk.crash_after(operations)

    def wipe(self) -> None:
        """Crash and lose the disk: the member comes back as one that joins. From now on one copy may be missing."""
        self.joining = True
        self.crash()
        self.disk.wipe()
        self._promised = (0, None)
        self._on_disk = None
        self.is_removed = False
        self._note(f"{self.name} lost its disk")

    def propose(self, data: bytes, failed: Callable[[bool, str], None]) -> None:
        assert self.node is not None
        self.enter()
        self.node.propose(data, failed)
        self.turns.plan(0.0)

    def transfer(self) -> None:
        if self.leads:
            assert self.node is not None
            self.enter()
            self.node.transferLeadership()
            self.counts.transfers += 1

    def change(self, change: str, name: str, address: str) -> str:
        """Add or remove a member, as its operator asks; return why not, or nothing."""
        assert self.node is not None
        self.enter()
        refusal = self._changes.add(name, address) if change == "add" else self._changes.remove(name)
        self.turns.plan(0.0)
        return refusal.detail if refusal else ""

    @property
    def newest(self) -> Configuration:
        return self._members.newest().configuration

    @property
    def proposer(self) -> str:
        return f"{self.name}.{self._boot}"

    @property
    def leads(self) -> bool:
        return self.node is not None and bool(self.node._isLeader())

    @property
    def votes(self) -> bool:
        """Return whether it votes as its disk says, up or down."""
        return not self.joining and self.started and not self.is_removed and self.membership.votes

    @property
    def applied(self) -> int:
        return 0 if self.node is None else int(self.node.raftLastApplied)

    @property
    def state(self) -> ClusterState:
        return self._applier.state

    @property
    def durable(self) -> Journal | None:
        return self._on_disk if self.node is None else self._journal

    # What the network sees

    def reachable(self) -> bool:
        return self.node is not None and self._clock.now >= self.turns.paused_until

    def connected(self, peer: str) -> None:
        self._run(lambda: self.peers.connected(peer))

    def disconnected(self, peer: str) -> None:
        self.peers.disconnected(peer)

    def wake(self) -> None:
        self.turns.wake()

    # What its peers see

    @property
    def is_empty(self) -> bool:
        return self.membership.is_empty(self._journal.last_index)

    def introduction(self) -> Introduction:
        joins = self.membership.identity.joining or self.is_empty
        return Introduction(member=self.name, version=self.newest.version, catching_up=joins)

    def as_met(self) -> Met:
        identity = self.membership.identity
        return Met(
            disk=identity.disk,
            boot=identity.boot,
            run=identity.run,
            came_later=identity.came_later or self.is_empty,
        )

    # Inside

    def _open(self) -> None:
        self.enter()
        self.disk.settle()
        self._applier = Applier()
        self.peers.reset()
        storage = self._open_storage(self.disk)
        journal, self.known = storage.journal, storage.known
        others = [name for name in self._listed if name != self.name]
        self.membership = Membership(self.disk, storage.identity, others, now=self._clock.local())
        self._members = Members(self.name, journal, lambda: self.state, self._listed)
        self.started = True
        self.counts.torn_tails += bool(journal.torn_bytes)
        self._history.reopened(self.name, self._promised, journal)
        self._journal = journal
        boot = self._boot
        self._snapshots = Snapshots(
            self.disk, state=lambda: self.state, install=self._install, run=lambda job: self._in_background(boot, job)
        )
        self._snapshots.backlog = lambda peer: self._network.waiting_bytes(self.name, peer.id)
        node = RaftNode(
            self._members,
            journal=journal,
            snapshots=self._snapshots,
            apply=self._apply,
            transport=self._make_transport,
            timing=self._settings.timing,
        )
        node.conf.appendEntriesBatchSizeBytes = self._settings.batch_bytes
        self._loading = True
        if storage.has_snapshot:
            node.load_snapshot()
        self._loading = False
        self._changes = MemberChanges(node, self._members, journal, lambda: self.state)
        if self._settings.slow_sync:
            node.disk_slow_until = math.inf  # as a disk that was slow a moment ago
        self.node = node

    def _turn(self) -> None:
        node = self.node
        assert node is not None
        self.enter()
        in_force = frozenset(voters(self.newest))
        node.tick(0.0)
        self.membership.decide(self._clock.local())
        self.membership.belongs_to(self.state.cluster_id)
        votes = self._members.is_voter
        self.counts.members_added += votes and not self._voted
        self._voted = votes
        if self.joining and self.membership.votes:
            self.joining = False
            self.counts.wiped_and_joined += 1
            self._note(f"{self.name} has joined")
        if len(self._journal) > self._settings.compact_entries:
            node.forceLogCompaction()
        self._history.commits(self.name, node.raftCurrentTerm, node.raftCommitIndex, self._journal, in_force)
        self._follow_members()
        if self.leads:
            self._history.leads(self.name, node.raftCurrentTerm, self._journal)
            self.peers.check_counted()

    def _follow_members(self) -> None:
        """Do what Replica.turn does about members."""
        if self.state.configuration is not None:
            self.membership.is_settled()
            self.known.keep_only(ids(self.newest) | ids(self.state.configuration))
        if self._members.was_removed and not self.membership.identity.joining:
            self._end_removed()
            return
        self._changes.turn()
        self.peers.turn()

    def _end_removed(self) -> None:
        self.membership.is_removed()
        self._note(f"{self.name} ends: it was removed")
        self.is_removed = True
        self.node = None
        self.turns.cancel()
        self.disk.disarm()
        self._network.gone(self.name)
        self._on_disk = self._journal
        self._owner.removed(self)

    def hear_removal(self) -> None:
        """Hear from a connected member that this one was removed."""
        if self.node is not None and not self.membership.identity.joining:
            self._run(self._end_removed)

    def _open_storage(self, disk: SimDisk) -> Storage:
        return open_storage(disk, cluster=",".join(sorted(self._listed)), member=self.name, bootstrap=True)

    def _make_transport(self, raft: Any, me: MemberNode, others: list[MemberNode]) -> RuledTransport:
        given: dict[str, Any] = {"journal": self._journal, "membership": self.membership, "transmit": self._transmit}
        return SimTransport(raft, me, others, **given)

    def _transmit(self, peer: str, message: Message) -> bool:
        if message["type"] in ("request_vote", "response_vote"):
            self._promised = self._journal.getCurrentTerm(), self._journal.getVotedForNodeId()
        self._sent += 1
        if self._sent > _MAX_SENT:
            raise Violation(f"{self.name} sends without end in one turn, to {peer}: {message}")
        self.turns.spend(_SEND_S)
        if peer not in self.peers:
            return False
        return self._network.send(self.name, peer, encode(message), self.turns.now)

    def _receive(self) -> None:
        node = self.node
        assert node is not None
        while (got := self._network.take(self.name)) is not None:
            message = decode(got[1])
            assert isinstance(message, dict)
            if got[0] not in self.peers:
                continue
            node.transport.deliver(member_node(got[0]), message)
            self._busy = True
            if self._rng.random() < _LEFT_FOR_LATER:
                return

    def _apply(self, data: bytes) -> None:
        batch, applied = self._applier.apply(data)
        assert self.node is not None
        index = self.node.raftLastApplied + 1
        proposal = batch.proposer, batch.proposal
        self.turns.spend(self._rng.random() * _APPLY_S)
        self._history.applies(self.name, index, data, proposal, self.state.digest())
        if batch.proposer == self.proposer:
            self._owner.answered(proposal, [a.outcome for a in applied])

    def _install(self, state: ClusterState, index: int) -> None:
        self._applier.state = state
        self._history.installs(self.name, index, state.digest())
        if not self._loading:
            self.counts.snapshots_installed += 1
            self._note(f"{self.name} installs a snapshot of entry {index}")

    def _in_background(self, boot: int, job: Callable[[], None]) -> None:
        def run() -> None:
            if self.node is not None and self._boot == boot:
                lag, self.turns.lag = self.turns.lag, 0.0
                self.counts.snapshots_taken += 1
                self._run(job)
                self.turns.lag = lag

        self._clock.after(self._rng.uniform(0.0, self._settings.snapshot_s), run)

    def _take_turn(self) -> None:
        self._busy, self._sent = False, 0
        self._run(self._turn)
        self.turns.cancel()
        if self.node is not None:
            self.turns.plan(self.turns.lag + (0.0002 if self._busy else self._rng.uniform(0.5, 1.0) * TICK_S))
            self._owner.turned(self)

    def _run(self, action: Callable[[], None]) -> None:
        """Run an action. What ends a process ends this member; what must never happen is a violation."""
        try:
            action()
        except SimCrash as crash:
            self._die(str(crash))
        except Removed:  # it was noted just before a crash
            self.is_removed = True
        except DiskFailed as error:
            if not self.disk.full:
                raise Violation(f"{self.name} met an error of a disk that is well: {error}") from error
            self.counts.disks_full += 1
            self._die(str(error), killed=True)
        except _STOPS as error:
            raise Violation(f"{self.name} stops: {error}") from error

    def _die(self, where: str, killed: bool = False) -> None:
        power = not killed and self._rng.random() < self._settings.power_loss_share
        self._note(f"{self.name} {'loses power' if power else 'is killed'}: {where}")
        self.counts.crashes += 1
        self.counts.crashes_in_replace += where.startswith("replace")
        self.counts.crashes_in_turn += where != "between two turns"
        self.node = None
        self.turns.cancel()
        self.disk.disarm()
        self._network.gone(self.name)
        if power:
            self.disk.lose_power()
        self._on_disk = self._journal_on_disk()
        self._owner.ended(self)

    def _journal_on_disk(self) -> Journal | None:
        """Return what a restart will find, for the invariant about majorities."""
        try:
            return self._open_storage(self.disk.copy()).journal
        except Removed:
            return None
        except DamagedLog as error:
            raise Violation(f"a crash damaged the log of {self.name}: {error}") from error

    def enter(self) -> None:
        self._clock.local = self.turns.local
        self._clock.receive = self._receive
