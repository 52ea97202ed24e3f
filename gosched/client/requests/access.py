"""Who may do what: bindings, checks and tokens."""

from __future__ import annotations

from collections.abc import Sequence

from gosched.client import records
from gosched.client.calls import ACCESS, Call, names, rpc
from gosched.wire.codec import to_message, to_record
from gosched.wire.v1 import access_pb2, types_pb2


def set_bindings(
    bindings: Sequence[records.Binding],
    *,
    dry_run: bool = False,
    if_match: str = "",
    request_id: str | None = None,
) -> Call[bool]:
    """Replace all bindings, or change nothing. False: they were so already. `dry_run`: check them, and change nothing.
    `if_match`: the etag of those that were read; others are not replaced."""
    request = access_pb2.SetBindingsRequest(
        **names(request_id),
        bindings=[to_message(binding, types_pb2.Binding) for binding in bindings],
        dry_run=dry_run,
        if_match=if_match,
    )
    return Call(
        rpc=rpc(ACCESS, "SetBindings"), request=request, read=lambda answer: not answer.unchanged, is_change=True
    )


def list_bindings() -> Call[records.Bindings]:
    """Return all bindings, and what the config of the leader grants."""
    return Call(
        rpc=rpc(ACCESS, "ListBindings"),
        request=access_pb2.ListBindingsRequest(),
        read=lambda answer: to_record(answer, records.Bindings),
    )


def check_access(
    permission: str = "",
    *,
    tenant: str = "",
    queue: str = "",
    job: str = "",
    user: str = "",
    groups: Sequence[str] = (),
) -> Call[records.AccessCheck]:
    """Return what the caller is, and whether it has a permission such as `submit`: on a job, or in a tenant and a
    queue. `user`, `groups`: ask for another one, which needs the permission `grant`."""
    request = access_pb2.CheckAccessRequest(
        permission=permission, tenant=tenant, queue=queue, job=job, user=user, groups=groups
    )
    return Call(
        rpc=rpc(ACCESS, "CheckAccess"), request=request, read=lambda answer: to_record(answer, records.AccessCheck)
    )


def create_token(
    name: str,
    role: records.AccessRole,
    lasts_ms: int,
    *,
    tenants: Sequence[str] = (),
    queues: Sequence[str] = (),
    user: str = "",
    groups: Sequence[str] = (),
    request_id: str | None = None,
) -> Call[records.NewToken]:
    """Make a token that stands for the caller, with no more rights than `role` within `tenants` and `queues`. `user`,
    `groups`: for another one, which needs the permission `grant`. Its secret is in this answer alone."""
    request = access_pb2.CreateTokenRequest(
        **names(request_id),
        name=name,
        role=role.value,  # type: ignore[arg-type] # the number of the enum
        lasts_ms=lasts_ms,
        tenants=tenants,
        queues=queues,
        user=user,
        groups=groups,
    )
    return Call(
        rpc=rpc(ACCESS, "CreateToken"),
        request=request,
        read=lambda answer: to_record(answer, records.NewToken),
        is_change=True,
    )


def list_tokens() -> Call[list[records.Token]]:
    """Return the caller's tokens; with the permission `grant`, all."""
    return Call(
        rpc=rpc(ACCESS, "ListTokens"),
        request=access_pb2.ListTokensRequest(),
        read=lambda answer: [to_record(token, records.Token) for token in answer.tokens],
    )


def revoke_token(token_id: str, *, request_id: str | None = None) -> Call[None]:
    """End a token at once."""
    request = access_pb2.RevokeTokenRequest(**names(request_id), id=token_id)
    return Call(rpc=rpc(ACCESS, "RevokeToken"), request=request, read=lambda answer: None, is_change=True)
