"""The gRPC server of a master: its port, its credentials, its bounds, and the services on it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from gosched.config import ConfigError, Listen
from gosched.config.address import join_address
from gosched.master.base.channels import MAX_ANSWER_BYTES
from gosched.wire.grpc_tls import SERVER_OPTIONS, server_credentials
from gosched.wire.tls_watch import TlsWatch
from gosched.wire.v1 import (
    access_pb2_grpc,
    cluster_pb2_grpc,
    history_pb2_grpc,
    join_pb2_grpc,
    node_pb2_grpc,
    scheduler_pb2_grpc,
    secret_pb2_grpc,
)

MAX_REQUEST_BYTES = 16 * 1024 * 1024
MAX_CALLS_PER_CONNECTION = 2048  # of a follower, too, which passes on what agents call: the others wait there
HANDSHAKE_MS = 10_000  # of a connection that has not said anything yet
IDLE_MS = 600_000  # of one without calls; its owner dials again when it has one
_ADD: dict[str, Callable[[Any, Any], None]] = {
    "SchedulerService": scheduler_pb2_grpc.add_SchedulerServiceServicer_to_server,
    "NodeService": node_pb2_grpc.add_NodeServiceServicer_to_server,
    "ClusterService": cluster_pb2_grpc.add_ClusterServiceServicer_to_server,
    "HistoryService": history_pb2_grpc.add_HistoryServiceServicer_to_server,
    "AccessService": access_pb2_grpc.add_AccessServiceServicer_to_server,
    "SecretService": secret_pb2_grpc.add_SecretServiceServicer_to_server,
    "JoinService": join_pb2_grpc.add_JoinServiceServicer_to_server,
}
SERVICES = tuple(f"gosched.v1.{name}" for name in _ADD)

MAX_HEADERS_BYTES = 32 * 1024  # an issuer's token with all groups of a user alone may have 8 KiB

_OPTIONS = (
    ("grpc.max_metadata_size", MAX_HEADERS_BYTES),
    ("grpc.so_reuseport", 0),  # otherwise a second master on the same port would go unnoticed
    ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
    ("grpc.max_send_message_length", MAX_ANSWER_BYTES),
    ("grpc.max_concurrent_streams", MAX_CALLS_PER_CONNECTION),
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
    ("grpc.max_connection_idle_ms", IDLE_MS),
    ("grpc.http2.bdp_probe", 0),  # it lets a caller send megabytes that are never read
    # Clients ping to notice a frozen master.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 500),
    ("grpc.http2.max_ping_strikes", 0),
    # Streams of a client whose machine is gone end within half a minute, and with them the commands that it runs.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
)


class _ByName:
    """Adds services whose calls are found by their names. Generated code registers each method with gRPC as well, and
    grpc.aio (1.85) then waits for all registered methods anew at each call: seventy of them cost 55 us."""

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        self._server.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, grpc.RpcMethodHandler]) -> None:
        """Register nothing."""


class GrpcServer:
    """A server that is bound at once, so that a port in use is known before anything else starts; it serves from
    `start` on."""

    def __init__(
        self,
        listen: Listen,
        tls: TlsWatch | None,
        interceptors: Sequence[Any],
        tokens: Listen | None = None,
        inner: str = "",
    ) -> None:
        """`tokens`: where it serves callers that show no certificate, too. `inner`: a socket in a closed directory,
        for those whose accounts are known (local_socket.py); empty: none. Raises ConfigError."""
        aging = SERVER_OPTIONS if tls or inner else ()  # an account's groups are looked at again, too
        # Calls are bounded by the lanes (gosched.master.api.lanes), not by gRPC, which knows one kind only.
        self._server = grpc.aio.server(interceptors=interceptors, options=_OPTIONS + aging)
        self._health = health.aio.HealthServicer()
        self._by_name: Any = _ByName(self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._by_name)
        reflection.enable_server_reflection((*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), self._by_name)
        self.port = self._bind(listen, tls)
        self.token_port = self._bind(tokens, tls, guests=True) if tokens else 0
        if inner:
            self._bind_inner(inner)

    def add(self, services: Mapping[str, Any]) -> None:
        """Serve these, by their names in the proto."""
        for name, add_to in _ADD.items():
            add_to(services[name], self._by_name)

    async def start(self) -> None:
        await self._server.start()
        for service in ("", *SERVICES):
            await self._health.set(service, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace_s: float) -> None:
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)

    def _bind(self, listen: Listen, tls: TlsWatch | None, *, guests: bool = False) -> int:
        address = join_address(listen.host, listen.port)
        key = "server.token_addr" if guests else "server.grpc_addr"
        _check_free(listen, key)  # gRPC would say so in words of its own
        try:
            if tls is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, server_credentials(tls, require_client_auth=not guests))
        except RuntimeError as error:
            raise ConfigError(f"{key}: cannot listen on {address}: {error}") from error
        return int(port)

    def _bind_inner(self, address: str) -> None:
        try:
            self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise ConfigError(f"server.socket: cannot listen on {address}: {error}") from error


def _check_free(listen: Listen, key: str) -> None:
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((listen.host, listen.port))
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(f"{key}: cannot listen on {listen.address}: {reason}") from error
