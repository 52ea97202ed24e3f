"""The errors of the client. Invariant: each exit code of the contract has one class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gosched.core.reasons import RefusalReason
from gosched.wire.metadata import REASON

if TYPE_CHECKING:
    from gosched.api.details import JobDetail


class GoSchedError(Exception):
    """One line for people. `exit_code` is what a program ends with."""

    exit_code = 1


class Misused(GoSchedError):
    """No master was asked: what the caller gave makes no sense, such as an endpoint that is none."""

    exit_code = 2


class Refused(GoSchedError):
    """The cluster understood the request and refused it; nothing was changed."""


class NotFound(Refused):
    """There is no job, node, queue or log of this name (any more)."""


class AlreadyExists(Refused):
    """The name is taken by a live job with another spec."""


class Denied(GoSchedError):
    """The caller is not known, or its role does not allow it."""

    exit_code = 4


class Unavailable(GoSchedError):
    """No master could be reached, or there is no leader. A change may or may not have happened."""

    exit_code = 5

    def __init__(self, text: str = "", *, was_reached: bool = False, request_id: str = "") -> None:
        super().__init__(text)
        #: Of a change that may have happened: a repeat under it, soon enough, does not do it twice. Empty: none.
        self.request_id = request_id
        #: Some master has answered, although it could not do it: the endpoints are right.
        self.was_reached = was_reached


class Unreachable(Unavailable):
    """No master can be reached, and it is known why of each. Nothing was sent."""


class OutOfTime(Unavailable):
    """The change was not made now, since its request id was made too long ago, or by a clock that is ahead. An earlier
    try of it may have happened."""


class TimedOut(GoSchedError):
    """The caller's own time limit has passed; the cluster goes on."""

    exit_code = 124


class JobFailed(GoSchedError):
    """A job whose result was asked for has ended, and not by success. `detail` is the job as it ended."""

    def __init__(self, detail: JobDetail) -> None:
        job = detail.job
        why = ": ".join(part for part in (job.reason, job.detail) if part)
        code = "" if job.exit_code is None else f" with code {job.exit_code}"
        super().__init__(f"job {job.spec.name} ({job.id}) is {job.state.name}{code}{f' ({why})' if why else ''}")
        self.detail = detail
        self.exit_code = detail.exit_code


def is_transient(error: Any) -> bool:
    """Tell whether to ask another master: this one is gone or frozen, has no leader, or does not know what became of
    the call. `error`: of gRPC, which this module does not import: it takes long."""
    code, details = error.code().name, error.details() or ""
    if code in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"):
        return True
    # A master that dies in the middle of an answer shows up as one of these.
    return (code == "INTERNAL" and "RST_STREAM" in details) or (code == "UNKNOWN" and "Stream removed" in details)


def reason_of(error: Any) -> str:
    """Return the code that came with an error beside its status; empty: none."""
    return next((str(value) for key, value in error.trailing_metadata() or () if key == REASON), "")


def from_rpc(error: Any) -> GoSchedError:
    """Return the exception for an answer that another master would give, too."""
    code = error.code().name
    detail = " ".join((error.details() or code).split())
    if reason_of(error) == RefusalReason.REQUEST_OUT_OF_TIME:
        return OutOfTime(detail)
    match code:
        case "NOT_FOUND":
            return NotFound(detail)
        case "ALREADY_EXISTS":
            return AlreadyExists(detail)
        case "PERMISSION_DENIED" | "UNAUTHENTICATED":
            return Denied(detail)
        case "UNIMPLEMENTED":
            return Refused(
                "the master that was asked is of an older release and does not know this call: upgrade it first"
            )
    return Refused(detail)
