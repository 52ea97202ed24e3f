"""A token as text: three parts in base64url with dots between them (RFC 7515), read strictly.

Invariant: a token has one spelling. What other readers pass over (letters outside the alphabet, padding, spare bits,
keys that are given twice) is refused here, before any key is looked at.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Any

from gosched.identity.discovery import BadDocument, read_object
from gosched.identity.refusal import Check, Refusal

MAX_TOKEN_BYTES = 8 * 1024
_PARTS = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Compact:
    header: dict[str, Any]
    claims: dict[str, Any]
    #: What the signature is of, and the signature.
    signed: bytes
    signature: bytes


def read_compact(token: str) -> Compact | Refusal:
    """Return header and claims, of which nothing is verified."""
    if len(token) > MAX_TOKEN_BYTES:
        return Refusal(Check.FORMAT, f"{len(token)} characters; at most {MAX_TOKEN_BYTES}")
    parts = _PARTS.fullmatch(token)
    if parts is None:
        dots = token.count(".")
        what = "it is encrypted (JWE)" if dots == 4 else "not three parts in base64url with dots between them"
        return Refusal(Check.FORMAT, what)
    decoded = [raw for part in parts.groups() if (raw := _decoded(part)) is not None]
    if len(decoded) < 3:
        return Refusal(Check.FORMAT, "a part is not in the one spelling that base64url has for it")
    try:
        header = read_object(decoded[0], "the header")
        claims = read_object(decoded[1], "the claims")
    except BadDocument as error:
        return Refusal(Check.FORMAT, str(error)[:200])
    return Compact(header, claims, token.rpartition(".")[0].encode(), decoded[2])


def _decoded(part: str) -> bytes | None:
    """Return the bytes; None where their one spelling is another."""
    try:
        raw = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        return None
    return raw if base64.urlsafe_b64encode(raw).rstrip(b"=") == part.encode() else None
