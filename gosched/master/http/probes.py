"""What probes and scrapers ask: whether the process lives, whether it is ready, its metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from gosched.master.base.errors import ApiError, unavailable
from gosched.master.http.problems import on_api_error, on_http_error
from gosched.observe.metrics import MasterMetrics

#: For every certificate of the authority; all other paths are for users.
PATHS = frozenset({"/healthz", "/readyz", "/metrics"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """`not_ready`: why this master is not ready, or empty."""

    metrics: MasterMetrics
    not_ready: Callable[[], str]


def router(checks: Probes) -> APIRouter:
    """Return the routes of probes and scrapers."""
    router = APIRouter(tags=["probes"])

    @router.get("/healthz", summary="Whether the process lives", response_class=PlainTextResponse)
    async def healthz() -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    @router.get(
        "/readyz", summary="Whether this master has a leader and is up to date", response_class=PlainTextResponse
    )
    async def readyz() -> PlainTextResponse:
        if reason := checks.not_ready():
            raise unavailable(reason)
        return PlainTextResponse("ok\n")

    @router.get("/metrics", summary="Metrics for Prometheus", response_class=PlainTextResponse)
    async def metrics() -> Response:
        return Response(checks.metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4"})

    return router


def probe_app(checks: Probes) -> ASGIApp:
    """Return the application of a port for probes and scrapers alone: in plain text, for callers without certificates
    from any address."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.include_router(router(checks))
    app.add_exception_handler(ApiError, on_api_error)
    app.add_exception_handler(HTTPException, on_http_error)
    return app
