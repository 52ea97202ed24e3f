"""REST of bindings and tokens."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.requests import Request

from gosched.api.access import AccessCheck, Bindings, NewToken
from gosched.api.json.access import access_check_json, binding_json, new_token_json, token_json
from gosched.api.json.values import Json
from gosched.config.access_file import ROLES, parse_bindings
from gosched.config.requests import NewTokenBody
from gosched.core.access import Permission
from gosched.core.records.access import Token
from gosched.master.http.call import Call, JsonResponse, Names, read_body, read_model, valid
from gosched.master.http.changes import Change, change_json
from gosched.master.http.queues import IfMatch, bare_etag, tagged
from gosched.master.http.routes import DryRun, answers, body_of, rest_router
from gosched.wire.codec import to_message, to_record
from gosched.wire.v1 import access_pb2, types_pb2

router = rest_router("access")

_NAME = "^[A-Za-z0-9]([A-Za-z0-9_.-]{0,60}[A-Za-z0-9])?$"
_SUBJECTS: Json = {"type": "array", "items": {"type": "string", "pattern": "^[!-~]{1,200}$"}}
_NAMES: Json = {"type": "array", "items": {"type": "string", "pattern": _NAME}}
_DAYS = "[1-9][0-9]?d|[12][0-9][0-9]d|3[0-5][0-9]d|36[0-6]d"
_LASTS: Json = {"type": "string", "pattern": f"^([1-9][0-9]?[0-9]?[mh]|{_DAYS})$"}
_ROLE: Json = {"type": "string", "enum": list(ROLES)}
_SCOPE: Json = {"tenants": _NAMES, "queues": _NAMES}
_BINDINGS: Json = {
    "type": "object",
    "properties": {
        "bindings": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "name": {"type": "string", "pattern": _NAME},
                    "role": _ROLE,
                    "users": _SUBJECTS,
                    "groups": _SUBJECTS,
                    **_SCOPE,
                    "accounts": _SUBJECTS,
                    "ceiling": {"type": "object", "additionalProperties": {"type": ["number", "string"]}},
                },
                "required": ["name", "role"],
            },
        }
    },
    "required": ["bindings"],
}
_NEW_TOKEN: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": _NAME},
        "role": _ROLE,
        "lasts": _LASTS,
        "user": {"type": "string", "pattern": "^[!-~]{0,200}$"},
        "groups": _SUBJECTS,
        **_SCOPE,
    },
    "required": ["name", "role"],
}
_CHANGED = answers("Change", change_json.schema())


@router.get("/access/bindings", summary="List the bindings", **answers("Binding", binding_json.schema(), many=True))
async def list_bindings(call: Call) -> JsonResponse:
    found = to_record(await call.ask("ListBindings", access_pb2.ListBindingsRequest()), Bindings)
    return tagged([binding_json(binding) for binding in found.bindings], found.etag)


@router.put(
    "/access/bindings",
    summary="Replace all bindings",
    openapi_extra=body_of("BindingFile", _BINDINGS, media=("application/json", "application/yaml")),
    **_CHANGED,
)
async def set_bindings(
    request: Request, call: Call, names: Names, if_match: IfMatch = "", dry_run: DryRun = False
) -> JsonResponse:
    text = await read_body(request)
    with valid():
        bindings = parse_bindings(text, "body")
    message = access_pb2.SetBindingsRequest(
        client_id=names.client_id,
        request_id=names.request_id,
        bindings=[to_message(binding, types_pb2.Binding) for binding in bindings],
        if_match=bare_etag(if_match),
        dry_run=dry_run,
    )
    answer = await call.ask("SetBindings", message)
    return JsonResponse(change_json(Change(unchanged=answer.unchanged, revision=answer.revision)))


@router.get(
    "/access/check",
    summary="Show what the caller is, and whether it has a permission",
    **answers("AccessCheck", access_check_json.schema()),
)
async def check_access(
    call: Call,
    permission: Annotated[
        str, Query(json_schema_extra={"enum": ["", *[permission.value for permission in Permission]]})
    ] = "",
    tenant: str = "",
    queue: str = "",
    job: str = "",
    user: str = "",
    group: Annotated[list[str] | None, Query(description="Of that user; may be repeated.")] = None,
) -> JsonResponse:
    message = access_pb2.CheckAccessRequest(
        permission=permission, tenant=tenant, queue=queue, job=job, user=user, groups=group or ()
    )
    return JsonResponse(access_check_json(to_record(await call.ask("CheckAccess", message), AccessCheck)))


@router.get("/tokens", summary="List tokens", **answers("Token", token_json.schema(), many=True))
async def list_tokens(call: Call) -> JsonResponse:
    answer = await call.ask("ListTokens", access_pb2.ListTokensRequest())
    return JsonResponse([token_json(to_record(token, Token)) for token in answer.tokens])


@router.post(
    "/tokens",
    summary="Make a token; its secret is in this answer alone",
    openapi_extra=body_of("NewToken", _NEW_TOKEN),
    **answers("MadeToken", new_token_json.schema()),
)
async def create_token(request: Request, call: Call, names: Names) -> JsonResponse:
    body = await read_model(request, NewTokenBody)
    message = access_pb2.CreateTokenRequest(
        client_id=names.client_id,
        request_id=names.request_id,
        name=body.name,
        role=body.role.value,  # type: ignore[arg-type] # the number of the enum
        lasts_ms=body.lasts_ms,
        user=body.user,
        groups=body.groups,
        tenants=body.tenants,
        queues=body.queues,
    )
    made = to_record(await call.ask("CreateToken", message), NewToken)
    return JsonResponse(new_token_json(made), headers={"Cache-Control": "no-store"})


@router.delete("/tokens/{token}", summary="Revoke a token", **_CHANGED)
async def revoke_token(token: str, call: Call, names: Names) -> JsonResponse:
    message = access_pb2.RevokeTokenRequest(client_id=names.client_id, request_id=names.request_id, id=token)
    answer = await call.ask("RevokeToken", message)
    return JsonResponse(change_json(Change(unchanged=False, revision=answer.revision)))
