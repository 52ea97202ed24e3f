"""The in-memory twin of replication, for tests: members in one process share a list of log entries.

Invariant: it keeps what `Replication` promises, down to the encoding of each entry; only disks and sockets are
missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from gosched.core.commands.cluster import Noop
from gosched.core.commands.command import Command
from gosched.core.features import NEWEST_LEVEL
from gosched.core.outcome import Outcome
from gosched.core.state.cluster_state import ClusterState
from gosched.replication.applier import Applier
from gosched.replication.interface import AppliedBatch, ChangeRefused, Observer, Part, ProposalFailed, Role, listening
from gosched.wire.batch import encode_batch, encode_command


class MemoryCluster:
    """Members that share one log. `elect` moves leadership; a member that is cut off applies nothing."""

    def __init__(self, *ids: str) -> None:
        self.log: list[bytes] = []
        self.term = 0
        self.members: dict[str, MemoryReplication] = {}
        self.levels: dict[str, int] = {}  # of members that play an older release: the newest that they know
        for member_id in ids:
            MemoryReplication(member_id, self)  # joins by itself

    def elect(self, leader: str) -> None:
        self.term += 1
        for member in self.members.values():
            member.take_role(leader)

    def publish(self) -> None:
        for member in self.members.values():
            member.catch_up()


class MemoryReplication:
    """A `Replication` without a process. On its own it is a cluster of one and leads from `start` on."""

    def __init__(self, member_id: str, cluster: MemoryCluster | None = None) -> None:
        self._alone = cluster is None
        self._cluster = cluster or MemoryCluster()
        self._cluster.members[member_id] = self
        self._id = member_id
        self._applier = Applier()
        self._applied = 0
        self._proposals = 0
        self._results: dict[int, list[Outcome]] = {}
        self._listeners: list[Callable[[AppliedBatch], None]] = []
        self._role_listeners: list[Callable[[Role], None]] = []
        self._role = Role()
        self.cut_off = False
        self.on_fault: Callable[[str, Exception], None] = lambda name, error: None

    @property
    def state(self) -> ClusterState:
        return self._applier.state

    @property
    def role(self) -> Role:
        return self._role

    @property
    def member_id(self) -> str:
        return self._id

    @property
    def silent_s(self) -> float:
        return 0.0

    @property
    def failure(self) -> str:
        return ""

    async def start(self) -> None:
        if self._alone:
            self._cluster.elect(self._id)

    async def close(self) -> None:
        self._cluster.members.pop(self._id, None)

    async def propose(self, commands: Sequence[Command], *, timeout_s: float = 10.0) -> list[Outcome]:
        if self._role.part is not Part.LEADER:
            raise ProposalFailed("this member does not lead", definite=True)
        if self.cut_off:
            await asyncio.sleep(timeout_s)
            raise ProposalFailed("no majority answered in time", definite=False)
        self._proposals += 1
        proposal = self._proposals
        messages = [encode_command(c) for c in commands]
        self._cluster.log.append(encode_batch(self._id, proposal, messages, level=self.state.feature_level))
        self._cluster.publish()
        return self._results.pop(proposal)

    async def barrier(self, *, timeout_s: float = 10.0) -> int:
        await self.propose([Command(body=Noop())], timeout_s=timeout_s)
        return self.state.revision

    def follow(self, listener: Callable[[AppliedBatch], None]) -> None:
        self._listeners.append(listening(listener, self._fault))

    def observe(self, observer: Observer) -> None:
        self._applier.observers.append(listening(observer, self._fault))

    def watch_role(self, listener: Callable[[Role], None]) -> None:
        self._role_listeners.append(listening(listener, self._fault))

    def _fault(self, name: str, error: Exception) -> None:
        self.on_fault(name, error)

    def say_alive(self) -> None:
        pass

    async def transfer_leadership(self) -> None:
        others = [i for i in self._cluster.members if i != self._id]
        if others:
            self._cluster.elect(others[0])

    async def take_snapshot(self) -> None:
        pass  # there is no log on disk to shorten

    def set_log_level(self, level: str) -> None:
        pass  # there is no replica beside this process

    async def change_members(self, member: str, address: str, *, timeout_s: float = 5.0) -> None:
        raise ChangeRefused("members in memory stay as they are", again=False)

    def take_role(self, leader: str) -> None:
        if self.cut_off:
            return
        part = Part.LEADER if leader == self._id else Part.FOLLOWER
        others = tuple(i for i in self._cluster.members if i != self._id)
        self._role = Role(
            part=part,
            term=self._cluster.term,
            leader=leader,
            connected=others,
            newest_levels={other: self._cluster.levels.get(other, NEWEST_LEVEL) for other in others},
        )
        for listener in self._role_listeners:
            listener(self._role)

    def catch_up(self) -> None:
        while not self.cut_off and self._applied < len(self._cluster.log):
            data = self._cluster.log[self._applied]
            self._applied += 1
            batch, applied = self._applier.apply(data)
            if batch.proposer == self._id:
                self._results[batch.proposal] = [a.outcome for a in applied]
            for listener in self._listeners:
                listener(AppliedBatch(index=self._applied, commands=applied))
