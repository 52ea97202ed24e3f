"""The health port: grpc.health.v1 in plain text and nothing else, for probes of containers.

A probe has no certificate, and may come from any address, so its port is apart from those that serve.

Invariant: it tells whether the process lives (service "") and whether it is ready (service "ready"), and nothing more.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from gosched.config import ConfigError, Listen

READY = "ready"
MAX_CALLS = 64
_WATCH_S = 0.5

Response = health_pb2.HealthCheckResponse


class HealthPort(health_pb2_grpc.HealthServicer):
    """A port that is bound at once, so that one in use is known before anything else starts; it answers from `start`
    on.

    `live` must not depend on other machines: a master without a quorum is not cured by a restart.
    """

    def __init__(self, listen: Listen, *, key: str, live: Callable[[], bool], ready: Callable[[], bool]) -> None:
        """`key`: the setting, for errors. Raises ConfigError."""
        self._checks = {"": live, READY: ready}
        self._server = grpc.aio.server(
            options=[("grpc.so_reuseport", 0), ("grpc.max_concurrent_streams", MAX_CALLS)],
            maximum_concurrent_rpcs=MAX_CALLS,
        )
        health_pb2_grpc.add_HealthServicer_to_server(self, self._server)
        try:
            _check_free(listen)  # gRPC would say so in several lines of its own
            self.port = int(self._server.add_insecure_port(listen.address))
        except (OSError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"{key}: cannot listen on {listen.address}: {reason}") from error

    async def start(self) -> None:
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)

    async def Check(self, request: Any, context: Any) -> Any:
        check = self._checks.get(request.service)
        if check is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f'there are the services "" and "{READY}"')
            raise AssertionError("abort raises")
        return Response(status=_status(check))

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        check = self._checks.get(request.service)
        told = None
        while True:
            status = Response.SERVICE_UNKNOWN if check is None else _status(check)
            if status != told:
                told = status
                yield Response(status=status)
            await asyncio.sleep(_WATCH_S)


def _status(check: Callable[[], bool]) -> Any:
    return Response.SERVING if check() else Response.NOT_SERVING


def _check_free(listen: Listen) -> None:
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((listen.host, listen.port))
