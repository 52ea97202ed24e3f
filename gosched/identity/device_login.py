"""A login on another device (RFC 8628): the user types a code in a browser, and the program asks until that is done.

Invariant: it ends, at the latest when the code does; it never asks more often than the issuer allows.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass

from gosched.config.errors import shown
from gosched.config.oidc_model import is_safe_url
from gosched.identity.discovery import BadDocument, Discovery, discovery_url, read_discovery
from gosched.identity.fetching import fetch
from gosched.identity.token_endpoint import (
    Grant,
    LoginFailed,
    amount_of,
    asked,
    error_of,
    grant_of,
    read_answer,
    text_of,
)
from gosched.wire.http_exchange import Unreachable

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
#: Those that the issuer has are asked for; the last is for the refresh token.
SCOPES = ("openid", "email", "profile", "groups", "offline_access")
_MAX_LOGIN_S = 3600
_MAX_INTERVAL_S = 60
_SLOWER_S = 5  # RFC 8628, section 3.5
_MAX_CODE_LENGTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCode:
    secret: str
    #: What the user types at `url`; `whole_url` has it already, and may be empty.
    user_code: str
    url: str
    whole_url: str
    lasts_s: int
    interval_s: int


def discover(issuer: str, trust: ssl.SSLContext) -> Discovery:
    """Return where the issuer's endpoints are. Raises LoginFailed, Unreachable."""
    reply = fetch(discovery_url(issuer), trust)
    if reply.status >= 500:
        raise Unreachable(f"{discovery_url(issuer)} answered with status {reply.status}")
    if reply.status != 200:
        raise LoginFailed(f"{discovery_url(issuer)} answered with status {reply.status}: is it the issuer's URL?")
    try:
        return read_discovery(reply.body, issuer)
    except BadDocument as error:
        raise LoginFailed(str(error)) from error


def begin(found: Discovery, client_id: str, trust: ssl.SSLContext, scopes: str = "") -> DeviceCode:
    """Ask for a code. Raises LoginFailed."""
    if not found.device_authorization_endpoint or not found.token_endpoint:
        raise LoginFailed(f"the issuer {shown(found.issuer)} has no device login (RFC 8628)")
    wanted = scopes or " ".join(scope for scope in SCOPES if found.scopes is None or scope in found.scopes)
    answer = asked(found.device_authorization_endpoint, {"client_id": client_id, "scope": wanted}, trust)
    if error := error_of(answer):
        raise LoginFailed(f"the issuer refuses the device login of the client {shown(client_id)}: {error}")
    code = DeviceCode(
        secret=text_of(answer, "device_code"),
        user_code=text_of(answer, "user_code"),
        url=text_of(answer, "verification_uri"),
        whole_url=text_of(answer, "verification_uri_complete"),
        lasts_s=min(amount_of(answer, "expires_in") or 600, _MAX_LOGIN_S),
        interval_s=min(amount_of(answer, "interval") or 5, _MAX_INTERVAL_S),
    )
    urls = [url for url in (code.url, code.whole_url) if url]
    # They go to the user's terminal, and into a browser.
    if not code.secret or not code.url or not all(map(is_safe_url, urls)) or not _is_code(code.user_code):
        raise LoginFailed("the issuer's answer to the device login cannot be used: it has no code, or no https URL")
    return code


def wait(
    found: Discovery,
    client_id: str,
    code: DeviceCode,
    trust: ssl.SSLContext,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Grant:
    """Ask until the user has confirmed the code. Raises LoginFailed."""
    ends, pause_s = clock() + code.lasts_s, code.interval_s
    form = {"grant_type": GRANT, "device_code": code.secret, "client_id": client_id}
    while clock() + pause_s < ends:
        sleep(pause_s)
        try:
            answer = read_answer(fetch(found.token_endpoint, trust, form=form))
        except Unreachable:
            pause_s = min(pause_s * 2, _MAX_INTERVAL_S)  # as RFC 8628 asks of one that gets no answer
            continue
        except BadDocument as error:
            raise LoginFailed(f"the issuer's answer cannot be read: {error}") from error
        match answer.get("error"):
            case None:
                return grant_of(answer)
            case "authorization_pending":
                pass
            case "slow_down":
                pause_s = min(pause_s + _SLOWER_S, _MAX_INTERVAL_S)
            case "access_denied":
                raise LoginFailed("the login was denied in the browser")
            case "expired_token":
                break
            case _:
                raise LoginFailed(f"the issuer refuses the login: {error_of(answer)}")
    raise LoginFailed("the code has expired: run goschedctl login again")


def refresh(found: Discovery, client_id: str, refresh_token: str, trust: ssl.SSLContext) -> Grant:
    """Return new tokens. Raises LoginFailed where the issuer refuses them, Unreachable where it does not answer."""
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": client_id}
    try:
        answer = read_answer(fetch(found.token_endpoint, trust, form=form))
    except BadDocument as error:
        raise Unreachable(str(error)) from error
    if words := error_of(answer):
        raise LoginFailed(f"the issuer refuses new tokens: {words}")
    return grant_of(answer)


def revoke(found: Discovery, client_id: str, token: str, trust: ssl.SSLContext) -> None:
    """Tell the issuer that a refresh token is not used any more (RFC 7009). Raises LoginFailed."""
    form = {"token": token, "token_type_hint": "refresh_token", "client_id": client_id}
    try:
        reply = fetch(found.revocation_endpoint, trust, form=form)
    except Unreachable as error:
        raise LoginFailed(str(error)) from error
    if reply.status != 200:
        raise LoginFailed(f"{found.revocation_endpoint} answered with status {reply.status}")


def _is_code(text: str) -> bool:
    return 0 < len(text) <= _MAX_CODE_LENGTH and text.isascii() and text.isprintable()
