"""Secrets of tenants: set, listed by name, deleted, sealed again. No answer has a value."""

from __future__ import annotations

from gosched.client import records
from gosched.client.calls import SECRET, Call, names, rpc
from gosched.wire.codec import to_record
from gosched.wire.v1 import secret_pb2


def set_secret(tenant: str, name: str, value: bytes | str, *, request_id: str | None = None) -> Call[int]:
    """Set a secret of a tenant, or replace its value (text is sent as UTF-8). Return its version: how often it was
    set."""
    data = value.encode() if isinstance(value, str) else value
    request = secret_pb2.SetSecretRequest(**names(request_id), tenant=tenant, name=name, value=data)
    return Call(rpc=rpc(SECRET, "SetSecret"), request=request, read=lambda answer: int(answer.version), is_change=True)


def list_secrets(tenant: str = "") -> Call[list[records.SecretInfo]]:
    """Return what is known of the secrets of a tenant, or of all tenants whose secrets the caller may use: names, never
    values."""
    return Call(
        rpc=rpc(SECRET, "ListSecrets"),
        request=secret_pb2.ListSecretsRequest(tenant=tenant),
        read=lambda answer: [to_record(secret, records.SecretInfo) for secret in answer.secrets],
    )


def delete_secret(tenant: str, name: str, *, request_id: str | None = None) -> Call[None]:
    """Delete a secret. Tasks that have it keep it; those that start later fail."""
    request = secret_pb2.DeleteSecretRequest(**names(request_id), tenant=tenant, name=name)
    return Call(rpc=rpc(SECRET, "DeleteSecret"), request=request, read=lambda answer: None, is_change=True)


def rotate_secrets() -> Call[records.Rotation]:
    """Seal all secrets with the first key of the leader's keyring."""
    return Call(
        rpc=rpc(SECRET, "RotateSecrets"),
        request=secret_pb2.RotateSecretsRequest(),
        read=lambda answer: to_record(answer, records.Rotation),
    )
