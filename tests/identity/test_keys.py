"""How keys are fetched: rotation, forged keys, and an issuer that is slow, down, huge, garbage, or sends elsewhere."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gosched.config.errors import ConfigError
from gosched.config.oidc_model import Oidc
from gosched.identity import issuer_keys
from gosched.identity.claims import VerifiedToken
from gosched.identity.oidc import OidcVerifier
from gosched.identity.refusal import Check, Refusal
from tests.identity.issuer import NOW_MS, Issuer, drip, free_port, issuer, jwk, respond, rsa_key


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def story(
    tell: Callable[[Issuer, OidcVerifier, Clock], Awaitable[None]], lines: list[str] | None = None, **more: Any
) -> None:
    async def main(running: Issuer) -> None:
        clock = Clock()
        oidc = Oidc.model_validate({"issuer": running.url, "client_id": "gosched", **more})
        checking = OidcVerifier(
            oidc, now_ms=lambda: NOW_MS, clock=clock, tell=(lines if lines is not None else []).append
        )
        try:
            async with asyncio.timeout(30):
                await tell(running, checking, clock)
        finally:
            await checking.close()

    with issuer() as running:
        asyncio.run(main(running))


async def taken(checking: OidcVerifier, token: str) -> bool:
    return isinstance(await checking.verify(token), VerifiedToken)


def test_a_new_key_works_at_once_and_a_withdrawn_one_is_dropped() -> None:
    async def tell(running: Issuer, checking: OidcVerifier, clock: Clock) -> None:
        old, new = running.token(), running.token(rsa_key("b"), kid="b")
        assert await taken(checking, old)
        running.keys = [jwk(rsa_key("a"), kid="a"), jwk(rsa_key("b"), kid="b")]
        clock.now += 11
        assert await taken(checking, new)
        assert await taken(checking, old)
        running.keys = [jwk(rsa_key("b"), kid="b"), jwk(rsa_key("c"), kid="c")]
        clock.now += 11
        assert await taken(checking, running.token(rsa_key("c"), kid="c"))
        assert not await taken(checking, old)

    story(tell)


def test_forged_keys_make_one_fetch_in_ten_seconds() -> None:
    async def tell(running: Issuer, checking: OidcVerifier, clock: Clock) -> None:
        assert await taken(checking, running.token())
        first = running.asked.count("/keys")
        forged = [running.token(rsa_key("forger"), kid=f"k{number}") for number in range(50)]
        for _ in range(3):
            found = await asyncio.gather(*map(checking.verify, forged))
            assert {one.check for one in found if isinstance(one, Refusal)} == {Check.KEY}
        assert running.asked.count("/keys") == first == 1
        clock.now += 10
        await asyncio.gather(*map(checking.verify, forged))
        assert running.asked.count("/keys") == 2

    story(tell)


def test_tokens_that_are_wrong_anyway_make_no_fetch() -> None:
    async def tell(running: Issuer, checking: OidcVerifier, clock: Clock) -> None:
        for token in (running.token(aud="x"), running.token(iss="https://x.example"), "x.y.z"):
            assert not await taken(checking, token)
        assert running.asked == []

    story(tell)


def test_keys_are_used_until_the_cache_ends_while_the_issuer_is_down() -> None:
    lines: list[str] = []

    async def tell(running: Issuer, checking: OidcVerifier, clock: Clock) -> None:
        token = running.token()
        assert await taken(checking, token)
        running.close()
        clock.now += 3500
        assert await taken(checking, token)
        assert not await taken(checking, running.token(rsa_key("b"), kid="b"))
        assert checking.key_status().problem
        clock.now += 101
        found = await checking.verify(token)
        assert isinstance(found, Refusal)
        assert found.check is Check.ISSUER_DOWN
        assert found.for_caller == "tokens cannot be checked now: try again later"

    story(tell, lines, key_cache="1h")
    assert len(lines) == 1
    assert "the issuer's keys cannot be fetched (those of the last fetch stay in use)" in lines[0]


def test_keys_are_fetched_before_anybody_comes_and_again_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuer_keys, "REFETCH_S", 0.05)
    lines: list[str] = []

    async def tell(running: Issuer, checking: OidcVerifier, clock: Clock) -> None:
        kept = running.pages.pop("/keys")
        checking.start()
        while not lines:
            await asyncio.sleep(0.01)
        running.pages["/keys"] = kept
        while checking.key_status().keys == 0:
            clock.now += 0.05
            await asyncio.sleep(0.01)

    story(tell, lines)
    assert "status 404" in lines[0]
    assert lines[1:] == ["the issuer's keys are fetched again"]


def _redirect(to: str) -> Callable[[Any], None]:
    return lambda handler: respond(handler, 302, b"", Location=to)


@pytest.mark.parametrize(
    ("page", "body", "words"),
    [
        ("/keys", b"x" * 600_000, "larger than 512 KiB"),
        ("/keys", b"\x00\xff", "not UTF-8"),
        ("/keys", b"[]", "expected a JSON object"),
        ("/keys", b"[" * 100_000, "nested more than"),
        ("/keys", b'{"keys": []}', "no key that can verify signatures"),
        ("/keys", json.dumps({"keys": [{}] * 65}).encode(), "at most 64"),
        ("/keys", _redirect("/other"), "status 302"),
        ("/keys", lambda handler: handler.wfile.write(b"no HTTP\r\n\r\n"), "BadStatusLine"),
        ("/.well-known/openid-configuration", _redirect("/other"), "status 302"),
        ("/.well-known/openid-configuration", b'{"issuer": "https://evil.example"}', "is of the issuer"),
        ("/.well-known/openid-configuration", b"{}", "is of the issuer nothing"),
    ],
)
def test_an_answer_that_is_no_key_set_lets_nobody_in(page: str, body: Any, words: str) -> None:
    async def tell(running: Issuer, checking: OidcVerifier, clock: Clock) -> None:
        running.pages["/other"] = running.pages["/keys"]
        running.pages[page] = body
        found = await checking.verify(running.token())
        assert isinstance(found, Refusal)
        assert found.check is Check.ISSUER_DOWN
        assert words in checking.key_status().problem
        assert "/other" not in running.asked

    story(tell)


@pytest.mark.parametrize("uri", ["http://keys.example/x", "file:///etc/passwd", "ftp://127.0.0.1/", 1, None, ""])
def test_keys_are_fetched_from_safe_urls_alone(uri: object) -> None:
    async def tell(running: Issuer, checking: OidcVerifier, clock: Clock) -> None:
        running.pages["/.well-known/openid-configuration"] = json.dumps(running.document(jwks_uri=uri)).encode()
        assert not await taken(checking, running.token())
        assert "jwks_uri" in checking.key_status().problem

    story(tell)


def test_an_issuer_that_drips_does_not_hold_the_loop_and_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "gosched.identity.fetching.fetch.__kwdefaults__", {"form": None, "authorization": "", "timeout_s": 0.5}
    )

    async def tell(running: Issuer, checking: OidcVerifier, clock: Clock) -> None:
        running.pages["/keys"] = drip
        began, turns = time.monotonic(), 0
        asking = asyncio.create_task(checking.verify(running.token()))
        while not asking.done():
            turns += 1
            await asyncio.sleep(0.01)
        assert isinstance(await asking, Refusal)
        assert time.monotonic() - began < 5
        assert turns > 10

    story(tell)


def test_many_tokens_that_come_at_once_wait_for_one_fetch() -> None:
    async def tell(running: Issuer, checking: OidcVerifier, clock: Clock) -> None:
        found = await asyncio.gather(*[checking.verify(running.token()) for _ in range(100)])
        assert all(isinstance(one, VerifiedToken) for one in found)
        assert running.asked.count("/keys") == 1

    story(tell)


def test_a_caller_that_goes_away_leaves_the_fetch_to_the_others() -> None:
    async def tell(running: Issuer, checking: OidcVerifier, clock: Clock) -> None:
        gone = asyncio.create_task(checking.verify(running.token()))
        stays = asyncio.create_task(checking.verify(running.token()))
        await asyncio.sleep(0)
        gone.cancel()
        assert isinstance(await stays, VerifiedToken)

    story(tell)


def test_an_issuer_that_nobody_runs_is_told_at_once() -> None:
    async def main() -> None:
        oidc = Oidc.model_validate({"issuer": f"http://127.0.0.1:{free_port()}", "client_id": "gosched"})
        checking = OidcVerifier(oidc)
        await checking._keys._refresh()
        assert "connection refused" in checking.key_status().problem.lower()
        await checking.close()

    asyncio.run(main())


def test_an_authority_that_cannot_be_read_is_an_error_of_the_settings(tmp_path) -> None:
    (tmp_path / "ca.pem").write_text("x")
    for name in ("ca.pem", "gone.pem"):
        oidc = Oidc.model_validate({"issuer": "https://x.example", "client_id": "g", "ca": str(tmp_path / name)})
        with pytest.raises(ConfigError, match=r"oidc\.ca: .*: cannot be read as certificates"):
            OidcVerifier(oidc)
