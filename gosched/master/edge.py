"""The edge of the gRPC API: routing to the leader, mapping of errors, counting of calls.

Rule: SchedulerService and NodeService are served by the leader; any other master passes the bytes on, and a call that
was passed on once is not passed on again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn

import grpc
import structlog
from google.protobuf.message import DecodeError

from gosched.core.cluster import Master
from gosched.master.channels import Channels
from gosched.master.errors import ApiError, invalid, unavailable
from gosched.master.leadership import Leadership
from gosched.master.relay import relay
from gosched.observe.metrics import MasterMetrics

FORWARDED = "gosched-forwarded"
FIND_LEADER_S = 1.0
_ROUTED = ("/gosched.v1.SchedulerService/", "/gosched.v1.NodeService/")
_OWN = "/gosched.v1."

log = structlog.get_logger()


class Edge(grpc.aio.ServerInterceptor):
    def __init__(self, leadership: Leadership, masters: Channels, metrics: MasterMetrics) -> None:
        self._leadership = leadership
        self._masters = masters
        self._metrics = metrics

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], details: grpc.HandlerCallDetails
    ) -> Any:
        handler = await continuation(details)
        if handler is None or not details.method.startswith(_OWN):
            return handler
        routed = details.method.startswith(_ROUTED)
        if handler.request_streaming:

            async def both_ways(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
                async for message in self._both_ways(handler, details.method, routed, requests, context):
                    yield message

            return grpc.stream_stream_rpc_method_handler(both_ways)

        if handler.response_streaming:

            async def stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
                async for message in self._stream(handler, details.method, routed, request, context):
                    yield message

            return grpc.unary_stream_rpc_method_handler(stream)

        async def unary(request: bytes, context: Any) -> bytes:
            return await self._unary(handler, details.method, routed, request, context)

        return grpc.unary_unary_rpc_method_handler(unary)

    async def _unary(self, handler: Any, method: str, routed: bool, request: bytes, context: Any) -> bytes:
        try:
            leader = await self._route(context) if routed else None
            if leader is not None:
                answer = await self._forward_unary(leader, method, request, context)
            else:
                message = await handler.unary_unary(_parsed(handler, request), context)
                answer = handler.response_serializer(message)
        except Exception as error:
            await self._fail(error, method, context)
        self._metrics.rpc_ended(method, "OK")
        return answer

    async def _stream(
        self, handler: Any, method: str, routed: bool, request: bytes, context: Any
    ) -> AsyncIterator[bytes]:
        try:
            leader = await self._route(context) if routed else None
            if leader is not None:
                async for data in self._forward_stream(leader, method, request, context):
                    yield data
            else:
                async for message in handler.unary_stream(_parsed(handler, request), context):
                    yield handler.response_serializer(message)
        except Exception as error:
            await self._fail(error, method, context)
        self._metrics.rpc_ended(method, "OK")

    async def _both_ways(
        self, handler: Any, method: str, routed: bool, requests: AsyncIterator[bytes], context: Any
    ) -> AsyncIterator[bytes]:
        """What was passed on stays with its master, also when another one leads meanwhile."""
        try:
            leader = await self._route(context) if routed else None
            if leader is not None:
                call = self._masters.to(leader.grpc_address).stream_stream(method)(
                    timeout=context.time_remaining(), metadata=((FORWARDED, "1"),)
                )
                async for data in relay(call, requests):
                    yield data
            else:
                async for message in handler.stream_stream(_each_parsed(handler, requests), context):
                    yield handler.response_serializer(message)
        except Exception as error:
            await self._fail(error, method, context)
        self._metrics.rpc_ended(method, "OK")

    async def _route(self, context: Any) -> Master | None:
        """None: served here. Raises ApiError."""
        leader = await self._leadership.find(FIND_LEADER_S)
        if leader is not None and any(key == FORWARDED for key, _ in context.invocation_metadata() or ()):
            raise unavailable("the leader has changed; try again")
        return leader

    async def _forward_unary(self, leader: Master, method: str, request: bytes, context: Any) -> bytes:
        call: Any = self._masters.to(leader.grpc_address).unary_unary(method)(
            request, timeout=context.time_remaining(), metadata=((FORWARDED, "1"),)
        )
        try:
            answer: bytes = await self._while_leading(leader, call)
            return answer
        finally:
            call.cancel()

    async def _forward_stream(self, leader: Master, method: str, request: bytes, context: Any) -> AsyncIterator[bytes]:
        call = self._masters.to(leader.grpc_address).unary_stream(method)(
            request, timeout=context.time_remaining(), metadata=((FORWARDED, "1"),)
        )
        try:
            while (data := await self._while_leading(leader, call.read())) is not grpc.aio.EOF:
                yield data
        finally:
            call.cancel()

    async def _while_leading(self, leader: Master, answer: Awaitable[Any]) -> Any:
        """The answer, unless another leader comes first: the old one may be frozen and never answer."""
        waiting = asyncio.ensure_future(answer)
        try:
            while self._leadership.leader() == leader:
                changed = asyncio.ensure_future(self._leadership.change())
                await asyncio.wait([waiting, changed], return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                if waiting.done():
                    return waiting.result()
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                # A dead leader refuses at once; its successor is worth waiting for before the caller tries again.
                await self._leadership.moved_from(leader, FIND_LEADER_S)
            raise
        finally:
            waiting.cancel()
        raise unavailable("the leader has changed; try again")

    async def _fail(self, error: Exception, method: str, context: Any) -> NoReturn:
        code, detail = _status_of(error)
        if code is grpc.StatusCode.INTERNAL:
            log.error("a call failed", method=method, exc_info=error)
        self._metrics.rpc_ended(method, code.name)
        await context.abort(code, detail)
        raise AssertionError("abort raises")


def _parsed(handler: Any, request: bytes) -> Any:
    try:
        return handler.request_deserializer(request)
    except DecodeError as error:
        raise invalid(f"the request cannot be read ({error}): text must be UTF-8") from error


async def _each_parsed(handler: Any, requests: AsyncIterator[bytes]) -> AsyncIterator[Any]:
    async for request in requests:
        yield _parsed(handler, request)


def _status_of(error: Exception) -> tuple[grpc.StatusCode, str]:
    if isinstance(error, ApiError):
        return error.code, error.detail
    if isinstance(error, grpc.aio.AioRpcError):  # the leader's own answer, or that there was none
        return error.code(), error.details() or error.code().name
    return grpc.StatusCode.INTERNAL, f"internal error, please report it: {error!r}"
