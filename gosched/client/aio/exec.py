"""A command beside a task of a job, for asyncio. Invariant: as of `gosched/client/exec.py`, it is requested once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any

import grpc

from gosched.client.aio.masters import cancelled_as
from gosched.client.errors import GoSchedError, Unavailable
from gosched.client.exec import EXEC, broken_off, part_of
from gosched.wire.v1 import scheduler_pb2

_CANCELLED = "the connection broke off, and with it the command: it was cancelled, or the client was closed"


class AsyncExec:
    """One command. Iterate over it for pairs of "stdout" or "stderr" and bytes; `exit_code` is known after that. Raises
    GoSchedError."""

    def __init__(self, channel: Any, start: scheduler_pb2.ExecStart) -> None:
        self.exit_code: int | None = None
        self._start: scheduler_pb2.ExecStart | None = start
        self._call: Any = EXEC.both(channel)()

    async def __aenter__(self) -> AsyncExec:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()

    async def __aiter__(self) -> AsyncIterator[tuple[str, bytes]]:
        try:
            with cancelled_as(Unavailable(_CANCELLED)):
                await self._begin()
                async for response in self._call:
                    if part := part_of(response):
                        yield part
                    if response.WhichOneof("part") == "exit_code":
                        self.exit_code = response.exit_code
        except grpc.RpcError as error:
            raise broken_off(error) from None
        except asyncio.InvalidStateError:  # it was cancelled before it began
            raise Unavailable(_CANCELLED) from None
        if self.exit_code is None:
            raise GoSchedError("the command's stream ended without its exit code")

    async def send(self, data: bytes) -> None:
        """Write to its stdin; wait while it takes no more. Raises Unavailable when it has ended meanwhile."""
        await self._write(scheduler_pb2.ExecRequest(stdin=data))

    async def end_input(self) -> None:
        await self._write(scheduler_pb2.ExecRequest(stdin_end=True))

    async def resize(self, rows: int, columns: int) -> None:
        size = scheduler_pb2.TerminalSize(rows=rows, columns=columns)
        await self._write(scheduler_pb2.ExecRequest(resize=size))

    async def signal(self, number: int) -> None:
        await self._write(scheduler_pb2.ExecRequest(signal=number))

    def cancel(self) -> None:
        """End the command."""
        self._call.cancel()

    async def _begin(self) -> None:
        if (start := self._start) is not None:
            self._start = None
            await self._call.write(scheduler_pb2.ExecRequest(start=start))

    async def _write(self, request: scheduler_pb2.ExecRequest) -> None:
        try:
            with cancelled_as(Unavailable(_CANCELLED)):
                await self._begin()
                await self._call.write(request)
        except grpc.RpcError as error:
            raise broken_off(error) from None
        except asyncio.InvalidStateError:
            raise Unavailable("the command has ended, and takes no more input") from None
