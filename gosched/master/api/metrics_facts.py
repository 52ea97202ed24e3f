"""What a scrape reads of a master: of itself on each master, of the cluster on the leader alone.

Invariant: it is read when it is asked for, so that no gauge outlives what it describes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from gosched.core.state.cluster_state import ClusterState
from gosched.master.agents.leases import Leases
from gosched.master.api.status import StatusReader
from gosched.master.base.clock import Clock
from gosched.master.base.leadership import Leadership
from gosched.master.cluster.clock_keeper import ClockKeeper
from gosched.master.cluster.members import MemberControl
from gosched.master.planning.cycles import Cycles
from gosched.observe.counts import ClusterCounts
from gosched.observe.metrics import BackupGauges, ClusterFacts, RaftFacts, tally
from gosched.replication.interface import Replication


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsFacts:
    """Where the gauges come from."""

    replication: Replication
    leadership: Leadership
    cycles: Cycles
    counts: ClusterCounts
    leases: Leases
    members: MemberControl
    status: StatusReader
    keeper: ClockKeeper
    backup: Callable[[], BackupGauges | None]
    clock: Clock
    data_dir: str

    def raft(self) -> RaftFacts:
        role, (disk_bytes, free_bytes) = self.replication.role, _disk(self.data_dir)
        return RaftFacts(
            is_leader=bool(self.leadership.epoch),
            term=role.term,
            commit_index=role.commit_index,
            applied_index=role.applied_index,
            feature_level=self.replication.state.feature_level,
            log_bytes=role.log_bytes,
            disk_bytes=disk_bytes,
            disk_free_bytes=free_bytes,
            clock_offsets_s={master: ms / 1000 for master, ms in self.keeper.offsets_ms().items()},
        )

    def cluster(self) -> ClusterFacts | None:
        """Return what the leader counts; None on other masters."""
        if not self.leadership.epoch:
            return None
        state, explanations = self.replication.state, self.cycles.explanations
        pending = [(state.jobs[j].spec.queue, e.code) for j, e in explanations.items() if j in state.pending]
        masters = self.members.list()
        healthy = sum(master.healthy for master in masters)
        return ClusterFacts(
            counts=self.counts,
            pending=tally(pending),
            oldest_pending_s=oldest_pending_s(state, self.clock.now_ms()),
            healthy_masters=healthy,
            unreachable_masters=len(masters) - healthy,
            queues=self.status.queue_uses(),
            heartbeat_age_s=self.leases.oldest_age_s(),
            keeps_silent_nodes=bool(self.leases.doubt),
            fences=len(state.fences),
            reservations=len(state.reservations),
            state_bytes=state.footprint.by_kind(),
            backup=self.backup(),
        )


def _disk(folder: str) -> tuple[int, int]:
    """Return the size of the folder's disk and what is free of it, in bytes; zeros where it cannot be looked at."""
    try:
        found = os.statvfs(folder or ".")
    except OSError:
        return 0, 0
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize


def oldest_pending_s(state: ClusterState, now_ms: int) -> dict[str, float]:
    """Return, by queue, the time since the submission of the job that waits for longest."""
    since: dict[str, int] = {}
    for job_id in state.pending:
        job = state.jobs[job_id]
        queue = job.spec.queue
        since[queue] = min(job.submitted_at_ms, since.get(queue, job.submitted_at_ms))
    return {queue: max(0, now_ms - at_ms) / 1000 for queue, at_ms in since.items()}
