"""What an API call can fail with, and the one place that maps it to gRPC codes and HTTP statuses."""

from __future__ import annotations

from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.reasons import RefusalReason
from gosched.core.rules.values import check_id
from gosched.wire.codec import to_record

R = TypeVar("R")

_GRPC = {
    Code.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    Code.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Code.ALREADY_EXISTS: grpc.StatusCode.ALREADY_EXISTS,
    Code.STALE_EPOCH: grpc.StatusCode.FAILED_PRECONDITION,
    Code.STALE_INCARNATION: grpc.StatusCode.FAILED_PRECONDITION,
    Code.CONFLICT: grpc.StatusCode.FAILED_PRECONDITION,
    Code.EXHAUSTED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Code.MACHINE_BUG: grpc.StatusCode.INTERNAL,
    Code.OUT_OF_TIME: grpc.StatusCode.FAILED_PRECONDITION,
}

_REASONS = {
    Code.MACHINE_BUG: RefusalReason.MACHINE_BUG,
    Code.OUT_OF_TIME: RefusalReason.REQUEST_OUT_OF_TIME,
}

HTTP_STATUS = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.FAILED_PRECONDITION: 409,
    grpc.StatusCode.ABORTED: 412,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}


class ApiError(Exception):
    """A call that failed, with one line for people."""

    def __init__(self, code: grpc.StatusCode, detail: str, *, reason: str = "", audited: str = "") -> None:
        """`reason`: a RefusalReason; empty where the status says enough to a program. `audited`: what the audit log is
        told in the place of `detail`, where the caller is not to know."""
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.reason = reason
        self.audited = audited


def invalid(detail: str) -> ApiError:
    return ApiError(grpc.StatusCode.INVALID_ARGUMENT, detail)


def check_request_id(request: Any) -> None:
    """Raises ApiError for a change whose `client_id` or `request_id` is too long, or cannot be printed."""
    for name in ("client_id", "request_id"):
        if found := check_id(name, getattr(request, name)):
            raise invalid(str(found))


def not_found(detail: str, *, audited: str = "") -> ApiError:
    """Return the error; `audited`: why it is one in truth, where the caller may not know."""
    return ApiError(grpc.StatusCode.NOT_FOUND, detail, audited=audited)


def unavailable(detail: str) -> ApiError:
    return ApiError(grpc.StatusCode.UNAVAILABLE, detail)


def unmet(detail: str) -> ApiError:
    return ApiError(grpc.StatusCode.FAILED_PRECONDITION, detail)


def busy(detail: str) -> ApiError:
    return ApiError(grpc.StatusCode.RESOURCE_EXHAUSTED, detail)


def accepted(outcome: Outcome) -> Accepted:
    """Return the outcome. Raises ApiError for a rejection."""
    if isinstance(outcome, Rejected):
        reason = _REASONS.get(outcome.code, RefusalReason.REJECTED)
        raise ApiError(_GRPC[outcome.code], outcome.detail, reason=reason)
    return outcome


def tried(outcome: Outcome) -> Accepted:
    """Return the outcome of what a leader repeats by itself. One that met a bug has changed nothing, and is no reason
    to lead no more. Raises ApiError for another rejection."""
    if isinstance(outcome, Rejected) and outcome.code is Code.MACHINE_BUG:
        return Accepted(unchanged=True)
    return accepted(outcome)


def parsed(message: Message, kind: type[R]) -> R:
    """Return the record of a message from outside. Raises ApiError."""
    try:
        return to_record(message, kind)
    except ValueError as error:
        raise invalid(f"{kind.__name__}: {error}") from error
