"""The text of a token to join with: `gosched-join.ID.RANDOM.PIN[.PIN...]`.

RANDOM has 256 bits, so a plain SHA-256 of the text tells nothing of it. A PIN is the SHA-256 of the public key of an
authority of the cluster: by it an agent that has no file of the authority knows a master of the cluster, before it
sends the token.

Invariant: the text is in the answer to its maker, and nowhere else.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

PREFIX = "gosched-join"
MAX_PINS = 4
MAX_TEXT = 512
_ID = re.compile(r"[0-9a-f]{16}")
_DATA = re.compile(r"[A-Za-z0-9_-]{43}")  # 256 bits in base64url


class BadJoinToken(ValueError):
    """One line that says why a text is no token to join with; never the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSecret:
    """A token to join with, as an agent has it."""

    text: str
    id: str
    #: SHA-256 of the public keys of authorities, one of which a master must show.
    pins: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"JoinSecret(id={self.id!r})"


def new_join_token(pins: Sequence[bytes]) -> tuple[str, str]:
    """Return the id and the text of a token. `pins`: one to MAX_PINS."""
    token_id = uuid.uuid4().hex[:16]
    shown = [base64.urlsafe_b64encode(pin).rstrip(b"=").decode() for pin in pins[:MAX_PINS]]
    return token_id, ".".join([PREFIX, token_id, secrets.token_urlsafe(32), *shown])


def parse_join_token(text: str) -> JoinSecret:
    """Return the token of a text. Raises BadJoinToken."""
    parts = text.strip().split(".") if len(text) <= MAX_TEXT else []
    if not 4 <= len(parts) <= 3 + MAX_PINS or parts[0] != PREFIX or not _ID.fullmatch(parts[1]):
        raise BadJoinToken("not a token to join with: `goschedctl node join-token create` prints one, on one line")
    if not all(map(_DATA.fullmatch, parts[2:])):
        raise BadJoinToken("the token to join with is cut off or changed: copy all of its line")
    pins = tuple([base64.urlsafe_b64decode(f"{pin}=") for pin in parts[3:]])
    return JoinSecret(text=text.strip(), id=parts[1], pins=pins)


def digest_of(text: str) -> str:
    """Return the digest by which masters know a token, in hex."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def id_of_token(text: str) -> str:
    """Return what may be logged of a token: the id that it names, if it is of our form."""
    parts = text[:MAX_TEXT].split(".")
    return parts[1] if len(parts) > 1 and parts[0] == PREFIX and _ID.fullmatch(parts[1]) else ""
