"""The cluster, its queues and its quotas, from this master's own state."""

from __future__ import annotations

from collections.abc import Callable

from gosched import __version__
from gosched.api.status import BackupStatus, MasterStatus, QueueStatus, QuotaStatus, Status
from gosched.core.limits import MAX_STATE_BYTES
from gosched.core.records.job import JobState
from gosched.core.records.node import NodeState
from gosched.core.records.tenant import Quota
from gosched.core.resources import ZERO
from gosched.core.sharing import as_map, resources_of
from gosched.master.cluster.clock_keeper import ClockKeeper
from gosched.master.cluster.feature_levels import FeatureLevels
from gosched.master.cluster.members import MemberList
from gosched.observe.counts import ClusterCounts
from gosched.observe.sharing import QueueUse, Shares, queue_uses, tenant_uses
from gosched.replication.interface import Part, Replication


class StatusReader:
    """`shares`: of the newest cycle; none on a master that does not lead. `load_problem`: why silent nodes are not
    given up; empty: they are, or this master does not lead."""

    def __init__(
        self,
        replication: Replication,
        counts: ClusterCounts,
        shares: Callable[[], Shares],
        keeper: ClockKeeper,
        levels: FeatureLevels,
        members: MemberList,
        backup: Callable[[], BackupStatus | None],
        load_problem: Callable[[], str] = str,
    ) -> None:
        self._replication = replication
        self._counts = counts
        self._shares = shares
        self._keeper = keeper
        self._levels = levels
        self._members = members
        self._backup = backup
        self._load_problem = load_problem

    def read(self) -> Status:
        state, counts = self._replication.state, self._counts
        return Status(
            leader=self._replication.role.leader,
            epoch=state.epoch,
            revision=state.revision,
            masters=self._masters(),
            nodes=len(state.nodes),
            nodes_ready=counts.nodes[NodeState.READY],
            jobs=len(state.jobs),
            pending=counts.jobs_being(JobState.PENDING),
            running=counts.jobs_being(JobState.RUNNING),
            total=resources_of(state.total),
            used=sum(state.charges.values(), ZERO),
            queues=tuple([_queue_status(use) for use in self.queue_uses().values()]),
            digest="",
            version=__version__,
            state_bytes=state.footprint.total,
            state_bytes_limit=MAX_STATE_BYTES,
            clock_ms=self._keeper.now_ms(),
            clock_problem=self._keeper.problem(),
            load_problem=self._load_problem(),
            feature_level=state.feature_level,
            newest_feature_level=self._levels.common(),
            backup=self._backup(),
        )

    def queue(self, path: str) -> QueueStatus | None:
        use = self.queue_uses().get(path)
        return _queue_status(use) if use else None

    def queue_uses(self) -> dict[str, QueueUse]:
        return queue_uses(self._replication.state, self._counts, self._shares())

    def quotas(self) -> list[QuotaStatus]:
        state = self._replication.state
        return [
            QuotaStatus(
                quota=state.quotas.get(tenant, Quota(tenant=tenant)),
                used=as_map(use.used),
                running_jobs=use.running_jobs,
                spent=use.spent,
            )
            for tenant, use in sorted(tenant_uses(state).items())
        ]

    def _masters(self) -> tuple[MasterStatus, ...]:
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
                MasterStatus(
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
        return tuple(masters)

    def _part_of(self, member: str, healthy: bool) -> str:
        role = self._replication.role
        if member == role.leader:
            return Part.LEADER.value
        if member == self._replication.member_id:
            return role.part.value
        return Part.FOLLOWER.value if healthy and role.leader else "unknown"


def _queue_status(use: QueueUse) -> QueueStatus:
    return QueueStatus(
        path=use.queue.path,
        type=use.queue.type.name.lower(),
        pending=use.pending,
        running=use.running,
        used=as_map(use.used),
        demand=as_map(use.demand),
        fair_share=tuple(sorted(use.fair_share.items())),
        ceiling=tuple(sorted(use.ceiling.items())),  # a ceiling of 0 is one
        rules=use.queue,
    )
