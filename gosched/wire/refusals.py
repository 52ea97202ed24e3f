"""The code of a refusal, beside the gRPC status and its words: one key of the trailing metadata.

It says what `reason` of google.rpc.ErrorInfo says, and needs no further library. A master passes on what the leader
sent, also a code that it does not know.
"""

from __future__ import annotations

import grpc

from gosched.wire.metadata import REASON

Trailer = tuple[tuple[str, str], ...]


def trailer(reason: str) -> Trailer:
    """Return the trailing metadata that carry a RefusalReason; none for an empty one."""
    return ((REASON, reason),) if reason else ()


def refusal_reason(error: grpc.aio.AioRpcError) -> str:
    """Return the code that came with an error, empty if none did: masters of older releases send none."""
    return next((str(value) for key, value in error.trailing_metadata() or () if key == REASON), "")
