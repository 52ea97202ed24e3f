"""The cluster, its queues and its quotas in messages, from this master's own state. Each carries its revision."""

from __future__ import annotations

from collections.abc import Callable

from gosched import __version__
from gosched.core.limits import MAX_STATE_BYTES
from gosched.core.records.job import JobState
from gosched.core.records.node import NodeState
from gosched.core.records.tenant import Quota
from gosched.core.resources import ZERO
from gosched.core.sharing import as_map, resources_of
from gosched.master.backups.scheduled_backups import BackupFacts
from gosched.master.cluster.clock_keeper import ClockKeeper
from gosched.master.cluster.feature_levels import FeatureLevels
from gosched.master.cluster.members import MemberList
from gosched.observe.counts import ClusterCounts
from gosched.observe.sharing import QueueUse, Shares, queue_uses, tenant_uses
from gosched.replication.interface import Part, Replication
from gosched.wire.codec import fill
from gosched.wire.v1 import scheduler_pb2


class StatusReader:
    """`shares`: of the newest cycle; none on a master that does not lead."""

    def __init__(
        self,
        replication: Replication,
        counts: ClusterCounts,
        shares: Callable[[], Shares],
        keeper: ClockKeeper,
        levels: FeatureLevels,
        members: MemberList,
        backup: Callable[[], BackupFacts | None],
    ) -> None:
        self._replication = replication
        self._counts = counts
        self._shares = shares
        self._keeper = keeper
        self._levels = levels
        self._members = members
        self._backup = backup

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
            version=__version__,
            state_bytes=state.footprint.total,
            state_bytes_limit=MAX_STATE_BYTES,
            clock_ms=self._keeper.now_ms(),
            clock_problem=self._keeper.problem(),
            feature_level=state.feature_level,
            newest_feature_level=self._levels.common(),
        )
        fill(resources_of(state.total), status.total)
        fill(sum(state.charges.values(), ZERO), status.used)
        if (backup := self._backup()) is not None:
            status.backup.last_success_ms, status.backup.last_bytes = backup.last_success_ms, backup.last_bytes
            status.backup.failures, status.backup.problem = backup.failures, backup.problem
        status.queues.extend([_queue_status(use) for use in self.queue_uses().values()])
        return status

    def queue(self, path: str) -> scheduler_pb2.QueueStatus | None:
        use = self.queue_uses().get(path)
        return _queue_status(use) if use else None

    def queue_uses(self) -> dict[str, QueueUse]:
        return queue_uses(self._replication.state, self._counts, self._shares())

    def quotas(self) -> scheduler_pb2.ListQuotasResponse:
        state = self._replication.state
        answer = scheduler_pb2.ListQuotasResponse(revision=state.revision)
        for tenant, use in sorted(tenant_uses(state).items()):
            item = answer.quotas.add(used=dict(as_map(use.used)), running_jobs=use.running_jobs)
            fill(state.quotas.get(tenant, Quota(tenant=tenant)), item.quota)
            fill(use.spent, item.spent)
        return answer

    def _masters(self) -> list[scheduler_pb2.MasterStatus]:
        """All members, also those that have not said yet where they listen."""
        role, me = self._replication.role, self._replication.member_id
        offsets_ms = self._keeper.offsets_ms()
        levels = self._levels.newest()
        versions = {**self._keeper.versions, me: __version__}
        addresses = self._members.others()
        masters = []
        for member in sorted([me, *addresses]):
            record = self._replication.state.masters.get(member)
            healthy = member == me or member in role.connected
            masters.append(
                scheduler_pb2.MasterStatus(
                    id=member,
                    address=record.grpc_address if record else addresses.get(member, ""),
                    role=self._part_of(member, healthy),
                    healthy=healthy,
                    grpc_address=record.grpc_address if record else "",
                    http_address=record.http_address if record else "",
                    clock_offset_ms=offsets_ms.get(member),
                    newest_feature_level=levels.get(member, 0),
                    version=versions.get(member, "") if healthy else "",
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


def _queue_status(use: QueueUse) -> scheduler_pb2.QueueStatus:
    message = scheduler_pb2.QueueStatus(
        path=use.queue.path,
        type=use.queue.type.name.lower(),
        pending=use.pending,
        running=use.running,
        used=dict(as_map(use.used)),
        demand=dict(as_map(use.demand)),
        fair_share=use.fair_share,
        ceiling=use.ceiling,
    )
    fill(use.queue, message.rules)
    return message
