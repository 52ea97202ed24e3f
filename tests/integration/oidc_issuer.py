"""A real OpenID Connect issuer (oidc-provider, by tools/oidc_issuer.sh), and a person at its pages."""

from __future__ import annotations

import html
import json
import re
import subprocess
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

from jwt.algorithms import RSAAlgorithm

from tests.identity.issuer import rsa_key
from tests.integration.support import PATIENCE_S, until
from tests.ports import HeldPort

ROOT = Path(__file__).parents[2]
INSTALL_S = 400.0


class OidcIssuer:
    """An issuer that runs; `stop` and `start` as often as a test likes, always on the same port."""

    def __init__(self, directory: Path, *, redirect: str = "", secret: str = "") -> None:
        made = subprocess.run(
            [ROOT / "tools/oidc_issuer.sh"], capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
        assert made.returncode == 0, made.stderr
        self._folder = made.stdout.strip()
        self._port = HeldPort()
        self._keys = directory / "keys.json"
        self._output = directory / "issuer.out"
        self._process: subprocess.Popen[bytes] | None = None
        self._client = [redirect, secret]
        self.url = f"http://{self._port.address}"

    def start(self, keys: list[dict[str, Any]]) -> None:
        """Start it with these private keys; the first one signs."""
        self._keys.write_text(json.dumps({"keys": keys}))
        script = ROOT / "tests/integration/oidc_issuer.mjs"
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                ["node", script, self._folder, str(self._port.number), self._keys, *self._client],
                stdout=output,
                stderr=output,
            )
        until(lambda: "listens" in self._output.read_text(), "the issuer listens")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_S)
            self._process = None


def private_key(kid: str) -> dict[str, Any]:
    """Return a key for `start`."""
    whole = RSAAlgorithm.to_jwk(rsa_key(kid), as_dict=True)
    whole.pop("key_ops", None)
    return {**whole, "kid": kid, "use": "sig", "alg": "RS256"}


def confirm(url: str, name: str, browser: urllib.request.OpenerDirector | None = None) -> str:
    """Play a person in a browser: open the URL of a login, log in by name, consent, until the issuer
    asks nothing more or sends the browser elsewhere. Returns the last page."""
    browser = browser or urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
    )
    page, at = _opened(browser, url, None)
    issuer = urlsplit(at).netloc
    for _ in range(8):
        form = re.search(r"<form[^>]*>.*?</form>", page, re.DOTALL)
        if form is None or urlsplit(at).netloc != issuer:
            return page
        action = re.search(r'<form[^>]*action="([^"]*)"', form[0])
        given = {"login": name, "password": "any"}
        for field in re.findall(r"<input[^>]*>", form[0]):
            key, value = re.search(r'name="([^"]*)"', field), re.search(r'value="([^"]*)"', field)
            if key:
                given[key[1]] = html.unescape(value[1]) if value else given.get(key[1], "")
        page, at = _opened(browser, urljoin(at, html.unescape(action[1]) if action else at), given)
    raise AssertionError(f"the issuer asks and asks:\n{page}")


def _opened(browser: urllib.request.OpenerDirector, url: str, form: dict[str, str] | None) -> tuple[str, str]:
    body = None if form is None else urlencode(form).encode()
    with browser.open(url, data=body, timeout=PATIENCE_S) as answer:
        return answer.read().decode(), answer.url
