"""The cookie of a login that is away at the issuer: what any master needs to finish it.

Invariant: it is bounded, ends within LASTS_S, and is this browser's: no script reads it, and no other host sets it.
"""

from __future__ import annotations

import base64
import binascii
import re

from gosched.identity.code_flow import PendingLogin
from gosched.master.http.session import COOKIE, cookies_of, set_cookie

NAME = f"{COOKIE}-login"
LASTS_S = 600
MAX_NEXT_BYTES = 1024  # a longer path leads to the first page
_SECRET = r"([A-Za-z0-9_-]{43})"
_FORM = re.compile(rf"{_SECRET}\.{_SECRET}\.{_SECRET}\.([A-Za-z0-9_-]{{0,2000}})")


def kept(pending: PendingLogin) -> str:
    """Return the Set-Cookie header of a login that begins."""
    path = pending.next.encode()
    path = path if len(path) <= MAX_NEXT_BYTES else b""
    parts = (pending.state, pending.nonce, pending.verifier, base64.urlsafe_b64encode(path).rstrip(b"=").decode())
    return set_cookie(NAME, ".".join(parts), LASTS_S)


def removed() -> str:
    """Return the Set-Cookie header that ends it."""
    return set_cookie(NAME, "", 0)


def read(header: str) -> PendingLogin | None:
    """Return the login that a browser is away for; None: for none, or its cookie cannot be read."""
    found = _FORM.fullmatch("".join(cookies_of(header, (NAME,))))
    if found is None:
        return None
    state, nonce, verifier, path = found.groups()
    try:
        leads_to = base64.urlsafe_b64decode(path + "=" * (-len(path) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return PendingLogin(state=state, nonce=nonce, verifier=verifier, next=leads_to)
