"""Carries out calls, pages and streams with asyncio, as `gosched/client/transport.py` does without."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import grpc

from gosched.client.aio.masters import AsyncMasters, cancelled_as
from gosched.client.calls import STREAM_S, Call, Pages, Stream
from gosched.client.change_tries import ChangeTries, MastersClock
from gosched.client.errors import Misused, OutOfTime, Unavailable, from_rpc, is_transient
from gosched.client.methods import described, prepared
from gosched.client.requests.cluster import get_status
from gosched.client.targets import CLOSED, TRY_S, TlsFiles, Token, pause_s
from gosched.client.transport import left_s

P = ParamSpec("P")
T = TypeVar("T")


class AsyncTransport:
    """What all methods of a client share: the masters, and how long a call looks for one that answers."""

    def __init__(
        self,
        endpoints: str | Sequence[str],
        tls: TlsFiles | None,
        token: Token,
        timeout_s: float,
        *,
        fails_fast: bool,
    ) -> None:
        self._masters = AsyncMasters(endpoints, tls, token, fails_fast=fails_fast)
        self._timeout_s = timeout_s
        self._client_id = uuid.uuid4().hex
        self._clock = MastersClock()

    async def _do(self, call: Call[T]) -> T:
        """Return the answer. A leader that lost its majority may have logged what it could not commit; the next one
        may commit it."""
        call.named(self._client_id, self._clock.now_ms())
        if call.address:
            return call.read(await self._at(call))
        tries = ChangeTries(call)

        async def send(channel: Any, timeout: float) -> Any:
            with tries.one():
                sent = call.rpc.unary(channel)(call.request, timeout=timeout, metadata=call.metadata)
                answer = await sent
            self._masters.passed_on(await sent.trailing_metadata())
            return answer

        timeout_s, try_s = self._timeout_s + call.more_s, TRY_S + call.more_s
        try:
            try:
                return call.read(await self._masters.call(send, timeout_s=timeout_s, try_s=try_s))
            except OutOfTime:
                if tries.may_be_done:
                    raise
                self._clock.learn((await self._do(get_status())).clock_ms)
                if not call.renewed(self._clock.now_ms()):
                    raise
                return call.read(await self._masters.call(send, timeout_s=timeout_s, try_s=try_s))
        except Unavailable as error:
            if (explained := tries.explained(error)) is None:
                raise
            raise explained from error

    async def _at(self, call: Call[T]) -> Any:
        """Return what one master answers."""
        try:
            with cancelled_as(Misused(CLOSED)):
                channel = await self._masters.at(call.address)
            return await call.rpc.unary(channel)(call.request, timeout=TRY_S)
        except grpc.RpcError as error:
            if is_transient(error):
                raise Unavailable(f"{call.address} does not answer") from error
            raise from_rpc(error) from error

    async def _each(self, pages: Pages[T]) -> AsyncIterator[T]:
        while (call := pages.next_call()) is not None:
            for item in await self._do(call):
                yield item

    async def _follow(self, stream: Stream[T]) -> AsyncIterator[T]:
        """Yield what a stream yields, which is opened anew whenever it breaks. Raises TimedOut after its time."""
        ends = None if stream.timeout_s is None else time.monotonic() + stream.timeout_s
        if (first := stream.first()) is not None:
            await self._do(first)
        patience_s = self._timeout_s
        while True:
            async for channel, _ in self._masters.tries(patience_s):
                opened = stream.rpc.stream(channel)(stream.request(), timeout=left_s(ends))
                progressed = False
                try:
                    with cancelled_as(Misused(CLOSED)):
                        async for message in opened:
                            progressed = True
                            for item in stream.take(message):
                                yield item
                            if stream.ended:
                                return
                    if stream.until_closed:
                        return
                except grpc.RpcError as error:
                    left_s(ends)
                    self._masters.failed(error)
                finally:
                    opened.cancel()
                if progressed:
                    self._masters.answered()
                    patience_s = max(self._timeout_s, STREAM_S)
                    await asyncio.sleep(pause_s())  # a master that breaks off each time is not asked all the time
                    break  # it worked for a while: the time to find a leader begins anew


def calling(build: Callable[P, Call[T]]) -> Callable[Concatenate[AsyncTransport, P], Coroutine[Any, Any, T]]:
    """Return the method that makes the call which `build` returns for its arguments."""

    async def method(self: AsyncTransport, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._do(prepared(build, args, kwargs))

    return described(method, build, "{}")


def listing(build: Callable[P, Pages[T]]) -> Callable[Concatenate[AsyncTransport, P], Coroutine[Any, Any, list[T]]]:
    """Return the method that lists all that the pages hold."""

    async def method(self: AsyncTransport, /, *args: P.args, **kwargs: P.kwargs) -> list[T]:
        return [item async for item in self._each(prepared(build, args, kwargs))]

    return described(method, build, "list[{}]")


def turning(build: Callable[P, Pages[T]]) -> Callable[Concatenate[AsyncTransport, P], AsyncIterator[T]]:
    """Return the method that yields what the pages hold, and asks for each page when it is needed."""

    def method(self: AsyncTransport, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        return self._each(prepared(build, args, kwargs))

    return described(method, build, "AsyncIterator[{}]")


def following(build: Callable[P, Stream[T]]) -> Callable[Concatenate[AsyncTransport, P], AsyncIterator[T]]:
    """Return the method that yields what the stream yields."""

    def method(self: AsyncTransport, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        return self._follow(prepared(build, args, kwargs))

    return described(method, build, "AsyncIterator[{}]")
