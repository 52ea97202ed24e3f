"""The logins of this user: one file per context, with the tokens that `goschedctl login` got.

`token_of` is what a client shows to masters. It fetches a new token in time, with the refresh token.

Invariant: a file is replaced whole, and only its owner may read it. Of all processes one at a time asks for new tokens:
most issuers take each refresh token once.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gosched.config.context import ClientContext, folder
from gosched.config.errors import ConfigError
from gosched.config.private import tighten

if TYPE_CHECKING:
    from gosched.identity.token_endpoint import Grant

#: A token that ends sooner is replaced before it is shown.
REFRESH_BEFORE_MS = 60_000
_LOCK_S = 15.0
_MAX_FILE_BYTES = 128 * 1024
_LOGIN_AGAIN = "log in again with goschedctl login, or forget the login with goschedctl logout"


class LoginEnded(ConfigError):
    """The user was logged in, and is not any more: one line that says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """What a file holds."""

    issuer: str
    client_id: str
    #: What masters are shown.
    token: str
    #: In ms since 1970.
    expires_ms: int
    #: Empty: the login ends with the token.
    refresh_token: str = ""
    #: Masters are shown the access token: `audience` is an API's. Else the ID token.
    shows_access_token: bool = False


def token_of(context: ClientContext, *, now_ms: Callable[[], int] | None = None) -> str | None:
    """Return the token to show to the masters of a context; None: this user has not logged in there. It may ask the
    issuer for a new one, and blocks meanwhile. Raises LoginEnded, ConfigError."""
    file = login_file(context)
    if not file.exists():
        return None
    login, now = read_login(file), now_ms or _now_ms
    if login is None:
        return None
    if context.oidc_issuer and context.oidc_issuer != login.issuer:
        raise LoginEnded(f"the login of {context.source} is of the issuer {login.issuer}: {_LOGIN_AGAIN}")
    if _lasts(login, now(), REFRESH_BEFORE_MS):
        return login.token
    if login.refresh_token:
        return _refreshed(file, now).token
    if not _lasts(login, now(), 0):
        raise LoginEnded(f"your login has ended: {_LOGIN_AGAIN}")
    return login.token


def login_file(context: ClientContext) -> Path:
    """Return where the login of a context is. One without a name has its masters' instead: a token is shown to those
    alone for which it was made."""
    name = context.name or f"_{hashlib.sha256(context.endpoints.encode()).hexdigest()[:16]}"
    return folder() / "tokens" / f"{name}.json"


def read_login(file: Path) -> Login | None:
    """Return what the file holds; None where there is none. Raises ConfigError."""
    try:
        tighten(file)
        with file.open("rb") as source:
            raw = source.read(_MAX_FILE_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{file}: cannot read the login: {error.strerror}") from error
    try:
        found = json.loads(raw)
        login = Login(**{field.name: found[field.name] for field in fields(Login)})
        if not isinstance(login.expires_ms, int) or not all(
            isinstance(text, str) for text in (login.issuer, login.client_id, login.token, login.refresh_token)
        ):
            raise TypeError
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ConfigError(f"{file}: it is no login: {_LOGIN_AGAIN}") from error
    return login


def write_login(file: Path, login: Login) -> None:
    """Replace the file. Raises ConfigError."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        tighten(file.parent)
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as target:
            json.dump(asdict(login), target)
        fresh.replace(file)
    except OSError as error:
        raise ConfigError(f"{file}: cannot write the login: {error.strerror}") from error


def forget_login(file: Path) -> None:
    """Remove the file, if there is one. Raises ConfigError."""
    if not file.exists():
        return
    try:
        with _locked(file):  # or a process that renews the login would write it anew
            file.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{file}: cannot remove the login: {error.strerror}") from error


def login_from(grant: Grant, issuer: str, client_id: str, *, shows_access_token: bool) -> Login:
    """Return what is kept of a grant. Raises LoginEnded where it has no token that masters could read."""
    token = grant.access_token if shows_access_token else grant.id_token
    expires_ms = _end_of(token)
    if not token or expires_ms is None:
        kind = "access token in the form of a JWT" if shows_access_token else "ID token"
        raise LoginEnded(f"the issuer {issuer} gave no {kind}: {_LOGIN_AGAIN}")
    return Login(
        issuer=issuer,
        client_id=client_id,
        token=token,
        expires_ms=expires_ms,
        refresh_token=grant.refresh_token,
        shows_access_token=shows_access_token,
    )


def _refreshed(file: Path, now_ms: Callable[[], int]) -> Login:
    """Return the login with a token that lasts, made by this process or by another one meanwhile."""
    from gosched.identity import device_login  # brings TLS and HTTP along
    from gosched.identity.fetching import trust_of
    from gosched.identity.token_endpoint import LoginFailed
    from gosched.wire.http_exchange import Unreachable

    with _locked(file):
        login = read_login(file)
        if login is None:
            raise LoginEnded(f"your login has ended: {_LOGIN_AGAIN}")
        if _lasts(login, now_ms(), REFRESH_BEFORE_MS):
            return login
        trust = trust_of(None)
        try:
            found = device_login.discover(login.issuer, trust)
            grant = device_login.refresh(found, login.client_id, login.refresh_token, trust)
        except Unreachable as error:
            if _lasts(login, now_ms(), 0):
                return login
            raise LoginEnded(f"your login has ended, and there is no new one: {error}") from error
        except LoginFailed as error:
            if _lasts(login, now_ms(), 0):
                return login
            raise LoginEnded(f"your login has ended ({error}): {_LOGIN_AGAIN}") from error
        fresh = login_from(grant, login.issuer, login.client_id, shows_access_token=login.shows_access_token)
        fresh = fresh if fresh.refresh_token else replace(fresh, refresh_token=login.refresh_token)
        write_login(file, fresh)
        return fresh


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Keep other processes from asking for new tokens meanwhile. Raises ConfigError."""
    ends = time.monotonic() + _LOCK_S
    try:
        handle = os.open(_lock_of(file), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"{_lock_of(file)}: cannot be locked: {error.strerror}") from error
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > ends:
                    raise ConfigError(f"{file}: another process renews the login, and does not end") from None
                time.sleep(0.05)
        yield
    finally:
        os.close(handle)


def _lock_of(file: Path) -> Path:
    return file.with_name(f".{file.stem}.lock")


def _end_of(token: str) -> int | None:
    """Return when a token ends, in ms since 1970, as it says; None: it is no JWT that masters take. It came from the
    issuer itself, so its signature is not checked here."""
    from gosched.identity.compact import read_compact
    from gosched.identity.refusal import Refusal

    read = read_compact(token)
    if isinstance(read, Refusal) or not isinstance(read.claims.get("exp"), int):
        return None
    return int(read.claims["exp"]) * 1000


def _lasts(login: Login, now_ms: int, margin_ms: int) -> bool:
    return login.expires_ms - margin_ms > now_ms


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
