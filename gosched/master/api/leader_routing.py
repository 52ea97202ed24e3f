"""What each gRPC call of a master passes through: who calls and what it may, a place, routing to the leader, errors,
counting.

Invariant: a call that the leader serves (base/methods.py) is passed on by any other master as the bytes that it is, and
one that was passed on once is not passed on again. A call has its place before its request is read: one whose request
never comes is counted, too, and given up.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
import structlog
from google.protobuf.message import DecodeError

from gosched.core.records.master import Master
from gosched.core.trace_context import HEADER
from gosched.logs.failures import exhausted, failure_of
from gosched.master.agents.lateness import Lateness
from gosched.master.api.lanes import Lane, Lanes, Place, lane_of
from gosched.master.base.access import Access
from gosched.master.base.audited import Audit, Audited
from gosched.master.base.callers import FORWARDED, Caller, Callers, ServedCall, check_allowed
from gosched.master.base.channels import Channels
from gosched.master.base.deadlines import left_s
from gosched.master.base.errors import ApiError, invalid, unavailable
from gosched.master.base.leadership import Leadership
from gosched.master.base.methods import OWN, method_of
from gosched.master.base.relay import relay
from gosched.master.base.turns import Turns
from gosched.master.history.elsewhere import HISTORY, asked_revision
from gosched.observe.metrics import MasterMetrics
from gosched.wire.metadata import LEADER
from gosched.wire.plain_text import host_of
from gosched.wire.refusals import refusal_reason, trailer

FIND_LEADER_S = 1.0
REVISION = "gosched-revision"  # of the state that an answer is from, in the trailing metadata
TRANSFER = "TransferLeadership"  # its answer comes from a leader that leads no more
AGENTS_WAIT_S = 3.0  # for an answer to a heartbeat or a registration
REQUEST_S = 10.0  # for a request to arrive, once its call has begun
LAST_REQUEST_S = 1.0  # for that of a call that is refused in any case

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    method: str
    caller: Caller
    lane: Lane
    place: Place
    context: Any


class LeaderRouting(grpc.aio.ServerInterceptor):
    def __init__(
        self,
        leadership: Leadership,
        masters: Channels,
        metrics: MasterMetrics,
        lanes: Lanes,
        access: Access,
        cluster_id: Callable[[], str],
        revision: Callable[[], int],
        audit: Audit,
        callers: Callers,
        turns: Turns,
        lateness: Lateness,
    ) -> None:
        """`cluster_id` returns an empty text while the id is not known; `revision`, that of this master's state."""
        self._leadership = leadership
        self._masters = masters
        self._metrics = metrics
        self._lanes = lanes
        self._access = access
        self._cluster_id = cluster_id
        self._revision = revision
        self._audit = audit
        self._callers = callers
        self._turns = turns
        self._lateness = lateness

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], details: grpc.HandlerCallDetails
    ) -> Any:
        """Take each call as one whose requests are a stream: gRPC then hands it over before the first request has
        come."""
        handler = await continuation(details)
        if handler is None:
            return None
        method = details.method
        if not handler.response_streaming:

            async def unary(requests: AsyncIterator[bytes], context: Any) -> bytes:
                return await self._unary(handler, method, requests, context)

            return grpc.stream_unary_rpc_method_handler(unary)

        if not method.startswith(OWN):

            async def foreign(requests: AsyncIterator[bytes], context: Any) -> None:
                await self._foreign(handler, method, requests, context)

            return grpc.stream_stream_rpc_method_handler(foreign, response_serializer=handler.response_serializer)

        async def stream(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            async for message in self._stream(handler, method, requests, context):
                yield message

        return grpc.stream_stream_rpc_method_handler(stream)

    async def _unary(self, handler: Any, method: str, requests: AsyncIterator[bytes], context: Any) -> bytes:
        try:
            async with self._arrived(method, context, streaming=False) as (audited, call):
                request = await _only(requests, call.place)
                leader = await self._route(call)
                if leader is not None:
                    audited.passed_on = True
                    answer = await self._forward_unary(leader, call, request)
                    context.set_trailing_metadata(((LEADER, leader.grpc_address),))
                else:
                    asked = _parsed(handler, request)
                    self._access.keep_answers_apart(call.caller, asked)
                    served = self._admitted(call, asked)
                    audited.request = asked
                    audited.answer = message = await handler.unary_unary(audited.request, served)
                    context.set_trailing_metadata(((REVISION, str(self._revision())),))
                    answer = handler.response_serializer(message)
        except Exception as error:
            await self._fail(error, method, context)
        self._metrics.rpc_ended(method, "OK")
        return answer

    async def _stream(
        self, handler: Any, method: str, requests: AsyncIterator[bytes], context: Any
    ) -> AsyncIterator[bytes]:
        """Serve a stream. One that was passed on with a stream of requests stays with its master, also when another one
        leads meanwhile."""
        is_read = False
        try:
            async with self._arrived(method, context, streaming=True) as (audited, call):
                request = None if handler.request_streaming else await _only(requests, call.place)
                leader = await self._route(call)
                is_read = True
                first = await _only(requests, call.place) if request is None and leader is None else b""
                if leader is not None:
                    audited.passed_on = True
                    answers = (
                        self._forward_stream(leader, call, request)
                        if request is not None
                        else self._forward_both_ways(leader, call, requests)
                    )
                    async for data in self._access.while_valid(call.caller, answers):
                        yield data
                else:
                    served = self._admitted(call)
                    audited.request = _parsed(handler, request) if request is not None else None
                    messages = (
                        handler.unary_stream(audited.request, served)
                        if request is not None
                        else handler.stream_stream(
                            audited.first_of(_each_parsed(handler, _begun(first, requests))), served
                        )
                    )
                    async for message in self._access.while_valid(call.caller, messages):
                        audited.begun(message)
                        yield handler.response_serializer(message)
        except Exception as error:
            if not is_read:
                await _let_it_write(requests)
            await self._fail(error, method, context)
        self._metrics.rpc_ended(method, "OK")

    async def _foreign(self, handler: Any, method: str, requests: AsyncIterator[bytes], context: Any) -> None:
        """Serve streams of health and reflection, which write their answers themselves."""
        try:
            async with self._arrived(method, context, streaming=True) as (_, call):
                if handler.request_streaming:
                    await handler.stream_stream(_each_parsed(handler, requests), context)
                else:
                    await handler.unary_stream(_parsed(handler, await _only(requests, call.place)), context)
        except Exception as error:
            await self._fail(error, method, context)

    @asynccontextmanager
    async def _arrived(self, method: str, context: Any, *, streaming: bool) -> AsyncIterator[tuple[Audited, _Call]]:
        """Take a place, and tell the audit log what comes of the call. Raises ApiError for a caller that may not make
        this call, or has too many open."""
        lane = lane_of(method, streaming=streaming)
        waits_s = self._waits_s(lane, context)
        if lane is Lane.AGENTS:
            self._turns.say_alive()  # and wait behind nobody
        else:
            await self._turns.begin()
        with self._audit.watch(method, address=host_of(context.peer())) as audited:
            audited.caller = self._callers.of_call(context)
            headers = context.invocation_metadata() or ()
            audited.caller = caller = await self._access.authenticated(audited.caller, headers, method)
            check_allowed(caller, method, self._cluster_id())
            if lane is Lane.AGENTS and waits_s <= AGENTS_WAIT_S:
                agent = caller.name if caller.role is not None else context.peer()
                self._lateness.read(agent, AGENTS_WAIT_S - waits_s, passed_on=_was_passed_on(context))
            with self._lanes.place(lane, caller) as place:
                yield audited, _Call(method=method, caller=caller, lane=lane, place=place, context=context)

    def _waits_s(self, lane: Lane, context: Any) -> float:
        """Return how long the caller waits for its answer. Raise ApiError for a call that it has given up: nothing is
        done for it, and nobody knows any more whose it was."""
        left = left_s(context)
        if left is not None and left <= 0:
            if lane is Lane.AGENTS and not _was_passed_on(context):
                self._lateness.dropped()
            raise ApiError(grpc.StatusCode.DEADLINE_EXCEEDED, "its caller has given the call up before it was read")
        return math.inf if left is None else left

    def _admitted(self, call: _Call, request: Any = None) -> ServedCall:
        """Return the call for the service that serves it here. Raises ApiError where the caller may not make it."""
        self._access.check_method(call.caller, call.method, request)
        return ServedCall(caller=call.caller, metadata=tuple(call.context.invocation_metadata() or ()))

    async def _route(self, call: _Call) -> Master | None:
        """Return the leader that the call is passed on to; None: it is served here. Raises ApiError."""
        if not method_of(call.method).by_leader:
            return None
        if call.method.startswith(HISTORY) and asked_revision(call.context) is not None:
            return None  # the leader asks, which cannot read its own
        leader = await self._leadership.find(FIND_LEADER_S)
        if leader is not None and _was_passed_on(call.context):
            raise unavailable("the leader has changed; try again")
        return leader

    async def _forward_unary(self, leader: Master, call: _Call, request: bytes) -> bytes:
        sent: Any = self._to(leader, call).unary_unary(call.method)(request, **_passed_on(call))
        try:
            ends_it = call.method.endswith(f"/{TRANSFER}")
            answer: bytes = await (sent if ends_it else self._leadership.while_leading(leader, sent))
            return answer
        finally:
            sent.cancel()

    async def _forward_stream(self, leader: Master, call: _Call, request: bytes) -> AsyncIterator[bytes]:
        sent = self._to(leader, call).unary_stream(call.method)(request, **_passed_on(call))
        try:
            while (data := await self._leadership.while_leading(leader, sent.read())) is not grpc.aio.EOF:
                yield data
        finally:
            sent.cancel()

    async def _forward_both_ways(
        self, leader: Master, call: _Call, requests: AsyncIterator[bytes]
    ) -> AsyncIterator[bytes]:
        sent = self._to(leader, call).stream_stream(call.method)(**_passed_on(call))
        async for data in relay(sent, requests):
            yield data

    def _to(self, leader: Master, call: _Call) -> Any:
        """Return the channel of the call's lane. Each has a connection of its own, so an unread stream holds up no
        other lane."""
        return self._masters.to(leader.grpc_address, call.lane.value)

    async def _fail(self, error: Exception, method: str, context: Any) -> NoReturn:
        code, detail, reason = _status_of(error)
        if code is grpc.StatusCode.INTERNAL:
            log.error("a call failed", method=method, exc_info=error)
        elif exhausted(error):
            log.error("a call failed", method=method, why=detail)
        self._metrics.rpc_ended(method, code.name)
        await context.abort(code, detail, trailer(reason))
        raise AssertionError("abort raises")


def _was_passed_on(context: Any) -> bool:
    """Return whether another master sends the call."""
    return any(key == FORWARDED for key, _ in context.invocation_metadata() or ())


def _passed_on(call: _Call) -> dict[str, Any]:
    traced = [(key, value) for key, value in call.context.invocation_metadata() or () if key == HEADER]
    return {"timeout": left_s(call.context), "metadata": (*call.caller.header, *traced)}


async def _only(requests: AsyncIterator[bytes], place: Place) -> bytes:
    """Return the one request of a call. Raises ApiError."""
    try:
        async with asyncio.timeout(REQUEST_S):
            request = await anext(aiter(requests), None)
    except TimeoutError:
        request = None
    if request is None:
        raise invalid(f"no request came within {REQUEST_S:.0f} s")
    place.hold(len(request))
    return request


async def _let_it_write(requests: AsyncIterator[bytes]) -> None:
    """Read a request and drop it: a refusal before that would be hidden from who is writing it (base/relay.py)."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LAST_REQUEST_S):
            await anext(aiter(requests), None)


async def _begun(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for request in rest:
        yield request


def _parsed(handler: Any, request: bytes) -> Any:
    try:
        return handler.request_deserializer(request)
    except DecodeError as error:
        raise invalid(f"the request cannot be read ({error}): text must be UTF-8") from error


async def _each_parsed(handler: Any, requests: AsyncIterator[bytes]) -> AsyncIterator[Any]:
    async for request in requests:
        yield _parsed(handler, request)


def _status_of(error: Exception) -> tuple[grpc.StatusCode, str, str]:
    if isinstance(error, ApiError):
        return error.code, error.detail, error.reason
    if isinstance(error, grpc.aio.AioRpcError):  # the leader's own answer, or that there was none
        return error.code(), error.details() or error.code().name, refusal_reason(error)
    if why := exhausted(error):
        return grpc.StatusCode.RESOURCE_EXHAUSTED, why, ""
    return grpc.StatusCode.INTERNAL, failure_of(error), ""
