"""What each HTTP call passes through before its handler, and its answer on the way back.

Invariant: the caller is known, allowed and has its place before anything of its request is looked at; and what waits
for a slow reader is counted, and given up after a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable

import grpc
import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gosched.core.trace_context import HEADER, context_of_call
from gosched.logs.failures import exhausted
from gosched.master.api.lanes import Lane
from gosched.master.base.access import Access
from gosched.master.base.audited import Audit, begin_http
from gosched.master.base.callers import Caller, Callers, check_allowed, denied
from gosched.master.base.clock import Clock
from gosched.master.base.errors import HTTP_STATUS, ApiError
from gosched.master.base.methods import HTTP_METHOD
from gosched.master.base.turns import Turns
from gosched.master.http import probes, session
from gosched.master.http.call import CALL, HttpCall, Services
from gosched.master.http.origin import Hosts, cross_site
from gosched.master.http.problems import Problem, problem_of
from gosched.master.http.protocol import TRANSPORT
from gosched.master.http.routes import routed_path
from gosched.observe.metrics import MasterMetrics

PIECE_BYTES = 64 * 1024
GONE = 499  # in metrics: no caller sees it
REFUSALS = (401, 403)  # that the audit log has
_TELL_NOTHING = ("/healthz", "/readyz")  # that a master is there shows its port
WRITE_S = 20.0  # for a reader to take one piece

log = structlog.get_logger()


class Entrance:
    """Who calls and what it may, from which page, its place, its duration, the revision."""

    def __init__(
        self,
        app: ASGIApp,
        services: Services,
        hosts: Hosts,
        metrics: MasterMetrics,
        clock: Clock,
        access: Access,
        cluster_id: Callable[[], str],
        audit: Audit,
        callers: Callers,
        turns: Turns,
    ) -> None:
        self._app = app
        self._services = services
        self._hosts = hosts
        self._metrics = metrics
        self._clock = clock
        self._access = access
        self._cluster_id = cluster_id
        self._audit = audit
        self._callers = callers
        self._turns = turns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = self._clock.monotonic_s()
        begin_http()
        is_head = scope["method"] == "HEAD"  # FastAPI has none of its own
        inner = {**scope, "path": routed_path(scope), "method": "GET" if is_head else scope["method"]}
        answer = _Answer(inner, send, self._services, without_body=is_head)
        try:
            await self._turns.begin()
            if scope["state"][TRANSPORT].is_closing():
                answer.status = GONE  # nothing is done for a caller that has gone
                return
            await self._serve(inner, receive, answer)
        except asyncio.CancelledError:
            scope["state"][TRANSPORT].abort()  # the server stops
        finally:
            route = getattr(inner.get("route"), "path", "unknown")
            self._metrics.http_ended(route, answer.status, self._clock.monotonic_s() - started)
            if answer.status in REFUSALS or (answer.why and answer.status >= 400):
                self._record(scope, answer)

    async def _serve(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        try:
            caller = await self._caller(scope)
            answer.caller = caller
            if problem := self._refusal(scope):
                await problem(scope, receive, answer)
                return
            if scope["path"] not in probes.PATHS:
                check_allowed(caller, HTTP_METHOD, self._cluster_id())
            place = self._services.lanes.arrive(Lane.CALLS, caller)
        except ApiError as error:
            answer.why = error.audited
            if error.code is grpc.StatusCode.UNAUTHENTICATED and self._may_log_in(scope):
                query = scope["query_string"].decode("latin-1")
                await session.login_first(scope["path"], query)(scope, receive, answer)
            else:
                await problem_of(error)(scope, receive, answer)
            return
        given = [(HEADER, value.decode("latin-1")) for name, value in scope["headers"] if name == HEADER.encode()]
        call = scope[CALL] = HttpCall(self._services, caller, place, context_of_call(given))
        try:
            await self._app(scope, receive, answer)
        except Exception as error:  # its answer is sent already
            why = exhausted(error)
            said = {"why": why} if why else {"exc_info": error}
            log.error("an HTTP call failed", method=scope["method"], path=scope["path"][:200], **said)
        finally:
            answer.why = call.why
            call.leave()

    async def _caller(self, scope: Scope) -> Caller:
        """Return who calls. A guest may be nobody where the form to log in is. Raises ApiError."""
        seen, headers = self._callers.of_request(scope["state"][TRANSPORT]), Headers(scope=scope)
        if seen.is_guest and (session.is_open(scope["path"]) or (seen.role is None and scope["path"] in _TELL_NOTHING)):
            return seen
        return await self._access.authenticated(seen, session.credentials(headers))

    def _record(self, scope: Scope, answer: _Answer) -> None:
        """Put a refusal into the audit log."""
        transport = scope["state"][TRANSPORT]
        caller = answer.caller
        if caller is None:
            with contextlib.suppress(ApiError):
                caller = self._callers.of_request(transport)
        peer = transport.get_extra_info("peername") if transport else None
        reason, code = "", next((code.name for code, status in HTTP_STATUS.items() if status == answer.status), "")
        with contextlib.suppress(ValueError, KeyError, TypeError):
            problem = json.loads(answer.refusal)
            reason, code = str(problem["detail"]), str(problem["code"])
        action = f"HTTP/{scope['method']} {scope['path'][:200]}"
        self._audit.refused_http(action, caller, str(peer[0]) if peer else "", code, answer.why or reason)

    def _refusal(self, scope: Scope) -> Problem | None:
        """Return why a request is refused that is not from this master's own page, or that two readers would take for
        two different ones."""
        headers = Headers(scope=scope)
        if "transfer-encoding" in headers and "content-length" in headers:
            detail = "the request has a Content-Length and a Transfer-Encoding: send one of them"
            return Problem(400, detail, headers={"Connection": "close"})
        host = headers.get("host", "")
        if scope["scheme"] == "http" and scope["path"] not in probes.PATHS and not self._hosts.takes(host):
            return Problem(421, f"the Host {host[:200]!a} is no name of this master")
        if why := cross_site(scope["method"], headers):
            return problem_of(denied(f"changes are taken from this master's own pages and from programs: {why}"))
        return None

    def _may_log_in(self, scope: Scope) -> bool:
        """Return whether a browser without a certificate asks for a page."""
        with contextlib.suppress(ApiError):
            is_guest = self._callers.of_request(scope["state"][TRANSPORT]).is_guest
            return is_guest and session.wants_page(scope["method"], Headers(scope=scope))
        return False


class _Answer:
    """The way of an answer to its reader: `send` of an ASGI call.

    `without_body`: it ends with its head. A handler that streams is then told that its reader has gone.
    """

    def __init__(self, scope: Scope, send: Send, services: Services, *, without_body: bool) -> None:
        self.status = 500
        #: None: it is not known yet, or cannot be read.
        self.caller: Caller | None = None
        #: Why it is a refusal, where its reader is not to know.
        self.why = ""
        #: The body of a refusal.
        self.refusal = b""
        self._scope = scope
        self._send = send
        self._services = services
        self._without_body = without_body
        self._start: Message | None = None
        self._ended = False

    async def __call__(self, message: Message) -> None:
        """Send a message, in pieces that its reader has to take in time. The head waits for the body's first part: if
        that is too much to keep for the reader, the answer is a problem."""
        if self._ended:
            return
        if message["type"] == "http.response.start":
            self._start = message
            return
        if self._start is not None:
            start, self._start = self._start, None
            if refusal := self._hold(len(message.get("body", b""))):
                await refusal(self._scope, _nothing, self)
                return
            self.status = start["status"]
            if self.status in REFUSALS:
                self.refusal = message.get("body", b"")
            await self._write({**start, "headers": [*start.get("headers", ()), *self._headers()]})
        if self._without_body:
            self._ended = True
            await self._write({"type": "http.response.body", "body": b"", "more_body": False})
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        for offset in range(0, max(len(body), 1), PIECE_BYTES):
            rest = offset + PIECE_BYTES < len(body)
            piece = body[offset : offset + PIECE_BYTES]
            await self._write({"type": message["type"], "body": piece, "more_body": rest or more})
            if rest:
                await asyncio.sleep(0)  # a reader that takes pieces at once must not keep the loop for megabytes

    def _hold(self, size: int) -> Problem | None:
        call: HttpCall | None = self._scope.get(CALL)
        try:
            if call is not None and size > PIECE_BYTES:
                call.hold(size)
        except ApiError as error:
            return problem_of(error)
        return None

    async def _write(self, message: Message) -> None:
        try:
            async with asyncio.timeout(WRITE_S):
                await self._send(message)
        except TimeoutError:
            self._scope["state"][TRANSPORT].abort()  # what is sent from now on goes nowhere

    def _headers(self) -> list[tuple[bytes, bytes]]:
        call: HttpCall | None = self._scope.get(CALL)
        revision = (call.revision if call else 0) or self._services.replication.state.revision
        return [
            (b"x-gosched-revision", str(revision).encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"cross-origin-resource-policy", b"same-origin"),
        ]


async def _nothing() -> Message:
    return {"type": "http.disconnect"}
