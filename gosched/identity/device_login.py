"""A login on another device (RFC 8628): the user types a code in a browser, and the program asks until that is done.

Invariant: it ends, at the latest when the code does; it never asks more often than the issuer allows.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gosched.config.errors import shown
from gosched.config.oidc_model import is_safe_url
from gosched.identity.discovery import BadDocument, Discovery, discovery_url, read_discovery, read_object
from gosched.identity.fetching import Reply, Unreachable, fetch

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
#: Those that the issuer has are asked for; the last is for the refresh token.
SCOPES = ("openid", "email", "profile", "groups", "offline_access")
_MAX_LOGIN_S = 3600
_MAX_INTERVAL_S = 60
_SLOWER_S = 5  # RFC 8628, section 3.5
_MAX_CODE_LENGTH = 64
_MAX_TEXT = 16 * 1024  # of a token


class LoginFailed(Exception):
    """One line that says why nobody is logged in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCode:
    secret: str
    #: What the user types at `url`; `whole_url` has it already, and may be empty.
    user_code: str
    url: str
    whole_url: str
    lasts_s: int
    interval_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Tokens of the issuer's; a text is empty where it gave none."""

    access_token: str
    id_token: str
    refresh_token: str
    #: Of the access token; None: it does not say.
    lasts_s: int | None


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
    answer = _asked(found.device_authorization_endpoint, {"client_id": client_id, "scope": wanted}, trust)
    if error := _error_of(answer):
        raise LoginFailed(f"the issuer refuses the device login of the client {shown(client_id)}: {error}")
    code = DeviceCode(
        secret=_text(answer, "device_code"),
        user_code=_text(answer, "user_code"),
        url=_text(answer, "verification_uri"),
        whole_url=_text(answer, "verification_uri_complete"),
        lasts_s=min(_amount(answer, "expires_in") or 600, _MAX_LOGIN_S),
        interval_s=min(_amount(answer, "interval") or 5, _MAX_INTERVAL_S),
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
            answer = _answer(fetch(found.token_endpoint, trust, form=form))
        except Unreachable:
            pause_s = min(pause_s * 2, _MAX_INTERVAL_S)  # as RFC 8628 asks of one that gets no answer
            continue
        except BadDocument as error:
            raise LoginFailed(f"the issuer's answer cannot be read: {error}") from error
        match answer.get("error"):
            case None:
                return _grant(answer)
            case "authorization_pending":
                pass
            case "slow_down":
                pause_s = min(pause_s + _SLOWER_S, _MAX_INTERVAL_S)
            case "access_denied":
                raise LoginFailed("the login was denied in the browser")
            case "expired_token":
                break
            case _:
                raise LoginFailed(f"the issuer refuses the login: {_error_of(answer)}")
    raise LoginFailed("the code has expired: run goschedctl login again")


def refresh(found: Discovery, client_id: str, refresh_token: str, trust: ssl.SSLContext) -> Grant:
    """Return new tokens. Raises LoginFailed where the issuer refuses them, Unreachable where it does not answer."""
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": client_id}
    try:
        answer = _answer(fetch(found.token_endpoint, trust, form=form))
    except BadDocument as error:
        raise Unreachable(str(error)) from error
    if words := _error_of(answer):
        raise LoginFailed(f"the issuer refuses new tokens: {words}")
    return _grant(answer)


def revoke(found: Discovery, client_id: str, token: str, trust: ssl.SSLContext) -> None:
    """Tell the issuer that a refresh token is not used any more (RFC 7009). Raises LoginFailed."""
    form = {"token": token, "token_type_hint": "refresh_token", "client_id": client_id}
    try:
        reply = fetch(found.revocation_endpoint, trust, form=form)
    except Unreachable as error:
        raise LoginFailed(str(error)) from error
    if reply.status != 200:
        raise LoginFailed(f"{found.revocation_endpoint} answered with status {reply.status}")


def _asked(url: str, form: Mapping[str, str], trust: ssl.SSLContext) -> dict[str, Any]:
    try:
        return _answer(fetch(url, trust, form=form))
    except (Unreachable, BadDocument) as error:
        raise LoginFailed(f"the issuer cannot be asked: {error}") from error


def _answer(reply: Reply) -> dict[str, Any]:
    """Return the object, with an `error` unless the status is 200. Raises Unreachable where another try may do better,
    and BadDocument."""
    if reply.status >= 500:
        raise Unreachable(f"the issuer answered with status {reply.status}")
    if reply.status != 200 and not reply.body.lstrip().startswith(b"{"):
        return {"error": f"status {reply.status}"}
    answer = read_object(reply.body, "the issuer's answer")
    return answer if reply.status == 200 or answer.get("error") else {**answer, "error": f"status {reply.status}"}


def _error_of(answer: Mapping[str, Any]) -> str:
    if not answer.get("error"):
        return ""
    words = [shown(answer[key]).strip("'") for key in ("error", "error_description") if answer.get(key)]
    return ": ".join(words)


def _grant(answer: Mapping[str, Any]) -> Grant:
    return Grant(
        access_token=_text(answer, "access_token"),
        id_token=_text(answer, "id_token"),
        refresh_token=_text(answer, "refresh_token"),
        lasts_s=_amount(answer, "expires_in"),
    )


def _text(answer: Mapping[str, Any], key: str) -> str:
    value = answer.get(key)
    return value if isinstance(value, str) and len(value) <= _MAX_TEXT else ""


def _amount(answer: Mapping[str, Any], key: str) -> int | None:
    value = answer.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _is_code(text: str) -> bool:
    return 0 < len(text) <= _MAX_CODE_LENGTH and text.isascii() and text.isprintable()
