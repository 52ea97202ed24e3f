"""SecretService: secrets of tenants are set, listed by name, deleted, and sealed again. Served by the leader.

Invariant: a value is sealed before it is proposed, and is in no answer, no record and no line of a log.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from gosched.core.access import Object, Permission
from gosched.core.commands.command import Body
from gosched.core.commands.secrets import DeleteSecret, ResealSecret, SetSecret
from gosched.core.features import FeatureLevel
from gosched.core.limits import MAX_NAME_LENGTH, MAX_SECRET_VALUE_BYTES
from gosched.core.outcome import Accepted
from gosched.core.records.secret import Secret
from gosched.core.rules.finding import Finding
from gosched.core.rules.values import check_name
from gosched.master.base.access import Access
from gosched.master.base.callers import Caller
from gosched.master.base.errors import accepted, invalid, unmet
from gosched.master.base.leadership import Leadership
from gosched.master.base.proposals import Proposals
from gosched.master.base.secret_keys import SecretKeys
from gosched.replication.interface import Replication
from gosched.wire.secret_keys import Key
from gosched.wire.secret_seal import CannotOpen, seal, unseal
from gosched.wire.v1 import secret_pb2, secret_pb2_grpc

RESEALED_AT_ONCE = 100  # they share entries of the log

_Change = secret_pb2.SetSecretRequest | secret_pb2.DeleteSecretRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretService(secret_pb2_grpc.SecretServiceServicer):
    replication: Replication
    leadership: Leadership
    proposals: Proposals
    access: Access
    keys: SecretKeys

    async def SetSecret(self, request: secret_pb2.SetSecretRequest, context: Any) -> secret_pb2.SetSecretResponse:
        async def change() -> Accepted:
            self._check_change(request, context.caller)
            size = len(request.value)
            if not 0 < size <= MAX_SECRET_VALUE_BYTES:
                raise invalid(f"the value has {size} bytes; 1 to {MAX_SECRET_VALUE_BYTES} are allowed")
            identity = self.access.identity(context.caller)
            command = SetSecret(
                tenant=request.tenant,
                name=request.name,
                user=identity.user if identity is not None else "",
                **self._sealed(request.tenant, request.name, request.value, self.keys.needed().first),
            )
            return await self._change(command, request)

        taken = await self.proposals.once(request, change)
        version = int(taken.subject) if taken.subject.isdecimal() else 0
        return secret_pb2.SetSecretResponse(version=version, revision=self.replication.state.revision)

    async def ListSecrets(self, request: secret_pb2.ListSecretsRequest, context: Any) -> secret_pb2.ListSecretsResponse:
        if request.tenant:
            _check(check_name("tenant", request.tenant))
        await self.proposals.barrier()
        state = self.replication.state
        may_list: dict[str, bool] = {}
        if request.tenant:
            self.access.check_lists_secrets(context.caller, request.tenant)
            may_list[request.tenant] = True
        answer = secret_pb2.ListSecretsResponse(revision=state.revision)
        for key in sorted(state.secrets):
            secret = state.secrets[key]
            if secret.tenant not in may_list:
                may_list[secret.tenant] = not request.tenant and self.access.lists_secrets(
                    context.caller, secret.tenant
                )
            if may_list[secret.tenant]:
                answer.secrets.append(_shown(secret))
        return answer

    async def DeleteSecret(
        self, request: secret_pb2.DeleteSecretRequest, context: Any
    ) -> secret_pb2.DeleteSecretResponse:
        async def change() -> Accepted:
            self._check_change(request, context.caller)
            return await self._change(DeleteSecret(tenant=request.tenant, name=request.name), request)

        await self.proposals.once(request, change)
        return secret_pb2.DeleteSecretResponse(revision=self.replication.state.revision)

    async def RotateSecrets(
        self, request: secret_pb2.RotateSecretsRequest, context: Any
    ) -> secret_pb2.RotateSecretsResponse:
        self._check_level()
        epoch, keyring = self.leadership.epoch, self.keys.needed()
        await self.proposals.barrier()
        resealed = 0
        keys = [*self.replication.state.secrets]  # those that are set meanwhile have the first key already
        for first in range(0, len(keys), RESEALED_AT_ONCE):
            state = self.replication.state
            commands: list[ResealSecret] = []
            for secret in filter(None, map(state.secrets.get, keys[first : first + RESEALED_AT_ONCE])):
                if not self._is_old(secret, keyring.first):
                    continue
                try:
                    value = unseal(secret, keyring, (state.cluster_id, *state.lineage))
                except CannotOpen as error:
                    raise unmet(f"{resealed} secrets were sealed again, then: {error}") from None
                sealed = self._sealed(secret.tenant, secret.name, value, keyring.first)
                commands.append(ResealSecret(tenant=secret.tenant, name=secret.name, version=secret.version, **sealed))
            outcomes = await asyncio.gather(*(self.proposals.propose(command, epoch=epoch) for command in commands))
            resealed += sum(not accepted(outcome).unchanged for outcome in outcomes)
        return secret_pb2.RotateSecretsResponse(
            key_id=keyring.first.id, resealed=resealed, revision=self.replication.state.revision
        )

    async def _change(self, command: Body, request: _Change) -> Accepted:
        return accepted(
            await self.proposals.propose(
                command, epoch=self.leadership.epoch, client_id=request.client_id, request_id=request.request_id
            )
        )

    def _is_old(self, secret: Secret, key: Key) -> bool:
        return secret.key_id != key.id or secret.cluster_id != self.replication.state.cluster_id

    def _sealed(self, tenant: str, name: str, value: bytes, key: Key) -> dict[str, str]:
        cluster_id = self.replication.state.cluster_id
        sealed = seal(value, key, tenant=tenant, name=name, cluster_id=cluster_id)
        return {"sealed": sealed, "key_id": key.id, "cluster_id": cluster_id}

    def _check_change(self, request: _Change, caller: Caller) -> None:
        """Raises ApiError unless the caller may change this secret."""
        _check(check_name("tenant", request.tenant[: MAX_NAME_LENGTH + 1]))
        _check(check_name("secret name", request.name[: MAX_NAME_LENGTH + 1]))
        self.access.check(caller, Permission.SET_SECRET, Object(tenant=request.tenant))
        self._check_level()

    def _check_level(self) -> None:
        if self.replication.state.feature_level < FeatureLevel.BOUNDED:
            raise unmet("the cluster knows no secrets yet: `goschedctl cluster finalize-upgrade` raises its level")


def _check(found: Finding | None) -> None:
    if found is not None:
        raise invalid(str(found))


def _shown(secret: Secret) -> secret_pb2.SecretInfo:
    """Return what is told of a secret: nothing of its value, its ciphertext included."""
    return secret_pb2.SecretInfo(
        tenant=secret.tenant,
        name=secret.name,
        key_id=secret.key_id,
        version=secret.version,
        changed_at_ms=secret.changed_at_ms,
        changed_by=secret.changed_by,
    )
