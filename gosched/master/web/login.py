"""Logging in to the pages: a form that takes a token, and gives a session for it.

Invariant: what is wrong with a token is not said, and none is in an address, where logs and histories would keep it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gosched.master.base.access import Access
from gosched.master.base.errors import ApiError, invalid
from gosched.master.http.call import CALL, read_body
from gosched.master.http.session import LOGIN, begun, ended
from gosched.master.web.rendering import Rendering
from gosched.master.web.security import page_headers

_MAX_BODY_BYTES = 16 * 1024
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,8192}")  # what a cookie and a header can hold


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginView:
    """What the form shows."""

    #: Where it leads.
    next: str
    #: Why the last try failed; empty: there was none.
    problem: str = ""


class Login:
    """The form and what it is answered."""

    def __init__(self, access: Access, rendering: Rendering) -> None:
        self._access = access
        self._rendering = rendering

    async def show(self, request: Request) -> Response:
        return await self._form(LoginView(next=local_path(request.query_params.get("next", ""))), 200)

    async def begin(self, request: Request) -> Response:
        """Give a session to who has a token. Raises ApiError for what is no form."""
        fields = await _fields(request)
        token, leads_to = fields.get("token", "").strip(), local_path(fields.get("next", ""))
        guest = request.scope[CALL].caller
        try:
            if not _TOKEN.fullmatch(token):
                raise invalid("this is no token")
            await self._access.authenticated(guest, [("authorization", f"Bearer {token}")])
        except ApiError as error:
            return await self._form(LoginView(next=leads_to, problem=error.detail), 401)
        return RedirectResponse(leads_to, 303, headers={"Set-Cookie": begun(token), **page_headers(())})

    async def end(self, request: Request) -> Response:
        return RedirectResponse(LOGIN, 303, headers={"Set-Cookie": ended(), **page_headers(())})

    async def _form(self, view: LoginView, status: int) -> Response:
        body = await self._rendering.bare("login.html", view)
        # Without a referrer browsers send `Origin: null` with a form, as if another site's page had sent it.
        headers = {**page_headers(()), "Referrer-Policy": "same-origin"}
        return Response(body, status, media_type="text/html; charset=utf-8", headers=headers)


def local_path(text: str) -> str:
    """Return the path if it is one of this site, else the first page."""
    try:
        parts = urlsplit(text)
    except ValueError:  # of an address in brackets
        return "/"
    is_local = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if is_local and not parts.scheme and not parts.netloc and "\\" not in text else "/"


async def _fields(request: Request) -> dict[str, str]:
    body = await read_body(request, _MAX_BODY_BYTES)
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=5))
    except ValueError as error:
        raise invalid(f"the body is no form: {error}") from error
