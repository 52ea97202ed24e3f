"""Where a master is called: gRPC, HTTP with the page, the port of probes and scrapers, and the health port."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any

from gosched.config import Listen, MasterSettings
from gosched.config.address import join_address, split_address
from gosched.core.records.access import LOCAL
from gosched.core.records.master import Master
from gosched.identity.code_flow import CodeFlow
from gosched.master.agents.lateness import Lateness
from gosched.master.api.grpc_api import GrpcServer
from gosched.master.api.lanes import Lanes
from gosched.master.api.leader_calls import LeaderCalls
from gosched.master.api.leader_routing import LeaderRouting
from gosched.master.api.local_socket import LocalSocket
from gosched.master.api.rates import Rates
from gosched.master.api.status import StatusReader
from gosched.master.base.access import Access
from gosched.master.base.audited import Audit
from gosched.master.base.callers import Callers
from gosched.master.base.channels import Channels
from gosched.master.base.clock import Clock
from gosched.master.base.leadership import Leadership
from gosched.master.base.turns import Turns
from gosched.master.history.history import History
from gosched.master.http.app import make_app
from gosched.master.http.call import Services
from gosched.master.http.entrance import Entrance
from gosched.master.http.origin import Hosts
from gosched.master.http.probes import Probes, probe_app
from gosched.master.http.server import FOR_PROBES, HttpServer
from gosched.master.web.recent import Recent
from gosched.master.web.site import Site
from gosched.master.web.sources import MAX_TOLD, TOLD_S, Sources
from gosched.master.web.trends import Trends
from gosched.observe.health_port import HealthPort
from gosched.observe.metrics import MasterMetrics
from gosched.replication.interface import Replication
from gosched.wire.role_rules import reader_of
from gosched.wire.shared_token import SharedToken
from gosched.wire.tls_watch import TlsWatch

STOP_GRACE_S = 0.5


class Endpoints:
    """`services`: of this master, by name. `live`, `not_ready`: what probes are told; `not_ready` returns why, or
    nothing."""

    def __init__(
        self,
        settings: MasterSettings,
        replication: Replication,
        leadership: Leadership,
        masters: Channels,
        services: Mapping[str, Any],
        status: StatusReader,
        history: History,
        metrics: MasterMetrics,
        clock: Clock,
        access: Access,
        lateness: Lateness,
        tls: TlsWatch | None,
        audit: Audit,
        code_flow: CodeFlow | None,
        *,
        live: Callable[[], bool],
        not_ready: Callable[[], str],
    ) -> None:
        self._settings = settings
        self._tls = tls
        self._replication = replication
        self._services = services
        self.calls = LeaderCalls(leadership, masters, services, access, self._cluster_id, audit)
        self.site = Site(
            Sources(
                replication=replication,
                status=status,
                calls=self.calls,
                access=access,
                clock=clock,
                trends=Trends(status),
                topology=settings.topology,
                told=Recent(clock, kept_s=TOLD_S, most=MAX_TOLD),
                reasons=lambda: history.reasons,
                code_flow=code_flow,
            ),
            metrics.faults,
        )
        limits = settings.limits
        rates = Rates(limits.calls_per_second, limits.burst, clock.monotonic_s)
        lanes = Lanes(rates=rates, refused=lambda bound: metrics.call_refused(bound.value))
        self.http_services = Services(
            calls=self.calls,
            access=access,
            leadership=leadership,
            replication=replication,
            status=status,
            lanes=lanes,
            now_ms=clock.now_ms,
            history=history.service,
        )
        probes = Probes(metrics=metrics, not_ready=not_ready)
        self._socket = LocalSocket(settings.server.socket, metrics.faults) if settings.server.socket else None
        callers = callers_of(settings, self._socket, access.shared)
        app = make_app(self.http_services, probes, [self.site.router()])
        hosts = Hosts(settings.server.http_hosts, self._advertised_hosts)
        turns = Turns(replication.say_alive)
        entrance = Entrance(
            app, self.http_services, hosts, metrics, clock, access, self._cluster_id, audit, callers, turns
        )
        self._http = HttpServer(entrance, metrics.faults, key="server.http_addr")
        self._probes = HttpServer(probe_app(probes), metrics.faults, key="server.probe_addr", bounds=FOR_PROBES)
        self.probe_port = 0
        routing = LeaderRouting(
            leadership,
            masters,
            metrics,
            lanes,
            access,
            self._cluster_id,
            self._revision,
            audit,
            callers,
            turns,
            lateness,
        )
        inner = self._socket.inner_address if self._socket else ""
        self._grpc = GrpcServer(settings.grpc_listen(), tls, [routing], settings.token_listen(), inner)
        listen = settings.health_listen()
        self._health = listen and HealthPort(
            listen, key="server.health_addr", live=live, ready=lambda: live() and not not_ready()
        )

    @property
    def token_port(self) -> int:
        """Return where gRPC takes callers without certificates; 0: nowhere."""
        return self._grpc.token_port

    @property
    def token_address(self) -> str:
        """Return where others call that port; empty: nowhere."""
        listen = self._settings.token_listen()
        return self._advertised(listen, self.token_port) if listen else ""

    async def listen(self) -> Master:
        """Take all ports, and return where this master is called. Raises ConfigError for a port that cannot be had."""
        settings = self._settings
        if self._health:
            await self._health.start()
        if probes := settings.probe_listen():
            self.probe_port = await self._probes.start(probes, None)
        guests = bool(settings.server.token_addr)
        http_port = await self._http.start(settings.http_listen(), self._tls, guests=guests)
        return Master(
            id=self._replication.member_id,
            grpc_address=self._advertised(settings.grpc_listen(), self._grpc.port),
            http_address=self._advertised(settings.http_listen(), http_port),
        )

    async def serve(self) -> None:
        """Answer calls over gRPC, too, now that there is a state."""
        self._grpc.add(self._services)
        await self._grpc.start()
        if self._socket:
            await self._socket.open()

    async def stop(self) -> None:
        if self._socket:
            await self._socket.close_door()
        await self._grpc.stop(STOP_GRACE_S)
        if self._socket:
            await self._socket.close()
        await self.site.stop()
        await self._http.stop()
        await self._probes.stop()
        if self._health:
            await self._health.stop()

    def _advertised(self, listen: Listen, port: int) -> str:
        host = self._settings.server.advertise_host
        return join_address(host or (socket.gethostname() if listen.is_every_interface else listen.host), port)

    def _advertised_hosts(self) -> list[str]:
        masters = self._replication.state.masters.values()
        return [split_address(master.http_address)[0] for master in masters]

    def _cluster_id(self) -> str:
        return self._replication.state.cluster_id

    def _revision(self) -> int:
        return self._replication.state.revision


def callers_of(settings: MasterSettings, local: LocalSocket | None, shared: SharedToken | None = None) -> Callers:
    """Return what says who calls. Names of certificates begin with nothing that says where a user comes from."""
    of_issuer = (settings.oidc.user_prefix, settings.oidc.groups_prefix) if settings.oidc else ()
    reserved = (LOCAL, *of_issuer)
    roles = reader_of(settings.tls)
    if local is None:
        return Callers(reserved=reserved, roles=roles, shared=shared)
    return Callers(local.user, reserved, roles, shared)
