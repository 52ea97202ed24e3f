"""The session of a browser: how it begins, what it lets do, how it ends."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlencode

import pytest

from gosched.master.http.session import COOKIE, credentials
from gosched.master.web.login import local_path
from gosched.wire.v1 import access_pb2
from tests.access.stage import Stage, staged
from tests.access.test_guests import PORTS, guests_context, rest
from tests.access.test_tokens import asked
from tests.master.http_client import Answer, request

PAGE = {"Accept": "text/html"}


async def get(stage: Stage, path: str, cookie: str = "", master: int = 0, **headers: str) -> Answer:
    sent = {**PAGE, **headers, **({"Cookie": cookie} if cookie else {})}
    return await request(rest(stage, master), "GET", path, headers=sent, tls=guests_context(stage))


async def post(
    stage: Stage, path: str, cookie: str = "", headers: dict[str, str] | None = None, **fields: str
) -> Answer:
    sent = {"Content-Type": "application/x-www-form-urlencoded", **(headers or {})}
    sent |= {"Cookie": cookie} if cookie else {}
    return await request(
        rest(stage), "POST", path, body=urlencode(fields).encode(), headers=sent, tls=guests_context(stage)
    )


def test_a_session_begins_with_a_token_counts_at_each_master_and_ends_with_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path, {"server": PORTS}) as stage:
            made = await stage.access("sue").CreateToken(asked())
            first = await get(stage, "/jobs?state=pending")
            assert (first.status, first.headers["Location"]) == (303, "/login?next=%2Fjobs%3Fstate%3Dpending")
            form = await get(stage, first.headers["Location"])
            assert form.status == 200
            assert "/jobs?state=pending" in form.text
            assert "m1" not in form.text  # a guest learns nothing of the cluster
            done = await post(stage, "/login", token=made.secret, next="/jobs?state=pending")
            assert (done.status, done.headers["Location"]) == (303, "/jobs?state=pending")
            set_cookie = done.headers["Set-Cookie"]
            assert set_cookie.startswith(f"{COOKIE}=")
            for attribute in ("Secure", "HttpOnly", "SameSite=Lax", "Path=/", "Max-Age="):
                assert attribute in set_cookie
            cookie = set_cookie.partition(";")[0]
            for master in (0, 1):
                page = await get(stage, "/jobs", cookie, master)
                assert page.status == 200
                assert "own" in page.text
                assert "foreign" not in page.text
            # A page of another site can send no change along with it, and the session does what its user may, no more.
            hold = "/api/v1/jobs/own/hold"
            assert (await post(stage, hold, cookie, {"Origin": "https://evil.example"})).status == 403
            assert (await post(stage, hold, cookie, {"Sec-Fetch-Site": "cross-site"})).status == 403
            assert (await post(stage, hold, cookie)).status == 200
            assert (await post(stage, "/api/v1/jobs/foreign/hold", cookie)).status == 404
            await stage.access("sue").RevokeToken(access_pb2.RevokeTokenRequest(id=made.token.id))
            assert (await get(stage, "/jobs", cookie)).status == 303
            out = await post(stage, "/logout", cookie, token="x")
            assert (out.status, "Max-Age=0" in out.headers["Set-Cookie"]) == (303, True)

    asyncio.run(story())


def test_who_has_no_token_gets_no_session_and_programs_no_form(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path, {"server": PORTS}) as stage:
            for token in ("", "gosched_x_y", "a.b.c", "x\r\nSet-Cookie: a=b", "ü", "x" * 9000):
                answer = await post(stage, "/login", token=token, next="/")
                assert answer.status == 401, token
                assert "Set-Cookie" not in answer.headers
            assert (await post(stage, "/login", headers={"Origin": "https://evil.example"}, token="x")).status == 403
            assert (await get(stage, "/api/v1/jobs", Accept="application/json")).status == 401
            assert (await get(stage, "/jobs", f"{COOKIE}=gosched_x_y")).status == 303
            assert (await get(stage, "/login/../api/v1/jobs", Accept="*/*")).status == 401
            assert (await get(stage, "/ui/static/../../api/v1/jobs", Accept="*/*")).status in (401, 404)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("asked_for", "leads_to"),
    [
        ("/jobs?a=b", "/jobs?a=b"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("/a\r\nX: y", "/"),
        ("", "/"),
        ("javascript:alert(1)", "/"),
    ],
)
def test_a_login_leads_to_this_site_alone(asked_for: str, leads_to: str) -> None:
    assert local_path(asked_for) == leads_to


def test_a_cookie_counts_where_there_is_no_authorization_header() -> None:
    assert list(credentials({"cookie": f"a=b; {COOKIE}=t"})) == [("authorization", "Bearer t")]
    both = {"cookie": f"{COOKIE}=t", "authorization": "Bearer u"}
    assert list(credentials(both)) == [("authorization", "Bearer u")]
    assert list(credentials({"cookie": "a=b"})) == []
