"""Both directions of a call that a master passes on, to an agent or to another master.

Invariant: when either end stops, or goes away, so does the call. A message that is written when the other side has
ended the call is an internal error to grpc.aio, which hides how it ended: so after the first message none is sent
before the first answer, and what comes after that error counts for more than it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

from gosched.master.base.cancel import cancel_all
from gosched.master.base.errors import unavailable


async def relay(call: Any, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Send `requests` and yield the answers, each at the pace of its reader. The second request waits for the first
    answer. Raises AioRpcError, ApiError."""
    accepted = asyncio.Event()
    sending = asyncio.ensure_future(_send(call, requests, accepted))
    try:
        async for answer in call:
            accepted.set()
            yield answer
    except grpc.aio.AioRpcError as status:
        wrote_too_late = accepted.is_set() and status.code() is grpc.StatusCode.INTERNAL and sending.done()
        if not wrote_too_late:
            raise
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Not what was wanted here: the requests cannot be read, or the channel was given up.
        if sending.done() and not sending.cancelled() and (error := sending.exception()) is not None:
            raise error from None
        raise unavailable("the connection was given up") from None
    finally:
        call.cancel()
        await cancel_all([sending])


async def _send(call: Any, requests: AsyncIterator[Any], accepted: asyncio.Event) -> None:
    try:
        async for request in requests:
            await call.write(request)
            await accepted.wait()
        await call.done_writing()
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        return  # the call has ended: its answers say how
    except Exception:
        call.cancel()
        raise
