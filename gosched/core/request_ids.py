"""Names of requests: who asks, and an id that may say when it was made, so that a repeat is told from a new request.

A change is named by a client id and a request id. An id such as `at1764307216123-9f0c2a` was made at that time, in ms
since 1970, and names its request by itself, from whichever process it comes. Any other text names one together with
the client id, and says nothing of its age.

Invariant: what is here depends on the texts alone, on every master alike.
"""

from __future__ import annotations

import hashlib
import re
from base64 import urlsafe_b64encode
from functools import lru_cache

_MADE = re.compile(r"at([0-9]{13})-.+")
_USER = re.compile(r"[0-9a-f]{16} ")
_KEY_BYTES = 16


def request_id_at(now_ms: int, unique: str) -> str:
    """Return an id that was made now. `unique`: at random, at least 64 bits."""
    return f"at{now_ms:013d}-{unique}"


def made_at_ms(request_id: str) -> int | None:
    """Return when the id was made, in ms since 1970; None: it does not say it."""
    found = _MADE.fullmatch(request_id)
    return int(found[1]) if found is not None else None


def user_mark(user: str) -> str:
    """Return what the client ids of a user begin with, on its way through a master that knows who calls."""
    return f"{hashlib.sha256(user.encode()).hexdigest()[:16]} "


def asker_of(client_id: str) -> str:
    """Return the user of a client id, as its mark says; empty: a caller that is not judged as a user."""
    found = _USER.match(client_id)
    return found[0].rstrip() if found is not None else ""


@lru_cache(maxsize=1024)  # a request is looked up, and then remembered
def request_key(client_id: str, request_id: str) -> str:
    """Return the key under which a request is remembered: short, and another one for each user."""
    who = asker_of(client_id) if made_at_ms(request_id) is not None else client_id
    digest = hashlib.blake2b(f"{who}\0{request_id}".encode(), digest_size=_KEY_BYTES).digest()
    return urlsafe_b64encode(digest).decode().rstrip("=")
