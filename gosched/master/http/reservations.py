"""REST of what is reserved: windows, reserved starts and fences."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from gosched.api.forecast import Reserved
from gosched.api.json.document import Document
from gosched.api.json.reservations import reservation_json, reserved_json, window_json
from gosched.api.json.values import Json
from gosched.config.requests import read_window
from gosched.core.records.window import Window
from gosched.master.base.errors import unavailable
from gosched.master.http.call import Call, JsonResponse, Names, json_array, read_json, valid
from gosched.master.http.changes import Change, change_json
from gosched.master.http.routes import RowList, Stale, answers, body_of, rest_router
from gosched.wire.codec import to_message, to_record
from gosched.wire.v1 import scheduler_pb2, types_pb2

router = rest_router("reservations")

_ROWS = RowList(reservation_json, ("id", "kind"))
_MOMENT: Json = {"type": "string", "description": "Such as 2026-12-01T06:00:00Z, or +2h from now."}
_NAMES: Json = {"type": "array", "items": {"type": "string"}}
_WINDOW: Json = {
    "type": "object",
    "description": "Nodes, or resources that as many nodes as needed have together; for queues and tenants, or for"
    " maintenance where neither is named.",
    "properties": {
        "start": _MOMENT,
        "end": _MOMENT,
        "nodes": _NAMES,
        "resources": {"type": "object", "additionalProperties": {"type": ["string", "number"]}},
        "queues": _NAMES,
        "tenants": _NAMES,
        "reason": {"type": "string"},
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _WindowMade:
    """A window that was made or changed."""

    window: Window
    #: Ids of jobs that may still run when it begins, and cannot be evicted.
    in_the_way: tuple[str, ...]


def _made_schema() -> Json:
    shape = reservation_json.schema()
    ways = Document(_WindowMade, "in_the_way").schema()
    return {
        **shape,
        "properties": {**shape["properties"], **ways["properties"]},
        "required": [*shape["required"], "in_the_way"],
    }


@router.get("/reservations", summary="List what is reserved", **_ROWS.answers("ReservationRow"))
async def list_reservations(
    call: Call, sort: str = _ROWS.sort, fields: str = _ROWS.fields, stale: Stale = False
) -> JsonResponse:
    message = await call.ask("ListReservations", scheduler_pb2.ListReservationsRequest(), stale=stale)
    rows = reserved_json(to_record(message, Reserved))
    return JsonResponse(await json_array(_ROWS.shown(rows, sort=sort, fields=fields)))


@router.put(
    "/reservations/{name}",
    summary="Make a window, or change one",
    openapi_extra=body_of("WindowSpec", _WINDOW),
    **answers("Window", _made_schema()),
)
async def set_window(name: str, request: Request, call: Call, names: Names) -> JsonResponse:
    body = await read_json(request)
    with valid():
        window, resources = read_window(name, body, call.services.now_ms())
    message = scheduler_pb2.SetWindowRequest(
        client_id=names.client_id,
        request_id=names.request_id,
        window=to_message(window, types_pb2.Window),
        resources=dict(resources),
    )
    answer = await call.ask("SetWindow", message)
    if not answer.HasField("window"):
        raise unavailable(f"window {name[:80]!a} was made, and deleted since")
    made = to_record(answer.window, Window)
    return JsonResponse({**window_json(made), "in_the_way": list(answer.in_the_way)})


@router.delete("/reservations/{name}", summary="Delete a window", **answers("Change", change_json.schema()))
async def drop_window(name: str, call: Call, names: Names) -> JsonResponse:
    request = scheduler_pb2.DropWindowRequest(client_id=names.client_id, request_id=names.request_id, name=name)
    answer = await call.ask("DropWindow", request)
    return JsonResponse(change_json(Change(unchanged=False, revision=answer.revision)))
