"""The session of a browser: a token in a cookie, which scripts cannot read and other sites' pages cannot send along
with a change (http/origin.py looks at those, too).

It is the token itself, so each master knows the session, and it ends when the token does. Browsers keep no cookie of
more than 4096 bytes, so a long token is in several. They count over TLS only. Without it, where callers show the token
of the cluster, a cookie stands for that.

Invariant: a cookie stands for an Authorization header, and never beside one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from gosched.master.base.tokens import AUTHORIZATION

COOKIE = "__Host-gosched"  # browsers take such a name over TLS alone, for this host and the whole path
PART_LENGTH = 3800  # of a token in one cookie
PARTS = (COOKIE, f"{COOKIE}-2", f"{COOKIE}-3")  # for the longest token that is taken
SESSION_S = 8 * 3600
LOGIN = "/login"
LOGIN_OIDC = "/login/oidc"
LOGIN_CALLBACK = "/login/callback"
_OPEN_PATHS = (LOGIN, LOGIN_OIDC, LOGIN_CALLBACK, "/logout", "/favicon.ico")
_ATTRIBUTES = "Path=/; Max-Age={lasts_s}; Secure; HttpOnly; SameSite=Lax"


def credentials(headers: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """Return the headers in which a token may be: of a browser with a session, as if it had sent its token."""
    if AUTHORIZATION in headers:
        return [(AUTHORIZATION, headers[AUTHORIZATION])]
    cookies, host = headers.get("cookie", ""), headers.get("host", "")
    token = "".join(cookies_of(cookies, PARTS) or cookies_of(cookies, (_plain_cookie(host),)))
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


def begun(token: str, lasts_s: int = SESSION_S) -> list[str]:
    """Return the Set-Cookie headers of a session: also those that remove what is left of a longer token."""
    pieces = [token[start : start + PART_LENGTH] for start in range(0, len(token), PART_LENGTH)]
    assert len(pieces) <= len(PARTS), "no such token is taken"
    pieces += [""] * (len(PARTS) - len(pieces))
    return [set_cookie(name, piece, min(lasts_s, SESSION_S)) for name, piece in zip(PARTS, pieces, strict=True)]


def begun_plain(session: str, host: str) -> list[str]:
    """Return the Set-Cookie headers of a session without TLS, at a master of this machine. `host`: as the browser calls
    it. Cookies are not apart by ports, so each master's has its port in its name."""
    return [f"{_plain_cookie(host)}={session}; Path=/; Max-Age={SESSION_S}; HttpOnly; SameSite=Strict"]


def _plain_cookie(host: str) -> str:
    port = host.rpartition(":")[2]
    return f"gosched-{port if port.isdigit() else '80'}"


def ended() -> list[str]:
    """Return the Set-Cookie headers that end one."""
    return [set_cookie(name, "", 0) for name in PARTS]


def set_cookie(name: str, value: str, lasts_s: int) -> str:
    """Return a Set-Cookie header; an empty value removes the cookie."""
    return f"{name}={value}; {_ATTRIBUTES.format(lasts_s=lasts_s if value else 0)}"


def cookies_of(header: str, names: Sequence[str]) -> list[str]:
    """Return the values of cookies in this order, up to the first one that is not there."""
    if names[0] not in header:
        return []
    try:
        found = SimpleCookie(header)
    except CookieError:
        return []
    values = [found[name].value if name in found else "" for name in names]
    return values[: values.index("")] if "" in values else values
