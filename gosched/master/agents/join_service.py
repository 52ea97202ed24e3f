"""JoinService: tokens to join with, agents that trade one for a certificate, and their renewals.

Invariant: a certificate is handed out once its token's use is committed, and never for a name or a host that its holder
did not get from an operator or prove; whatever is wrong with a token, its holder is told the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import grpc
import structlog

from gosched.config import ConfigError
from gosched.config.address import split_address
from gosched.config.node_labels import NODE_LABEL
from gosched.core.commands.join import CreateJoinToken, RenewJoinedNode, RevokeJoinToken, UseJoinToken
from gosched.core.features import FeatureLevel
from gosched.core.limits import MAX_DURATION_MS, MAX_NAME_LENGTH
from gosched.core.outcome import Accepted, Code, Rejected
from gosched.core.reasons import RefusalReason
from gosched.core.records.join import JoinToken
from gosched.core.rules.join import check_join_token
from gosched.core.rules.values import check_name
from gosched.master.agents.host_proof import proved_hosts
from gosched.master.agents.join_authority import JoinAuthority, Signed, pins_of
from gosched.master.base.callers import Caller, denied
from gosched.master.base.clock import StateClock
from gosched.master.base.errors import ApiError, accepted, invalid, unavailable, unmet
from gosched.master.base.proposals import Proposals
from gosched.master.base.tokens import certificate_of
from gosched.replication.interface import Replication
from gosched.state_machine.joining import why_shut_out, why_unusable
from gosched.wire.codec import map_pairs, to_message
from gosched.wire.join_token import digest_of, id_of_token, new_join_token
from gosched.wire.roles import node_label
from gosched.wire.tls_watch import TlsWatch
from gosched.wire.v1 import join_pb2, join_pb2_grpc, types_pb2

log = structlog.get_logger()

_TokenChange = CreateJoinToken | RevokeJoinToken


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinService(join_pb2_grpc.JoinServiceServicer):
    replication: Replication
    proposals: Proposals
    clock: StateClock
    #: None: this master signs no certificates.
    authority: JoinAuthority | None
    #: None: there is no TLS.
    tls: TlsWatch | None
    #: Returns where agents call this master to join; empty: nowhere.
    token_address: Callable[[], str]

    async def GetAuthority(self, request: join_pb2.GetAuthorityRequest, context: Any) -> join_pb2.GetAuthorityResponse:
        if self.tls is None:
            raise unmet("joining needs TLS, and this cluster has none")
        signer = ""
        if self.authority is not None:
            try:
                signer = await asyncio.to_thread(self.authority.key_digest)
            except ConfigError as error:
                log.error("certificates of agents cannot be signed", why=str(error))
        return join_pb2.GetAuthorityResponse(authorities=self.tls.current.pem.ca, signer=signer)

    async def Join(self, request: join_pb2.JoinRequest, context: Any) -> join_pb2.JoinResponse:
        self._check_can_sign()
        caller: Caller = context.caller
        token_id, digest, now_ms = id_of_token(request.token), digest_of(request.token), self.clock.now_ms()
        token = self.replication.state.join_tokens.get(token_id)
        problem = why_unusable(self.replication.state, token_id, digest, None, request.node, now_ms)
        if token is None or problem:
            raise _refused(problem)
        key, key_digest = await _key_of(request.csr)
        if problem := why_unusable(self.replication.state, token_id, digest, key_digest, request.node, now_ms):
            raise _refused(problem)
        self._check_node(request.node)
        hosts = await proved_hosts(request.hosts, caller.address, self._need_no_proof(token.hosts))
        signed = await self._signed(key, request.node, hosts)
        use = UseJoinToken(
            id=token_id,
            digest=digest,
            key=key_digest,
            node=request.node,
            hosts=hosts,
            ends_at_ms=signed.ends_at_ms,
            certificate=signed.serial,
        )
        outcome = await self.proposals.propose(use)
        if isinstance(outcome, Rejected) and outcome.code is Code.NOT_FOUND:
            raise _refused(outcome.detail)
        if isinstance(outcome, Rejected) and outcome.code is Code.ALREADY_EXISTS:
            raise ApiError(grpc.StatusCode.ALREADY_EXISTS, outcome.detail, reason=RefusalReason.NODE_ID_IN_USE)
        accepted(outcome)
        return self._answer(signed)

    async def RenewCertificate(self, request: join_pb2.RenewCertificateRequest, context: Any) -> join_pb2.JoinResponse:
        self._check_can_sign()
        caller: Caller = context.caller
        joined = self.replication.state.joined_nodes.get(caller.name)
        if joined is None:
            raise unmet(f"node {caller.name[:MAX_NAME_LENGTH]!a} did not join with a token: join with one")
        shown = caller.certificate
        if problem := why_shut_out(self.replication.state, joined, shown):
            raise denied(problem)
        key, _ = await _key_of(request.csr)
        token = self.replication.state.join_tokens.get(joined.token_id)
        known = (*joined.hosts, *(token.hosts if token is not None else ()))
        hosts = await proved_hosts(request.hosts or joined.hosts, caller.address, self._need_no_proof(known))
        signed = await self._signed(key, joined.name, hosts)
        renewal = RenewJoinedNode(
            name=joined.name, hosts=hosts, ends_at_ms=signed.ends_at_ms, certificate=signed.serial, shown=shown
        )
        accepted(await self.proposals.propose(renewal))
        return self._answer(signed)

    async def CreateJoinToken(
        self, request: join_pb2.CreateJoinTokenRequest, context: Any
    ) -> join_pb2.CreateJoinTokenResponse:
        made: list[tuple[JoinToken, str, str]] = []

        async def change() -> Accepted:
            made.append(self._new_token(request, context.caller))
            return await self._change(CreateJoinToken(token=made[0][0]), request)

        taken = await self.proposals.once(request, change)
        if not made or taken.subject != made[0][0].id:
            raise unmet(f"this request has made join token {taken.subject} before, and its secret cannot be had again")
        token, secret, address = made[0]
        revision = self.replication.state.revision
        return join_pb2.CreateJoinTokenResponse(token=_shown(token), secret=secret, address=address, revision=revision)

    def _new_token(self, request: join_pb2.CreateJoinTokenRequest, caller: Caller) -> tuple[JoinToken, str, str]:
        """Return a token, its secret, and where agents join with it. Raises ApiError where it cannot be made."""
        self._check_can_sign()
        assert self.tls is not None, "it can sign"
        address = self.token_address()
        if not address:
            raise unmet("agents have nowhere to join: set server.token_addr on the masters")
        if not 0 < request.lasts_ms <= MAX_DURATION_MS:
            raise invalid("lasts_ms: a token lasts longer than nothing and at most 366 days")
        if NODE_LABEL in request.labels:
            raise invalid(f"labels: each agent gives the label {NODE_LABEL} itself, the id of its node: leave it out")
        token_id, secret = new_join_token(pins_of(self.tls))
        now_ms = self.clock.now_ms()
        token = JoinToken(
            id=token_id,
            name=request.name,
            node=request.node,
            labels=map_pairs(request.labels),
            hosts=tuple(sorted(set(request.hosts))),
            digest=digest_of(secret),
            created_at_ms=now_ms,
            expires_at_ms=now_ms + request.lasts_ms,
            certificate=certificate_of(self.replication.state, caller),
        )
        if found := check_join_token(token):
            raise invalid(str(found))
        return token, secret, address

    async def ListJoinTokens(
        self, request: join_pb2.ListJoinTokensRequest, context: Any
    ) -> join_pb2.ListJoinTokensResponse:
        await self.proposals.barrier()
        state, now_ms = self.replication.state, self.clock.now_ms()
        live = [_shown(token) for token in state.join_tokens.values() if token.expires_at_ms > now_ms]
        return join_pb2.ListJoinTokensResponse(tokens=live, revision=state.revision)

    async def RevokeJoinToken(
        self, request: join_pb2.RevokeJoinTokenRequest, context: Any
    ) -> join_pb2.RevokeJoinTokenResponse:
        await self.proposals.once(request, lambda: self._change(RevokeJoinToken(id=request.id), request))
        return join_pb2.RevokeJoinTokenResponse(revision=self.replication.state.revision)

    def _need_no_proof(self, hosts: Collection[str]) -> set[str]:
        """Return those of these hosts that are no master's: for one of those an agent has to call from there."""
        masters = self.replication.state.masters.values()
        return {*hosts} - {
            split_address(address)[0]
            for master in masters
            for address in (master.grpc_address, master.http_address)
            if address
        }

    def _check_can_sign(self) -> None:
        """Raises ApiError where nobody can join here."""
        if self.tls is None:
            raise unmet("joining needs TLS, and this cluster has none")
        if self.authority is None:
            member = self.replication.member_id
            raise unmet(f"master {member} signs no certificates: set join.ca_cert and join.ca_key in its config")
        if self.replication.state.feature_level < FeatureLevel.BOUNDED:
            raise unmet("the cluster knows no join tokens yet: `goschedctl cluster finalize-upgrade` raises its level")

    def _check_node(self, node: str) -> None:
        """Raises ApiError for what cannot be the name of a node in a certificate."""
        if found := check_name("node", node):
            raise invalid(str(found))
        if self.tls is not None and self.tls.current.holder.in_dns and node_label(node, "") != node:
            raise invalid(
                f"node {node}: this cluster has roles in DNS names, so it must be one lower-case label: give the agent "
                "another id"
            )

    async def _signed(self, key: Any, node: str, hosts: Sequence[str]) -> Signed:
        """Raises ApiError."""
        assert self.authority is not None, "it was checked"
        try:
            return await asyncio.to_thread(self.authority.sign, key, node, hosts, self.replication.state.cluster_id)
        except ConfigError as error:
            log.error("certificates of agents cannot be signed", why=str(error))
            raise unavailable("the master cannot sign certificates now; its log says why") from error

    def _answer(self, signed: Signed) -> join_pb2.JoinResponse:
        assert self.tls is not None, "it was checked"
        state = self.replication.state
        return join_pb2.JoinResponse(
            certificate=signed.pem,
            authorities=self.tls.current.pem.ca,
            cluster_id=state.cluster_id,
            masters=[master.grpc_address for master in state.masters.values()],
        )

    async def _change(
        self,
        command: _TokenChange,
        request: join_pb2.CreateJoinTokenRequest | join_pb2.RevokeJoinTokenRequest,
    ) -> Accepted:
        return accepted(
            await self.proposals.propose(command, client_id=request.client_id, request_id=request.request_id)
        )


async def _key_of(csr: bytes) -> tuple[Any, str]:
    """Return the key of a request for a certificate, and its digest in hex. Raises ApiError."""
    from gosched.wire.certificate_request import BadRequest, requested_key
    from gosched.wire.signing import key_digest

    try:
        key = await asyncio.to_thread(requested_key, csr)
    except BadRequest as error:
        raise invalid(str(error)) from error
    return key, key_digest(key).hex()


def _refused(why: str) -> ApiError:
    """Return the one answer to whatever is wrong with a token to join with; `why` is for the audit log."""
    return ApiError(
        grpc.StatusCode.UNAUTHENTICATED,
        "the join token is not valid, or not any more: `goschedctl node join-token create` makes another one",
        audited=why,
    )


def _shown(token: JoinToken) -> types_pb2.JoinToken:
    """Return the message of a token without its digests."""
    return to_message(replace(token, digest="", used_key=token.used_key[:16]), types_pb2.JoinToken)
