"""Certificates that are refused.

Invariant: one is in the table until it is taken back, or until the table is full and it has ended a day ago, when no
clock takes it for valid any more. The state's clock says so, which may be ahead and be set back: so no revocation is
forgotten for the time alone.
"""

from __future__ import annotations

from gosched.core.commands.revocation import RevokeCertificate, UnrevokeCertificate
from gosched.core.events import AccessChanged, Event
from gosched.core.limits import MAX_NAME_LENGTH, MAX_REVOCATIONS
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.records.revocation import Revocation
from gosched.core.rules.revocation import check_revocation
from gosched.core.state.cluster_state import ClusterState

KEPT_AFTER_END_MS = 86_400_000


def revoke_certificate(state: ClusterState, command: RevokeCertificate, events: list[Event]) -> Outcome:
    revocation = command.revocation
    found = check_revocation(revocation)
    if found:
        return Rejected(code=Code.INVALID, detail=str(found))
    if revocation.certificate in state.revocations:
        return Accepted(subject=revocation.certificate, unchanged=True)
    if len(state.revocations) >= MAX_REVOCATIONS:
        over = [(one.ends_at_ms, one.certificate) for one in state.revocations.values() if is_over(one, state.clock_ms)]
        if not over:
            detail = f"{MAX_REVOCATIONS} certificates are revoked, the limit: change the authority instead"
            return Rejected(code=Code.EXHAUSTED, detail=detail)
        state.drop_revocation(min(over)[1])
    state.put_revocation(revocation)
    events.append(AccessChanged())
    return Accepted(subject=revocation.certificate)


def unrevoke_certificate(state: ClusterState, command: UnrevokeCertificate, events: list[Event]) -> Outcome:
    if command.certificate not in state.revocations:
        detail = f"no certificate {command.certificate[:MAX_NAME_LENGTH]!a} is revoked"
        return Rejected(code=Code.NOT_FOUND, detail=detail)
    state.drop_revocation(command.certificate)
    events.append(AccessChanged())
    return Accepted(subject=command.certificate)


def is_over(revocation: Revocation, clock_ms: int) -> bool:
    """Return whether the certificate has ended for every clock."""
    return 0 < revocation.ends_at_ms <= clock_ms - KEPT_AFTER_END_MS
