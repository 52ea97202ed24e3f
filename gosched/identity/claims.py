"""What a token says, judged by the settings and the clock: whether it is for this cluster, and who comes with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gosched.config.errors import shown
from gosched.config.oidc_model import MAX_CLAIM_LENGTH, Oidc
from gosched.identity.refusal import Check, Refusal

MAX_GROUPS = 256
MAX_AUDIENCES = 64
_MAX_SECONDS = 1 << 40  # later moments have no date


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedToken:
    """A person, by the word of the issuer."""

    #: With the prefix of the settings.
    user: str
    #: With their prefix, sorted, each once.
    groups: tuple[str, ...] = ()
    #: `exp`, in ms since 1970. With the clock skew the token is taken for a little longer.
    expires_ms: int
    #: `sub`: the issuer's own id of the person, for the audit log.
    subject: str


def check_claims(claims: Mapping[str, Any], oidc: Oidc, now_ms: int) -> Refusal | None:
    """Return why a token is not for this cluster, or not now."""
    if claims.get("iss") != oidc.issuer:
        return Refusal(Check.ISSUER, f"iss is {shown(claims.get('iss'))}, not {shown(oidc.issuer)}")
    return _check_audience(claims, oidc) or _check_kind(claims) or _check_time(claims, oidc.clock_skew_ms, now_ms)


def read_person(claims: Mapping[str, Any], oidc: Oidc) -> VerifiedToken | Refusal:
    """Return whom the claims of a verified token name."""
    subject, user = claims.get("sub"), claims.get(oidc.user_claim)
    if not _is_name(subject):
        return Refusal(Check.NAME, f"sub is {shown(subject)}")
    if not _is_name(user):
        return Refusal(Check.NAME, f"{oidc.user_claim} is {shown(user)}, of the subject {shown(subject)}")
    if oidc.user_claim == "email" and claims.get("email_verified") is not True:
        return Refusal(
            Check.NAME, f"email {shown(user)} is not verified by the issuer, of the subject {shown(subject)}"
        )
    groups = claims.get(oidc.groups_claim, [])
    groups = [groups] if isinstance(groups, str) else groups
    if not isinstance(groups, list) or len(groups) > MAX_GROUPS or not all(map(_is_name, groups)):
        amount = f"{len(groups)} groups" if isinstance(groups, list) else shown(groups)
        return Refusal(Check.NAME, f"{oidc.groups_claim}: {amount}; expected a list of at most {MAX_GROUPS} names")
    seconds = _seconds(claims.get("exp"))
    assert seconds is not None, "its time has been checked"
    return VerifiedToken(
        user=f"{oidc.user_prefix}{user}",
        groups=tuple(sorted({f"{oidc.groups_prefix}{group}" for group in groups})),
        expires_ms=seconds * 1000,
        subject=str(subject),
    )


def _check_audience(claims: Mapping[str, Any], oidc: Oidc) -> Refusal | None:
    """Of several audiences each could pass the token on as its own: `azp` must be the client that asked for it."""
    given = claims.get("aud")
    audiences = [given] if isinstance(given, str) else given
    wanted = oidc.expected_audience
    if not isinstance(audiences, list) or len(audiences) > MAX_AUDIENCES or wanted not in audiences:
        return Refusal(Check.AUDIENCE, f"aud is {shown(given)}, without {shown(wanted)}")
    party = claims.get("azp")
    if len(audiences) > 1 and party not in (oidc.client_id, wanted):
        return Refusal(Check.AUDIENCE, f"aud is {shown(given)}, and azp {shown(party)} is not {shown(oidc.client_id)}")
    return None


def _check_kind(claims: Mapping[str, Any]) -> Refusal | None:
    if "events" in claims:
        return Refusal(Check.TYPE, "it has events: a security event or logout token is no login")
    if "cnf" in claims:
        return Refusal(Check.TYPE, "it has cnf: it is bound to a key of its owner, which cannot be checked here")
    return None


def _check_time(claims: Mapping[str, Any], skew_ms: int, now_ms: int) -> Refusal | None:
    expires = _seconds(claims.get("exp"))
    if expires is None:
        return Refusal(Check.TIME, f"exp is {shown(claims.get('exp'))}")
    if expires * 1000 + skew_ms <= now_ms:
        return Refusal(Check.TIME, f"exp is {expires}, {(now_ms - expires * 1000) / 1000:.0f} s ago")
    for claim in ("nbf", "iat"):
        if claim not in claims:
            continue
        begins = _seconds(claims[claim])
        if begins is None:
            return Refusal(Check.TIME, f"{claim} is {shown(claims[claim])}")
        if begins * 1000 - skew_ms > now_ms:
            return Refusal(Check.TIME, f"{claim} is {begins}, in {(begins * 1000 - now_ms) / 1000:.0f} s")
    return None


def _seconds(value: object) -> int | None:
    """Return whole seconds since 1970, of a number that may have a fraction."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 <= value < _MAX_SECONDS:
        return None
    return int(value)


def _is_name(value: object) -> bool:
    return (
        isinstance(value, str) and 0 < len(value) <= MAX_CLAIM_LENGTH and value.isprintable() and value == value.strip()
    )
