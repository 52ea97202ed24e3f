"""What the audit log says of calls.

Invariant: each call is recorded once, by the master that served or refused it, not by one that passed it on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any

import grpc

from gosched.audit.record import AuditRecord, How, Outcome
from gosched.master.base.audit_object import object_of
from gosched.master.base.callers import ITSELF, Caller
from gosched.master.base.errors import ApiError
from gosched.master.base.methods import OWN, method_of

REFUSALS = frozenset({grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED})
_GONE = "the caller went away before the answer: what it asked for may have been done"
_MAX_GROUPS = 10  # of a caller that are named

#: Whether a refusal of the HTTP call that is served was recorded already, where it was noticed.
_told: ContextVar[list[bool] | None] = ContextVar("audit_told", default=None)


class Audit:
    """`put` takes records. `revision`: that of this master's state."""

    def __init__(self, put: Callable[[AuditRecord], None], master: str, revision: Callable[[], int]) -> None:
        self.put = put
        self.master = master
        self.revision = revision

    def watch(self, method: str, caller: Caller | None = None, address: str = "") -> Audited:
        """Return what watches one call: `with audit.watch(method) as audited`."""
        return Audited(self, method, caller, address)

    def refused_http(self, action: str, caller: Caller | None, address: str, code: str, reason: str) -> None:
        """Record an HTTP call that was refused, unless that was done where it was noticed."""
        if _told.get():
            return
        how, user = _authenticated(caller, self.master)
        self.put(
            AuditRecord(
                time_ms=time.time_ns() // 1_000_000,
                master=self.master,
                user=user,
                authenticated=how,
                roles=_roles(caller),
                address=address,
                action=action,
                revision=self.revision(),
                outcome=Outcome.REFUSED,
                code=code,
                reason=reason,
            )
        )


class Audited:
    """One call, until it has ended."""

    __slots__ = ("_audit", "_is_told", "address", "answer", "caller", "method", "passed_on", "request")

    def __init__(self, audit: Audit, method: str, caller: Caller | None, address: str) -> None:
        self._audit = audit
        self.method = method
        self._is_told = False
        #: None: it could not be read who calls.
        self.caller = caller
        #: Of the connection, where there is no caller.
        self.address = address
        #: The message, once it is parsed; of a stream of requests the first one.
        self.request: Any = None
        #: The message; of a stream of answers the first one.
        self.answer: Any = None
        #: Another master serves it, and records it.
        self.passed_on = False

    def __enter__(self) -> Audited:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        refused = error is not None and _is_refusal(error)
        if refused and (told := _told.get()) is not None:
            told.append(True)
        if self._is_told or (self.passed_on and not isinstance(error, ApiError)):
            return
        if refused or (method_of(self.method).is_recorded and not self.passed_on):
            self._tell(error)

    def begun(self, answer: Any) -> None:
        """Note that a stream has its first answer: it is recorded now, and not when it ends."""
        if self.answer is None:
            self.answer = answer
            if method_of(self.method).is_recorded and not self.passed_on and not self._is_told:
                self._tell(None)

    async def first_of(self, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield the requests of a stream, and note the first."""
        async for request in requests:
            if self.request is None:
                self.request = request
            yield request

    def _tell(self, error: BaseException | None) -> None:
        self._is_told = True
        audit, caller = self._audit, self.caller
        how, user = _authenticated(caller, audit.master)
        code, reason = _problem(error, self.answer)
        refused = code in REFUSALS or (error is not None and _is_refusal(error))
        outcome = Outcome.REFUSED if refused else Outcome.FAILED
        audit.put(
            AuditRecord(
                time_ms=time.time_ns() // 1_000_000,
                master=audit.master,
                user=user,
                authenticated=how,
                roles=_roles(caller),
                address=(caller.address if caller is not None else "") or self.address,
                action=self.method.removeprefix(OWN),
                object=_object_of(self.request, self.answer),
                revision=getattr(self.answer, "revision", 0) or audit.revision(),
                outcome=Outcome.ALLOWED if code is grpc.StatusCode.OK else outcome,
                code=code.name,
                reason=reason,
                request_id=getattr(self.request, "request_id", ""),
                unchanged=error is None and _is_unchanged(self.answer),
            )
        )


def begin_http() -> None:
    """Note that an HTTP call begins: its refusal is recorded where it is noticed first."""
    _told.set([])


def _object_of(request: Any, answer: Any) -> str:
    try:
        return object_of(request, answer)
    except (AttributeError, TypeError, ValueError):  # a message with other fields of these names: the call counts more
        return ""


def _authenticated(caller: Caller | None, master: str) -> tuple[How, str]:
    if caller is None:
        return How.UNKNOWN, ""
    if caller is ITSELF:
        return How.MASTER, master
    if caller.token or caller.until_ms:
        return (How.TOKEN if caller.token else How.JWT), caller.name
    if caller.is_local:
        return How.SOCKET, caller.name
    is_address = caller.role is None or caller.is_guest
    return (How.ADDRESS if is_address else How.CERTIFICATE), caller.name


def _roles(caller: Caller | None) -> str:
    if caller is None or caller.role is None:
        return ""
    return " ".join([caller.role.value, *(f"group:{group}" for group in caller.groups[:_MAX_GROUPS])])


def _is_refusal(error: BaseException) -> bool:
    """Return whether a call was refused; one may have been told that what it asked for is not there."""
    return _code_of(error) in REFUSALS or (isinstance(error, ApiError) and bool(error.audited))


def _is_unchanged(answer: Any) -> bool:
    """Return whether an answer says that nothing was changed; of several jobs, for each."""
    outcomes = getattr(answer, "outcomes", ())
    return all(one.unchanged for one in outcomes) if outcomes else bool(getattr(answer, "unchanged", False))


def _code_of(error: BaseException) -> grpc.StatusCode:
    if isinstance(error, ApiError):
        return error.code
    if isinstance(error, grpc.aio.AioRpcError):
        return error.code()
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        return grpc.StatusCode.CANCELLED
    return grpc.StatusCode.INTERNAL


def _problem(error: BaseException | None, answer: Any) -> tuple[grpc.StatusCode, str]:
    """Return the status of a call, and why it is that; of several jobs that of the first that was not submitted, where
    none was."""
    if error is not None:
        code = _code_of(error)
        if code is grpc.StatusCode.CANCELLED:
            return code, _GONE
        if isinstance(error, ApiError):
            return code, error.audited or error.detail
        return code, error.details() or "" if isinstance(error, grpc.aio.AioRpcError) else str(error)
    outcomes = getattr(answer, "outcomes", ())
    bad = [one for one in outcomes if one.code]
    if not bad:
        return grpc.StatusCode.OK, ""
    words = f"{len(bad)} of {len(outcomes)} jobs were not submitted: {bad[0].code}: {bad[0].problem}"
    code = getattr(grpc.StatusCode, bad[0].code, grpc.StatusCode.UNKNOWN)
    return (code if len(bad) == len(outcomes) else grpc.StatusCode.OK), words
