"""A read that this master's history cannot answer, as its file is locked or broken or has a gap, is asked of another
master, whose rows are the same.

Invariant: each master is asked once, for so long as ASK_S, and a master that is asked this way asks no other one.
"""

from __future__ import annotations

from typing import Any

import grpc
import structlog

from gosched.master.base.callers import Caller
from gosched.master.base.channels import Channels
from gosched.master.base.errors import ApiError
from gosched.replication.interface import Replication
from gosched.wire.refusals import refusal_reason
from gosched.wire.v1 import history_pb2_grpc

HISTORY = "/gosched.v1.HistoryService/"
#: In the metadata of a call: serve it from this master's own history, once that has come to this revision.
AT_REVISION = "gosched-history-at"
ASK_S = 2.0
MAX_ASKED = 3  # masters, so that a caller has its answer, or its error, in time
_MAX_DIGITS = 19

_GO_ON = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.OUT_OF_RANGE,  # it does not have so much either
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.INTERNAL,
)

log = structlog.get_logger()


def asked_revision(context: Any) -> int | None:
    """Return the revision of a call that another master makes because it cannot read its own history; None: it is any
    other call."""
    found = next((value for key, value in context.invocation_metadata() or () if key == AT_REVISION), "")
    return int(found) if found.isascii() and found.isdecimal() and len(found) < _MAX_DIGITS else None


async def ask_elsewhere(
    replication: Replication, masters: Channels, method: str, request: Any, caller: Caller, revision: int
) -> Any:
    """Return the answer of the first master that has one; None: none has. Raises ApiError for its refusal."""
    others = [master for master in replication.state.masters.values() if master.id != replication.member_id]
    for master in others[:MAX_ASKED]:
        stub = history_pb2_grpc.HistoryServiceStub(masters.to(master.grpc_address))
        metadata = (*caller.header, (AT_REVISION, str(revision)))
        try:
            return await getattr(stub, method)(request, timeout=ASK_S, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            if error.code() not in _GO_ON:
                detail = error.details() or error.code().name
                raise ApiError(error.code(), detail, reason=refusal_reason(error)) from error
            log.info("the history cannot be read elsewhere", master=master.id, why=error.details())
    return None
