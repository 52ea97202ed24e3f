"""The device flow and the files of logins; the issuer is a real server with answers of a test's choice."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gosched.cli.main import run_cli
from gosched.config.context import ClientContext
from gosched.config.errors import ConfigError
from gosched.identity import device_login, tokens
from gosched.identity.fetching import trust_of
from gosched.identity.token_endpoint import Grant, LoginFailed
from gosched.identity.tokens import Login, LoginEnded, login_file, read_login, token_of, write_login
from tests.identity.issuer import NOW_MS, Issuer, issuer, respond

CONTEXT = ClientContext(endpoints="m1:9090", name="prod")
CODE = {"device_code": "secret", "user_code": "ABCD-EFGH", "expires_in": 100, "interval": 5}


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("GOSCHED_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def running() -> Iterator[Issuer]:
    with issuer() as found:
        found.pages["/device"] = json.dumps({**CODE, "verification_uri": f"{found.url}/d"}).encode()
        yield found


class Sleeper:
    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def answers(running: Issuer, *said: object) -> None:
    """Let the token endpoint say these in turn; the last one again and again."""
    left = list(said)

    def answer(handler: Any) -> None:
        one = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(one, int):
            respond(handler, one, b"oops")
        else:
            fails = isinstance(one, str)
            respond(handler, 400 if fails else 200, json.dumps({"error": one} if fails else one).encode())

    running.pages["/token"] = answer


def log_in(running: Issuer, sleeper: Sleeper) -> Grant:
    trust = trust_of(None)
    found = device_login.discover(running.url, trust)
    code = device_login.begin(found, "gosched", trust)
    return device_login.wait(found, "gosched", code, trust, sleep=sleeper.sleep, clock=lambda: sleeper.now)


def test_it_asks_as_slowly_as_the_issuer_wants(running: Issuer) -> None:
    answers(running, "authorization_pending", "slow_down", "authorization_pending", 503, {"id_token": "a"})
    sleeper = Sleeper()
    assert log_in(running, sleeper).id_token == "a"
    assert sleeper.pauses == [5, 5, 10, 10, 20]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("access_denied", "the login was denied in the browser"),
        ("expired_token", "the code has expired"),
        ("authorization_pending", "the code has expired"),
        (503, "the code has expired"),
        (400, "the issuer refuses the login: status 400"),
        ("x\n\x1b[31m" * 100, r"the issuer refuses the login: x\n\x1b[31m"),
        ([], "expected a JSON object"),
    ],
)
def test_a_login_that_fails_is_one_line_and_ends(running: Issuer, said: object, words: str) -> None:
    answers(running, said)
    sleeper = Sleeper()
    with pytest.raises(LoginFailed) as raised:
        log_in(running, sleeper)
    assert words in str(raised.value)
    assert str(raised.value).isprintable()
    assert sleeper.now <= 100


@pytest.mark.parametrize(
    "change",
    [
        {"user_code": "\x1b[31m"},
        {"user_code": ""},
        {"user_code": "x" * 65},
        {"verification_uri": "http://evil.example"},
        {"verification_uri": "javascript:alert(1)"},
        {"verification_uri_complete": "file:///etc/passwd"},
        {"device_code": 1},
    ],
)
def test_a_code_that_a_terminal_should_not_see_is_refused(running: Issuer, change: dict[str, object]) -> None:
    running.pages["/device"] = json.dumps({**CODE, "verification_uri": f"{running.url}/d", **change}).encode()
    with pytest.raises(LoginFailed, match="cannot be used"):
        log_in(running, Sleeper())


def test_scopes_that_the_issuer_has_are_asked_for(running: Issuer) -> None:
    answers(running, {"id_token": "a"})
    log_in(running, Sleeper())
    assert "openid email profile groups offline_access" in [form.get("scope") for form in running.forms]
    document = running.document(scopes_supported=["openid", "groups"])
    running.pages["/.well-known/openid-configuration"] = json.dumps(document).encode()
    log_in(running, Sleeper())
    assert "openid groups" in [form.get("scope") for form in running.forms]


def _stored(running: Issuer, **more: Any) -> Path:
    login = Login(**{
        "issuer": running.url, "client_id": "gosched", "token": running.token(), "expires_ms": NOW_MS + 600_000,
        "refresh_token": "r1", **more,
    })  # fmt: skip
    write_login(login_file(CONTEXT), login)
    return login_file(CONTEXT)


def test_who_has_not_logged_in_has_no_token() -> None:
    assert token_of(CONTEXT) is None


def test_a_login_is_the_users_own_and_of_its_context(running: Issuer) -> None:
    file = _stored(running)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    assert token_of(CONTEXT, now_ms=lambda: NOW_MS) == running.token()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token_of(ClientContext(endpoints="m1:9090", name="lab")) is None
    assert token_of(ClientContext(endpoints="m1:9090")) is None
    moved = ClientContext(endpoints="m1:9090", name="prod", oidc_issuer="https://other.example")
    with pytest.raises(LoginEnded, match="log in again with goschedctl login"):
        token_of(moved, now_ms=lambda: NOW_MS)


def test_a_token_is_renewed_once_by_all_who_need_it(running: Issuer) -> None:
    _stored(running)
    later = NOW_MS + 590_000
    fresh = running.token(exp=later // 1000 + 600)
    answers(running, {"id_token": fresh, "refresh_token": "r2"})
    found: list[str | None] = []
    threads = [threading.Thread(target=lambda: found.append(token_of(CONTEXT, now_ms=lambda: later))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == [fresh] * 8
    assert [form["refresh_token"] for form in running.forms if form] == ["r1"]
    login = read_login(login_file(CONTEXT))
    assert login is not None
    assert login.refresh_token == "r2"


def test_a_token_is_used_to_its_end_while_the_issuer_is_down(running: Issuer) -> None:
    _stored(running)
    answers(running, 503)
    assert token_of(CONTEXT, now_ms=lambda: NOW_MS + 590_000) == running.token()
    with pytest.raises(LoginEnded, match="your login has ended"):
        token_of(CONTEXT, now_ms=lambda: NOW_MS + 600_000)


def test_a_login_that_the_issuer_ended_says_what_to_do(running: Issuer) -> None:
    _stored(running)
    answers(running, "invalid_grant")
    with pytest.raises(LoginEnded, match=r"your login has ended \(.*invalid_grant\): log in again"):
        token_of(CONTEXT, now_ms=lambda: NOW_MS + 600_000)
    _stored(running, refresh_token="")
    with pytest.raises(LoginEnded, match="log in again"):
        token_of(CONTEXT, now_ms=lambda: NOW_MS + 600_000)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "null", '{"token": 1}', "[" * 100_000])
def test_a_damaged_file_is_one_line(content: str) -> None:
    file = login_file(CONTEXT)
    file.parent.mkdir(parents=True)
    file.write_text(content)
    with pytest.raises(ConfigError, match="it is no login: log in again"):
        token_of(CONTEXT)


def test_logout_removes_the_login_and_tells_the_issuer(running: Issuer, capfd: pytest.CaptureFixture[str]) -> None:
    context = ["config", "set-context", "prod", "--endpoints", "m1:9090", "--oidc-issuer", running.url]
    assert run_cli([*context, "--oidc-client-id", "gosched"]) == 0
    file = _stored(running)
    running.pages["/revoke"] = b""
    assert run_cli(["logout"]) == 0
    assert not file.exists()
    assert {"token": "r1", "token_type_hint": "refresh_token", "client_id": "gosched"} in running.forms
    assert run_cli(["logout"]) == 0
    assert "you are not logged in" in capfd.readouterr().err
    file = _stored(running)
    assert run_cli(["config", "delete-context", "prod"]) == 0
    assert not file.exists()


def test_a_login_without_an_issuer_says_what_to_set(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["login"]) == 2
    said = capfd.readouterr().err
    assert said == "goschedctl: nothing says where to log in: give --issuer, or set oidc_issuer in the context\n"
    assert run_cli(["login", "--issuer", "http://x.example", "--client-id", "a"]) == 2
    assert "expected the issuer's URL" in capfd.readouterr().err


def test_a_login_is_kept_for_the_context(
    running: Issuer, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_login.wait, "__kwdefaults__", {"sleep": lambda s: None, "clock": lambda: 0.0})
    answers(running, {"id_token": running.token(), "access_token": "opaque", "refresh_token": "r1"})
    named = ["--endpoints", "m1:9090", "login", "--issuer", running.url, "--client-id", "gosched"]
    assert run_cli(named) == 0
    assert f"Open {running.url}/d in a browser on any device, and enter the code ABCD-EFGH" in capfd.readouterr().err
    here = ClientContext(endpoints="m1:9090")
    assert token_of(here, now_ms=lambda: NOW_MS) == running.token()
    assert run_cli([*named, "--access-token"]) == 1
    assert "gave no access token in the form of a JWT" in capfd.readouterr().err


def test_the_lock_is_waited_for_and_not_for_ever(running: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _stored(running)
    monkeypatch.setattr(tokens, "_LOCK_S", 0.1)
    with tokens._locked(file), pytest.raises(ConfigError, match="another process renews the login"):
        token_of(CONTEXT, now_ms=lambda: NOW_MS + 590_000)
