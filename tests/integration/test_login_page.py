"""Logging in to the page in a real browser, at a master that asks for certificates and takes tokens."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gosched.wire.v1 import access_pb2
from tests.access.stage import staged
from tests.access.test_guests import PORTS, rest
from tests.access.test_tokens import asked
from tests.integration.browser import WIDE, chromium


def visit(address: str, secret: str) -> None:
    # The test's authority is unknown to the browser.
    with chromium(WIDE, "--ignore-certificate-errors") as browser:
        browser.open(f"https://{address}/jobs?name=own")
        browser.wait_for_text("Log in", "h1")
        assert browser.accessibility() == []
        assert browser.problems() == []
        browser.find("#token").send_keys("wrong")
        browser.find("button").click()
        browser.wait_for_text("the token is not valid")
        browser.problems()  # the browser reports the refusal
        browser.find("#token").send_keys(secret)
        browser.find("button").click()
        browser.wait_for(lambda: browser.driver.current_url.endswith("/jobs?name=own"), "the page that was asked for")
        browser.wait_for_text("own", "main")
        assert browser.run("return document.cookie") == ""  # no script reads the session
        browser.open(f"https://{address}/jobs/own")
        browser.wait_for_text("own", "h1")
        assert browser.problems() == []


def test_a_token_opens_the_pages_of_its_user_in_a_browser(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path, {"server": PORTS}) as stage:
            made = await stage.access("sue").CreateToken(asked())
            await asyncio.to_thread(visit, rest(stage), made.secret)
            await stage.access("sue").RevokeToken(access_pb2.RevokeTokenRequest(id=made.token.id))

    asyncio.run(story())
