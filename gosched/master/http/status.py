"""REST of the cluster's status.

Invariant: it is the leader's view where there is a leader, and this master's own (naming no leader) where there is
none, so that it tells during an outage what is known.
"""

from __future__ import annotations

from gosched.api.json.status import status_json
from gosched.api.status import Status
from gosched.master.base.errors import ApiError
from gosched.master.http.call import Call, JsonResponse
from gosched.master.http.routes import answers, rest_router
from gosched.wire.codec import to_record
from gosched.wire.v1 import scheduler_pb2

FORWARD_TIMEOUT_S = 2.0

router = rest_router("cluster")


@router.get("/status", summary="Show the cluster's status", **answers("Status", status_json.schema()))
async def get_status(call: Call) -> JsonResponse:
    services = call.services
    call.check("GetClusterStatus")
    status = services.status.read()
    if services.leadership.leader() is not None and not services.leadership.epoch:
        try:
            request = scheduler_pb2.GetClusterStatusRequest()
            status = to_record(await call.ask("GetClusterStatus", request, timeout_s=FORWARD_TIMEOUT_S), Status)
        except ApiError:
            status = services.status.read()  # the leader is gone: what this master knows is the best there is
    return JsonResponse(status_json(status))
