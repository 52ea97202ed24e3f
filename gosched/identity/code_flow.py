"""A login in a browser (OpenID Connect's authorization code flow, with PKCE): away to the issuer's page, and back with
a code, for which this program gets the tokens.

All that the way back needs is in a PendingLogin, which the browser keeps: another program of the same settings may
finish what this one began.

Invariant: a code is exchanged only for the browser that began, and its ID token is of that very login. It ends in time,
and few are exchanged at once.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote_plus, urlencode, urlsplit

from gosched.config.errors import ConfigError, shown
from gosched.config.oidc_model import Oidc
from gosched.config.private import exposed
from gosched.identity.aside import in_thread
from gosched.identity.discovery import Discovery
from gosched.identity.fetching import TIMEOUT_S, trust_of
from gosched.identity.oidc import OidcVerifier
from gosched.identity.refusal import Refusal
from gosched.identity.token_endpoint import Grant, LoginFailed, asked, error_of, grant_of

#: Those that the issuer has are asked for, unless the settings name others.
SCOPES = ("openid", "email", "profile", "groups")
MAX_EXCHANGES = 16  # at once
_EXCHANGE_S = 2 * TIMEOUT_S  # with the lookup of a name
_MAX_CODE_LENGTH = 4096
_MAX_SECRET_BYTES = 1024

_AGAIN = "the login did not succeed: try again"
_NOT_NOW = "the issuer does not answer now: try again later"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingLogin:
    """A login between the way to the issuer and the way back. Each text of the first three is 32 random bytes in
    base64url."""

    #: By which the answer is known as that to this browser.
    state: str
    #: By which the ID token is known as that of this login.
    nonce: str
    #: By which the issuer knows that whoever has the code has begun the login (RFC 7636).
    verifier: str
    #: The path that the login leads to.
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRefusal:
    """Why a login ends with nobody logged in."""

    #: One line for the person.
    words: str
    #: One printable line, without secrets: for the audit log.
    detail: str
    #: The same may succeed later.
    is_passing: bool = False
    #: The pending login is over; else one that this browser has may still be finished.
    is_spent: bool = True


class CodeFlow:
    """The logins of a page. It belongs to the event loop of its verifier."""

    def __init__(self, oidc: Oidc, verifier: OidcVerifier) -> None:
        """Raises ConfigError where `client_secret_file` cannot be used."""
        self._oidc = oidc
        self._verifier = verifier
        self._trust = trust_of(oidc.ca)
        self._exchanges = 0
        _secret(oidc)  # a mistake shows now

    @property
    def page_url(self) -> str:
        return self._oidc.page

    @property
    def issuer_host(self) -> str:
        return urlsplit(self._oidc.issuer).netloc

    async def begin(self, leads_to: str) -> tuple[str, PendingLogin] | LoginRefusal:
        """Return the issuer's URL to go to, and what the browser keeps meanwhile."""
        found = await self._verifier.endpoints()
        if found is None:
            problem = self._verifier.key_status().problem
            return LoginRefusal(words=_NOT_NOW, detail=f"the issuer has not answered: {problem}", is_passing=True)
        if not found.authorization_endpoint or not found.token_endpoint:
            detail = f"the issuer {shown(found.issuer)} has no authorization endpoint, or no token endpoint"
            return LoginRefusal(words="the issuer has no login for browsers: log in with a token", detail=detail)
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        pending = PendingLogin(state=state, nonce=nonce, verifier=verifier, next=leads_to)
        asked_for = {
            "response_type": "code",
            "client_id": self._oidc.client_id,
            "redirect_uri": self._oidc.redirect_uri,
            "scope": " ".join(_scopes(self._oidc, found)),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
        }
        separator = "&" if "?" in found.authorization_endpoint else "?"
        return f"{found.authorization_endpoint}{separator}{urlencode(asked_for)}", pending

    async def finish(self, pending: PendingLogin | None, answer: Iterable[tuple[str, str]]) -> str | LoginRefusal:
        """Return the token that masters are to be shown. `answer`: the parameters with which the browser came back."""
        pairs = list(answer)
        given = dict(pairs)
        if pending is None:
            detail = "the browser has no cookie of a login: it was begun elsewhere, is over, or took too long"
            return LoginRefusal(
                words="this login was not begun in this browser, or took too long: try again", detail=detail
            )
        if len(given) < len(pairs) or not _same(given.get("state", ""), pending.state):
            detail = "state is not that of the login that this browser began"
            return LoginRefusal(
                words="this is not the login that this browser began: try again", detail=detail, is_spent=False
            )
        found = await self._verifier.endpoints()
        if found is None:
            problem = self._verifier.key_status().problem
            return LoginRefusal(words=_NOT_NOW, detail=f"the issuer has not answered: {problem}", is_passing=True)
        if refused := self._refusal(given, found):
            return refused
        if self._exchanges >= MAX_EXCHANGES:
            detail = f"{self._exchanges} logins are exchanged already"
            return LoginRefusal(words="too many log in at this moment: try again", detail=detail, is_passing=True)
        self._exchanges += 1
        try:
            async with asyncio.timeout(_EXCHANGE_S):
                grant = await in_thread(lambda: self._exchanged(found, given["code"], pending.verifier), "oidc-code")
        except (LoginFailed, TimeoutError) as error:
            return LoginRefusal(words=_NOT_NOW, detail=str(error) or "no answer in time", is_passing=True)
        finally:
            self._exchanges -= 1
        return grant if isinstance(grant, LoginRefusal) else await self._token_of(grant, pending)

    def _refusal(self, given: dict[str, str], found: Discovery) -> LoginRefusal | None:
        """Return why an answer to this login brings no code."""
        issuer = given.get("iss")
        if (issuer is None and found.names_itself) or issuer not in (None, self._oidc.issuer):
            return LoginRefusal(words=_AGAIN, detail=f"iss is {shown(issuer)}: another issuer answers (RFC 9207)")
        if "error" in given:
            denied = given["error"] == "access_denied"
            words = "the login was denied at the issuer" if denied else "the issuer refused the login: try again"
            return LoginRefusal(words=words, detail=f"the issuer refused the login: {error_of(given)}")
        code = given.get("code", "")
        if not 0 < len(code) <= _MAX_CODE_LENGTH or not code.isascii() or not code.isprintable():
            return LoginRefusal(words=_AGAIN, detail=f"code is {'nothing' if not code else 'no code'}")
        return None

    def _exchanged(self, found: Discovery, code: str, verifier: str) -> Grant | LoginRefusal:
        """Return the tokens of a code. Blocks. Raises LoginFailed where the issuer gives no answer."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._oidc.redirect_uri,
            "code_verifier": verifier,
            "client_id": self._oidc.client_id,
        }
        header = ""
        try:
            secret = _secret(self._oidc)
        except ConfigError as error:
            raise LoginFailed(str(error)) from error
        if secret and found.secret_methods is not None and "client_secret_basic" not in found.secret_methods:
            form["client_secret"] = secret
        elif secret:
            header = basic(self._oidc.client_id, secret)
        answer = asked(found.token_endpoint, form, self._trust, authorization=header)
        if words := error_of(answer):
            return LoginRefusal(words=_AGAIN, detail=f"the issuer refuses the code: {words}")
        return grant_of(answer)

    async def _token_of(self, grant: Grant, pending: PendingLogin) -> str | LoginRefusal:
        """Return the token of a grant that masters are to be shown: the ID token, or that of the API which `audience`
        names, if it is of the same subject. It is for the masters to verify."""
        subject = await self._verifier.verify_login(grant.id_token, pending.nonce)
        if isinstance(subject, Refusal):
            words = _NOT_NOW if subject.is_passing else _AGAIN
            return LoginRefusal(words=words, detail=f"ID token: {subject.detail}", is_passing=subject.is_passing)
        if self._oidc.expected_audience == self._oidc.client_id:
            return grant.id_token
        person = await self._verifier.verify(grant.access_token)
        if isinstance(person, Refusal):
            words = _NOT_NOW if person.is_passing else _AGAIN
            return LoginRefusal(words=words, detail=f"access token: {person.detail}", is_passing=person.is_passing)
        if person.subject != subject:
            detail = f"sub of the access token is {shown(person.subject)}, of the ID token {shown(subject)}"
            return LoginRefusal(words=_AGAIN, detail=detail)
        return grant.access_token


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of RFC 7636."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def basic(client_id: str, secret: str) -> str:
    """Return the Authorization header of a client with a secret (RFC 6749, section 2.3.1)."""
    both = f"{quote_plus(client_id)}:{quote_plus(secret)}"
    return f"Basic {base64.b64encode(both.encode()).decode()}"


def _scopes(oidc: Oidc, found: Discovery) -> tuple[str, ...]:
    if oidc.page_scopes:
        return tuple(dict.fromkeys(("openid", *oidc.page_scopes)))
    return tuple(scope for scope in SCOPES if scope == "openid" or found.scopes is None or scope in found.scopes)


def _secret(oidc: Oidc) -> str:
    """Return the client's secret, which may be replaced at any time; empty: it has none. Raises ConfigError."""
    path = oidc.client_secret_file
    if not path:
        return ""
    try:
        if problem := exposed(path):
            raise ConfigError(f"oidc.client_secret_file: {problem}")
        with Path(path).open("rb") as file:
            secret = file.read(_MAX_SECRET_BYTES + 1).strip().decode("ascii")
    except OSError as error:
        raise ConfigError(f"oidc.client_secret_file: cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"oidc.client_secret_file: {path} is no text in ASCII") from error
    if not 0 < len(secret) <= _MAX_SECRET_BYTES or not secret.isprintable():
        raise ConfigError(f"oidc.client_secret_file: {path} is not one line of at most {_MAX_SECRET_BYTES} characters")
    return secret


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), wanted.encode())
