"""REST of nodes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request

from gosched.api.json.cluster import node_json
from gosched.api.json.values import Json
from gosched.config.requests import Cordon, Drain, Labels
from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.records.node import NodeState
from gosched.master.agents.node_listing import MAX_PAGE
from gosched.master.base.errors import invalid, not_found, unmet
from gosched.master.base.turns import sliced
from gosched.master.http.call import Call, HttpCall, JsonResponse, Names, json_array, read_model
from gosched.master.http.changes import NodeChange, node_change_json
from gosched.master.http.routes import RowList, Stale, answers, body_of, labels_of, rest_router
from gosched.wire.codec import to_message
from gosched.wire.node_views import node_detail
from gosched.wire.v1 import node_pb2, types_pb2

NEXT_PAGE = "X-Gosched-Next-Page-Token"

router = rest_router("nodes")

_ROWS = RowList(node_json, ("id", "name", "state", "tasks", "registered_at"))
_STATES = [state.name for state in NodeState if state]
_ONE_OF: Json = {"items": {"type": "string", "enum": _STATES}}
_PAIR: Json = {"items": {"type": "string", "pattern": "^[^=]+=.*$"}}
_KEY = "[A-Za-z0-9]([A-Za-z0-9_./-]{0,60}[A-Za-z0-9])?"
_REASON: Json = {"type": "string", "maxLength": 200, "pattern": "^[ -~]*$"}
_SECONDS: Json = {"type": "number", "minimum": 0, "maximum": 86400}
_EFFECT = "(no_schedule|prefer_no_schedule|no_execute)"


def _strings(pattern: str) -> Json:
    return {"type": "array", "items": {"type": "string", "pattern": f"^{pattern}$"}, "maxItems": 8, "uniqueItems": True}


_LABELS: Json = {
    "type": "object",
    "properties": {
        "labels": {
            "type": "object",
            "propertyNames": {"pattern": f"^{_KEY}$"},
            "additionalProperties": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{0,63}$"},
            "maxProperties": 8,
        },
        "drop_labels": _strings(_KEY),
        "taints": _strings(f"{_KEY}(=[A-Za-z0-9_.-]{{0,63}})?:{_EFFECT}"),
        "drop_taints": _strings(f"{_KEY}(:{_EFFECT})?"),
    },
}
_CHANGED = answers("NodeChange", node_change_json.schema())


@router.get("/nodes", summary="List nodes", **_ROWS.answers("NodeRow"))
async def list_nodes(
    call: Call,
    state: Annotated[list[str], Query(default_factory=list, description="Of one of these.", json_schema_extra=_ONE_OF)],
    label: Annotated[list[str], Query(default_factory=list, description="With all of these.", json_schema_extra=_PAIR)],
    sort: str = _ROWS.sort,
    fields: str = _ROWS.fields,
    page_size: Annotated[
        int,
        Query(ge=0, le=MAX_PAGE, description=f"At most so many nodes; the header {NEXT_PAGE} leads on. 0: all nodes."),
    ] = 0,
    page_token: Annotated[
        str, Query(max_length=MAX_NAME_LENGTH, description=f"{NEXT_PAGE} of the page before, with the same filters.")
    ] = "",
    stale: Stale = False,
) -> JsonResponse:
    for name in state:
        if name not in _STATES:
            raise invalid(f"state: {name[:80]!a} is none: give {', '.join(_STATES)}")
    if sort and page_size:
        raise invalid("sort: pages are in the order of ids: leave out page_size, or sort")
    request = node_pb2.ListNodesRequest(labels=labels_of(label), page_token=page_token)
    rows: list[Json] = []
    while True:
        request.page_size = page_size or MAX_PAGE
        message = await call.ask("ListNodes", request, stale=stale)
        async for view in sliced(message.nodes):
            row = node_json(node_detail(view))
            if not state or row["state"] in state:
                rows.append(row)
        request.page_token = message.next_page_token
        if page_size or not request.page_token:
            break
    headers = {NEXT_PAGE: request.page_token} if request.page_token else {}
    return JsonResponse(await json_array(_ROWS.shown(rows, sort=sort, fields=fields)), headers=headers)


@router.get("/nodes/{node}", summary="Show a node, by id or name", **answers("Node", node_json.schema()))
async def show_node(node: str, call: Call, stale: Stale = False) -> JsonResponse:
    message = await call.ask("ListNodes", node_pb2.ListNodesRequest(node=node), stale=stale)
    views = list(message.nodes)
    found = [v for v in views if v.node.id == node] or [v for v in views if v.node.name == node]
    if not found:
        raise not_found(f"there is no node {node[:80]!a}")
    if len(found) > 1:
        raise unmet(f"{len(found)} nodes are named {node[:80]!a}: give an id, such as {found[0].node.id}")
    return JsonResponse(node_json(node_detail(found[0])))


@router.post(
    "/nodes/{node}/cordon",
    summary="Stop placing tasks on a node",
    openapi_extra=body_of("Cordon", {"type": "object", "properties": {"reason": _REASON}}, required=False),
    **_CHANGED,
)
async def cordon_node(node: str, request: Request, call: Call, names: Names) -> JsonResponse:
    body = await read_model(request, Cordon, optional=True)
    return await _control(call, "CordonNode", names, node=node, reason=body.reason)


@router.post("/nodes/{node}/uncordon", summary="Let a node take tasks again", **_CHANGED)
async def uncordon_node(node: str, call: Call, names: Names) -> JsonResponse:
    return await _control(call, "UncordonNode", names, node=node)


@router.post(
    "/nodes/{node}/drain",
    summary="Empty a node",
    openapi_extra=body_of(
        "Drain", {"type": "object", "properties": {"reason": _REASON, "deadline_s": _SECONDS}}, required=False
    ),
    **_CHANGED,
)
async def drain_node(node: str, request: Request, call: Call, names: Names) -> JsonResponse:
    body = await read_model(request, Drain, optional=True)
    in_ms = max(1, int(body.deadline_s * 1000)) if body.deadline_s else 0
    return await _control(call, "DrainNode", names, node=node, reason=body.reason, drain_in_ms=in_ms)


@router.delete("/nodes/{node}", summary="Forget a node that is DEAD", **_CHANGED)
async def remove_node(node: str, call: Call, names: Names) -> JsonResponse:
    return await _control(call, "RemoveNode", names, node=node)


@router.post(
    "/nodes/{node}/labels",
    summary="Set and drop an operator's labels and taints of a node",
    description="Taints are written `key=value:effect`; one is dropped by `key`, or by `key:effect`. Those of the"
    " agent's config are changed there.",
    openapi_extra=body_of("Labels", _LABELS),
    **_CHANGED,
)
async def label_node(node: str, request: Request, call: Call, names: Names) -> JsonResponse:
    body = await read_model(request, Labels)
    message = node_pb2.LabelNodeRequest(
        client_id=names.client_id,
        request_id=names.request_id,
        node=node,
        labels=dict(body.labels),
        drop_labels=body.drop_labels,
        taints=[to_message(taint, types_pb2.Taint) for taint in body.taint_records()],
        drop_taints=body.drop_taints,
    )
    return _changed(await call.ask("LabelNode", message))


async def _control(call: HttpCall, method: str, names: Names, **fields: Any) -> JsonResponse:
    request = node_pb2.ControlNodeRequest(client_id=names.client_id, request_id=names.request_id, **fields)
    return _changed(await call.ask(method, request))


def _changed(message: node_pb2.ControlNodeResponse) -> JsonResponse:
    change = NodeChange(
        node_id=message.node_id,
        unchanged=message.unchanged,
        revision=message.revision,
        staying=tuple(message.staying),
    )
    return JsonResponse(node_change_json(change))
