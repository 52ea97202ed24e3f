"""One simulated master's replica: the real log, snapshots, rules and machine, opened as the replica process opens them.

Rule: what a member knows is what the real code knows. The simulation only gives it time, a disk and links, and ends it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from pysyncobj.node import Node

from gosched.core.outcome import Outcome
from gosched.core.records.master import Configuration
from gosched.core.state.cluster_state import ClusterState
from gosched.replication.applier import Applier
from gosched.replication.configuration import Members, ids, voters
from gosched.replication.damage import DamagedLog
from gosched.replication.disk import DiskFailed
from gosched.replication.hello import Introduction, Standing, standing
from gosched.replication.identity import Met, Removed
from gosched.replication.journal import Journal
from gosched.replication.member_changes import MemberChanges
from gosched.replication.membership import Membership
from gosched.replication.peer_messages import Message, decode, encode
from gosched.replication.raft_node import RaftNode
from gosched.replication.raft_rules import LogsDiverged, RuledTransport
from gosched.replication.replica import TICK_S
from gosched.replication.snapshots import Snapshots
from gosched.replication.storage import Storage, open_storage
from gosched.replication.timing import Timing
from gosched.sim.clock import Clock, PeerNode
from gosched.sim.disk import SimCrash, SimDisk
from gosched.sim.history import History, Violation
from gosched.sim.network import Network
from gosched.state_machine import MachineBug
from gosched.wire.batch import UnknownSchema

_LEFT_FOR_LATER = 0.05  # of the frames: the rest waits for the next turn, as when a read comes back short
_SEND_S = 2e-5
_APPLY_S = 0.001
_MAX_SENT = 2000  # in one turn
_REFUSED_AGAIN_S = 0.5  # between two tries of a peer that was not let in
_STOPS = (LogsDiverged, DamagedLog, UnknownSchema, MachineBug)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The same for all members of a run."""

    timing: Timing
    compact_entries: int
    batch_bytes: int
    power_loss_share: float  # of the crashes; the others are a process that was killed
    slow_sync: float
    snapshot_s: float  # at most, to write one


@dataclass(slots=True)
class Counts:
    """What a run went through: a check that never met a snapshot proves nothing about snapshots."""

    crashes: int = 0
    crashes_in_replace: int = 0
    crashes_in_turn: int = 0
    torn_tails: int = 0
    snapshots_taken: int = 0
    snapshots_installed: int = 0
    members_added: int = 0  # that vote
    members_removed: int = 0
    disks_full: int = 0
    wiped_and_joined: int = 0
    transfers: int = 0


class Owner(Protocol):
    """Who runs the members."""

    def answered(self, proposal: tuple[str, int], outcomes: list[Outcome]) -> None:
        """A proposal of this boot of a member was applied there."""
        ...

    def removed(self, member: Member) -> None:
        """It has heard that it is no member any more, and ends for good."""
        ...

    def turned(self, member: Member) -> None: ...

    def ended(self, member: Member) -> None: ...


class Member:
    """See the module. It restarts only when its owner says so."""

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
        owner: Owner,
    ) -> None:
        self.name = name
        self._listed = listed
        self._clock, self._network, self._history, self.counts = clock, network, history, counts
        self._rng, self._settings = rng, settings
        self._note = note
        self._owner = owner
        self.disk = SimDisk(rng, self._spend, lambda: clock.now + self._lag)
        self.disk.slow = settings.slow_sync
        self.node: RaftNode | None = None
        self.paused_until = 0.0
        self.joining = False
        self.started = False  # once at least
        self._rate = rng.uniform(0.99, 1.01)
        self._offset = rng.uniform(0.0, 1000.0)
        self._lag = 0.0  # how long the current turn has taken
        self._sent = 0
        self._boot = 0
        self._next_turn = 0.0
        self._promised: tuple[int, str | None] = (0, None)
        self.is_removed = False
        self._voted = True  # by the members in force
        self._linked: set[str] = set()
        self._let_in: set[str] = set()
        self._let_in_at = 0.0  # when those that were not are tried again
        self._on_disk: Journal | None = None  # while down

    # Life

    def start(self) -> None:
        """As Replica.open does it."""
        if self.node is not None:
            return
        self._boot += 1
        self._lag = 0.0
        self._note(f"{self.name} starts")
        self._run(self._open)
        if self.node is not None:
            self._plan_turn(0.0)

    def crash(self) -> None:
        """Between two turns."""
        if self.node is not None:
            self._die("between two turns")

    def crash_soon(self, operations: int) -> None:
        """In the middle of a turn, before the n-th write from now."""
        self.disk.crash_after(operations)

    def wipe(self) -> None:
        """It ends, and its disk is lost: it comes back as one that joins. From now on one copy may be missing."""
        self.joining = True
        self.crash()
        self.disk.wipe()
        self._promised = (0, None)
        self._on_disk = None
        self.is_removed = False
        self._note(f"{self.name} lost its disk")

    def propose(self, data: bytes, failed: Callable[[bool, str], None]) -> None:
        assert self.node is not None
        self._enter()
        self.node.propose(data, failed)
        self._plan_turn(0.0)

    def transfer(self) -> None:
        if self.leads:
            assert self.node is not None
            self._enter()
            self.node.transferLeadership()
            self.counts.transfers += 1

    def change(self, change: str, name: str, address: str) -> str:
        """Add or remove a member, as its operator asks; return why not, or nothing."""
        assert self.node is not None
        self._enter()
        refusal = self._changes.add(name, address) if change == "add" else self._changes.remove(name)
        self._plan_turn(0.0)
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
        """As its disk says, up or down."""
        return not self.joining and self.started and not self.is_removed and self._membership.votes

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
        return self.node is not None and self._clock.now >= self.paused_until

    def connected(self, peer: str) -> None:
        self._linked.add(peer)
        self._run(lambda: self._introduce(peer))

    def disconnected(self, peer: str) -> None:
        self._linked.discard(peer)
        if self.node is not None and peer in self._let_in:
            self._let_in.discard(peer)
            self._enter()
            self.node.transport._onNodeDisconnected(PeerNode(peer))

    def wake(self) -> None:
        if self.node is not None:
            self._plan_turn(0.0)

    # Inside

    def _open(self) -> None:
        self._enter()
        self.disk.settle()
        self._applier = Applier()
        self._linked.clear()
        self._let_in.clear()
        storage = self._open_storage(self.disk)
        journal, self._known = storage.journal, storage.known
        others = [name for name in self._listed if name != self.name]
        self._membership = Membership(self.disk, storage.identity, others, now=self._clock.local())
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
        self._enter()
        in_force = frozenset(voters(self.newest))
        node.tick(0.0)
        self._membership.decide(self._clock.local())
        self._membership.belongs_to(self.state.cluster_id)
        votes = self._members.is_voter
        self.counts.members_added += votes and not self._voted
        self._voted = votes
        if self.joining and self._membership.votes:
            self.joining = False
            self.counts.wiped_and_joined += 1
            self._note(f"{self.name} has joined")
        if len(self._journal) > self._settings.compact_entries:
            node.forceLogCompaction()
        self._history.commits(self.name, node.raftCurrentTerm, node.raftCommitIndex, self._journal, in_force)
        self._follow_members()
        if self.leads:
            self._history.leads(self.name, node.raftCurrentTerm, self._journal)

    def _follow_members(self) -> None:
        """As Replica.turn does it."""
        if self.state.configuration is not None:
            self._membership.is_settled()
            self._known.keep_only(ids(self.newest) | ids(self.state.configuration))
        if self._members.was_removed and not self._membership.identity.joining:
            self._end_removed()
            return
        self._changes.turn()
        if self._clock.now >= self._let_in_at:
            self._let_in_at = self._clock.now + _REFUSED_AGAIN_S
            for peer in sorted(self._linked - self._let_in):
                self._introduce(peer)
            for peer in sorted(self._let_in):
                if self._standing_of(peer) in (Standing.UNKNOWN, Standing.REMOVED):
                    self._let_in.discard(peer)
                    if self.node is not None:
                        self.node.transport._onNodeDisconnected(PeerNode(peer))

    def _end_removed(self) -> None:
        self._membership.is_removed()
        self._note(f"{self.name} ends: it was removed")
        self.is_removed = True
        self.node = None
        self._next_turn = 0.0
        self.disk.disarm()
        self._network.gone(self.name)
        self._on_disk = self._journal
        self._owner.removed(self)

    def hear_removal(self) -> None:
        """From a member that was connected."""
        if self.node is not None and not self._membership.identity.joining:
            self._run(self._end_removed)

    def _open_storage(self, disk: SimDisk) -> Storage:
        return open_storage(disk, cluster=",".join(sorted(self._listed)), member=self.name, bootstrap=True)

    def _make_transport(self, raft: Any, me: Node, others: list[Node]) -> RuledTransport:
        return SimTransport(raft, me, others, journal=self._journal, membership=self._membership, member=self)

    def transmit(self, peer: str, message: Message) -> bool:
        if message["type"] in ("request_vote", "response_vote"):
            self._promised = self._journal.getCurrentTerm(), self._journal.getVotedForNodeId()
        self._sent += 1
        if self._sent > _MAX_SENT:
            raise Violation(f"{self.name} sends without end in one turn, to {peer}: {message}")
        self._lag += _SEND_S
        if peer not in self._let_in:
            return False
        return self._network.send(self.name, peer, encode(message), self._clock.now + self._lag)

    def _receive(self) -> None:
        node = self.node
        assert node is not None
        while (got := self._network.take(self.name)) is not None:
            message = decode(got[1])
            assert isinstance(message, dict)
            if got[0] not in self._let_in:
                continue
            node.transport.deliver(PeerNode(got[0]), message)
            self._busy = True
            if self._rng.random() < _LEFT_FOR_LATER:
                return

    def _introduce(self, peer: str) -> None:
        other = self._network.members[peer]
        assert isinstance(other, Member)
        if self.node is None or other.node is None:
            return
        place = self._standing_of(peer)
        if place is Standing.REMOVED and not self._network.is_cut(self.name, peer):
            self._clock.after(0.01, other.hear_removal)
        if place is Standing.UNKNOWN:
            self._membership.heard(peer, empty=other._membership.is_empty(other._journal.last_index))
        if place in (Standing.REMOVED, Standing.UNKNOWN):
            return
        identity = other._membership.identity
        empty = other._membership.is_empty(other._journal.last_index)
        met = Met(
            disk=identity.disk,
            boot=identity.boot,
            run=identity.run,
            came_later=identity.came_later or empty,
        )
        if refusal := self._known.refusal(peer, met):
            raise Violation(f"{self.name} refuses {peer}: {refusal}")
        if self._known.is_new(peer, met):
            self.node.forget_match(PeerNode(peer))
        self._known.note(peer, met)
        self._membership.heard(peer, empty=empty)
        self._let_in.add(peer)
        self.node.transport._onNodeConnected(PeerNode(peer))

    def _standing_of(self, peer: str) -> Standing:
        other = self._network.members[peer]
        assert isinstance(other, Member)
        if other.node is None:
            return Standing.GUEST
        joins = other._membership.identity.joining or other._membership.is_empty(other._journal.last_index)
        who = Introduction(member=peer, version=other.newest.version, catching_up=joins)
        return standing(who, self.newest, self.state.configuration)

    def _apply(self, data: bytes) -> None:
        batch, applied = self._applier.apply(data)
        assert self.node is not None
        index = self.node.raftLastApplied + 1
        proposal = batch.proposer, batch.proposal
        self._spend(self._rng.random() * _APPLY_S)
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
                lag, self._lag = self._lag, 0.0
                self.counts.snapshots_taken += 1
                self._run(job)
                self._lag = lag

        self._clock.after(self._rng.uniform(0.0, self._settings.snapshot_s), run)

    def _plan_turn(self, delay: float) -> None:
        at = max(self._clock.now + delay, self._clock.now + self._lag)
        if at >= self._next_turn > self._clock.now:
            return  # there is one before that
        self._next_turn = at
        boot = self._boot

        def turn() -> None:
            if self.node is None or self._boot != boot or self._next_turn != at:
                return
            if self.paused_until > self._clock.now:
                self._next_turn = 0.0
                self._clock.at(self.paused_until, self.wake)
                return
            self._lag, self._busy, self._sent = 0.0, False, 0
            self._run(self._turn)
            self._next_turn = 0.0
            if self.node is not None:
                self._plan_turn(self._lag + (0.0002 if self._busy else self._rng.uniform(0.5, 1.0) * TICK_S))
                self._owner.turned(self)

        self._clock.at(at, turn)

    def _run(self, action: Callable[[], None]) -> None:
        """What ends a process ends this member; what must never happen is a violation."""
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
        self._next_turn = 0.0
        self.disk.disarm()
        self._network.gone(self.name)
        if power:
            self.disk.lose_power()
        self._on_disk = self._journal_on_disk()
        self._owner.ended(self)

    def _journal_on_disk(self) -> Journal | None:
        """What a restart will find, for the invariant about majorities."""
        try:
            return self._open_storage(self.disk.copy()).journal
        except Removed:
            return None
        except DamagedLog as error:
            raise Violation(f"a crash damaged the log of {self.name}: {error}") from error

    def _enter(self) -> None:
        self._clock.local = lambda: self._offset + (self._clock.now + self._lag) * self._rate
        self._clock.receive = self._receive

    def _spend(self, seconds: float) -> None:
        self._lag += seconds


class SimTransport(RuledTransport):
    """Frames on simulated links."""

    def __init__(self, *args: Any, member: Member, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._member = member

    def _transmit(self, node: Node, message: Message) -> bool:
        return self._member.transmit(node.id, message)

    def destroy(self) -> None:
        pass
