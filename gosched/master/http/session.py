"""The session of a browser: a token in a cookie, which scripts cannot read and other sites' pages cannot send along
with a change (http/origin.py looks at those, too).

It is the token itself, so each master knows the session, and it ends when the token does. Cookies count over TLS only.

Invariant: a cookie stands for an Authorization header, and never beside one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from gosched.master.base.tokens import AUTHORIZATION

COOKIE = "__Host-gosched"  # browsers take such a name over TLS alone, for this host and the whole path
SESSION_S = 8 * 3600
LOGIN = "/login"
_OPEN_PATHS = (LOGIN, "/logout", "/favicon.ico")


def credentials(headers: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """Return the headers in which a token may be: of a browser with a session, as if it had sent its token."""
    if AUTHORIZATION in headers:
        return [(AUTHORIZATION, headers[AUTHORIZATION])]
    token = _cookie(headers.get("cookie", ""))
    return [(AUTHORIZATION, f"Bearer {token}")] if token else []


def is_open(path: str) -> bool:
    """Return whether guests may see a path: the form to log in, and what it looks like."""
    return path in _OPEN_PATHS or path.startswith("/ui/static/")


def wants_page(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether a person in a browser asks for a page, who can log in."""
    return method == "GET" and "text/html" in headers.get("accept", "")


def login_first(path: str, query: str) -> Response:
    """Return the way to the form, and back to what was asked for."""
    wanted = f"{path}?{query}" if query else path
    return RedirectResponse(f"{LOGIN}?next={quote(wanted, safe='')}", 303, headers={"Cache-Control": "no-store"})


def begun(token: str) -> str:
    """Return the Set-Cookie header of a session."""
    return f"{COOKIE}={token}; Path=/; Max-Age={SESSION_S}; Secure; HttpOnly; SameSite=Lax"


def ended() -> str:
    """Return the Set-Cookie header that ends one."""
    return f"{COOKIE}=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Lax"


def _cookie(header: str) -> str:
    if COOKIE not in header:
        return ""
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""
