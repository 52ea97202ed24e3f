"""Replication as the front of a master sees it: a replica in a process of its own, behind a socket pair.

The front follows the applied log and keeps its own copy of the state with the same `apply`. Proposals that arrive
together travel together (`group_commit`), and a proposal's outcome is what the front's own state says at the entry.

Invariant: a future or a task that callers wait for never holds an exception, but a failure as its result: its callers
may have gone meanwhile, and the exception would never be looked at.
"""

from __future__ import annotations

import asyncio
import gc
import json
import math
import secrets
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from gosched.core.commands.cluster import Noop
from gosched.core.commands.command import Command
from gosched.core.outcome import Outcome
from gosched.core.state.cluster_state import ClusterState
from gosched.logs import process as process_log
from gosched.logs.failures import exhausted, failure_of
from gosched.replication.applier import Applier
from gosched.replication.disk.damage import DamagedLog
from gosched.replication.group_commit import GroupCommit
from gosched.replication.interface import (
    AppliedBatch,
    ChangeRefused,
    Observer,
    Part,
    ProposalFailed,
    ReplicaFailed,
    Role,
    listening,
)
from gosched.replication.peer_messages import REGULAR
from gosched.replication.replica_config import ReplicaConfig
from gosched.replication.skipping import with_way_out
from gosched.replication.snapshots.snapshot import decode, restored
from gosched.state_machine import MachineBug
from gosched.wire.batch import UnknownSchema, encode_batch
from gosched.wire.v1 import log_pb2, raft_pb2

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 5.0
_ALIVE_S = 0.25  # between two signs of life to the replica, where nothing is done
_ALIVE_LEAST_S = 0.05  # between two of a front that is at work
_MAX_UNREAD_BYTES = 1 << 20  # of a replica that does not read: it needs no sign of life then
_SLICE_S = 0.005  # of applying, before the loop serves others


class ProcessReplication:
    """A `Replication` whose replica is another process.

    When the replica ends by itself, `failure` says why and `on_failure` is called.
    """

    def __init__(self, config: ReplicaConfig) -> None:
        self._config = config
        self._applier = Applier()
        self._role = Role()
        self._failure = ""
        self._heard_at = time.monotonic()
        self._said_alive_at = math.inf  # there is nobody to tell yet
        self._proposer = secrets.token_hex(8)
        self._proposals = GroupCommit(self._send_entry)
        self._change_count = 0
        self._changes: dict[int, asyncio.Future[ChangeRefused | None]] = {}  # members' that wait for an answer
        self._barrier: asyncio.Task[int | ProposalFailed] | None = None
        self._listeners: list[Callable[[AppliedBatch], None]] = []
        self._role_listeners: list[Callable[[Role], None]] = []
        self._process: asyncio.subprocess.Process | None = None
        self._started = asyncio.Event()
        self._closing = False
        self.on_failure: Callable[[str], None] = lambda detail: None
        self.on_fault: Callable[[str, Exception], None] = lambda name, error: None

    @property
    def state(self) -> ClusterState:
        return self._applier.state

    @property
    def role(self) -> Role:
        return self._role

    @property
    def member_id(self) -> str:
        return self._config.member

    @property
    def silent_s(self) -> float:
        return time.monotonic() - self._heard_at

    @property
    def failure(self) -> str:
        return self._failure

    @property
    def pid(self) -> int:
        """Return the replica's process id; 0 before `start`."""
        return self._process.pid if self._process else 0

    def follow(self, listener: Callable[[AppliedBatch], None]) -> None:
        self._listeners.append(listening(listener, self._fault))

    def observe(self, observer: Observer) -> None:
        self._applier.observers.append(listening(observer, self._fault))

    def watch_role(self, listener: Callable[[Role], None]) -> None:
        self._role_listeners.append(listening(listener, self._fault))

    async def start(self) -> None:
        ours, theirs = socket.socketpair()
        logging = process_log.current()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "gosched.replication.replica",
                str(theirs.fileno()),
                self._config.to_json(),
                json.dumps(logging.for_child() if logging else {}),
                pass_fds=[theirs.fileno(), *([logging.real_fd] if logging else [])],
                stdin=asyncio.subprocess.DEVNULL,
            )
        self._reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=1 << 24)
        self._said_alive_at = 0.0
        self._reading = asyncio.create_task(self._read())
        self._living = asyncio.create_task(self._keep_saying_alive())
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await self._started.wait()
        except TimeoutError:
            self._failure = self._failure or f"the replica was not ready within {START_TIMEOUT_S:.0f} s"
        if self._failure:
            await self.close()
            raise ReplicaFailed(self._failure)

    async def close(self) -> None:
        """End the replica. It may be called before `start`, and twice."""
        self._closing = True
        if self._process is None:
            return
        self._writer.close()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        self._reading.cancel()
        self._living.cancel()
        self._proposals.fail_all("this master ends")

    async def propose(self, commands: Sequence[Command], *, timeout_s: float = 10.0) -> list[Outcome]:
        if self._failure or self._closing:
            raise ProposalFailed(self._failure or "this master ends", definite=True)
        if self._role.part is not Part.LEADER:
            raise ProposalFailed("this member does not lead", definite=True)
        return await self._proposals.propose(commands, timeout_s)

    async def barrier(self, *, timeout_s: float = 10.0) -> int:
        # A barrier that is not sent yet also covers this call; once it is sent, the next one does.
        if self._barrier is None:
            self._barrier = asyncio.create_task(self._commit_noop(timeout_s))
        reached = await asyncio.shield(self._barrier)
        if isinstance(reached, ProposalFailed):
            raise ProposalFailed(str(reached), definite=reached.definite)  # each caller its own
        return reached

    async def transfer_leadership(self) -> None:
        self._send(raft_pb2.ReplicaFrame(transfer=raft_pb2.TransferLeadership()))

    def set_log_level(self, level: str) -> None:
        if self._process is not None and not self._closing:
            self._send(raft_pb2.ReplicaFrame(set_log_level=raft_pb2.SetLogLevel(level=level)))

    async def take_snapshot(self) -> None:
        self._send(raft_pb2.ReplicaFrame(take_snapshot=raft_pb2.TakeSnapshot()))

    async def change_members(self, member: str, address: str, *, timeout_s: float = 5.0) -> None:
        if self._failure or self._closing:
            raise ChangeRefused(self._failure or "this master ends", again=True)
        self._change_count += 1
        change = self._change_count
        answer = self._changes[change] = asyncio.get_running_loop().create_future()
        asked = raft_pb2.ChangeMembers(change=change, member=member, address=address)
        self._send(raft_pb2.ReplicaFrame(change_members=asked))
        try:
            async with asyncio.timeout(timeout_s):
                refusal = await answer
        except TimeoutError:
            raise ChangeRefused("the replica did not answer in time", again=True) from None
        finally:
            del self._changes[change]
        if refusal is not None:
            raise refusal

    async def _commit_noop(self, timeout_s: float) -> int | ProposalFailed:
        await asyncio.sleep(0)  # callers of this turn of the loop share it
        self._barrier = None
        try:
            await self.propose([Command(body=Noop(), at_ms=0)], timeout_s=timeout_s)
        except ProposalFailed as failed:
            return failed
        return self.state.revision

    def _fault(self, name: str, error: Exception) -> None:
        self.on_fault(name, error)

    # Out to the replica

    def _send_entry(self, number: int, commands: Sequence[log_pb2.Command]) -> None:
        batch = encode_batch(self._proposer, number, commands, level=self._applier.state.feature_level)
        self._send(raft_pb2.ReplicaFrame(propose=raft_pb2.Propose(proposal=number, batch=batch)))

    def say_alive(self) -> None:
        now = time.monotonic()
        if now - self._said_alive_at < _ALIVE_LEAST_S or self._closing:
            return
        self._said_alive_at = now
        if self._writer.transport.get_write_buffer_size() < _MAX_UNREAD_BYTES:
            self._send(raft_pb2.ReplicaFrame(front_alive=raft_pb2.FrontAlive()))

    async def _keep_saying_alive(self) -> None:
        """Tells the replica that this loop turns: a leader whose front stands still must give up the lead."""
        while not self._closing:
            try:
                self.say_alive()
            except Exception as error:  # of whatever kind: without a sign of life a leader gives up the lead
                self._fault("signs of life", error)
            await asyncio.sleep(_ALIVE_S)

    def _send(self, frame: raft_pb2.ReplicaFrame) -> None:
        data = frame.SerializeToString()
        self._writer.write(len(data).to_bytes(4, "big") + data)

    # The applied log in

    async def _read(self) -> None:
        failure = "the replica process ended"
        try:
            await self._read_frames()
        except asyncio.IncompleteReadError:
            pass  # the replica is gone, and did not say why
        except (DamagedLog, UnknownSchema, MachineBug, OSError) as error:
            failure = exhausted(error) or str(error)
        except Exception as error:
            failure = failure_of(error)
            if not exhausted(error):
                raise
        finally:
            if not self._closing:
                self._failure = self._failure or failure
                self._proposals.fail_all(self._failure)
                self._started.set()
                self.on_failure(self._failure)

    async def _read_frames(self) -> None:
        slice_end = time.monotonic() + _SLICE_S
        while True:
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            frame = raft_pb2.ReplicaFrame.FromString(await self._reader.readexactly(size))
            self._heard_at = time.monotonic()
            await self._take(frame)
            if self._failure:
                return
            if time.monotonic() > slice_end:
                await asyncio.sleep(0)
                slice_end = time.monotonic() + _SLICE_S

    async def _take(self, frame: raft_pb2.ReplicaFrame) -> None:
        match frame.WhichOneof("message"):
            case "applied":
                self._apply(frame.applied.entry)
            case "propose_failed":
                failed = frame.propose_failed
                self._proposals.fail(failed.proposal, ProposalFailed(failed.detail, definite=failed.definite))
            case "members_changed":
                self._take_change(frame.members_changed)
            case "snapshot":
                await self._load(frame.snapshot)
            case "role":
                self._take_role(frame.role)
            case "started":
                self._started.set()
            case "failed":
                self._failure = frame.failed.detail
            case other:
                raise ValueError(f"the replica sent an unknown frame ({other})")

    def _apply(self, entry: log_pb2.LogEntry) -> None:
        if entry.index <= self._role.applied_index:
            return  # the snapshot that was loaded holds it
        try:
            batch, applied = self._applier.apply(entry.command)
        except MachineBug as bug:
            raise with_way_out(bug, (REGULAR + entry.command, entry.index, entry.term)) from bug
        self._note_applied(entry.index)
        self._tell(AppliedBatch(index=entry.index, commands=applied))
        if batch.proposer == self._proposer:
            self._proposals.resolve(batch.proposal, applied)

    def _take_change(self, message: raft_pb2.MembersChanged) -> None:
        answer = self._changes.get(message.change)
        if answer is not None and not answer.done():
            refused = ChangeRefused(message.refusal, again=message.again) if message.refusal else None
            answer.set_result(refused)

    async def _load(self, ready: raft_pb2.SnapshotReady) -> None:
        def read() -> tuple[ClusterState, int]:
            snapshot = decode(Path(ready.path).read_bytes())
            return restored(snapshot), snapshot.last[1]

        self._proposals.fail_sent("the log was replaced by a snapshot before it told what became of the command")
        gc.disable()
        try:
            self._applier.state, index = await asyncio.to_thread(read)
        finally:
            gc.freeze()
            gc.enable()
        self._note_applied(index)
        self._tell(AppliedBatch(index=index, reset=True))

    def _tell(self, batch: AppliedBatch) -> None:
        for listener in self._listeners:
            listener(batch)

    def _note_applied(self, index: int) -> None:
        commit = max(self._role.commit_index, index)
        self._role = replace(self._role, applied_index=index, commit_index=commit)

    def _take_role(self, message: raft_pb2.RoleChange) -> None:
        before = self._role
        self._role = Role(
            part=Part(message.role),
            term=message.term,
            leader=message.leader,
            commit_index=message.commit_index,
            applied_index=before.applied_index,
            connected=tuple(message.connected),
            newest_levels=dict(message.newest_levels),
            log_bytes=message.log_bytes,
            last_index=message.last_index,
            acknowledged=dict(message.acknowledged),
            applicants=dict(message.applicants),
        )
        if before.part is Part.LEADER and self._role.part is not Part.LEADER:
            self._proposals.fail_all("this member lost leadership before the command was applied")
        for listener in self._role_listeners:
            listener(self._role)
