"""Bearer tokens: how a secret is made, found and compared.

A secret is `gosched_ID_RANDOM`: 256 bits of randomness, so its plain SHA-256 tells nothing of it, and a lookup by id
costs the same whether it is there or not to within what a network hides.

Invariant: a secret is in the answer to its maker, and nowhere else.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import uuid
from collections.abc import Iterable, Mapping

from gosched.core.records.access import Token
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.callers import Caller

PREFIX = "gosched_"
AUTHORIZATION = "authorization"
_BEARER = "bearer "
_MAX_SECRET = 512
_ID = re.compile(r"[0-9a-f]{16}")


def new_secret() -> tuple[str, str, str]:
    """Return a token's id, its secret, and the digest of that."""
    token_id = uuid.uuid4().hex[:16]
    secret = f"{PREFIX}{token_id}_{secrets.token_urlsafe(32)}"
    return token_id, secret, _digest(secret)


def bearer(headers: Iterable[tuple[str, str]]) -> str:
    """Return what the authorization header bears; empty: there is none."""
    value = next((str(value) for name, value in headers if name.lower() == AUTHORIZATION), "")
    return value[len(_BEARER) :].strip() if value[: len(_BEARER)].lower() == _BEARER else ""


def is_ours(secret: str) -> bool:
    """Return whether this is the secret of a token of ours, and not one of an issuer."""
    return secret.startswith(PREFIX)


def find(tokens: Mapping[str, Token], secret: str, now_ms: int) -> Token | None:
    """Return the live token of a secret; None: there is none."""
    if len(secret) > _MAX_SECRET:
        return None
    token = tokens.get(secret.removeprefix(PREFIX).partition("_")[0])
    if token is None or not hmac.compare_digest(token.digest, _digest(secret)) or token.expires_at_ms <= now_ms:
        return None
    return token


def shown(secret: str) -> str:
    """Return what may be logged of a secret: the id that it names, if it is of our form."""
    token_id = secret.removeprefix(PREFIX).partition("_")[0] if is_ours(secret) else ""
    return token_id if _ID.fullmatch(token_id) else "of another form"


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def certificate_of(state: ClusterState, caller: Caller) -> str:
    """Return the serial number of the certificate that a caller owes its rights to: its own, or that with which its
    token was made; empty: there is none."""
    token = state.tokens.get(caller.token)
    return token.certificate if token is not None else caller.certificate
