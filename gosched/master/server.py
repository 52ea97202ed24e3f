"""One master: everything of its front, put together around a replication.

Invariant: this is the only place that knows all parts; each part gets what it needs and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from gosched import __version__
from gosched.api.status import BackupStatus
from gosched.config import ConfigError, MasterSettings
from gosched.core.state.cluster_state import ClusterState
from gosched.identity.code_flow import CodeFlow
from gosched.identity.oidc import OidcVerifier
from gosched.master.agents.answers import Answers
from gosched.master.agents.dispatch import Dispatcher
from gosched.master.agents.exec import Execs
from gosched.master.agents.join_authority import JoinAuthority
from gosched.master.agents.join_service import JoinService
from gosched.master.agents.leases import Leases
from gosched.master.agents.live_usage import LiveUsage
from gosched.master.agents.node_control import UnfitNodes
from gosched.master.agents.node_service import NodeService
from gosched.master.agents.secret_opener import SecretOpener
from gosched.master.api.access_service import AccessService
from gosched.master.api.cluster_service import ClusterService, keep_announced
from gosched.master.api.metrics_facts import MetricsFacts
from gosched.master.api.revocations import Revocations
from gosched.master.api.scheduler_service import SchedulerService
from gosched.master.api.secret_service import SecretService
from gosched.master.api.status import StatusReader
from gosched.master.api.status_digest import StatusDigest
from gosched.master.backups.backup_source import BackupSource
from gosched.master.backups.scheduled_backups import ScheduledBackups, backup_gauges
from gosched.master.base.access import Access
from gosched.master.base.audit_target import AuditTarget
from gosched.master.base.audited import Audit
from gosched.master.base.cancel import cancel_all
from gosched.master.base.channels import Channels, watched_tls
from gosched.master.base.clock import Clock, StateClock, SystemClock
from gosched.master.base.job_changes import JobChanges
from gosched.master.base.leadership import Leadership
from gosched.master.base.proposals import Proposals
from gosched.master.base.secret_keys import SecretKeys
from gosched.master.cluster.clock_keeper import ClockKeeper
from gosched.master.cluster.digest_comparison import DigestComparison, StateDigests
from gosched.master.cluster.feature_levels import FeatureLevels
from gosched.master.cluster.log_level import MasterLogLevel
from gosched.master.cluster.members import MemberControl, MemberList
from gosched.master.endpoints import Endpoints
from gosched.master.history.history import History
from gosched.master.history.wait_notes import WaitNotes
from gosched.master.jobs.admission import Admissions
from gosched.master.jobs.archive_retention import open_archive, sweep_archive
from gosched.master.jobs.batches import Batches
from gosched.master.jobs.job_logs import JobLogs
from gosched.master.jobs.log_reader import LogReader
from gosched.master.jobs.schedules import Schedules
from gosched.master.leader.leader import Leader
from gosched.master.leader.reload import Reload
from gosched.master.planning.cycles import Cycles
from gosched.master.planning.eviction_watch import EvictionWatch
from gosched.master.planning.plugin_loader import policy_of
from gosched.observe.certificates import CertificateGauges
from gosched.observe.counts import ClusterCounts
from gosched.observe.logs import log_events
from gosched.observe.metrics import MasterMetrics
from gosched.observe.tracing import open_spans
from gosched.observe.tracing_jobs import JobTraces
from gosched.observe.tracing_leader import LeaderTraces
from gosched.replication.interface import AppliedBatch, Part, Replication, Role
from gosched.wire.addresses import AddressBook
from gosched.wire.role_rules import reader_of
from gosched.wire.roles import CertificateHolder
from gosched.wire.shared_token import SharedToken

HAND_OVER_S = 2.0
MAX_SILENCE_S = 30.0  # of a replica that turns
MAX_LAG = 1000  # committed entries that a ready master may still have to apply


class MasterServer:
    """A running master. `record`: where it listens, known after `start`. `on_failure` is told why it cannot go on, in
    one line. `read_again` reads the settings anew; without it they never change."""

    def __init__(
        self,
        settings: MasterSettings,
        replication: Replication,
        clock: Clock | None = None,
        read_again: Callable[[], MasterSettings] | None = None,
    ) -> None:
        self._settings = settings
        self._replication = replication
        self._work: list[asyncio.Task[None]] = []
        self._replica_runs = False
        self.on_failure: Callable[[str], None] = lambda detail: None
        bound_ms = settings.limits.max_clock_skew_ms
        self._members = MemberList(replication, settings)
        clock = StateClock(clock or SystemClock(), masters=self._members.count(), bound_ms=bound_ms)
        # First of all that follow: they stamp what they make of a batch.
        replication.follow(lambda batch: clock.applied(replication.state.clock_ms))
        tls = self._tls = watched_tls(settings.tls, replication.member_id)
        mine = tls.current.holder if tls else CertificateHolder()
        self._certified_cluster = mine.cluster
        token = settings.shared_token()
        shared = SharedToken(token) if token else None
        self._agents = Channels(tls, book=_book(settings, "addresses.json"), by_role=mine.in_dns, token=token)
        round_trip_ms = settings.raft.max_round_trip_ms
        # A book of its own: the names of thousands of nodes push none of a master out.
        book = _book(settings, "master-addresses.json")
        self._masters = Channels(tls, book=book, to_masters=True, round_trip_ms=round_trip_ms, token=token)
        self.metrics = MasterMetrics(__version__)
        self._faults = self.metrics.faults
        replication.on_fault = self._faults.caught
        self._audit = AuditTarget(settings, replication.member_id, self.metrics.audit_lost)
        self._spans = open_spans(settings, part="master", instance=replication.member_id, version=__version__)
        self._job_traces = JobTraces(self._spans, replication.member_id) if self._spans else None
        self._leader_traces = LeaderTraces(self._spans, sample=settings.tracing.sample) if self._spans else None
        self._counts = ClusterCounts()
        self._changes = JobChanges()
        self._leadership = Leadership(replication)
        self._proposals = Proposals(replication, clock, self.metrics.committed)
        lease = settings.lease
        self._leases = Leases(
            clock,
            timeout_s=lease.node_timeout_ms / 1000,
            first_s=lease.first_lease_ms / 1000,
            heartbeat_s=lease.heartbeat_ms / 1000,
        )
        self._usage = LiveUsage(clock)
        self._unfit = UnfitNodes(self._proposals, clock)
        self._cycles = Cycles(
            replication,
            self._proposals,
            clock,
            self._changes,
            self.metrics,
            self._leader_traces,
            policy=policy_of(settings),
            period_s=settings.server.schedule_period_ms / 1000,
        )
        self._secret_keys = SecretKeys(settings.secrets)
        self._secret_opener = SecretOpener(keys=self._secret_keys, tls=settings.tls is not None)
        self._dispatcher = Dispatcher(replication, self._agents, self._secret_opener, self._leader_traces, self._faults)
        self._schedules = Schedules(replication, self._proposals, clock, self._faults)
        self._keeper = ClockKeeper(replication, self._proposals, self._masters, clock, bound_ms=bound_ms)
        self._levels = FeatureLevels(replication, self._members)
        self._log_level = MasterLogLevel(replication, settings.shown_level)
        self._member_control = MemberControl(
            replication=replication, leadership=self._leadership, masters=self._masters, members=self._members
        )
        self._digests = StateDigests(replication)
        self._backups = BackupSource(replication, clock)
        self._scheduled = self._scheduled_backups(clock)
        self._status = StatusReader(
            replication,
            self._counts,
            lambda: self._cycles.shares,
            self._keeper,
            self._levels,
            self._members,
            self._backup_status,
            lambda: self._leases.doubt if self._leadership.epoch else "",
        )
        self._verifier = (
            OidcVerifier(settings.oidc, now_ms=clock.now_ms, tell=_tell_of_issuer) if settings.oidc else None
        )
        self._access = Access(replication, settings.access, clock.now_ms, self._verifier, shared)
        self.history = History(replication, self._proposals, self._masters, self._access, settings, self._faults)
        self._clock = clock
        self._archive = open_archive(settings.archive)
        self._scheduler_service = self._make_scheduler_service()
        services = {
            "SchedulerService": self._scheduler_service,
            "NodeService": self._node_service(),
            "ClusterService": self._cluster_service(),
            "HistoryService": self.history.service,
            "AccessService": self._access_service(),
            "SecretService": self._secret_service(),
            "JoinService": self._join_service(),
        }
        self.endpoints = Endpoints(
            settings,
            replication,
            self._leadership,
            self._masters,
            services,
            self._status,
            self.history,
            self.metrics,
            clock,
            self._access,
            self._leases.lateness,
            tls,
            Audit(self._audit.put, replication.member_id, lambda: replication.state.revision),
            CodeFlow(settings.oidc, self._verifier)
            if self._verifier and settings.oidc and settings.oidc.page_url
            else None,
            live=lambda: not self._replica_runs or replication.silent_s < MAX_SILENCE_S,
            not_ready=self._why_not_ready,
        )
        self._reload = Reload(settings, self.endpoints.calls, read_again or (lambda: settings), self._log_level.set)
        facts = MetricsFacts(
            replication=replication,
            leadership=self._leadership,
            cycles=self._cycles,
            counts=self._counts,
            leases=self._leases,
            members=self._member_control,
            status=self._status,
            keeper=self._keeper,
            backup=lambda: backup_gauges(self._backup_status(), clock.wall_ms()),
            clock=clock,
            data_dir=settings.data_dir,
        )
        self.metrics.show(facts.raft, facts.cluster)
        if tls:
            self.metrics.add("certificates", CertificateGauges(tls.expiries))
        replication.follow(self._on_batch)
        replication.watch_role(self._on_role)

    async def start(self) -> None:
        """Start all parts. Raises ConfigError for a port that cannot be had, ReplicaFailed for a replica that does not
        start."""
        settings = self._settings
        if problem := await asyncio.to_thread(self._secret_keys.start):
            raise settings.error("secrets", problem)
        if self._verifier:
            self._verifier.start()
        self.record = await self.endpoints.listen()
        await self.history.start()
        await self._replication.start()
        self._replica_runs = True
        if problem := self._wrong_cluster():
            raise ConfigError(problem)
        # After the replica, which knows whose data directory this is.
        await asyncio.to_thread(self._audit.start)
        await self.endpoints.serve()
        leader = Leader(
            self._replication,
            self._leadership,
            self._proposals,
            self._cycles,
            self._leases,
            self._usage,
            self._unfit,
            self._dispatcher,
            self._schedules,
            EvictionWatch(self.metrics),
            self._keeper,
            self._clock,
            settings,
            self.record,
            self._certified_cluster,
            WaitNotes(self._replication, self._proposals, lambda: self._cycles.explanations, self.history),
            self._faults,
        )
        record, comparison = self.record, self._comparison()
        loops: dict[str, Callable[[], Awaitable[None]]] = {
            "leader": leader.run,
            "announcement": lambda: keep_announced(self._replication, self._leadership, self._masters, record),
            "reading of the config": self._reload.run,
            "keys of secrets": self._secret_keys.run,
            "clocks of masters": self._keeper.hear,
            "admission of masters": self._member_control.admit,
            "comparison of digests": comparison.run,
            "fetching of history": self.history.run,
            "archive": lambda: sweep_archive(self._archive, settings.archive, self._replication, self._leadership),
            **({"certificates": self._tls.watch} if self._tls else {}),
            **({"backups": self._scheduled.run} if self._scheduled else {}),
        }
        self._work = [asyncio.ensure_future(self._faults.keep(part, loop)) for part, loop in loops.items()]
        self.endpoints.site.start()

    def reload(self) -> None:
        """Read the config again, and take over its queues and quotas; look at the TLS files at once. What came of it
        is in the log."""
        self._reload.ask()
        self._secret_keys.ask()
        if self._tls:
            self._tls.ask()

    async def hand_over(self) -> None:
        """Give leadership to another master, if there is one; wait a little for it."""
        role = self._replication.role
        if role.part is not Part.LEADER or not role.connected:
            return
        await self._replication.transfer_leadership()
        try:
            async with asyncio.timeout(HAND_OVER_S):
                while self._replication.role.part is Part.LEADER:
                    await self._leadership.change()
        except TimeoutError:
            return  # the others elect a leader when this one is gone

    async def stop(self) -> None:
        """Stop all parts, also after a `start` that failed."""
        await cancel_all(self._work)
        await self.endpoints.stop()
        await self._audit.stop()
        if self._replica_runs:
            await self._replication.close()
        if self._verifier:
            await self._verifier.close()
        await self.history.stop()
        await self._agents.close()
        await self._masters.close()
        self._cycles.close()
        if self._spans:
            await asyncio.to_thread(self._spans.close)

    def _make_scheduler_service(self) -> SchedulerService:
        admissions = Admissions(self._replication, self._cycles, self._clock)
        return SchedulerService(
            replication=self._replication,
            leadership=self._leadership,
            proposals=self._proposals,
            cycles=self._cycles,
            changes=self._changes,
            logs=JobLogs(
                self._replication,
                self._leadership,
                self._changes,
                LogReader(replication=self._replication, agents=self._agents, archive=self._archive),
                self.history.service.attempts_of_job,
            ),
            execs=Execs(self._replication, self._agents),
            status=self._status,
            admissions=admissions,
            batches=Batches(self._proposals, admissions, self._replication, self._cycles.warnings),
            noted=lambda: self.history.reasons,
            keeper=self._keeper,
            status_digest=StatusDigest(self._replication, self._status),
            traces=self._leader_traces,
            access=self._access,
        )

    def _node_service(self) -> NodeService:
        return NodeService(
            replication=self._replication,
            leadership=self._leadership,
            proposals=self._proposals,
            leases=self._leases,
            usage=self._usage,
            unfit=self._unfit,
            agents=self._agents,
            clock=self._clock,
            settings=self._settings,
            access=self._access,
            talks=self._dispatcher.talks,
            answers=Answers(secrets=self._secret_opener, talks=self._dispatcher.talks, faults=self._faults),
        )

    def _access_service(self) -> AccessService:
        return AccessService(
            replication=self._replication,
            leadership=self._leadership,
            proposals=self._proposals,
            clock=self._clock,
            access=self._access,
            revocations=Revocations(
                replication=self._replication,
                proposals=self._proposals,
                clock=self._clock,
                access=self._access,
                roles=reader_of(self._settings.tls),
            ),
        )

    def _secret_service(self) -> SecretService:
        return SecretService(
            replication=self._replication,
            leadership=self._leadership,
            proposals=self._proposals,
            access=self._access,
            keys=self._secret_keys,
        )

    def _join_service(self) -> JoinService:
        join, tls = self._settings.join_settings(), self._tls
        return JoinService(
            replication=self._replication,
            proposals=self._proposals,
            clock=self._clock,
            authority=JoinAuthority(join, tls) if join is not None and tls is not None else None,
            tls=tls,
            token_address=lambda: self.endpoints.token_address,
        )

    def _cluster_service(self) -> ClusterService:
        return ClusterService(
            replication=self._replication,
            leadership=self._leadership,
            proposals=self._proposals,
            clock=self._clock,
            levels=self._levels,
            digests=self._digests,
            members=self._member_control,
            backups=self._backups,
            data_dir=self._settings.data_dir,
            log_level=self._log_level,
        )

    def _scheduled_backups(self, clock: StateClock) -> ScheduledBackups | None:
        if self._settings.backup is None:
            return None
        return ScheduledBackups(
            self._settings.backup,
            self._backups,
            leads=lambda: bool(self._leadership.epoch),
            cluster_id=self._cluster_id,
            now_ms=clock.wall_ms,
        )

    def _backup_status(self) -> BackupStatus | None:
        """Return the status of scheduled backups on the leader, which makes them."""
        return self._scheduled.status if self._scheduled and self._leadership.epoch else None

    def _comparison(self) -> DigestComparison:
        return DigestComparison(
            self._replication, self._leadership, self._digests, self._masters, self.metrics.digest_mismatch
        )

    def _cluster_id(self) -> str:
        return self._replication.state.cluster_id

    def _wrong_cluster(self) -> str:
        """Return the problem of a master whose certificate is of one cluster and whose log is of another: it refuses
        all calls."""
        named, found = self._certified_cluster, self._cluster_id()
        if not named or not found or named == found:
            return ""
        return f"tls.cert: it is of cluster {named}, and this master's data of cluster {found}: correct one of them"

    def _on_batch(self, batch: AppliedBatch) -> None:
        state = self._replication.state
        self._clock.masters = self._members.count()
        if problem := self._wrong_cluster():
            self.on_failure(problem)
        if batch.reset:
            self._begin_anew(state)
            return
        leading = bool(self._leadership.epoch)
        for applied in batch.commands:
            with self._faults.guarded("metrics of events"):
                self.metrics.take(applied.events, leading=leading)
            if self._job_traces:
                with self._faults.guarded("traces of jobs"):
                    self._job_traces.take(state, applied.command.at_ms, applied.events)
            if leading:
                with self._faults.guarded("log lines of events"):
                    log_events(applied.events, state, revision=applied.revision)
        events = [event for applied in batch.commands for event in applied.events]
        try:
            self._counts.take(state, events)
        except Exception as error:  # what was counted of the batch is not known
            self._faults.caught("counts", error)
            with self._faults.guarded("counts"):
                self._counts.reset(state)
        with self._faults.guarded("changes of jobs"):
            self._changes.take(events)

    def _begin_anew(self, state: ClusterState) -> None:
        with self._faults.guarded("counts"):
            self._counts.reset(state)
        if self._job_traces:
            with self._faults.guarded("traces of jobs"):
                self._job_traces.reset(state)
        self._changes.touch_all()

    def _on_role(self, role: Role) -> None:
        if role.part is not Part.LEADER:
            self._changes.touch_all()  # watchers have to go to another master

    def _why_not_ready(self) -> str:
        role = self._replication.role
        if not role.leader:
            return "there is no leader"
        if role.leader == self._replication.member_id and not self._leadership.epoch:
            return "this master is taking over"
        lag = role.commit_index - role.applied_index
        return f"{lag} entries are still to be applied" if lag > MAX_LAG else ""


def _book(settings: MasterSettings, file: str) -> AddressBook:
    def unsaved(why: str) -> None:
        structlog.get_logger().warning("addresses of agents and masters are not kept", why=why)

    return AddressBook(Path(settings.data_dir) / file, unsaved=unsaved)


def _tell_of_issuer(words: str) -> None:
    structlog.get_logger().warning("the issuer of logins", problem=words)
