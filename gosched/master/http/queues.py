"""REST of queues and quotas.

Both are changed as a whole, or not at all. Their etag depends on the rules alone: `If-Match` is checked by the leader
in one step with the change.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header
from starlette.requests import Request

from gosched.api.json.cluster import queue_json, quota_json
from gosched.api.json.values import Json
from gosched.api.status import QuotaStatus, Status
from gosched.config import parse_queue_file
from gosched.config.requests import OneQuota, Quotas
from gosched.core.records.tenant import Quota
from gosched.master.api.rules import queues_etag, quotas_etag
from gosched.master.base.errors import invalid, not_found
from gosched.master.http.call import Call, HttpCall, JsonResponse, Names, read_body, read_model, valid
from gosched.master.http.changes import Change, change_json
from gosched.master.http.routes import DryRun, RowList, Stale, answers, body_of, rest_router
from gosched.wire.codec import to_message, to_record
from gosched.wire.v1 import scheduler_pb2, types_pb2

router = rest_router("queues")

IfMatch = Annotated[
    str,
    Header(
        alias="If-Match",
        max_length=200,
        description="The ETag that it was read with; 412 if it has changed since.",
        json_schema_extra={"pattern": '^([*]|"[0-9a-f]{1,64}")?$'},
    ),
]

_ROWS = RowList(queue_json, ("name", "pending", "running", "weight"))
_NAME = "^[A-Za-z0-9]([A-Za-z0-9_.-]{0,60}[A-Za-z0-9])?$"


def _named(key: str) -> Json:
    return {"type": "object", "properties": {key: {"type": "string", "pattern": _NAME}}, "required": [key]}


_QUEUE_FILE: Json = {
    "type": "object",
    "description": "As in a master's config: queues with their children, and quotas, which then replace all quotas.",
    "properties": {
        "queues": {"type": "array", "minItems": 1, "items": _named("name")},
        "quotas": {"type": "array", "items": _named("tenant")},
    },
    "required": ["queues"],
}
_LIMIT: Json = {
    "type": "object",
    "description": "Amounts by resource: cpu, memory (such as 1Ti), gpu, gpu:MODEL, or one of the cluster's own.",
    "additionalProperties": {"type": ["number", "string"]},
}
_QUOTA_KEYS: Json = {
    "limit": _LIMIT,
    "max_running_jobs": {"type": ["integer", "null"], "minimum": 1, "maximum": 2_147_483_647},
}
_QUOTAS: Json = {
    "type": "object",
    "properties": {
        "quotas": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {"tenant": {"type": "string", "pattern": _NAME}, **_QUOTA_KEYS},
                "required": ["tenant"],
            },
        }
    },
    "required": ["quotas"],
}
_CHANGED = answers("Change", change_json.schema())


@router.get("/queues", summary="List the queues", **_ROWS.answers("QueueRow"))
async def list_queues(
    call: Call, sort: str = _ROWS.sort, fields: str = _ROWS.fields, stale: Stale = False
) -> JsonResponse:
    status = await _status(call, stale=stale)
    rows = [queue_json(queue) for queue in status.queues]
    return tagged(
        list(_ROWS.shown(rows, sort=sort, fields=fields)), queues_etag(queue.rules for queue in status.queues)
    )


@router.get("/queues/{queue}", summary="Show a queue", **answers("Queue", queue_json.schema()))
async def show_queue(queue: str, call: Call, stale: Stale = False) -> JsonResponse:
    for status in (await _status(call, stale=stale)).queues:
        if status.path == queue:
            return JsonResponse(queue_json(status))
    raise not_found(f"there is no queue {queue[:80]!a}")


@router.put(
    "/queues",
    summary="Replace all queues",
    openapi_extra=body_of("QueueFile", _QUEUE_FILE, media=("application/json", "application/yaml")),
    **_CHANGED,
)
async def set_queues(
    request: Request, call: Call, names: Names, if_match: IfMatch = "", dry_run: DryRun = False
) -> JsonResponse:
    text = await read_body(request)
    with valid():
        queues, quotas = parse_queue_file(text, "body")
    message = scheduler_pb2.SetQueuesRequest(
        client_id=names.client_id,
        request_id=names.request_id,
        queues=[to_message(queue, types_pb2.Queue) for queue in queues],
        quotas=[to_message(quota, types_pb2.Quota) for quota in quotas or ()],
        sets_quotas=quotas is not None,
        if_match=bare_etag(if_match),
        dry_run=dry_run,
    )
    return await _changed(call, "SetQueues", message)


@router.get("/quotas", summary="List the quotas", **answers("Quota", quota_json.schema(), many=True))
async def list_quotas(call: Call, stale: Stale = False) -> JsonResponse:
    message = await call.ask("ListQuotas", scheduler_pb2.ListQuotasRequest(), stale=stale)
    quotas = [to_record(quota, QuotaStatus) for quota in message.quotas]
    return tagged([quota_json(quota) for quota in quotas], quotas_etag(quota.quota for quota in quotas))


@router.put("/quotas", summary="Replace all quotas", openapi_extra=body_of("Quotas", _QUOTAS), **_CHANGED)
async def set_quotas(
    request: Request, call: Call, names: Names, if_match: IfMatch = "", dry_run: DryRun = False
) -> JsonResponse:
    body = await read_model(request, Quotas)
    return await _set(call, names, body.records(), if_match=if_match, dry_run=dry_run, replace=True)


@router.put(
    "/quotas/{tenant}",
    summary="Set the quota of a tenant; without a limit it has none",
    openapi_extra=body_of("QuotaLimits", {"type": "object", "properties": _QUOTA_KEYS}),
    **_CHANGED,
)
async def set_quota(
    tenant: str, request: Request, call: Call, names: Names, if_match: IfMatch = "", dry_run: DryRun = False
) -> JsonResponse:
    body = await read_model(request, OneQuota)
    quota = Quota(tenant=tenant, limit=body.limit, max_running_jobs=body.max_running_jobs or 0)
    return await _set(call, names, (quota,), if_match=if_match, dry_run=dry_run, replace=False)


@router.delete("/quotas/{tenant}", summary="Drop the quota of a tenant", **_CHANGED)
async def drop_quota(
    tenant: str, call: Call, names: Names, if_match: IfMatch = "", dry_run: DryRun = False
) -> JsonResponse:
    return await _set(call, names, (Quota(tenant=tenant),), if_match=if_match, dry_run=dry_run, replace=False)


async def _status(call: HttpCall, *, stale: bool) -> Status:
    message = await call.ask("GetClusterStatus", scheduler_pb2.GetClusterStatusRequest(fresh=True), stale=stale)
    return to_record(message, Status)


async def _set(
    call: HttpCall, names: Names, quotas: tuple[Quota, ...], *, if_match: str, dry_run: bool, replace: bool
) -> JsonResponse:
    message = scheduler_pb2.SetQuotasRequest(
        client_id=names.client_id,
        request_id=names.request_id,
        quotas=[to_message(quota, types_pb2.Quota) for quota in quotas],
        replace=replace,
        if_match=bare_etag(if_match),
        dry_run=dry_run,
    )
    return await _changed(call, "SetQuotas", message)


async def _changed(call: HttpCall, method: str, message: Any) -> JsonResponse:
    answer = await call.ask(method, message)
    return JsonResponse(change_json(Change(unchanged=answer.unchanged, revision=answer.revision)))


def tagged(rows: list[Json], etag: str) -> JsonResponse:
    """Return rows with the ETag of all of them."""
    return JsonResponse(rows, headers={"ETag": f'"{etag}"'})


def bare_etag(if_match: str) -> str:
    """Return the etag of an If-Match header; empty: any. Raises ApiError."""
    text = if_match.strip()
    if text in ("", "*"):
        return ""
    if len(text) < 3 or text[0] != '"' or text[-1] != '"' or '"' in text[1:-1]:
        raise invalid(f'If-Match: {text[:80]!a} is not one ETag, as "abc"')
    return text[1:-1]
