"""A login at a real OpenID Connect issuer: goschedctl as a process, a person at its pages, and the verifier."""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gosched.config.context import ClientContext
from gosched.config.oidc_model import Oidc
from gosched.identity import tokens
from gosched.identity.claims import VerifiedToken
from gosched.identity.oidc import OidcVerifier
from gosched.identity.refusal import Check, Refusal
from tests.integration.oidc_issuer import OidcIssuer, confirm, private_key
from tests.integration.support import PATIENCE_S, until

CTL = Path(sys.executable).with_name("goschedctl")
CONTEXT = ClientContext(endpoints="m1:9090", name="prod")


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[OidcIssuer]:
    running = OidcIssuer(tmp_path)
    running.start([private_key("one")])
    yield running
    running.stop()


@pytest.fixture
def home(tmp_path: Path, issuer: OidcIssuer, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("GOSCHED_")]:
        monkeypatch.delenv(name)
    _ctl(
        "config", "set-context", "prod", "--endpoints", "m1:9090",
        "--oidc-issuer", issuer.url, "--oidc-client-id", "gosched",
    )  # fmt: skip
    return tmp_path


def _ctl(*args: str, code: int = 0) -> str:
    done = subprocess.run([CTL, *args], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == code, done.stderr
    return done.stderr


def _log_in(name: str) -> str:
    """Run `goschedctl login` to its end, with a person who confirms it; returns what it said."""
    with subprocess.Popen([CTL, "login"], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline() + process.stderr.readline()
            found = re.search(r"or open (\S+)", said)
            assert found, said
            confirm(found[1], name)
            said += process.stderr.read()
            assert process.wait(PATIENCE_S) == 0, said
        finally:
            process.kill()
    return said


def _token() -> str:
    found = tokens.token_of(CONTEXT)
    assert found is not None
    return found


def test_a_person_logs_in_keys_change_and_the_issuer_goes_away(issuer: OidcIssuer, home: Path) -> None:
    said = _log_in("alice")
    assert re.search(r"Open http://\S+/device in a browser on any device, and enter the code [A-Z]{4}-[A-Z]{4}\n", said)
    assert "You are logged in; the token lasts 59m, and is renewed by itself" in said
    file = home / ".config/gosched/tokens/prod.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    first = _token()
    clock = [0.0]

    async def story() -> None:
        oidc = Oidc(issuer=issuer.url, client_id="gosched")
        checking = OidcVerifier(oidc, clock=lambda: clock[0])
        other = OidcVerifier(Oidc(issuer=issuer.url, client_id="gosched", audience="other"))
        try:
            found = await checking.verify(first)
            assert isinstance(found, VerifiedToken), found
            assert (found.user, found.groups) == ("oidc:alice@example.com", ("oidc:admins", "oidc:ml"))
            refused = await other.verify(first)
            assert isinstance(refused, Refusal)
            assert refused.check is Check.AUDIENCE

            # A new key signs, and the old one is published for a while.
            issuer.stop()
            issuer.start([private_key("two"), private_key("one")])
            await asyncio.to_thread(_log_in, "bob")
            second = _token()
            clock[0] += 11
            found = await checking.verify(second)
            assert isinstance(found, VerifiedToken), found
            assert found.user == "oidc:bob@example.com"
            assert isinstance(await checking.verify(first), VerifiedToken)

            # The old key is gone, and then the issuer.
            issuer.stop()
            issuer.start([private_key("two"), private_key("three")])
            clock[0] += 11
            await checking._keys._refresh()
            refused = await checking.verify(first)
            assert isinstance(refused, Refusal)
            assert refused.check is Check.KEY
            issuer.stop()
            clock[0] += 3600
            await checking._keys._refresh()
            assert checking.key_status().problem
            assert isinstance(await checking.verify(second), VerifiedToken)
        finally:
            await checking.close()
            await other.close()

    asyncio.run(story())


def test_a_login_is_renewed_and_ends_with_logout(issuer: OidcIssuer, home: Path) -> None:
    _log_in("alice")
    file = home / ".config/gosched/tokens/prod.json"
    before = json.loads(file.read_text())
    began = time.time()
    until(lambda: time.time() - began > 1, "a token of the next second is another one")
    renewed = tokens.token_of(CONTEXT, now_ms=lambda: before["expires_ms"] - 30_000)
    after = json.loads(file.read_text())
    assert renewed == after["token"] != before["token"]
    assert after["refresh_token"] != before["refresh_token"]
    assert "You are logged out" in _ctl("logout")
    assert not file.exists()
    assert tokens.token_of(CONTEXT) is None
    file.write_text(json.dumps(after))  # a copy of it: the issuer knows that it is not used any more
    with pytest.raises(tokens.LoginEnded, match="your login has ended"):
        tokens.token_of(CONTEXT, now_ms=lambda: after["expires_ms"])


def test_a_client_that_the_issuer_does_not_know_gets_one_line(issuer: OidcIssuer, home: Path) -> None:
    said = _ctl("login", "--client-id", "stranger", code=1)
    assert said.startswith("goschedctl: the issuer refuses the device login of the client 'stranger': invalid_client")
    assert said.count("\n") == 1
    issuer.stop()
    assert "Connection refused" in _ctl("login", code=1)
