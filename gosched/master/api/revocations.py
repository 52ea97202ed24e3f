"""What AccessService does with revoked certificates: revoke one, list them, take one again. Served by the leader.

Invariant: the certificate that a call is made with is revoked only where the caller says so once more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gosched.core.commands.revocation import RevokeCertificate, UnrevokeCertificate
from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.outcome import Accepted
from gosched.core.records.revocation import Revocation
from gosched.master.base.access import Access
from gosched.master.base.callers import Caller
from gosched.master.base.clock import StateClock
from gosched.master.base.errors import accepted, invalid, unmet
from gosched.master.base.proposals import Proposals
from gosched.master.base.tokens import certificate_of
from gosched.replication.interface import Replication
from gosched.state_machine.revocation import is_over
from gosched.wire.certificates import names_in
from gosched.wire.codec import fill, to_message
from gosched.wire.role_rules import BUILT_IN, RoleReader
from gosched.wire.roles import BadCertificate
from gosched.wire.serials import facts_of, serial_in
from gosched.wire.v1 import access_pb2, types_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocations:
    replication: Replication
    proposals: Proposals
    clock: StateClock
    access: Access
    #: Says what role a certificate has.
    roles: RoleReader = BUILT_IN

    async def revoke(
        self, request: access_pb2.RevokeCertificateRequest, caller: Caller
    ) -> access_pb2.RevokeCertificateResponse:
        async def change() -> Accepted:
            revocation = self._asked(request, caller)
            if not request.force and revocation.certificate == certificate_of(self.replication.state, caller):
                raise unmet("this very call was made with it: with --force it is revoked all the same")
            return accepted(
                await self.proposals.propose(
                    RevokeCertificate(revocation=revocation), client_id=request.client_id, request_id=request.request_id
                )
            )

        taken = await self.proposals.once(request, change)
        state = self.replication.state
        revoked = state.revocations.get(taken.subject, Revocation(certificate=taken.subject, at_ms=0))
        return access_pb2.RevokeCertificateResponse(
            revocation=to_message(revoked, types_pb2.Revocation), unchanged=taken.unchanged, revision=state.revision
        )

    async def listed(self) -> access_pb2.ListRevocationsResponse:
        await self.proposals.barrier()
        state = self.replication.state
        answer = access_pb2.ListRevocationsResponse(revision=state.revision)
        found = [one for one in state.revocations.values() if not is_over(one, state.clock_ms)]
        for one in sorted(found, key=lambda one: (-one.at_ms, one.certificate)):
            fill(one, answer.revocations.add())
        return answer

    async def unrevoke(self, request: access_pb2.UnrevokeCertificateRequest) -> access_pb2.UnrevokeCertificateResponse:
        command = UnrevokeCertificate(certificate=_serial(request.serial))

        async def change() -> Accepted:
            return accepted(
                await self.proposals.propose(command, client_id=request.client_id, request_id=request.request_id)
            )

        await self.proposals.once(request, change)
        return access_pb2.UnrevokeCertificateResponse(revision=self.replication.state.revision)

    def _asked(self, request: Any, caller: Caller) -> Revocation:
        """Return what is to be revoked. Raises ApiError."""
        at_ms, by = self.clock.now_ms(), caller.name[:MAX_NAME_LENGTH] if caller.role is not None else ""
        if not request.certificate:
            return Revocation(certificate=_serial(request.serial), reason=request.reason, by=by, at_ms=at_ms)
        facts = facts_of(request.certificate)
        if facts is None:
            raise invalid("certificate: this is no certificate in PEM form")
        if facts.is_authority:
            raise invalid("certificate: this is an authority's: take it out of tls.ca of all programs instead")
        if facts.ends_at_ms <= at_ms:
            raise invalid("certificate: it has ended, and is refused for that already")
        holder, role = facts.subject, ""
        try:
            found = self.roles.holder(names_in(facts.pem))
            holder, role = found.uri() if found.name else facts.subject, found.role.value
        except BadCertificate:
            pass  # it has no role here, and may have one for another program
        return Revocation(
            certificate=facts.serial,
            holder="".join(char for char in holder if char.isprintable())[:MAX_NAME_LENGTH],
            role=role,
            reason=request.reason,
            by=by,
            at_ms=at_ms,
            ends_at_ms=facts.ends_at_ms,
        )


def _serial(text: str) -> str:
    serial = serial_in(text[:MAX_NAME_LENGTH])
    if not serial:
        raise invalid(
            "serial: expected the serial number of a certificate (at most 40 digits in hex), got"
            f" {text[:MAX_NAME_LENGTH]!a}"
        )
    return serial
