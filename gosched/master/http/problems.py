"""Errors over HTTP: application/problem+json (RFC 9457) with a code for programs, words for people and what to do.

Invariant: every error of the server has this form, whoever notices it.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import grpc
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request

from gosched.api.json.values import Json
from gosched.core.reasons import RefusalReason
from gosched.logs.failures import exhausted
from gosched.master.base.errors import HTTP_STATUS, ApiError
from gosched.master.http.call import JsonResponse

RETRY_AFTER_S = 1

#: What to do, by status, where the words do not say it.
_ACTIONS = {
    400: "correct the request; /openapi.json describes it",
    401: "send Authorization: Bearer and a token, or a certificate, or log in",
    403: "ask an administrator for a role that may, or use a certificate that has it",
    404: "look at the name; /openapi.json has all paths",
    405: "use a method that the Allow header names",
    408: "send the whole request at once",
    409: "read the state again, then decide",
    410: "read what there is now, and go on after the revision that the answer names",
    412: "read it again with its new ETag, then decide",
    413: "send less at once",
    415: "send another media type, as /openapi.json says",
    421: "call the master by its address, or add the name to server.http_hosts",
    429: "wait as long as Retry-After says, then call again with fewer calls at once",
    431: "send fewer or shorter headers",
    500: "please report it, with this master's log",
    501: "send a plain HTTP/1.1 request",
    503: "wait as long as Retry-After says, then call again",
    504: "call again; with the same Idempotency-Key nothing is done twice",
}
#: The codes of statuses that gRPC has no word for.
_CODES = {405: "METHOD_NOT_ALLOWED", 412: "PRECONDITION_FAILED", 413: "TOO_LARGE", 415: "UNSUPPORTED_MEDIA_TYPE"}

#: The statuses of errors that gRPC's code alone does not tell apart.
_STATUS_OF_REASON: Mapping[str, int] = {RefusalReason.HISTORY_COMPACTED: 410}

problem_schema: Json = {
    "title": "Problem",
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "action": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail", "code", "action"],
}


def problem_body(status: int, detail: str, code: str = "", action: str = "") -> Json:
    """Return the JSON of a problem."""
    phrase = HTTPStatus(status).phrase
    return {
        "type": "about:blank",
        "title": phrase,
        "status": status,
        "detail": detail,
        "code": code or _CODES.get(status) or phrase.upper().replace(" ", "_"),
        "action": action or _ACTIONS.get(status, ""),
    }


class Problem(JsonResponse):
    media_type = "application/problem+json"

    def __init__(
        self, status: int, detail: str, code: str = "", headers: Mapping[str, str] | None = None, *, action: str = ""
    ) -> None:
        body = problem_body(status, detail, code, action)
        more = {"Retry-After": str(RETRY_AFTER_S)} if status in (429, 503) else {}
        super().__init__(body, status, {**more, **(headers or {})})


def problem_of(error: ApiError) -> Problem:
    """Return the problem of an error of the API."""
    status = _STATUS_OF_REASON.get(error.reason) or HTTP_STATUS.get(error.code, 500)
    return Problem(status, error.detail, error.reason or error.code.name)


async def on_api_error(request: Request, error: Exception) -> Problem:
    assert isinstance(error, ApiError)
    return problem_of(error)


async def on_http_error(request: Request, error: Exception) -> Problem:
    assert isinstance(error, HTTPException)
    detail = error.detail
    if error.status_code == 404:
        detail = f"there is nothing at {request.scope['path'][:200]!a}"
    elif error.status_code == 405:
        detail = f"{request.scope['path'][:200]!a} has no method {request.method[:20]!a}"
    return Problem(error.status_code, detail, headers=error.headers)


async def on_invalid(request: Request, error: Exception) -> Problem:
    """A parameter that FastAPI does not take."""
    assert isinstance(error, RequestValidationError)
    found = [f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors()[:5]]
    return Problem(400, "; ".join(found), grpc.StatusCode.INVALID_ARGUMENT.name)


async def on_hung_up(request: Request, error: Exception) -> Problem:
    """A caller that has gone before its request was whole: nobody reads this, and metrics count it with the bad
    requests."""
    return Problem(400, "the connection ended before the request was whole")


async def on_bug(request: Request, error: Exception) -> Problem:
    if why := exhausted(error):
        return Problem(503, why, grpc.StatusCode.RESOURCE_EXHAUSTED.name)
    return Problem(500, f"internal error: {type(error).__name__}", grpc.StatusCode.INTERNAL.name)
