"""HTTP of a master: status, explanations, queues, quotas, reservations, health and metrics.

Invariant: `/api/v1/status` is the leader's view where there is a leader, and this master's own (naming no leader) where
there is none, so that it tells during an outage what is known.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import grpc
from aiohttp import web

from gosched.api.explanation import JobExplanation
from gosched.api.forecast import Reserved
from gosched.api.json.cluster import queue_json, quota_json, status_json
from gosched.api.json.explanations import explanation_json
from gosched.api.json.reservations import reserved_json
from gosched.api.status import QuotaStatus, Status
from gosched.config import ConfigError, Listen
from gosched.config.settings import Tls
from gosched.master.api.lanes import Lane, Lanes
from gosched.master.api.leader_calls import LeaderCalls
from gosched.master.api.status import StatusReader
from gosched.master.base.callers import FORWARDED, HTTP_METHOD, UNNAMED, check_allowed, http_caller
from gosched.master.base.channels import Channels
from gosched.master.base.clock import Clock
from gosched.master.base.errors import HTTP_STATUS, ApiError
from gosched.master.base.leadership import Leadership
from gosched.observe.metrics import MasterMetrics
from gosched.wire.codec import to_record
from gosched.wire.v1 import scheduler_pb2, scheduler_pb2_grpc

MAX_BODY_BYTES = 1024 * 1024
FORWARD_TIMEOUT_S = 2.0

_USERS = "/api/"  # what is beside it, health and metrics, is for every certificate of the authority

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpApi:
    def __init__(
        self,
        status: StatusReader,
        calls: LeaderCalls,
        leadership: Leadership,
        masters: Channels,
        metrics: MasterMetrics,
        clock: Clock,
        lanes: Lanes,
        *,
        cluster_id: Callable[[], str],
        not_ready: Callable[[], str],
    ) -> None:
        """`not_ready`: why this master is not ready, or empty."""
        self._status = status
        self._calls = calls
        self._leadership = leadership
        self._masters = masters
        self._metrics = metrics
        self._clock = clock
        self._lanes = lanes
        self._cluster_id = cluster_id
        self._not_ready = not_ready
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._around])
        app.add_routes(
            [
                web.get("/api/v1/status", self._get_status),
                web.get("/api/v1/queues", self._get_queues),
                web.get("/api/v1/quotas", self._get_quotas),
                web.get("/api/v1/reservations", self._get_reservations),
                web.get("/api/v1/jobs/{job}/explain", self._explain),
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._get_metrics),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)

    async def start(self, listen: Listen, tls: Tls | None) -> int:
        """Returns the port. Raises ConfigError."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, listen.host, listen.port, ssl_context=_context(tls))
        try:
            await site.start()
        except OSError as error:
            raise ConfigError(
                f"server.http_addr: cannot listen on {listen.address}: {os.strerror(error.errno or 0)}"
            ) from error
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _get_status(self, request: web.Request) -> web.Response:
        leader = self._leadership.leader()
        status = self._status.read()
        if leader is not None and not self._leadership.epoch:
            stub = scheduler_pb2_grpc.SchedulerServiceStub(self._masters.to(leader.grpc_address))
            try:
                message = await stub.GetClusterStatus(
                    scheduler_pb2.GetClusterStatusRequest(), timeout=FORWARD_TIMEOUT_S, metadata=((FORWARDED, UNNAMED),)
                )
                status = to_record(message, Status)
            except grpc.aio.AioRpcError:
                status = self._status.read()  # the leader is gone: what this master knows is the best there is
        return web.json_response(status_json(status))

    async def _get_queues(self, request: web.Request) -> web.Response:
        message = await self._calls.call("GetClusterStatus", scheduler_pb2.GetClusterStatusRequest())
        return web.json_response([queue_json(queue) for queue in to_record(message, Status).queues])

    async def _get_quotas(self, request: web.Request) -> web.Response:
        message = await self._calls.call("ListQuotas", scheduler_pb2.ListQuotasRequest())
        return web.json_response([quota_json(to_record(quota, QuotaStatus)) for quota in message.quotas])

    async def _get_reservations(self, request: web.Request) -> web.Response:
        message = await self._calls.call("ListReservations", scheduler_pb2.ListReservationsRequest())
        return web.json_response(reserved_json(to_record(message, Reserved)))

    async def _explain(self, request: web.Request) -> web.Response:
        asked = scheduler_pb2.GetJobRequest(job=request.match_info["job"])
        message = await self._calls.call("ExplainJob", asked)
        return web.json_response(explanation_json(to_record(message, JobExplanation)))

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        reason = self._not_ready()
        if reason:
            raise ApiError(grpc.StatusCode.UNAVAILABLE, reason)
        return web.Response(text="ok\n")

    async def _get_metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4"})

    @web.middleware
    async def _around(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Who calls and what it may, errors as application/problem+json, and the duration of each request."""
        started = self._clock.monotonic_s()
        try:
            caller = http_caller(request.transport)
            if request.path.startswith(_USERS):
                check_allowed(caller, HTTP_METHOD, self._cluster_id())
            with self._lanes.place(Lane.CALLS, caller):
                response = await handler(request)
        except ApiError as error:
            response = _problem(HTTP_STATUS.get(error.code, 500), error.detail)
        except web.HTTPException as error:
            response = _problem(error.status, error.text or error.reason)
        resource = request.match_info.route.resource
        route = resource.canonical if resource else "unknown"
        self._metrics.http_ended(route, response.status, self._clock.monotonic_s() - started)
        return response


def _problem(status: int, detail: str) -> web.Response:
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return web.json_response(body, status=status, content_type="application/problem+json")


def _context(tls: Tls | None) -> ssl.SSLContext | None:
    if tls is None:
        return None
    try:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tls.ca)
        context.load_cert_chain(tls.cert, tls.key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"tls: cannot use {tls.cert}, {tls.key}, {tls.ca}: {error}") from error
    context.verify_mode = ssl.CERT_REQUIRED
    return context
