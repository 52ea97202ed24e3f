"""The Prometheus metrics of a master, in a registry of its own.

Invariant: labels are bounded, and what describes the cluster is shown by the leader alone.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gosched.core.commands.plans import Cause
from gosched.core.events import (
    CommandFailed,
    DeadlineMissed,
    EpochOpened,
    Event,
    JobChanged,
    JobEvicted,
    NodeJoined,
    TaskChanged,
    TaskWork,
)
from gosched.core.limits import MAX_STATE_BYTES
from gosched.core.reasons import WaitReason
from gosched.core.records.job import JobState
from gosched.core.records.node import NodeState
from gosched.observe.counts import ClusterCounts
from gosched.observe.faults import Faults
from gosched.observe.sharing import QueueUse
from gosched.stderr import dropped_lines

_FAST = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_WAITS = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)
MAX_QUEUES_SHOWN = 1000
_QUEUE_GAUGES = (  # name, resource, how many make one, what is counted
    ("queue_cpu_cores", "cpu", 1000, "Cores"),
    ("queue_memory_bytes", "memory", 1, "Bytes of memory"),
    ("queue_storage_bytes", "storage", 1, "Bytes of storage"),
    ("queue_gpus", "gpu", 1000, "Number of GPUs"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftFacts:
    is_leader: bool
    term: int
    commit_index: int
    applied_index: int
    feature_level: int
    log_bytes: int
    #: Master -> its wall clock less the state's clock.
    clock_offsets_s: Mapping[str, float] = field(default_factory=dict)
    #: Of the data directory's disk: its size, and what is free of it; 0: not known.
    disk_bytes: int = 0
    disk_free_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupGauges:
    """The leader's scheduled backups."""

    #: Since the last one that went well; infinite: none is known.
    age_s: float
    last_bytes: int
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What the leader counts and measures."""

    counts: ClusterCounts
    #: (queue, why they wait) -> jobs. The reasons are those of the enum, so the number of series is bounded.
    pending: Mapping[tuple[str, WaitReason], int] = field(default_factory=dict)
    #: Queue -> time since the submission of the job that waits in it for longest.
    oldest_pending_s: Mapping[str, float] = field(default_factory=dict)
    #: Of the masters that the log names: whether the leader hears them, itself included.
    healthy_masters: int = 1
    unreachable_masters: int = 0
    queues: Mapping[str, QueueUse] = field(default_factory=dict)
    #: Since the living node was heard that was heard longest ago.
    heartbeat_age_s: float = 0.0
    #: The leader gives up no silent node at present: it is late itself, or many fell silent together.
    keeps_silent_nodes: bool = False
    fences: int = 0
    reservations: int = 0
    #: By kind, as core/state/footprint.py counts.
    state_bytes: Mapping[str, int] = field(default_factory=dict)
    #: None: no backups are scheduled.
    backup: BackupGauges | None = None


class MasterMetrics:
    def __init__(self, version: str) -> None:
        self.registry = CollectorRegistry()
        self._commits = self._histogram(
            "raft_commit_duration_seconds", "Seconds from a proposal to its application here"
        )
        self._leader_changes = self._counter("raft_leader_changes", "Number of epochs that were opened")
        self._phases = self._histogram(
            "scheduling_cycle_duration_seconds", "Seconds that one phase of a cycle took", "phase"
        )
        self._attempts = self._counter(
            "scheduling_attempts", "Number of gangs that a cycle looked at, by what came of it", "result"
        )
        self._placements = self._counter("placements", "Number of tasks in plans that were proposed")
        self._faults = self._counter("plugin_faults", "Number of cycles that a plugin was switched off in", "plugin")
        self._planner_bugs = self._counter(
            "planner_bugs", "Number of times that the planner met a bug, by what it was about", "kind"
        )
        self._internal_errors = self._counter(
            "internal_errors", "Number of exceptions that cost one turn of a part of this master", "part"
        )
        self._waits = self._histogram(
            "job_queue_wait_seconds", "Seconds from submission to the first placement", "queue", buckets=_WAITS
        )
        self._victims = self._counter(
            "preemption_victims", "Number of jobs that lost tasks for another, or a window", "queue"
        )
        self._evictions = self._counter(
            "evictions", "Number of jobs that lost tasks, by cause; repairs in place too", "cause"
        )
        self._lost = self._counter(
            "lost_work_seconds", "Seconds of work that evictions undid, times the tasks", "queue"
        )
        self._work = self._counter(
            "work_seconds",
            "Seconds that ended tasks held a CPU or a GPU, by what became of the work",
            *("queue", "resource", "outcome"),
        )
        self._missed = self._counter(
            "deadlines_missed", "Number of jobs that had not succeeded by their deadline", "queue"
        )
        self._mismatches = self._counter(
            "state_digest_mismatch", "Number of masters found in another state at the same revision"
        )
        self._machine_bugs = self._counter(
            "machine_bugs", "Number of commands that were refused for a bug of gosched, or skipped", "command"
        )
        self._joins = self._counter("agents_joined", "Number of agents that traded a token for a certificate")
        self._turns = self._counter("preemption_cycles", "Number of times that jobs evicted each other in turn")
        self._handled = self._counter("grpc_server_handled", "Number of RPCs that ended", "method", "code")
        self._refused = self._counter("calls_refused", "Number of calls refused for a bound on callers", "bound")
        self._audit_lost = self._counter(
            "audit_records_lost", "Number of records of the audit log that were lost because they could not be written"
        )
        self._http = self._histogram(
            "http_request_duration_seconds", "Seconds that an HTTP request took", "route", "status"
        )
        self._version = version
        self.faults = Faults(lambda part: self._internal_errors.labels(part).inc())

    def show(self, raft: Callable[[], RaftFacts], cluster: Callable[[], ClusterFacts | None]) -> None:
        """Say where the gauges come from; both are called at each scrape, in the scraper's thread."""
        self.add("gauges", _Gauges(raft, cluster, self._version, self.faults))

    def add(self, name: str, collector: Collector) -> None:
        """Show what a collector finds, too; one that raises is left out of that scrape."""
        self.registry.register(_Guarded(name, collector, self.faults))

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def take(self, events: Iterable[Event], *, leading: bool) -> None:
        for event in events:
            if isinstance(event, EpochOpened):
                self._leader_changes.inc()
            elif isinstance(event, CommandFailed):
                self._machine_bugs.labels(event.command).inc()
            elif not leading:
                continue
            elif isinstance(event, JobChanged) and event.wait_ms is not None:
                self._waits.labels(event.queue).observe(event.wait_ms / 1000)
            elif isinstance(event, JobEvicted):
                if event.cause is not Cause.REPAIR:  # a gang that starts again in place is no victim
                    self._victims.labels(event.queue).inc()
                self._evictions.labels(event.cause.name.lower()).inc()
                self._lost.labels(event.queue).inc(event.lost_ms / 1000)
            elif isinstance(event, TaskChanged):
                if event.work is not None:
                    self._count_work(event.work)
            elif isinstance(event, DeadlineMissed):
                self._missed.labels(event.queue).inc()
            elif isinstance(event, NodeJoined):
                self._joins.inc()

    def _count_work(self, work: TaskWork) -> None:
        unfinished_ms = work.held_ms - work.useful_ms - work.lost_ms
        for resource, millis in (("cpu", work.resources.cpu_millis), ("gpu", work.resources.gpu_millis)):
            times = (("useful", work.useful_ms), ("lost", work.lost_ms), ("unfinished", unfinished_ms))
            for outcome, ms in times if millis else ():
                if ms:
                    self._work.labels(work.queue, resource, outcome).inc(millis * ms / 1e6)

    def digest_mismatch(self) -> None:
        self._mismatches.inc()

    def preemption_cycle(self) -> None:
        self._turns.inc()

    def committed(self, seconds: float) -> None:
        self._commits.observe(seconds)

    def cycle_phase(self, phase: str, seconds: float) -> None:
        self._phases.labels(phase).observe(seconds)

    def planned(self, gangs: int, tasks: int, waiting: int) -> None:
        self._attempts.labels("placed").inc(gangs)
        self._attempts.labels("waiting").inc(waiting)
        self._placements.inc(tasks)

    def refused(self, gangs: int) -> None:
        self._attempts.labels("refused").inc(gangs)

    def planner_bug(self, kind: str) -> None:
        self._planner_bugs.labels(kind).inc()

    def plugin_failed(self, plugin: str) -> None:
        self._faults.labels(plugin).inc()

    def rpc_ended(self, method: str, code: str) -> None:
        self._handled.labels(method, code).inc()

    def call_refused(self, bound: str) -> None:
        """Count a call that was refused for a bound on callers: `rate`, `calls` or `bytes`."""
        self._refused.labels(bound).inc()

    def audit_lost(self, count: int) -> None:
        self._audit_lost.inc(count)

    def http_ended(self, route: str, status: int, seconds: float) -> None:
        self._http.labels(route, str(status)).observe(seconds)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"gosched_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, *labels: str, buckets: tuple[float, ...] = _FAST) -> Histogram:
        return Histogram(f"gosched_{name}", text, labels, registry=self.registry, buckets=buckets)


class _Guarded(Collector):
    """A collector whose exceptions cost what it has not yet collected."""

    def __init__(self, name: str, collector: Collector, faults: Faults) -> None:
        self._name = name
        self._collector = collector
        self._faults = faults

    def collect(self) -> Iterable[Metric]:
        with self._faults.guarded(f"metrics of {self._name}"):
            yield from self._collector.collect()

    def describe(self) -> Iterable[Metric]:
        return ()  # registering must not collect: the sources are not ready then


class _Gauges(Collector):
    """Gauges that are read at each scrape, so that none outlives what it describes."""

    def __init__(
        self,
        raft: Callable[[], RaftFacts],
        cluster: Callable[[], ClusterFacts | None],
        version: str,
        faults: Faults,
    ) -> None:
        self._raft = raft
        self._cluster = cluster
        self._version = version
        self._faults = faults

    def collect(self) -> Iterable[Metric]:
        yield _gauge("build_info", "Always 1; the label has the version", ("version",), [((self._version,), 1)])
        with self._faults.guarded("metrics of raft"):
            yield from self._of_raft()
        with self._faults.guarded("metrics of the cluster"):
            cluster = self._cluster()
            if cluster is not None:
                yield from _of_cluster(cluster)

    def _of_raft(self) -> Iterable[Metric]:
        raft = self._raft()
        yield _gauge("raft_is_leader", "1 on the leader, 0 elsewhere", (), [((), int(raft.is_leader))])
        yield _gauge("raft_term", "Number of the term in Raft", (), [((), raft.term)])
        yield _gauge("raft_commit_index", "Index of the newest committed entry", (), [((), raft.commit_index)])
        yield _gauge("raft_applied_index", "Index of the newest applied entry", (), [((), raft.applied_index)])
        known = bool(raft.disk_bytes)
        size, free = [((), raft.disk_bytes)] * known, [((), raft.disk_free_bytes)] * known
        yield _gauge("data_dir_size_bytes", "Bytes of the data directory's disk", (), size)
        yield _gauge("data_dir_free_bytes", "Bytes that are free on the data directory's disk", (), free)
        yield _gauge(
            "raft_log_bytes",
            "Bytes that the log's file takes, with the padding of its sectors",
            (),
            [((), raft.log_bytes)],
        )
        offsets = [((master,), seconds) for master, seconds in raft.clock_offsets_s.items()]
        text = "Seconds that a master's wall clock is ahead of the state's clock, as this master knows them"
        yield _gauge("clock_offset_seconds", text, ("master",), offsets)
        yield CounterMetricFamily(
            "gosched_log_lines_dropped",
            "Number of log lines that were lost because stderr was not read",
            dropped_lines(),
        )
        yield _gauge(
            "feature_level",
            "Number of the cluster's feature level, as this master applied it",
            (),
            [((), raft.feature_level)],
        )


def _of_cluster(cluster: ClusterFacts) -> Iterable[Metric]:
    counts = cluster.counts
    shown = dict(islice(cluster.queues.items(), MAX_QUEUES_SHOWN))
    states = [state for state in JobState if state]
    jobs = [((queue, state.name), counts.jobs_in(queue, state)) for queue in shown for state in states]
    yield _gauge("jobs", "Number of jobs that are kept", ("queue", "state"), jobs)
    gangs = [((state.name,), counts.jobs_being(state)) for state in states]
    yield _gauge("gangs", "Number of gangs (each job is one)", ("state",), gangs)
    waiting = [((queue, reason.name), number) for (queue, reason), number in cluster.pending.items()]
    yield _gauge("pending_jobs", "Number of jobs that wait, by the reason", ("queue", "reason"), waiting)
    oldest = [((queue,), cluster.oldest_pending_s[queue]) for queue in shown if queue in cluster.oldest_pending_s]
    text = "Seconds since the submission of the job that waits for longest in a queue"
    yield _gauge("pending_job_age_seconds", text, ("queue",), oldest)
    masters = [(("HEALTHY",), cluster.healthy_masters), (("UNREACHABLE",), cluster.unreachable_masters)]
    yield _gauge(
        "masters", "Number of masters that the log names, by whether the leader hears them", ("state",), masters
    )
    nodes = [((state.name,), counts.nodes[state]) for state in NodeState if state]
    yield _gauge("nodes", "Number of nodes", ("state",), nodes)
    yield _gauge(
        "node_heartbeat_age_seconds",
        "Seconds since the living node was heard that was heard longest ago",
        (),
        [((), cluster.heartbeat_age_s)],
    )
    yield _gauge(
        "silent_nodes_kept",
        "1 while no silent node is given up, since the leader is late or many fell silent together",
        (),
        [((), cluster.keeps_silent_nodes)],
    )
    yield _gauge("fences", "Number of jobs that start once their victims have ended", (), [((), cluster.fences)])
    yield _gauge("reservations", "Number of reserved starts of pending jobs", (), [((), cluster.reservations)])
    sizes = [((kind,), size) for kind, size in cluster.state_bytes.items()]
    yield _gauge(
        "state_bytes", "Bytes that the replicated state takes, as core/state/footprint.py counts", ("kind",), sizes
    )
    yield _gauge("state_bytes_limit", "Bytes of state beyond which no jobs are accepted", (), [((), MAX_STATE_BYTES)])
    if cluster.backup is not None:
        yield _gauge(
            "backup_age_seconds", "Seconds since the last backup that went well", (), [((), cluster.backup.age_s)]
        )
        yield _gauge("backup_bytes", "Bytes of the last backup", (), [((), cluster.backup.last_bytes)])
        text = "Number of scheduled backups that failed, since this leader was started"
        yield CounterMetricFamily("gosched_backup_failures", text, cluster.backup.failures)
    ratios = [((queue,), use.fair_share_ratio) for queue, use in shown.items()]
    yield _gauge(
        "queue_fair_share_ratio",
        "Ratio of what a queue holds to its fair share; above 1 it borrows",
        ("queue",),
        [(queue, ratio) for queue, ratio in ratios if ratio is not None],
    )
    for name, resource, unit, what in _QUEUE_GAUGES:
        text = f"{what} of a queue: used, demanded by what waits, fair share, guaranteed, limit"
        yield _gauge(name, text, ("queue", "kind"), _kinds(shown, resource, unit))


def _kinds(queues: Mapping[str, QueueUse], resource: str, unit: int) -> Iterable[tuple[tuple[str, ...], float]]:
    for queue, use in queues.items():
        yield (queue, "used"), use.used.get(resource, 0) / unit
        yield (queue, "demand"), use.demand.get(resource, 0) / unit
        shares = (("fair_share", use.fair_share), ("guaranteed", use.guaranteed), ("limit", use.ceiling))
        for kind, amounts in shares:
            if resource in amounts:
                yield (queue, kind), amounts[resource] / unit


def _gauge(
    name: str, text: str, labels: tuple[str, ...], values: Iterable[tuple[tuple[str, ...], float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"gosched_{name}", text, labels=labels)
    for key, value in values:
        family.add_metric(key, value)
    return family


def tally(pairs: Iterable[tuple[str, WaitReason]]) -> Mapping[tuple[str, WaitReason], int]:
    """Return how often each pair comes."""
    return Tally(pairs)
