"""Verifies the tokens of one OpenID Connect issuer.

A token is taken where it is signed by a key of the issuer under an algorithm that the settings list, for this audience,
and now. ID tokens and access tokens in the form of JWTs (RFC 9068) are taken alike: `audience` says which of them. The
header has `typ` JWT, at+jwt or none; tokens of other kinds (of logouts, of events, bound to a key) are refused, so that
one that was made for something else lets nobody in.

Invariant: `verify` returns, and raises nothing, for any text. It never blocks the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import jwt

from gosched.config.errors import shown
from gosched.config.oidc_model import Oidc
from gosched.identity.claims import VerifiedToken, check_claims, read_person
from gosched.identity.compact import Compact, read_compact
from gosched.identity.discovery import Discovery
from gosched.identity.fetching import trust_of
from gosched.identity.issuer_keys import IssuerKeys, KeyStatus
from gosched.identity.key_set import MAX_KID_LENGTH
from gosched.identity.refusal import Check, Refusal

_TYPES = ("jwt", "at+jwt", "application/jwt", "application/at+jwt")
_SIGNATURES = jwt.PyJWS()


class OidcVerifier:
    """It belongs to one event loop: `start` and `close` there. `tell`: gets lines for the log."""

    def __init__(
        self,
        oidc: Oidc,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        tell: Callable[[str], None] = lambda line: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises ConfigError where `ca` cannot be used."""
        self._oidc = oidc
        self._of_client = oidc.model_copy(update={"audience": None})
        self._now_ms = now_ms
        self._keys = IssuerKeys(oidc, trust_of(oidc.ca), tell=tell, clock=clock)
        self._refreshing: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to fetch the keys and to keep them fresh. Nothing waits for the first fetch but the first token."""
        self._refreshing = asyncio.create_task(self._keys.keep_fresh())

    async def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._refreshing
        await self._keys.close()

    async def verify(self, token: str) -> VerifiedToken | Refusal:
        """Return who comes with the token, or why it is not taken."""
        claims = await self._verified(token, self._oidc)
        return claims if isinstance(claims, Refusal) else read_person(claims, self._oidc)

    async def verify_login(self, token: str, nonce: str) -> str | Refusal:
        """Return the subject of an ID token that was made for this client and for the login with this nonce, or why it
        is not taken."""
        claims = await self._verified(token, self._of_client)
        if isinstance(claims, Refusal):
            return claims
        if claims.get("nonce") != nonce:
            return Refusal(Check.NONCE, f"nonce is {shown(claims.get('nonce'))}: the ID token is of another login")
        if claims.get("azp", self._oidc.client_id) != self._oidc.client_id:
            return Refusal(Check.AUDIENCE, f"azp is {shown(claims['azp'])}, not {shown(self._oidc.client_id)}")
        return str(claims.get("sub", ""))

    async def endpoints(self) -> Discovery | None:
        """Return where the issuer's endpoints are; None: it has not answered, or not for too long."""
        return await self._keys.document()

    def key_status(self) -> KeyStatus:
        return self._keys.status()

    async def _verified(self, token: str, oidc: Oidc) -> Mapping[str, Any] | Refusal:
        """Return the claims of a token that is for this audience and now, or why it is not taken."""
        read = read_compact(token)
        if isinstance(read, Refusal):
            return read
        refused = self._check_header(read.header) or check_claims(read.claims, oidc, self._now_ms())
        if refused is None:
            refused = await self._check_signature(read)
        if refused is not None:
            return Refusal(refused.check, f"{refused.detail} ({_facts(read.header, read.claims)})")
        return read.claims

    def _check_header(self, header: Mapping[str, Any]) -> Refusal | None:
        algorithm, kind, kid = header.get("alg"), header.get("typ", "JWT"), header.get("kid", "")
        if algorithm not in self._oidc.algorithms:
            allowed = ", ".join(self._oidc.algorithms)
            return Refusal(Check.ALGORITHM, f"alg is {shown(algorithm)}; the settings allow {allowed}")
        if not isinstance(kind, str) or kind.lower() not in _TYPES:
            return Refusal(Check.TYPE, f"typ is {shown(kind)}")
        if "crit" in header or "b64" in header:
            return Refusal(Check.FORMAT, "it has an extension that must be understood (crit)")
        if "cty" in header or "enc" in header or "zip" in header:
            return Refusal(Check.FORMAT, "it is nested, encrypted or compressed")
        if not isinstance(kid, str) or len(kid) > MAX_KID_LENGTH:
            return Refusal(Check.KEY, "kid is not a short text")
        return None

    async def _check_signature(self, read: Compact) -> Refusal | None:
        algorithm = str(read.header["alg"])
        key = await self._keys.find(str(read.header.get("kid", "")), algorithm)
        if key is None:
            if not self._keys.are_known:
                return Refusal(Check.ISSUER_DOWN, f"there are no keys: {shown(self._keys.status().problem)}")
            return Refusal(Check.KEY, "the issuer has no such key for its algorithm")
        # Of PyJWT the algorithm alone: its reader of tokens would decode all parts anew, letter by letter.
        if not _SIGNATURES.get_algorithm_by_name(algorithm).verify(read.signed, key.public, read.signature):
            return Refusal(Check.SIGNATURE, "the signature is not the key's")
        return None


def _facts(header: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
    """Return what the token says of itself, none of it verified."""
    said = {"kid": header.get("kid"), **{claim: claims.get(claim) for claim in ("iss", "aud", "sub", "exp")}}
    return ", ".join(f"{name}: {shown(value)}" for name, value in said.items())
