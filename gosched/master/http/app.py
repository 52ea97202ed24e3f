"""The application: all routes of REST, and one form of errors.

To add a route, write it in the module of its noun (`gosched/master/http/<noun>.py`), which has one router, and add the
module to ROUTERS here:

    router = rest_router("queues")

    @router.get("/queues/{queue}", summary="Show a queue", **answers("Queue", queue_json.schema()))
    async def show_queue(queue: str, call: Call, stale: Stale = False) -> JsonResponse:
        message = await call.ask("GetQueue", scheduler_pb2.GetQueueRequest(path=queue), stale=stale)
        return JsonResponse(queue_json(to_record(message, QueueStatus)))

- `call: Call` (http/call.py) is the caller and its place: `call.ask(METHOD, MESSAGE)` calls a service of the leader,
  wherever that is; `call.stream(...)` yields the answers of a stream; `call.state` is this master's own copy of the
  state. Errors are ApiErrors (base/errors.py), raised anywhere: http/problems.py gives each its status.
- The answer is the JSON of a record by its Document, in a JsonResponse; `answers(NAME, document.schema())` puts its
  schema into the OpenAPI document, once per NAME. A route is `async def`: FastAPI would run others in threads.
- Query parameters are the handler's parameters, `Annotated[int, Query(ge=1, le=1000, description=...)]`; what is not
  named is refused. A body is read by `read_json(request)` or `read_body(request, limit)`, and described by
  `openapi_extra=body_of(NAME, schema)`.
- A route that changes something takes `names: Names` (the Idempotency-Key): its request has
  `client_id=names.client_id, request_id=names.request_id`.
- Pages (gosched.master.web) are plain APIRouters with `include_in_schema=False`, given to `make_app(..., pages=...)`;
  their handlers take `call: Call` too.

What a call passes through before is in http/entrance.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route

from gosched import __version__
from gosched.api.json.values import Json
from gosched.master.base.errors import ApiError
from gosched.master.http import (
    access,
    cluster,
    events,
    history,
    jobs,
    logs,
    nodes,
    probes,
    queues,
    reservations,
    secrets,
    status,
    submissions,
)
from gosched.master.http.call import JsonResponse, Services
from gosched.master.http.openapi import openapi_document
from gosched.master.http.probes import Probes
from gosched.master.http.problems import Problem, on_api_error, on_bug, on_http_error, on_hung_up, on_invalid

ROUTERS = (
    *(status.router, cluster.router, nodes.router, queues.router, reservations.router, access.router, secrets.router),
    *(jobs.router, submissions.router, logs.router, events.router, history.router),
)


def make_app(services: Services, checks: Probes, pages: Sequence[APIRouter] = ()) -> FastAPI:
    """Return the application of all routes. `pages`: further routers, for the web page at `/`."""
    app = FastAPI(
        title="gosched", version=__version__, openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    routers = (*ROUTERS, probes.router(checks), *pages)
    for router in routers:
        app.include_router(router)
    app.add_exception_handler(ApiError, on_api_error)
    app.add_exception_handler(HTTPException, partial(_on_http_error, routers))
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(ClientDisconnect, on_hung_up)
    app.add_exception_handler(Exception, on_bug)
    document: Json = {}

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> JsonResponse:
        document.update(document or await asyncio.to_thread(openapi_document, app))  # it takes a moment
        return JsonResponse(document)

    return app


async def _on_http_error(routers: Sequence[APIRouter], request: Request, error: Exception) -> Problem:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:  # Starlette names the methods of the first route of the path alone
        routes = [route for router in routers for route in router.routes if isinstance(route, Route | APIRoute)]
        methods = {m for r in routes if r.path_regex.match(request.scope["path"]) for m in r.methods or ()}
        error = HTTPException(405, error.detail, headers={"Allow": ", ".join(sorted(methods))})
    return await on_http_error(request, error)
