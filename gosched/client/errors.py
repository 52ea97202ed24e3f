"""The errors of the client. Invariant: each exit code of the contract has one class."""

from __future__ import annotations

from typing import Any

import grpc


class GoSchedError(Exception):
    """One line for people. `exit_code` is what a program ends with."""

    exit_code = 1


class Misused(GoSchedError):
    """No master was asked: what the caller gave makes no sense, such as an endpoint that is none."""

    exit_code = 2


class Refused(GoSchedError):
    """The cluster understood the request and refused it; nothing was changed."""


class NotFound(Refused):
    pass


class AlreadyExists(Refused):
    """The name is taken by a live job with another spec."""


class Denied(GoSchedError):
    exit_code = 4


class Unavailable(GoSchedError):
    """No master could be reached, or there is no leader. A change may or may not have happened."""

    exit_code = 5


class TimedOut(GoSchedError):
    """The caller's own time limit has passed; the cluster goes on."""

    exit_code = 124


def is_transient(error: Any) -> bool:
    """Tell whether to ask another master: this one is gone or frozen, has no leader, or does not know what became of
    the call."""
    code, details = error.code(), error.details() or ""
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED):
        return True
    # A master that dies in the middle of an answer shows up as one of these.
    return (code is grpc.StatusCode.INTERNAL and "RST_STREAM" in details) or (
        code is grpc.StatusCode.UNKNOWN and "Stream removed" in details
    )


def from_rpc(error: Any) -> GoSchedError:
    """Return the exception for an answer that another master would give, too."""
    code = error.code()
    detail = " ".join((error.details() or code.name).split())
    if code is grpc.StatusCode.NOT_FOUND:
        return NotFound(detail)
    if code is grpc.StatusCode.ALREADY_EXISTS:
        return AlreadyExists(detail)
    if code in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED):
        return Denied(detail)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return Refused("the master that was asked is of an older release and does not know this call: upgrade it first")
    return Refused(detail)
