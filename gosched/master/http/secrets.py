"""REST of secrets.

Invariant: no answer has a value, that to a bad body included: its keys alone are named.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from starlette.requests import Request

from gosched.api.json.document import Document
from gosched.api.json.secrets import rotation_json, secret_json
from gosched.api.json.values import Json
from gosched.api.secrets import Rotation, SecretInfo
from gosched.master.base.errors import invalid
from gosched.master.http.call import Call, JsonResponse, Names, read_json
from gosched.master.http.changes import Change, change_json
from gosched.master.http.routes import answers, body_of, rest_router
from gosched.wire.codec import to_record
from gosched.wire.v1 import secret_pb2

router = rest_router("secrets")

_KEYS = ("value", "value_base64")
_VALUE: Json = {
    "type": "object",
    "description": "Text as `value`, or any bytes as `value_base64`.",
    "properties": {
        "value": {"type": "string", "minLength": 1},
        "value_base64": {"type": "string", "minLength": 4, "format": "byte"},
    },
    "additionalProperties": False,
    "oneOf": [{"required": [key]} for key in _KEYS],
}
_CHANGED = answers("Change", change_json.schema())


@dataclass(frozen=True, slots=True, kw_only=True)
class SetVersion:
    """What came of setting a secret."""

    #: How often it was set since it was made.
    version: int
    revision: int


set_json = Document(SetVersion, "version", "revision")


@router.get(
    "/secrets", summary="List secrets, without their values", **answers("Secret", secret_json.schema(), many=True)
)
async def list_secrets(call: Call, tenant: str = "") -> JsonResponse:
    answer = await call.ask("ListSecrets", secret_pb2.ListSecretsRequest(tenant=tenant))
    return JsonResponse([secret_json(to_record(secret, SecretInfo)) for secret in answer.secrets])


@router.put(
    "/secrets/{tenant}/{name}",
    summary="Set a secret, or replace its value",
    openapi_extra=body_of("SecretValue", _VALUE),
    **answers("SetSecret", set_json.schema()),
)
async def set_secret(tenant: str, name: str, request: Request, call: Call, names: Names) -> JsonResponse:
    message = secret_pb2.SetSecretRequest(
        client_id=names.client_id,
        request_id=names.request_id,
        tenant=tenant,
        name=name,
        value=_value(await read_json(request)),
    )
    answer = await call.ask("SetSecret", message)
    return JsonResponse(set_json(SetVersion(version=answer.version, revision=answer.revision)))


@router.delete("/secrets/{tenant}/{name}", summary="Delete a secret", **_CHANGED)
async def delete_secret(tenant: str, name: str, call: Call, names: Names) -> JsonResponse:
    message = secret_pb2.DeleteSecretRequest(
        client_id=names.client_id, request_id=names.request_id, tenant=tenant, name=name
    )
    answer = await call.ask("DeleteSecret", message)
    return JsonResponse(change_json(Change(unchanged=False, revision=answer.revision)))


@router.post(
    "/secrets/rotate",
    summary="Seal all secrets with the first key of the masters' keyring",
    **answers("Rotation", rotation_json.schema()),
)
async def rotate_secrets(call: Call) -> JsonResponse:
    answer = await call.ask("RotateSecrets", secret_pb2.RotateSecretsRequest())
    return JsonResponse(rotation_json(to_record(answer, Rotation)))


def _value(body: object) -> bytes:
    """Return the value that a body has. Raises ApiError, which shows nothing of it."""
    given = [key for key in _KEYS if isinstance(body, dict) and key in body]
    if not isinstance(body, dict) or len(given) != 1 or len(body) != 1:
        raise invalid("expected an object with value, a text, or value_base64, and nothing else")
    value = body[given[0]]
    if not isinstance(value, str):
        raise invalid(f"{given[0]}: expected a text")
    if given[0] == "value":
        return value.encode()
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise invalid("value_base64: it is not base64") from None
