"""AccessService: bindings, what a caller may do, tokens, revoked certificates. Served by the leader.

Invariant: the secret of a token is in one answer; nobody makes a token that may more than its maker.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

from gosched.core.access import (
    CLUSTER,
    Identity,
    Object,
    Permission,
    granting,
    job_object,
)
from gosched.core.commands.access import CreateToken, RevokeToken, SetBindings
from gosched.core.commands.command import Body
from gosched.core.digest import record_digest
from gosched.core.features import FeatureLevel
from gosched.core.limits import MAX_DURATION_MS, MAX_NAME_LENGTH
from gosched.core.outcome import Accepted
from gosched.core.records.access import AccessRole, Binding, Token
from gosched.core.rules.access import check_bindings
from gosched.master.api.revocations import Revocations
from gosched.master.api.rules import changed_since, etag_of
from gosched.master.base.access import Access
from gosched.master.base.callers import Caller, denied
from gosched.master.base.clock import StateClock
from gosched.master.base.errors import accepted, invalid, not_found, parsed, unmet
from gosched.master.base.leadership import Leadership
from gosched.master.base.proposals import Named, Proposals
from gosched.master.base.tokens import new_secret
from gosched.replication.interface import Replication
from gosched.wire.codec import fill, to_message
from gosched.wire.v1 import access_pb2, access_pb2_grpc, types_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessService(access_pb2_grpc.AccessServiceServicer):
    replication: Replication
    leadership: Leadership
    proposals: Proposals
    clock: StateClock
    access: Access
    revocations: Revocations
    #: Held from the look at the bindings to their change.
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def SetBindings(self, request: access_pb2.SetBindingsRequest, context: Any) -> access_pb2.SetBindingsResponse:
        bindings = tuple([parsed(binding, Binding) for binding in request.bindings])

        async def change() -> Accepted:
            if found := check_bindings(bindings):
                raise invalid(str(found))
            async with self.changing:
                epoch = self.leadership.epoch
                await self.proposals.barrier()
                if request.if_match not in ("", self._etag()):
                    raise changed_since()
                if request.dry_run:
                    wanted = {binding.name: binding for binding in bindings}
                    return Accepted(unchanged=wanted == self.replication.state.bindings)
                return await self._change(SetBindings(bindings=bindings), request, epoch=epoch)

        taken = await self.proposals.once(request, change)
        return access_pb2.SetBindingsResponse(unchanged=taken.unchanged, revision=self.replication.state.revision)

    async def ListBindings(
        self, request: access_pb2.ListBindingsRequest, context: Any
    ) -> access_pb2.ListBindingsResponse:
        await self.proposals.barrier()
        state = self.replication.state
        answer = access_pb2.ListBindingsResponse(etag=self._etag(), revision=state.revision)
        for name in sorted(state.bindings):
            fill(state.bindings[name], answer.bindings.add())
        fill(self.access.from_config, answer.from_config)
        return answer

    async def CheckAccess(self, request: access_pb2.CheckAccessRequest, context: Any) -> access_pb2.CheckAccessResponse:
        permission = _permission(request.permission) if request.permission else None
        await self.proposals.barrier()
        caller: Caller = context.caller
        identity = self.access.identity(caller)
        if identity is None:
            return access_pb2.CheckAccessResponse(allowed=True)
        if request.user or request.groups:
            self.access.check(caller, Permission.GRANT)
            identity = Identity(user=request.user, groups=tuple(request.groups))
        mine = self.access.bindings_of(identity)
        answer = access_pb2.CheckAccessResponse(
            user=identity.user,
            groups=identity.groups,
            roles=sorted({binding.role.word for binding in mine}),
        )
        if permission is not None:
            found = granting(mine, identity, permission, self._object(request, caller))
            answer.allowed, answer.by = found is not None, found.name if found is not None else ""
        return answer

    async def CreateToken(self, request: access_pb2.CreateTokenRequest, context: Any) -> access_pb2.CreateTokenResponse:
        made: list[tuple[Token, str]] = []

        async def change() -> Accepted:
            made.append(self._new_token(request, context.caller))
            return await self._change(CreateToken(token=made[0][0]), request)

        taken = await self.proposals.once(request, change)
        if not made or taken.subject != made[0][0].id:
            raise unmet(f"this request has made token {taken.subject} before, and its secret cannot be had again")
        token, secret = made[0]
        return access_pb2.CreateTokenResponse(
            token=_shown(token), secret=secret, revision=self.replication.state.revision
        )

    def _new_token(self, request: access_pb2.CreateTokenRequest, caller: Caller) -> tuple[Token, str]:
        """Return a token and its secret. Raises ApiError where the caller may not make it."""
        self._check_level()
        maker = self._named(caller)
        if not 0 < request.lasts_ms <= MAX_DURATION_MS:
            raise invalid("lasts_ms: a token lasts longer than nothing and at most 366 days")
        user, groups = request.user or maker.user, tuple(request.groups)
        if maker.limit is not None:
            raise denied("a token makes no token: use a certificate, or log in")
        if (user, groups or maker.groups) != (maker.user, maker.groups):
            self.access.check(caller, Permission.GRANT)
        else:
            groups = maker.groups
        token_id, secret, digest = new_secret()
        now_ms = self.clock.now_ms()
        token = Token(
            id=token_id,
            name=request.name,
            user=user,
            groups=tuple(sorted(groups)),
            role=_role(request.role),
            tenants=tuple(sorted(request.tenants)),
            queues=tuple(sorted(request.queues)),
            digest=digest,
            created_at_ms=now_ms,
            expires_at_ms=now_ms + request.lasts_ms,
            certificate=caller.certificate,
        )
        return token, secret

    async def ListTokens(self, request: access_pb2.ListTokensRequest, context: Any) -> access_pb2.ListTokensResponse:
        await self.proposals.barrier()
        state, now_ms = self.replication.state, self.clock.now_ms()
        maker = self.access.identity(context.caller)
        everyone = maker is None or self.access.may(context.caller, Permission.GRANT)
        answer = access_pb2.ListTokensResponse(revision=state.revision)
        for token in state.tokens.values():
            if token.expires_at_ms > now_ms and (everyone or (maker is not None and token.user == maker.user)):
                answer.tokens.append(_shown(token))
        return answer

    async def RevokeToken(self, request: access_pb2.RevokeTokenRequest, context: Any) -> access_pb2.RevokeTokenResponse:
        async def change() -> Accepted:
            maker = self.access.identity(context.caller)
            token = self.replication.state.tokens.get(request.id)
            if maker is not None and maker.limit is not None and request.id != context.caller.token:
                self.access.check(context.caller, Permission.GRANT)  # a token ends itself, and no other one
            is_others = token is not None and maker is not None and token.user != maker.user
            if is_others and not self.access.may(context.caller, Permission.GRANT):
                raise not_found(f"there is no token {request.id[:MAX_NAME_LENGTH]!a}")
            return await self._change(RevokeToken(id=request.id), request)

        await self.proposals.once(request, change)
        return access_pb2.RevokeTokenResponse(revision=self.replication.state.revision)

    async def RevokeCertificate(
        self, request: access_pb2.RevokeCertificateRequest, context: Any
    ) -> access_pb2.RevokeCertificateResponse:
        return await self.revocations.revoke(request, context.caller)

    async def ListRevocations(
        self, request: access_pb2.ListRevocationsRequest, context: Any
    ) -> access_pb2.ListRevocationsResponse:
        return await self.revocations.listed()

    async def UnrevokeCertificate(
        self, request: access_pb2.UnrevokeCertificateRequest, context: Any
    ) -> access_pb2.UnrevokeCertificateResponse:
        return await self.revocations.unrevoke(request)

    def _named(self, caller: Caller) -> Identity:
        """Return the user that makes a token. Raises ApiError where there are no users."""
        identity = self.access.identity(caller)
        if identity is None:
            raise unmet("tokens need TLS: without it every caller may do everything")
        return identity

    def _check_level(self) -> None:
        if self.replication.state.feature_level < FeatureLevel.BOUNDED:
            raise unmet("the cluster knows no tokens yet: `goschedctl cluster finalize-upgrade` raises its level")

    def _object(self, request: access_pb2.CheckAccessRequest, caller: Caller) -> Object:
        if not request.job:
            return Object(tenant=request.tenant, queue=request.queue) if request.tenant or request.queue else CLUSTER
        return job_object(self.access.find_job(caller, Permission.VIEW_JOB, request.job))

    def _etag(self) -> str:
        bindings = self.replication.state.bindings
        return etag_of(record_digest("bindings", name, binding) for name, binding in bindings.items())

    async def _change(
        self,
        command: Body,
        request: Named,
        *,
        epoch: int = 0,
    ) -> Accepted:
        return accepted(
            await self.proposals.propose(
                command, epoch=epoch, client_id=request.client_id, request_id=request.request_id
            )
        )


def _shown(token: Token) -> types_pb2.Token:
    """Return the message of a token without the digest of its secret."""
    return to_message(replace(token, digest=""), types_pb2.Token)


def _permission(text: str) -> Permission:
    try:
        return Permission(text)
    except ValueError:
        words = ", ".join(permission.value for permission in Permission)
        raise invalid(f"there is no permission {text[:MAX_NAME_LENGTH]!a}; there are {words}") from None


def _role(number: int) -> AccessRole:
    try:
        return AccessRole(number)
    except ValueError:
        raise invalid(f"this version knows no role {number}") from None
