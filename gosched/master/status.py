"""The cluster in one message, from this master's own state. It carries the revision it was made at."""

from __future__ import annotations

from gosched import __version__
from gosched.config import MasterSettings
from gosched.core.cluster import NodeState
from gosched.core.job import JobState
from gosched.core.resources import ZERO, Resources
from gosched.observe.counts import ClusterCounts
from gosched.replication.interface import Part, Replication
from gosched.wire.codec import fill
from gosched.wire.v1 import scheduler_pb2


class StatusReader:
    def __init__(self, replication: Replication, counts: ClusterCounts, settings: MasterSettings) -> None:
        self._replication = replication
        self._counts = counts
        self._raft_addresses = {p.id: p.address for p in settings.raft.others} if settings.raft.enabled else {}

    def read(self) -> scheduler_pb2.ClusterStatus:
        state, counts = self._replication.state, self._counts
        status = scheduler_pb2.ClusterStatus(
            leader=self._replication.role.leader,
            epoch=state.epoch,
            revision=state.revision,
            masters=self._masters(),
            nodes=len(state.nodes),
            nodes_ready=counts.nodes[NodeState.READY],
            jobs=len(state.jobs),
            pending=counts.jobs_being(JobState.PENDING),
            running=counts.jobs_being(JobState.RUNNING),
            digest=state.digest(),
            version=__version__,
        )
        living = [node.capacity for node in state.nodes.values() if node.state is not NodeState.DEAD]
        fill(_sum(living), status.total)
        fill(_sum([held for held in state.usage.values() if held is not ZERO]), status.used)
        for queue in state.queues.values():
            item = status.queues.add(
                path=queue.path,
                type=queue.type.name.lower(),
                pending=counts.jobs_in(queue.path, JobState.PENDING),
                running=counts.jobs_in(queue.path, JobState.RUNNING),
            )
            fill(counts.used.get(queue.path, ZERO), item.used)
        return status

    def _masters(self) -> list[scheduler_pb2.MasterStatus]:
        """All members, also those that have not said yet where they listen."""
        role, me = self._replication.role, self._replication.member_id
        masters = []
        for member in sorted([me, *self._raft_addresses]):
            record = self._replication.state.masters.get(member)
            healthy = member == me or member in role.connected
            masters.append(
                scheduler_pb2.MasterStatus(
                    id=member,
                    address=record.grpc_address if record else self._raft_addresses.get(member, ""),
                    role=self._part_of(member, healthy),
                    healthy=healthy,
                    grpc_address=record.grpc_address if record else "",
                    http_address=record.http_address if record else "",
                )
            )
        return masters

    def _part_of(self, member: str, healthy: bool) -> str:
        role = self._replication.role
        if member == role.leader:
            return Part.LEADER.value
        if member == self._replication.member_id:
            return role.part.value
        return Part.FOLLOWER.value if healthy and role.leader else "unknown"


def _sum(amounts: list[Resources]) -> Resources:
    """Field by field: a vector for each of ten thousand nodes would cost the loop milliseconds."""
    return Resources(
        cpu_millis=sum([r.cpu_millis for r in amounts]),
        memory_bytes=sum([r.memory_bytes for r in amounts]),
        storage_bytes=sum([r.storage_bytes for r in amounts]),
        gpu_millis=sum([r.gpu_millis for r in amounts]),
    )
