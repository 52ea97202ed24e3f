"""The replica process: Raft and the state machine, nothing else, so that nothing a master computes delays a heartbeat.

It lives as long as the socket to its front, and holds the data directory for as long. Invariant: on any doubt about the
disk, the log or the state it ends with a message, and never goes on with less than it had.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable
from typing import Any

import structlog

from gosched.config.settings import Tls as TlsSettings
from gosched.core.events import CommandFailed
from gosched.core.records.master import Configuration
from gosched.core.state.cluster_state import ClusterState
from gosched.logs import process as process_log
from gosched.logs.failures import exhausted, failure_of
from gosched.replication.applier import GC_THRESHOLD, Applier
from gosched.replication.disk.damage import DamagedLog
from gosched.replication.disk.disk import DiskFailed, InUse, PosixDisk
from gosched.replication.front_watch import FrontWatch
from gosched.replication.members.configuration import Members, ids
from gosched.replication.members.identity import removal_of
from gosched.replication.members.member_changes import MemberChanges
from gosched.replication.members.membership import JOIN_QUIET_S, Membership
from gosched.replication.peer_messages import BATCHES
from gosched.replication.peers.connection import Connection
from gosched.replication.peers.peer_transport import PeerTransport
from gosched.replication.peers.peers import Tls, TlsNow
from gosched.replication.raft.raft_node import RaftNode
from gosched.replication.raft.raft_rules import LogsDiverged, RuledTransport
from gosched.replication.replica_config import ReplicaConfig, split_address
from gosched.replication.skipping import with_way_out
from gosched.replication.snapshots.snapshot import FILE as SNAPSHOT
from gosched.replication.snapshots.snapshots import Snapshots
from gosched.replication.storage import open_storage
from gosched.state_machine import MachineBug
from gosched.wire.addresses import AddressBook
from gosched.wire.batch import UnknownSchema
from gosched.wire.role_rules import RoleReader, reader_of
from gosched.wire.roles import BadCertificate
from gosched.wire.shared_token import SharedToken, read_token
from gosched.wire.tls_watch import TlsSet, TlsWatch
from gosched.wire.v1 import log_pb2, raft_pb2

TICK_S = 0.02
_FEED_BYTES = 4 * 1024 * 1024
_STATUS_S = 0.5
FAILED_SNAPSHOT_S = 30.0
_LAST_WORDS_S = 5.0

log = structlog.get_logger()

#: Its part, the term, the leader, the levels of the members that are connected, and who asks to be added.
_Status = tuple[str, int, str, dict[str, int], dict[str, str]]


class Stop(Exception):
    """The replica must end; the message says why and what to do."""


class Replica:
    """A member in its process: `open`, then `turn` until the front is gone."""

    def __init__(self, config: ReplicaConfig) -> None:
        self._config = config
        self._applier = Applier()
        self._refusal = ""
        self._rest_of_frame: Callable[[], bytes] = bytes  # to the front; while there is no link: nothing
        self._front_gone = False
        self._told_index = 0  # the last entry that the front knows
        self._followed: Configuration | None = None  # applied, and known to the directory
        self._snapshot_index = 0  # of a snapshot the front has to load first; 0: none
        self._told_status: _Status | None = None
        self._next_status = 0.0
        self._follow_at = 0.0  # a loaded replica turns a thousand times a second: members are looked after now and then
        self._front = FrontWatch(time.monotonic())
        self._access_changes = 0  # that connections were looked at for
        self._failed_command = False  # the log holds one, and no snapshot was asked for since
        self._failed_snapshot_at = 0.0  # when the next one may be

    def open(self, link: socket.socket) -> None:
        """Load the log and the snapshot, bind the socket. Raises Stop, InUse, DamagedLog, DiskFailed, OSError."""
        config = self._config
        disk = self._disk = PosixDisk(config.folder)
        self._lock = disk.lock()
        listener = _listen(config) if config.bind_addr else None
        storage = open_storage(disk, cluster=config.cluster, member=config.member, bootstrap=config.bootstrap)
        self._journal, self._known = storage.journal, storage.known
        quiet_s = max(JOIN_QUIET_S, 5 * config.timing.leader_fallback)
        self._membership = Membership(disk, storage.identity, config.peers, now=time.monotonic(), quiet_s=quiet_s)
        self._members = Members(config.member, self._journal, lambda: self._applier.state, config.listed)
        self._snapshots = Snapshots(disk, state=lambda: self._applier.state, install=self._install)
        self._node = self._make_node(listener)
        self._node.addOnTickCallback(self._before_waiting)
        self._changes = MemberChanges(self._node, self._members, self._journal, lambda: self._applier.state)
        self._link = Connection(
            self._node._poller, link, opened=_nothing, frame=self._on_front_frame, closed=self._on_front_gone
        )
        self._rest_of_frame = self._link.rest_of_frame
        self._link.begin()
        if storage.has_snapshot:
            self._tell_snapshot(self._journal.first_index + 1)  # first, so that the front loads it at the same time
            self._node.load_snapshot()
            self._snapshot_index = 0
        self._tell(raft_pb2.ReplicaFrame(started=raft_pb2.Started()))
        gc.set_threshold(*GC_THRESHOLD)
        gc.collect()
        gc.freeze()

    def turn(self) -> bool:
        """Run one tick; return False once the front is gone.

        Raises Stop, DamagedLog, DiskFailed, LogsDiverged, UnknownSchema.
        """
        self._node.tick(TICK_S)
        self._watch_front()
        if self._refusal:
            raise Stop(self._refusal)
        self._membership.decide(time.monotonic())
        if time.monotonic() >= self._follow_at:
            self._follow_at = time.monotonic() + TICK_S
            self._follow_members()
        if self._log_is_long() or self._holds_failed_command():
            self._node.forceLogCompaction()
        self._tell_status()
        return not self._front_gone

    def _follow_members(self) -> None:
        applied = self._applier.state.configuration
        if applied is not None and applied is not self._followed:
            self._followed = applied
            self._membership.is_settled()
            self._known.keep_only(ids(applied) | ids(self._members.newest().configuration))
        if isinstance(self._node.transport, PeerTransport):
            self._node.transport.part()
            changes = self._applier.state.access_changes
            if changes != self._access_changes:
                self._access_changes = changes
                self._node.transport.shut_out_revoked()
        if self._members.was_removed and not self._membership.identity.joining:
            self._membership.is_removed()
            raise Stop(removal_of(self._config.member))
        self._changes.turn()

    def close(self) -> None:
        self._node.destroy()
        self._disk.close()
        os.close(self._lock)

    def _watch_front(self) -> None:
        """Give up the lead where the front stands still, until it is heard again."""
        leads, leader = self._node._isLeader(), self._node._getLeader()
        other_leads = leader is not None and not leads
        speaks = self._front.turn(time.monotonic(), leads=leads, other_leads=other_leads)
        if speaks != self._node.may_lead:
            self._node.may_lead = speaks
            log.warning("the front speaks again" if speaks else "the front is silent: this member does not lead")

    def tell_failure(self, link: socket.socket, detail: str) -> None:
        """Write the last words, blocking: the front prints them.

        The front closes the link once it has read them. If this end went first, the front's next write would fail, and
        take with it what the front has not read.
        """
        frame = raft_pb2.ReplicaFrame(failed=raft_pb2.Failed(detail=detail)).SerializeToString()
        with contextlib.suppress(OSError):  # a front that is gone needs no words
            link.settimeout(_LAST_WORDS_S)
            link.sendall(self._rest_of_frame() + len(frame).to_bytes(4, "big") + frame)
            ends = time.monotonic() + _LAST_WORDS_S
            while time.monotonic() < ends and link.recv(_FEED_BYTES):
                pass

    def _log_is_long(self) -> bool:
        """Return whether to compact: beyond a bound, and beyond the last snapshot's size, so a large state is not
        written anew for each small log.
        """
        config, journal = self._config, self._journal
        bound = max(config.compact_bytes, self._snapshots.file_bytes)
        return len(journal) > config.compact_entries or journal.bytes > bound

    def _holds_failed_command(self) -> bool:
        """Return whether to compact for a command that was refused for a bug, or skipped, so that a later release, in
        which it might succeed, does not find it in this log. At most once in FAILED_SNAPSHOT_S."""
        now = time.monotonic()
        if not self._failed_command or now < self._failed_snapshot_at:
            return False
        self._failed_command, self._failed_snapshot_at = False, now + FAILED_SNAPSHOT_S
        return True

    def _make_node(self, listener: socket.socket | None) -> RaftNode:
        config = self._config

        def transport(raft: Any, me: Any, others: list[Any]) -> RuledTransport:
            if listener is None:
                return _Alone(raft, me, others, journal=self._journal, membership=self._membership)
            made = PeerTransport(
                raft,
                me,
                others,
                journal=self._journal,
                membership=self._membership,
                known=self._known,
                listener=listener,
                seeds=config.peers,
                joins_at=config.listed[config.member] if config.join else "",
                tls=_tls(config),
                timing=config.timing,
                book=AddressBook(
                    config.folder / "addresses.json",
                    unsaved=lambda why: log.warning("addresses of masters are not kept", why=why),
                ),
                refused=self._on_refused,
                revoked=lambda serial: self._applier.state.is_revoked(serial),
                shared=SharedToken(read_token(config.token_file)) if config.token_file else None,
            )
            self._snapshots.backlog = made.backlog
            return made

        return RaftNode(
            self._members,
            journal=self._journal,
            snapshots=self._snapshots,
            apply=self._apply,
            transport=transport,
            timing=config.timing,
        )

    def _apply(self, data: bytes) -> None:
        try:
            _, applied = self._applier.apply(data)
        except MachineBug as bug:
            entry = self._journal[self._node.raftLastApplied + 1 - self._journal.first_index]
            assert isinstance(entry, tuple), "of one index"
            raise with_way_out(bug, entry) from bug
        if any(isinstance(event, CommandFailed) for one in applied for event in one.events):
            self._failed_command = True

    def _install(self, state: ClusterState, index: int) -> None:
        self._applier.state = state
        self._snapshot_index = index

    def _on_refused(self, reason: str) -> None:
        self._refusal = reason

    # The front

    def _on_front_frame(self, _link: Connection, data: bytes) -> None:
        self._front.heard()
        frame = raft_pb2.ReplicaFrame.FromString(data)
        match frame.WhichOneof("message"):
            case "front_alive":
                pass
            case "propose":
                proposal = frame.propose.proposal
                self._node.propose(frame.propose.batch, lambda *why: self._tell_failed_proposal(proposal, *why))
            case "change_members":
                self._change_members(frame.change_members)
            case "transfer":
                self._node.transferLeadership()
            case "take_snapshot":
                self._node.forceLogCompaction()
            case "set_log_level":
                if logging := process_log.current():
                    logging.set_level(frame.set_log_level.level)
            case other:
                raise Stop(f"the front sent an unknown frame ({other}): start master and replica from one installation")

    def _change_members(self, asked: raft_pb2.ChangeMembers) -> None:
        add, changes = bool(asked.address), self._changes
        refusal = changes.add(asked.member, asked.address) if add else changes.remove(asked.member)
        answer = raft_pb2.MembersChanged(change=asked.change)
        if refusal is not None:
            answer.refusal, answer.again = refusal.detail, refusal.again
        self._tell(raft_pb2.ReplicaFrame(members_changed=answer))

    def _on_front_gone(self, _link: Connection, _reason: str) -> None:
        self._front_gone = True

    def _tell_failed_proposal(self, proposal: int, definite: bool, detail: str) -> None:
        failed = raft_pb2.ProposeFailed(proposal=proposal, definite=definite, detail=detail)
        self._tell(raft_pb2.ReplicaFrame(propose_failed=failed))

    def _before_waiting(self) -> None:
        """Tell of what this turn applied before it waits for a message: a caller waits for it."""
        self._membership.belongs_to(self._applier.state.cluster_id)
        self._feed_front()

    def _feed_front(self) -> None:
        """Sends what was applied since. What does not fit now is read from the log later, so nothing piles up here."""
        journal, applied = self._journal, self._node.raftLastApplied
        if self._told_index + 1 < journal.first_index and not self._snapshot_index:
            self._snapshot_index = journal.first_index + 1  # compacted away: the snapshot's last entry is the second
        if self._snapshot_index:
            self._tell_snapshot(self._snapshot_index)
            self._snapshot_index = 0
        while self._told_index < applied and self._link.unsent_bytes < _FEED_BYTES and not self._front_gone:
            self._told_index += 1
            entry = journal[self._told_index - journal.first_index]
            assert isinstance(entry, tuple)
            if entry[0][:1] in BATCHES:
                told = log_pb2.LogEntry(command=entry[0][1:], index=entry[1], term=entry[2])
                self._tell(raft_pb2.ReplicaFrame(applied=raft_pb2.Applied(entry=told)))

    def _tell_snapshot(self, index: int) -> None:
        path = str(self._config.folder / SNAPSHOT)
        self._tell(raft_pb2.ReplicaFrame(snapshot=raft_pb2.SnapshotReady(path=path, index=index)))
        self._told_index = index

    def _tell_status(self) -> None:
        """Tell the front what has changed; where nothing has, at times how far the log is."""
        node = self._node
        leader = node._getLeader()
        part = "leader" if node._isLeader() else "follower" if leader is not None else "candidate"
        levels, applicants = ({}, {}) if isinstance(node.transport, _Alone) else node.transport.seen()
        status = (part, node.raftCurrentTerm, leader.id if leader is not None else "", levels, applicants)
        now = time.monotonic()
        if status == self._told_status and now < self._next_status:  # no message is made in each turn
            return
        self._told_status, self._next_status = status, now + _STATUS_S
        told = raft_pb2.RoleChange(
            role=part,
            term=node.raftCurrentTerm,
            leader=status[2],
            connected=sorted(levels),
            newest_levels=levels,
            applicants=applicants,
            commit_index=node.raftCommitIndex,
            applied_index=node.raftLastApplied,
            log_bytes=self._journal.file_bytes,
            last_index=self._journal.last_index,
            acknowledged=node.acknowledged() if part == "leader" else {},
        )
        self._tell(raft_pb2.ReplicaFrame(role=told))

    def _tell(self, frame: raft_pb2.ReplicaFrame) -> None:
        self._link.send(frame.SerializeToString())


class _Alone(RuledTransport):
    """The transport of a cluster of one."""

    @property
    def ready(self) -> bool:
        return True

    def _transmit(self, node: Any, message: Any) -> bool:
        return False

    def destroy(self) -> None:
        pass


def main() -> None:
    """Run `python -m gosched.replication.replica FD CONFIG LOG`: the descriptor of a socket to the front, and JSON."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the front decides when both end
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.setswitchinterval(1e-4)  # a snapshot's encoding must not hold the tick up
    process_log.begin(**json.loads(sys.argv[3]), relay=False, process="replica")
    link = socket.socket(fileno=int(sys.argv[1]))
    replica = Replica(ReplicaConfig.from_json(sys.argv[2]))
    try:
        replica.open(link)
        while replica.turn():
            pass
        replica.close()
    except (Stop, InUse, DamagedLog, DiskFailed, LogsDiverged, UnknownSchema, MachineBug) as error:
        replica.tell_failure(link, str(error))
        sys.exit(1)
    except OSError as error:
        advice = f"{error}: check the addresses and certificates, then start this master again"
        replica.tell_failure(link, exhausted(error) or advice)
        sys.exit(1)
    except Exception as error:
        replica.tell_failure(link, failure_of(error, " with the traceback above"))
        if exhausted(error):
            sys.exit(1)
        raise


def _listen(config: ReplicaConfig) -> socket.socket:
    host, port = split_address(config.bind_addr)
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=64)
    except OSError as error:
        raise Stop(f"cannot listen on raft.bind_addr {config.bind_addr}: {error.strerror or error}") from error


def _tls(config: ReplicaConfig) -> TlsNow:
    """Return the contexts in use; the files are watched from now on."""
    if config.tls is None:
        return lambda: None
    roles = reader_of(TlsSettings.model_validate_json(config.tls_settings) if config.tls_settings else None)
    try:
        watch = TlsWatch(
            config.tls.cert, config.tls.key, config.tls.ca, log, says_refusals=False, roles=roles
        )  # the front says them
    except BadCertificate as error:
        raise Stop(f"tls: {error}") from error
    watch.watch_in_thread()
    made: tuple[TlsSet, Tls] | None = None

    def now() -> Tls:
        nonlocal made
        current = watch.current
        if made is None or made[0] is not current:
            made = current, _of_members(current, roles)
        return made[1]

    return now


def _of_members(tls: TlsSet, roles: RoleReader) -> Tls:
    for context in (tls.server, tls.client):
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    tls.client.check_hostname = False  # members are named by their certificates, not by their addresses
    return Tls(server=tls.server, client=tls.client, cluster=tls.holder.cluster, roles=roles)


def _nothing(_link: Connection) -> None:
    """Greet nobody: the front needs no more than `Started`."""


if __name__ == "__main__":
    main()
