"""What the client returns: frozen records. Jobs, tasks, nodes, queues and quotas are records of gosched.core."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.records.job import Job, JobState
from gosched.core.records.node import Node
from gosched.core.records.queue import Queue
from gosched.core.records.task import Task
from gosched.core.records.tenant import Quota
from gosched.core.records.usage import Spent
from gosched.core.resources import AmountMap, Resources
from gosched.wire.codec import map_pairs, to_record
from gosched.wire.v1 import cluster_pb2, node_pb2, scheduler_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterStatus:
    """`role`: leader, follower, candidate or unknown. `address`: of its Raft member. `clock_offset_ms`: its wall clock
    is so far ahead of the state's clock; None: not known. `newest_feature_level`: that it knows; 0: it is away, or of a
    release that does not say, as is an empty `version`."""

    id: str
    address: str
    role: str
    healthy: bool
    grpc_address: str
    http_address: str
    clock_offset_ms: int | None = None
    newest_feature_level: int = 0
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """Amounts by resource, as in a queue's `limit`; of an inner queue, sums over the queues below it.

    `demand`: of the jobs that wait to start. `fair_share`: by the newest cycle; empty before the first one. `ceiling`:
    the most that it may hold; what it does not name has no limit. `rules`: the queue as it was set.
    """

    path: str
    type: str
    pending: int
    running: int
    used: AmountMap
    demand: AmountMap
    fair_share: AmountMap
    ceiling: AmountMap
    rules: Queue

    @staticmethod
    def of(message: scheduler_pb2.QueueStatus) -> QueueStatus:
        return QueueStatus(
            path=message.path,
            type=message.type,
            pending=message.pending,
            running=message.running,
            used=map_pairs(message.used),
            demand=map_pairs(message.demand),
            fair_share=map_pairs(message.fair_share),
            ceiling=map_pairs(message.ceiling),
            rules=to_record(message.rules, Queue),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaStatus:
    """`used`, `running_jobs`: what the tenant holds now in all queues. `spent`: since its first job."""

    quota: Quota
    used: AmountMap
    running_jobs: int
    spent: Spent

    @staticmethod
    def of(message: scheduler_pb2.QuotaStatus) -> QuotaStatus:
        return QuotaStatus(
            quota=to_record(message.quota, Quota),
            used=map_pairs(message.used),
            running_jobs=message.running_jobs,
            spent=to_record(message.spent, Spent),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupStatus:
    """Of scheduled backups. `last_success_ms` 0: none is known; `failures`: since the leader was started; `problem`: of
    the last try, empty when it went well."""

    last_success_ms: int
    last_bytes: int
    failures: int
    problem: str

    @staticmethod
    def of(message: scheduler_pb2.BackupStatus) -> BackupStatus:
        return BackupStatus(
            last_success_ms=message.last_success_ms,
            last_bytes=message.last_bytes,
            failures=message.failures,
            problem=message.problem,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Counts of the whole cluster. `jobs` counts all that are kept; `digest` is of the state at `revision`, if asked
    for. `state_bytes`: what the replicated state takes, of `state_bytes_limit`; both 0 from an older master.
    `clock_ms`: now, by the state's clock; `clock_problem`: what is wrong with it or with the masters' clocks, and what
    to do, in one line; empty: nothing."""

    leader: str
    epoch: int
    revision: int
    masters: tuple[MasterStatus, ...]
    nodes: int
    nodes_ready: int
    jobs: int
    pending: int
    running: int
    total: Resources
    used: Resources
    queues: tuple[QueueStatus, ...]
    digest: str
    version: str
    state_bytes: int = 0
    state_bytes_limit: int = 0
    clock_ms: int = 0
    clock_problem: str = ""
    feature_level: int = 0
    newest_feature_level: int = 0  # that all masters know; 0: one is away
    backup: BackupStatus | None = None  # None: none is scheduled

    @staticmethod
    def of(message: scheduler_pb2.ClusterStatus) -> Status:
        return Status(
            leader=message.leader,
            epoch=message.epoch,
            revision=message.revision,
            masters=tuple(
                MasterStatus(
                    id=m.id,
                    address=m.address,
                    role=m.role,
                    healthy=m.healthy,
                    grpc_address=m.grpc_address,
                    http_address=m.http_address,
                    clock_offset_ms=m.clock_offset_ms if m.HasField("clock_offset_ms") else None,
                    newest_feature_level=m.newest_feature_level,
                    version=m.version,
                )
                for m in message.masters
            ),
            nodes=message.nodes,
            nodes_ready=message.nodes_ready,
            jobs=message.jobs,
            pending=message.pending,
            running=message.running,
            total=to_record(message.total, Resources),
            used=to_record(message.used, Resources),
            queues=tuple(QueueStatus.of(q) for q in message.queues),
            digest=message.digest,
            version=message.version,
            state_bytes=message.state_bytes,
            state_bytes_limit=message.state_bytes_limit,
            clock_ms=message.clock_ms,
            clock_problem=message.clock_problem,
            feature_level=message.feature_level,
            newest_feature_level=message.newest_feature_level,
            backup=BackupStatus.of(message.backup) if message.HasField("backup") else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReset:
    """What the state's clock was and is. `unchanged`: it was right already."""

    from_ms: int
    to_ms: int
    unchanged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterMember:
    """A member of the replicated log."""

    id: str
    #: host:port of its replica.
    address: str
    #: leader, voter or learner.
    role: str
    #: The leader is connected to it.
    healthy: bool
    #: Entries of the log that it has not acknowledged; None: it has said nothing yet.
    behind: int | None
    #: host:port of its front; empty: not known yet.
    grpc_address: str

    @staticmethod
    def of(message: cluster_pb2.MemberStatus) -> MasterMember:
        return MasterMember(
            id=message.id,
            address=message.address,
            role=message.role,
            healthy=message.healthy,
            behind=message.behind if message.HasField("behind") else None,
            grpc_address=message.grpc_address,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgraded:
    """The cluster's feature level; `unchanged`: it was so already."""

    feature_level: int
    unchanged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """`unchanged`: a live job of this name and spec was there already."""

    job_id: str
    warnings: tuple[str, ...]
    unchanged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Controlled:
    """`unchanged`: it was so already."""

    job_id: str
    unchanged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail:
    """A job and its tasks at one revision. `waiting_for` says why a pending job waits: a code and a line.
    `failed_elements`: names of the elements of an array that failed last."""

    job: Job
    tasks: tuple[Task, ...]
    waiting_for: tuple[str, str] | None
    revision: int
    failed_elements: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return self.job.id

    @property
    def state(self) -> JobState:
        """As it is shown: SUSPENDED of a frozen job."""
        return self.job.shown_state

    @property
    def exit_code(self) -> int:
        """The job's own: 0 when it succeeded; of its first failed task; 1 when there is none to name."""
        if self.job.state is JobState.SUCCEEDED:
            return 0
        return self.job.exit_code or 1

    @staticmethod
    def of(message: scheduler_pb2.JobView) -> JobDetail:
        explained = message.explanation
        return JobDetail(
            job=to_record(message.job, Job),
            tasks=tuple(to_record(task, Task) for task in message.tasks),
            waiting_for=(explained.code, explained.message) if explained.message or explained.code else None,
            revision=message.revision,
            failed_elements=tuple(message.failed_elements),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A job that would have to give way, or elastic tasks of it: `tasks` of them, `whole` if it is all. `cause`:
    preempt, reclaim, backfill or window. `lost_ms`: work since its start or last checkpoint, times its tasks."""

    job_id: str
    name: str
    tasks: int
    whole: bool
    cause: str
    lost_ms: int

    @staticmethod
    def of(message: scheduler_pb2.Victim) -> Victim:
        return Victim(
            job_id=message.job_id,
            name=message.name,
            tasks=message.tasks,
            whole=message.whole,
            cause=message.cause,
            lost_ms=message.lost_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A job that holds what another one waits for. `until_ms` 0: nobody knows."""

    job_id: str
    name: str
    queue: str
    held: AmountMap
    until_ms: int

    @staticmethod
    def of(message: scheduler_pb2.Holder) -> Holder:
        return Holder(
            job_id=message.job_id,
            name=message.name,
            queue=message.queue,
            held=map_pairs(message.held),
            until_ms=message.until_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExplanation:
    """What holds a pending job: `code` (empty before a cycle has looked at it) and one line; its `position` in its
    queue (1 is next, 0: not known); the `limit` that holds it; how many nodes each filter `refused`; the `nearest`
    miss. `nodes`: where tasks of it are now, and how many. `queue` is None when the queue is gone.

    `start_ms`: the estimated start (0: unknown), and in `start_from` what that rests on. `holders`: who holds what it
    waits for, the first to go before the others. `change`: the smallest change that would start it now. `victims`: whom
    it would evict if its queue did more than observe."""

    job: Job
    code: str
    message: str
    position: int
    limit: str
    refused: tuple[tuple[str, int], ...]
    nearest: str
    nodes: tuple[tuple[str, int], ...]
    queue: QueueStatus | None
    start_ms: int
    start_from: str
    holders: tuple[Holder, ...]
    change: str
    victims: tuple[Victim, ...]
    revision: int

    @staticmethod
    def of(message: scheduler_pb2.JobExplanation) -> JobExplanation:
        return JobExplanation(
            job=to_record(message.job, Job),
            code=message.code,
            message=message.message,
            position=message.position,
            limit=message.limit,
            refused=tuple((item.filter, item.nodes) for item in message.refused),
            nearest=message.nearest,
            nodes=tuple((item.node_id, item.tasks) for item in message.nodes),
            queue=QueueStatus.of(message.queue) if message.HasField("queue") else None,
            start_ms=message.start_ms,
            start_from=message.start_from,
            holders=tuple(Holder.of(item) for item in message.holders),
            change=message.change,
            victims=tuple(Victim.of(item) for item in message.victims),
            revision=message.revision,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDetail:
    """`heartbeat_age_ms` is None before the first heartbeat under this leader."""

    node: Node
    used: Resources
    tasks: int
    heartbeat_age_ms: int | None

    @staticmethod
    def of(message: node_pb2.NodeView) -> NodeDetail:
        age = message.heartbeat_age_ms
        return NodeDetail(
            node=to_record(message.node, Node),
            used=to_record(message.used, Resources),
            tasks=message.tasks,
            heartbeat_age_ms=None if age < 0 else age,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """Bytes of one stream (`stdout` or `stderr`) of one task; or a note for people, without data."""

    task_id: str
    allocation_id: str
    stream: str
    offset: int
    data: bytes
    note: str = ""
