"""Logging in to the pages: a form that takes a token, or the way to an issuer and back, gives a session.

Invariant: what is wrong with a token is not said, and none is in an address, where logs and histories would keep it.
The code in the link of a local cluster is in one, and counts once.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlsplit

import grpc
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gosched.identity.code_flow import CodeFlow, LoginRefusal
from gosched.master.base.access import Access
from gosched.master.base.callers import Caller
from gosched.master.base.errors import ApiError, invalid, not_found
from gosched.master.http.call import CALL, read_body
from gosched.master.http.session import LOGIN, LOGIN_OIDC, SESSION_S, begun, begun_plain, ended
from gosched.master.web import pending_login
from gosched.master.web.rendering import Rendering
from gosched.master.web.security import page_headers
from gosched.wire.shared_token import LINK

_MAX_BODY_BYTES = 16 * 1024
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,8192}")  # what cookies and a header can hold


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginView:
    """What the form shows."""

    #: Where it leads.
    next: str
    #: Why the last try failed; empty: there was none.
    problem: str = ""
    #: The host of the issuer at which people log in; empty: there is none.
    issuer: str = ""
    #: The way there.
    issuer_link: str = ""


class Login:
    """The form and what it is answered. `flow`: logins at an issuer; None: there are none. `now_ms`: the clock by which
    tokens end."""

    def __init__(self, access: Access, rendering: Rendering, flow: CodeFlow | None, now_ms: Callable[[], int]) -> None:
        self._access = access
        self._rendering = rendering
        self._flow = flow
        self._now_ms = now_ms
        self._link_is_spent = False

    async def show(self, request: Request) -> Response:
        if (code := request.query_params.get("code", "")) and (shared := self._access.shared) is not None:
            if not self._link_is_spent and hmac.compare_digest(code.encode(), shared.proof(LINK).encode()):
                self._link_is_spent = True
                return _on_to("/", begun_plain(shared.session, request.headers.get("host", "")))
            return await self._form("/", 401, "this link was used already, or is another cluster's")
        return await self._form(local_path(request.query_params.get("next", "")), 200)

    async def begin(self, request: Request) -> Response:
        """Give a session to who has a token. Raises ApiError for what is no form."""
        fields = await _fields(request)
        token, leads_to = fields.get("token", "").strip(), local_path(fields.get("next", ""))
        guest = request.scope[CALL].caller
        try:
            if not _TOKEN.fullmatch(token):
                raise invalid("this is no token")
            caller = await self._access.authenticated(guest, [("authorization", f"Bearer {token}")])
        except ApiError as error:
            return await self._refused(request, leads_to, error)
        if caller.role is None and (shared := self._access.shared) is not None:
            return _on_to(leads_to, begun_plain(shared.session, request.headers.get("host", "")))
        return _on_to(leads_to, begun(token, self._lasts_s(caller)))

    async def end(self, request: Request) -> Response:
        return _on_to(LOGIN, ended())

    async def to_issuer(self, request: Request) -> Response:
        """Send a browser to the issuer. Raises ApiError where there is none.

        Who is sent here by another site gets no session but the own one: the answer counts in this browser alone.
        """
        leads_to = local_path(request.query_params.get("next", ""))
        begun_login = await self._there().begin(leads_to)
        if isinstance(begun_login, LoginRefusal):
            return await self._refused(request, leads_to, _as_error(begun_login))
        url, pending = begun_login
        return _on_to(url, [pending_login.kept(pending)])

    async def from_issuer(self, request: Request) -> Response:
        """Give a session to who comes back from the issuer. Raises ApiError where there is none."""
        flow, pending = self._there(), pending_login.read(request.headers.get("cookie", ""))
        leads_to = local_path(pending.next) if pending else "/"
        token = await flow.finish(pending, request.query_params.multi_items())
        if isinstance(token, LoginRefusal):
            spent = [pending_login.removed()] if token.is_spent else []
            return await self._refused(request, leads_to, _as_error(token), spent)
        try:
            caller = await self._access.authenticated(
                request.scope[CALL].caller, [("authorization", f"Bearer {token}")]
            )
        except ApiError as error:
            return await self._refused(request, leads_to, error, [pending_login.removed()])
        return _on_to(leads_to, [*begun(token, self._lasts_s(caller)), pending_login.removed()])

    def _there(self) -> CodeFlow:
        if self._flow is None:
            raise not_found("the page has no login at an issuer: set oidc.page_url")
        return self._flow

    def _lasts_s(self, caller: Caller) -> int:
        """Return how long the session of a caller lasts, at most."""
        return max(1, (caller.until_ms - self._now_ms()) // 1000) if caller.until_ms else SESSION_S

    async def _refused(self, request: Request, leads_to: str, error: ApiError, cookies: Sequence[str] = ()) -> Response:
        request.scope[CALL].why = error.audited or error.detail
        status = 503 if error.code is grpc.StatusCode.UNAVAILABLE else 401
        return await self._form(leads_to, status, error.detail, cookies)

    async def _form(self, leads_to: str, status: int, problem: str = "", cookies: Sequence[str] = ()) -> Response:
        flow = self._flow
        # The issuer sends browsers back to that URL, where the cookie of the login has to be.
        link = f"{flow.page_url}{LOGIN_OIDC}?next={quote(leads_to, safe='')}" if flow else ""
        view = LoginView(next=leads_to, problem=problem, issuer=flow.issuer_host if flow else "", issuer_link=link)
        body = await self._rendering.bare("login.html", view)
        # Without a referrer browsers send `Origin: null` with a form, as if another site's page had sent it.
        headers = {**page_headers(()), "Referrer-Policy": "same-origin"}
        return _with_cookies(Response(body, status, media_type="text/html; charset=utf-8", headers=headers), cookies)


def local_path(text: str) -> str:
    """Return the path if it is one of this site, else the first page."""
    try:
        parts = urlsplit(text)
    except ValueError:  # of an address in brackets
        return "/"
    is_local = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if is_local and not parts.scheme and not parts.netloc and "\\" not in text else "/"


def _on_to(place: str, cookies: Iterable[str]) -> Response:
    return _with_cookies(RedirectResponse(place, 303, headers=page_headers(())), cookies)


def _with_cookies(response: Response, cookies: Iterable[str]) -> Response:
    for cookie in cookies:
        response.headers.append("Set-Cookie", cookie)
    return response


def _as_error(refusal: LoginRefusal) -> ApiError:
    code = grpc.StatusCode.UNAVAILABLE if refusal.is_passing else grpc.StatusCode.UNAUTHENTICATED
    return ApiError(code, refusal.words, audited=refusal.detail)


async def _fields(request: Request) -> dict[str, str]:
    body = await read_body(request, _MAX_BODY_BYTES)
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=5))
    except ValueError as error:
        raise invalid(f"the body is no form: {error}") from error
