"""Logging in to the page at an issuer: the way there and back, and every way back that is no login."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from gosched.config import ConfigError
from gosched.config.oidc_model import Oidc
from gosched.core.records.access import AccessRole, Binding
from gosched.identity.code_flow import MAX_EXCHANGES, CodeFlow, challenge_of
from gosched.identity.oidc import OidcVerifier
from gosched.master.http.session import COOKIE, PART_LENGTH, begun, credentials
from gosched.master.web import pending_login
from tests.access.stage import BINDINGS, Stage, staged
from tests.access.test_guests import PORTS
from tests.access.test_login import get, post
from tests.audit.lines import whole_lines
from tests.identity.issuer import Issuer, drip, issuer, respond
from tests.master.harness import until
from tests.master.http_client import Answer

PAGE_URL = "https://gosched.example.com"
ML = Binding(name="ml", role=AccessRole.SUBMITTER, groups=("oidc:ml",), tenants=("a",))


class Browser:
    """Its cookies, and the master that it talks to."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.jar: dict[str, str] = {}

    async def get(self, path: str, master: int = 0) -> Answer:
        cookie = "; ".join(f"{name}={value}" for name, value in self.jar.items())
        answer = await get(self.stage, path, cookie, master)
        for line in answer.headers.get_all("Set-Cookie") or ():  # type: ignore[attr-defined]
            for attribute in ("Secure", "HttpOnly", "SameSite=Lax", "Path=/"):
                assert f"; {attribute}" in line
            name, _, value = line.partition(";")[0].partition("=")
            assert len(f"{name}{value}") <= 4096  # browsers keep no other
            self.jar.pop(name, None)
            if "Max-Age=0;" not in line:
                self.jar[name] = value
        return answer

    async def begin(self, leads_to: str = "/jobs?name=own", master: int = 0) -> dict[str, str]:
        """Go to the issuer; return what it is asked for."""
        answer = await self.get(f"/login/oidc?{urlencode({'next': leads_to})}", master)
        assert answer.status == 303, answer.text
        self.url = urlsplit(answer.headers["Location"])
        return dict(parse_qsl(self.url.query))

    async def come_back(self, master: int = 1, **answer: str) -> Answer:
        return await self.get(f"/login/callback?{urlencode(answer)}", master)


class Played:
    """An issuer that answers the code `good` of the login that was begun last."""

    def __init__(self, running: Issuer) -> None:
        self.running = running
        self.nonce = ""
        self.claims: dict[str, Any] = {}
        self.more: dict[str, Any] = {}
        self.headers: list[str] = []
        running.pages["/token"] = self.answer
        self.announce()

    def announce(self, **more: object) -> None:
        document = self.running.document(authorization_endpoint=f"{self.running.url}/auth?tenant=x", **more)
        self.running.pages["/.well-known/openid-configuration"] = json.dumps(document).encode()

    def answer(self, handler: Any) -> None:
        self.headers.append(handler.headers.get("Authorization", ""))
        if self.running.forms[-1].get("code") != "good":
            respond(handler, 400, json.dumps({"error": "invalid_grant", "error_description": "no\nsuch code"}).encode())
            return
        grant = {"id_token": self.token(nonce=self.nonce, **self.claims), "access_token": "opaque", **self.more}
        respond(handler, 200, json.dumps(grant).encode())

    def token(self, **more: Any) -> str:
        now = int(time.time())
        return self.running.token(**{"iat": now, "exp": now + 600, **more})


@asynccontextmanager
async def opened(
    folder: Path, oidc: dict[str, Any] | None = None, announced: dict[str, Any] | None = None
) -> AsyncIterator[tuple[Browser, Played]]:
    with issuer() as running:
        played = Played(running)
        played.announce(**(announced or {}))
        given = {"issuer": running.url, "client_id": "gosched", "page_url": PAGE_URL, **(oidc or {})}
        async with staged(folder, {"server": PORTS, "oidc": given, "audit": {}}) as stage:
            await stage.bind(*BINDINGS, ML)
            for server in stage.servers:
                assert server._verifier is not None
                await until(lambda server=server: server._verifier.key_status().keys)  # type: ignore[misc]
            yield Browser(stage), played


def reasons(folder: Path, action: str = "HTTP/GET /login") -> list[str]:
    lines = [line for member in ("m1", "m2") for line in whole_lines(folder / member / "audit")]
    lines.sort(key=lambda one: str(one["time"]))
    return [one.get("reason", "") for one in lines if one["action"].startswith(action)]


async def told(folder: Path, count: int) -> list[str]:
    """Return the reasons in the audit logs, once there are so many: they are written beside the answers."""
    await until(lambda: len(reasons(folder)) >= count)
    found = reasons(folder)
    assert len(found) == count
    return found


def test_a_login_that_one_master_begins_another_finishes(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (browser, played):
            form = await browser.get("/login?next=%2Fjobs%3Fname%3Down")
            host = urlsplit(played.running.url).netloc
            assert f"Log in with {host}" in form.text
            assert f'href="{PAGE_URL}/login/oidc?next=%2Fjobs%3Fname%3Down"' in form.text
            asked = await browser.begin()
            assert (browser.url.netloc, browser.url.path) == (host, "/auth")
            assert (asked["tenant"], asked["response_type"], asked["client_id"]) == ("x", "code", "gosched")
            assert (asked["redirect_uri"], asked["scope"]) == (
                f"{PAGE_URL}/login/callback",
                "openid email profile groups",
            )
            played.nonce = asked["nonce"]
            back = await browser.come_back(state=asked["state"], code="good", iss=played.running.url)
            assert (back.status, back.headers["Location"]) == (303, "/jobs?name=own")
            form_sent = played.running.forms[-1]
            assert asked["code_challenge_method"] == "S256"
            assert challenge_of(form_sent["code_verifier"]) == asked["code_challenge"]
            assert (form_sent["client_id"], form_sent["redirect_uri"]) == ("gosched", asked["redirect_uri"])
            assert "client_secret" not in form_sent
            assert played.headers == [""]
            assert set(browser.jar) == {COOKIE}  # the cookie of the login is gone
            for master in (0, 1):
                page = await browser.get("/jobs", master)
                assert page.status == 200
                assert "own" in page.text
                assert "foreign" not in page.text
            assert reasons(tmp_path) == []

            # The same answer a second time is none, and the session that is there stays.
            again = await browser.come_back(state=asked["state"], code="good")
            assert again.status == 401
            assert (await browser.get("/jobs")).status == 200
            assert "no cookie of a login" in (await told(tmp_path, 1))[-1]

            # One who has a session may log in anew, as somebody else.
            asked = await browser.begin("/queues")
            played.nonce, played.claims = asked["nonce"], {"email": "bob@example.com", "groups": []}
            before = browser.jar[COOKIE]
            back = await browser.come_back(0, state=asked["state"], code="good")
            assert (back.status, back.headers["Location"]) == (303, "/queues")
            assert browser.jar[COOKIE] != before
            assert (await browser.get("/jobs")).status == 403  # bob has no role

    asyncio.run(story())


#: What comes back in the place of {state, code}, what the issuer says, the status, the words, the reason for the log.
REFUSED: dict[str, tuple[dict[str, str | None], dict[str, Any], int, str, str]] = {
    "no state": ({"state": None}, {}, 401, "not the login that this browser began", "state is not"),
    "another state": ({"state": "x" * 43}, {}, 401, "not the login that this browser began", "state is not"),
    "a state that is no text": ({"state": "ü"}, {}, 401, "not the login that this browser began", "state is not"),
    "denied": (
        {"code": None, "error": "access_denied"},
        {},
        401,
        "the login was denied at the issuer",
        "access_denied",
    ),
    "an error": (
        {"code": None, "error": "server_error", "error_description": "a\nb"},
        {},
        401,
        "the issuer refused the login",
        r"server_error: a\nb",
    ),
    "another issuer": ({"iss": "https://evil.example"}, {}, 401, "did not succeed", "another issuer answers"),
    "no code": ({"code": None}, {}, 401, "did not succeed", "code is nothing"),
    "a code of another client": ({"code": "foreign"}, {}, 401, "did not succeed", r"invalid_grant: no\nsuch code"),
    "a long code": ({"code": "x" * 4097}, {}, 401, "did not succeed", "code is no code"),
    "another nonce": ({}, {"nonce": "x" * 43}, 401, "did not succeed", "the ID token is of another login"),
    "no nonce": ({}, {"nonce": None}, 401, "did not succeed", "nonce is nothing"),
    "for another client": ({}, {"aud": "other"}, 401, "did not succeed", "aud is 'other'"),
    "made for another party": ({}, {"azp": "other"}, 401, "did not succeed", "azp is 'other'"),
    "of another issuer": ({}, {"iss": "https://evil.example"}, 401, "did not succeed", "iss is"),
    "ended": ({}, {"exp": 1_000_000_000}, 401, "did not succeed", "exp is 1000000000"),
    "an address that is not verified": ({}, {"email_verified": False}, 401, "the token is not valid", "not verified"),
}


def test_every_way_back_that_is_no_login_is_one_line_for_the_person_and_a_reason_in_the_audit_log(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (browser, played):
            for count, (what, (changed, said, status, words, reason)) in enumerate(REFUSED.items(), 1):
                browser.jar.clear()
                asked = await browser.begin()
                played.nonce, played.claims = asked["nonce"], {}
                if "nonce" in said:
                    played.nonce = said["nonce"]
                played.claims = {key: value for key, value in said.items() if key != "nonce"}
                given = {"state": asked["state"], "code": "good", **changed}
                back = await browser.come_back(**{key: value for key, value in given.items() if value is not None})
                assert back.status == status, what
                assert words in back.text, what
                assert "did you" not in back.text
                assert back.text.count('role="alert"') == 1
                assert COOKIE not in browser.jar, what
                # Only an answer to this login spends it.
                assert (pending_login.NAME in browser.jar) == ("state" in changed), what
                found = await told(tmp_path, count)
                assert reason in found[-1], (what, found[-1])
                assert found[-1].isprintable()
                assert asked["state"] not in found[-1]
                assert (await browser.get("/jobs")).status == 303, what

            # Twice the same parameter, of which two readers would take another one.
            asked = await browser.begin()
            twice = urlencode([("state", "x"), ("state", asked["state"]), ("code", "good")])
            played.nonce, played.claims = asked["nonce"], {}
            assert (await browser.get(f"/login/callback?{twice}")).status == 401
            # Another browser, which has the whole answer and no cookie.
            other = Browser(browser.stage)
            played.nonce, played.claims = asked["nonce"], {}
            assert (await other.come_back(state=asked["state"], code="good")).status == 401
            assert other.jar == {}
            for junk in ("", "x", "....", f"{'x' * 43}.{'x' * 43}.{'x' * 43}.%", "a" * 5000):
                other.jar[pending_login.NAME] = junk
                assert (await other.come_back(state="x" * 43, code="good")).status == 401
            # The first one may still come back.
            assert (await browser.come_back(state=asked["state"], code="good")).status == 303

    asyncio.run(story())


def test_the_audit_log_says_what_was_wrong_with_a_token_in_the_form(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (browser, played):
            tokens = {
                "gosched_0123456789abcdef_x": "no live token has this secret (token 0123456789abcdef)",
                played.token(aud="other"): "aud is 'other'",
                "x y": "this is no token",
            }
            for token in tokens:
                assert (await post(browser.stage, "/login", token=token)).status == 401
            await until(lambda: len(reasons(tmp_path, "HTTP/POST /login")) == len(tokens))
            for found, reason in zip(reasons(tmp_path, "HTTP/POST /login"), tokens.values(), strict=True):
                assert reason in found

    asyncio.run(story())


def test_an_issuer_that_names_itself_does_so_in_each_answer(tmp_path: Path) -> None:
    async def story() -> None:
        announced = {"authorization_response_iss_parameter_supported": True}
        async with opened(tmp_path, announced=announced) as (browser, played):
            asked = await browser.begin()
            played.nonce = asked["nonce"]
            assert (await browser.come_back(state=asked["state"], code="good")).status == 401
            assert "iss is nothing" in (await told(tmp_path, 1))[-1]
            asked = await browser.begin()
            played.nonce = asked["nonce"]
            back = await browser.come_back(state=asked["state"], code="good", iss=played.running.url)
            assert back.status == 303

    asyncio.run(story())


@pytest.mark.parametrize(
    ("leads_to", "location"),
    [
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("/" + "x" * 1100, "/"),
        ("/jobs?a=b&c=ü", "/jobs?a=b&c=%C3%BC"),
    ],
)
def test_a_login_at_an_issuer_leads_to_this_site_alone(tmp_path: Path, leads_to: str, location: str) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (browser, played):
            asked = await browser.begin(leads_to)
            played.nonce = asked["nonce"]
            back = await browser.come_back(state=asked["state"], code="good")
            assert (back.status, back.headers["Location"]) == (303, location)
            # A cookie that says another place leads to none either.
            asked = await browser.begin("/jobs")
            played.nonce = asked["nonce"]
            evil = base64.urlsafe_b64encode(b"//evil.example").rstrip(b"=").decode()
            browser.jar[pending_login.NAME] = f"{browser.jar[pending_login.NAME].rpartition('.')[0]}.{evil}"
            back = await browser.come_back(state=asked["state"], code="good")
            assert (back.status, back.headers["Location"]) == (303, "/")

    asyncio.run(story())


def test_an_issuer_that_is_down_slow_or_garbage_is_one_line_in_time(tmp_path: Path) -> None:
    def hang(handler: Any) -> None:
        drip(handler)

    pages: list[Any] = [
        b"garbage",
        b"[]",
        b'{"id_token": 5}',
        b"{}",
        lambda handler: respond(handler, 500, b"oops"),
        lambda handler: respond(handler, 302, b"", Location="https://evil.example"),
        lambda handler: respond(handler, 403, b"<html>"),
        hang,
    ]

    async def story() -> None:
        async with opened(tmp_path) as (browser, played):
            for page in pages:
                played.running.pages["/token"] = page
                asked = await browser.begin()
                began = time.monotonic()
                back = await browser.come_back(state=asked["state"], code="good")
                assert back.status in (401, 503), back.text
                assert time.monotonic() - began < 9
                assert COOKIE not in browser.jar
                assert 'role="alert"' in back.text
                assert "Traceback" not in back.text
            assert all(await told(tmp_path, len(pages)))
            asked = await browser.begin()
            played.running.close()
            back = await browser.come_back(state=asked["state"], code="good")
            assert back.status == 503
            assert "the issuer does not answer now" in back.text
            assert "refused" in (await told(tmp_path, len(pages) + 1))[-1]

    asyncio.run(story())


def test_an_issuer_that_has_never_answered_leaves_the_form_for_tokens(tmp_path: Path) -> None:
    async def story() -> None:
        oidc = {"issuer": "http://127.0.0.1:1", "client_id": "gosched", "page_url": PAGE_URL}
        async with staged(tmp_path, {"server": PORTS, "oidc": oidc}, masters=("m1",)) as stage:
            browser = Browser(stage)
            answer = await browser.get("/login/oidc?next=/jobs")
            assert answer.status == 503
            assert "the issuer does not answer now" in answer.text
            assert 'value="/jobs"' in answer.text
            assert 'name="token"' in answer.text
            assert browser.jar == {}

    asyncio.run(story())


def test_without_the_pages_url_there_is_no_login_at_the_issuer(tmp_path: Path) -> None:
    async def story() -> None:
        with issuer() as running:
            oidc = {"issuer": running.url, "client_id": "gosched"}
            async with staged(tmp_path, {"server": PORTS, "oidc": oidc}, masters=("m1",)) as stage:
                browser = Browser(stage)
                assert "Log in with" not in (await browser.get("/login")).text
                assert (await browser.get("/login/oidc")).status == 404
                assert (await browser.get("/login/callback?state=x&code=y")).status == 404

    asyncio.run(story())


def test_a_client_with_a_secret_shows_it_as_the_issuer_takes_it(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret:/ü\n".replace("ü", "+"))
    secret.chmod(0o600)

    async def story(announced: dict[str, Any]) -> tuple[str, str | None]:
        folder = tmp_path / str(len(announced.get("token_endpoint_auth_methods_supported", ())))
        folder.mkdir()
        async with opened(folder, {"client_secret_file": str(secret)}, announced) as (browser, played):
            asked = await browser.begin()
            played.nonce = asked["nonce"]
            assert (await browser.come_back(state=asked["state"], code="good")).status == 303
            return played.headers[-1], played.running.forms[-1].get("client_secret")

    header, posted = asyncio.run(story({}))
    assert (header, posted) == (f"Basic {base64.b64encode(b'gosched:s3cret%3A%2F%2B').decode()}", None)
    header, posted = asyncio.run(story({"token_endpoint_auth_methods_supported": ["client_secret_post"]}))
    assert (header, posted) == ("", "s3cret:/+")


def test_where_masters_take_access_tokens_the_session_is_one_of_the_same_person(tmp_path: Path) -> None:
    async def story() -> None:
        oidc = {"audience": "api", "page_scopes": ["gosched.all"]}
        async with opened(tmp_path, oidc) as (browser, played):
            asked = await browser.begin()
            assert asked["scope"] == "openid gosched.all"
            for count, (access, reason) in enumerate(
                (
                    ("opaque", "access token: not three parts"),
                    (played.token(aud="gosched"), "without 'api'"),
                    (played.token(aud="api", sub="0002"), "sub of the access token is '0002'"),
                ),
                1,
            ):
                played.nonce, played.more = asked["nonce"], {"access_token": access}
                assert (await browser.come_back(state=asked["state"], code="good")).status == 401
                assert reason in (await told(tmp_path, count))[-1]
                asked = await browser.begin()
            good = played.token(aud="api")
            played.nonce, played.more, played.claims = asked["nonce"], {"access_token": good}, {"email": None}
            assert (await browser.come_back(state=asked["state"], code="good")).status == 303
            assert browser.jar[COOKIE] == good
            assert (await browser.get("/jobs")).status == 200

    asyncio.run(story())


def test_a_token_that_one_cookie_cannot_hold_is_in_several(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (browser, played):
            for groups, cookies in ((110, 2), (175, 3), (1, 1)):
                asked = await browser.begin()
                many = ["ml", *(f"group-{n:04}-of-a-large-company" for n in range(groups))]
                played.nonce, played.claims = asked["nonce"], {"groups": many}
                assert (await browser.come_back(state=asked["state"], code="good")).status == 303
                assert len(browser.jar) == cookies  # and no part of the session before
                assert (await browser.get("/jobs")).status == 200
            asked = await browser.begin()
            played.nonce, played.claims = asked["nonce"], {"groups": ["x" * 250 for _ in range(40)]}
            assert (await browser.come_back(state=asked["state"], code="good")).status == 401
            assert "at most 8192" in (await told(tmp_path, 1))[-1]

    asyncio.run(story())


def test_the_parts_of_a_token_are_read_in_their_order() -> None:
    token = "".join(chr(ord("a") + n % 26) for n in range(2 * PART_LENGTH + 10))
    pairs = [line.partition(";")[0] for line in begun(token)]
    header = "; ".join(["x=y", *reversed(pairs)])
    assert list(credentials({"cookie": header})) == [("authorization", f"Bearer {token}")]
    assert list(credentials({"cookie": "; ".join(pairs[1:])})) == []  # without the first there is no session
    assert begun("t", 60)[0].startswith(f"{COOKIE}=t; Path=/; Max-Age=60;")
    assert "Max-Age=28800;" in begun("t", 10**6)[0]


def test_few_codes_are_exchanged_at_once() -> None:
    async def story() -> None:
        with issuer() as running:
            played = Played(running)
            gate = asyncio.Event()
            loop = asyncio.get_running_loop()
            waiting: list[Any] = []

            def wait(handler: Any) -> None:
                waiting.append(handler)
                asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(10)
                played.answer(handler)

            running.pages["/token"] = wait
            oidc = Oidc(issuer=running.url, client_id="gosched", page_url=PAGE_URL)
            verifier = OidcVerifier(oidc)
            flow = CodeFlow(oidc, verifier)
            begun_login = await flow.begin("/")
            assert isinstance(begun_login, tuple)
            pending = begun_login[1]
            played.nonce = pending.nonce
            answer = [("state", pending.state), ("code", "good")]
            tasks = [asyncio.ensure_future(flow.finish(pending, answer)) for _ in range(MAX_EXCHANGES)]
            await until(lambda: len(waiting) == MAX_EXCHANGES)
            refused = await flow.finish(pending, answer)
            assert not isinstance(refused, str)
            assert (refused.words, refused.is_passing) == ("too many log in at this moment: try again", True)
            gate.set()
            assert all(isinstance(token, str) for token in await asyncio.gather(*tasks))
            assert isinstance(await flow.finish(pending, answer), str)
            await verifier.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (b"", 0o600, "is not one line"),
        (b"a\nb", 0o600, "is not one line"),
        (b"\xff", 0o600, "no text in ASCII"),
        (b"x" * 1025, 0o600, "at most 1024"),
        (b"secret", 0o644, "chmod 600"),
        (None, 0, "No such file"),
    ],
)
def test_a_secret_that_cannot_be_used_shows_at_the_start(
    tmp_path: Path, content: bytes | None, mode: int, words: str
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
        file.chmod(mode)
    oidc = Oidc(issuer="https://a", client_id="g", page_url=PAGE_URL, client_secret_file=str(file))
    with pytest.raises(ConfigError, match=words) as raised:
        CodeFlow(oidc, OidcVerifier(oidc))
    assert str(raised.value).startswith("oidc.client_secret_file: ")
