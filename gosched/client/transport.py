"""Carries out calls, pages and streams without asyncio: at whichever master answers.

Invariant: a call outlives a leader. What may have happened is asked again under the same request id; streams go on
where they broke off, with no line lost or doubled.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec, TypeVar

from gosched.client.calls import STREAM_S, Call, Pages, Stream
from gosched.client.change_tries import ChangeTries, MastersClock
from gosched.client.errors import OutOfTime, TimedOut, Unavailable
from gosched.client.methods import described, prepared
from gosched.client.targets import TRY_S, TlsFiles, Token, pause_s

P = ParamSpec("P")
T = TypeVar("T")


class Transport:
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
        from gosched.client.masters import Masters  # brings gRPC along, which takes longer than everything else

        self._masters = Masters(endpoints, tls, token, fails_fast=fails_fast)
        self._timeout_s = timeout_s
        self._client_id = uuid.uuid4().hex
        self._clock = MastersClock()

    def _do(self, call: Call[T]) -> T:
        """Return the answer. A leader that lost its majority may have logged what it could not commit; the next one
        may commit it."""
        call.named(self._client_id, self._clock.now_ms())
        if call.address:
            return call.read(self._at(call))
        tries = ChangeTries(call)

        def send(channel: Any, timeout: float) -> Any:
            with tries.one():
                answer, done = call.rpc.unary(channel).with_call(call.request, timeout=timeout, metadata=call.metadata)
            self._masters.passed_on(done.trailing_metadata())
            return answer

        timeout_s, try_s = self._timeout_s + call.more_s, TRY_S + call.more_s
        try:
            try:
                return call.read(self._masters.call(send, timeout_s=timeout_s, try_s=try_s))
            except OutOfTime:
                if tries.may_be_done:
                    raise
                from gosched.client.requests.cluster import get_status  # seldom needed

                self._clock.learn(self._do(get_status()).clock_ms)
                if not call.renewed(self._clock.now_ms()):
                    raise
                return call.read(self._masters.call(send, timeout_s=timeout_s, try_s=try_s))
        except Unavailable as error:
            if (explained := tries.explained(error)) is None:
                raise
            raise explained from error

    def _at(self, call: Call[T]) -> Any:
        """Return what one master answers."""
        import grpc

        from gosched.client.errors import from_rpc, is_transient

        try:
            return call.rpc.unary(self._masters.at(call.address))(call.request, timeout=TRY_S)
        except grpc.RpcError as error:
            if is_transient(error):
                raise Unavailable(f"{call.address} does not answer") from error
            raise from_rpc(error) from error

    def _each(self, pages: Pages[T]) -> Iterator[T]:
        while (call := pages.next_call()) is not None:
            yield from self._do(call)

    def _follow(self, stream: Stream[T]) -> Iterator[T]:
        """Yield what a stream yields, which is opened anew whenever it breaks. Raises TimedOut after its time."""
        import grpc

        ends = None if stream.timeout_s is None else time.monotonic() + stream.timeout_s
        if (first := stream.first()) is not None:
            self._do(first)
        patience_s = self._timeout_s
        while True:
            for channel, _ in self._masters.tries(patience_s):
                opened = stream.rpc.stream(channel)(stream.request(), timeout=left_s(ends))
                progressed = False
                try:
                    for message in opened:
                        progressed = True
                        yield from stream.take(message)
                        if stream.ended:
                            return
                    if stream.until_closed:
                        return
                except grpc.RpcError as error:
                    left_s(ends)
                    self._masters.failed(error)
                finally:
                    with suppress(grpc.RpcError):
                        opened.cancel()
                if progressed:
                    self._masters.answered()
                    patience_s = max(self._timeout_s, STREAM_S)
                    time.sleep(pause_s())  # a master that breaks off each time is not asked all the time
                    break  # it worked for a while: the time to find a leader begins anew


def known_masters(client: Transport) -> tuple[str, ...]:
    """Return the masters that a client was given or has learnt of, as `host:port` of gRPC."""
    return client._masters.addresses


def left_s(ends: float | None) -> float | None:
    """Return the seconds until a moment of the monotonic clock; None: there is none. Raises TimedOut."""
    left = None if ends is None else ends - time.monotonic()
    if left is not None and left <= 0:
        raise TimedOut("time is up") from None
    return left


def calling(build: Callable[P, Call[T]]) -> Callable[Concatenate[Transport, P], T]:
    """Return the method that makes the call which `build` returns for its arguments."""

    def method(self: Transport, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._do(prepared(build, args, kwargs))

    return described(method, build, "{}")


def listing(build: Callable[P, Pages[T]]) -> Callable[Concatenate[Transport, P], list[T]]:
    """Return the method that lists all that the pages hold."""

    def method(self: Transport, /, *args: P.args, **kwargs: P.kwargs) -> list[T]:
        return list(self._each(prepared(build, args, kwargs)))

    return described(method, build, "list[{}]")


def turning(build: Callable[P, Pages[T]]) -> Callable[Concatenate[Transport, P], Iterator[T]]:
    """Return the method that yields what the pages hold, and asks for each page when it is needed."""

    def method(self: Transport, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._each(prepared(build, args, kwargs))

    return described(method, build, "Iterator[{}]")


def following(build: Callable[P, Stream[T]]) -> Callable[Concatenate[Transport, P], Iterator[T]]:
    """Return the method that yields what the stream yields."""

    def method(self: Transport, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._follow(prepared(build, args, kwargs))

    return described(method, build, "Iterator[{}]")
