"""The state of the cluster at one revision: its masters, its queues, its quotas, its backups."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.primitives import StringMap
from gosched.core.records.queue import Queue
from gosched.core.records.tenant import Quota
from gosched.core.records.usage import Spent
from gosched.core.resources import AmountMap, Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterStatus:
    """A master, as the leader sees it."""

    id: str
    #: host:port of its Raft member.
    address: str
    #: leader, follower, candidate or unknown.
    role: str
    healthy: bool
    #: host:port of its front; empty: not known yet.
    grpc_address: str
    http_address: str
    #: How far its wall clock is ahead of the state's clock; None: not known.
    clock_offset_ms: int | None = None
    #: The newest feature level that it knows; 0: it is away, or of a release that does not say.
    newest_feature_level: int = 0
    #: Its release; empty: it is away, or of a release that does not say.
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """A queue and what it holds. Amounts are by resource, as in a queue's `limit`; those of an inner queue are sums
    over the queues below it."""

    path: str
    #: fifo, fair or capacity.
    type: str
    #: Jobs that wait, and that run.
    pending: int
    running: int
    used: AmountMap
    #: Of the jobs that wait to start.
    demand: AmountMap
    #: By the leader's newest cycle; empty before the first one.
    fair_share: AmountMap
    #: The most that it may hold; what it does not name has no limit.
    ceiling: AmountMap
    #: The queue as it was set.
    rules: Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaStatus:
    """A tenant, its quota, and what it holds of it."""

    #: Without any limit: the tenant has no quota.
    quota: Quota
    #: What the tenant holds now, in all queues.
    used: AmountMap
    running_jobs: int
    #: Since the tenant's first job.
    spent: Spent


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupStatus:
    """Scheduled backups, as far as one master knows."""

    #: By the master's clock; 0: none is known.
    last_success_ms: int = 0
    last_bytes: int = 0
    #: Since the master was started.
    failures: int = 0
    #: Of the last try; empty: it went well.
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The whole cluster in numbers."""

    #: Id of the leader; empty: none is known.
    leader: str
    epoch: int
    revision: int
    masters: tuple[MasterStatus, ...]
    nodes: int
    nodes_ready: int
    #: All jobs that are kept, also those that have ended.
    jobs: int
    pending: int
    running: int
    total: Resources
    used: Resources
    queues: tuple[QueueStatus, ...]
    #: Of the state at `revision`; empty: it was not asked for.
    digest: str
    #: The release of the master that answers.
    version: str
    #: What the replicated state takes, and may take; 0: the master is of a release that does not say.
    state_bytes: int = 0
    state_bytes_limit: int = 0
    #: Now, by the state's clock.
    clock_ms: int = 0
    #: What is wrong with that clock or with the masters' clocks, and what to do; empty: nothing.
    clock_problem: str = ""
    #: Why the leader gives up no silent node at present, such as that it is late itself; empty: it does.
    load_problem: str = ""
    feature_level: int = 0
    #: That all masters know; 0: one of them is away.
    newest_feature_level: int = 0
    #: None: no backups are scheduled, or the master does not lead.
    backup: BackupStatus | None = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterHealth:
    """What a master says of itself. Empty or 0: it is of a release that does not say."""

    id: str = ""
    release: str = ""
    #: Of the state that it has applied, and the newest that it knows.
    feature_level: int = 0
    newest_feature_level: int = 0
    applied_index: int = 0
    commit_index: int = 0
    revision: int = 0
    #: The master that it follows, or is; empty: none.
    leader: str = ""
    #: Its wall clock.
    clock_ms: int = 0
    disk_free_bytes: int = 0
    #: What it may have to write beside what is there.
    disk_needed_bytes: int = 0
    #: In Raft: leader, follower, candidate.
    role: str = ""
    term: int = 0
    #: The last entry of its log, committed or not.
    last_index: int = 0
    #: The masters that its state knows: where each answers gRPC, by its id.
    masters: StringMap = ()
