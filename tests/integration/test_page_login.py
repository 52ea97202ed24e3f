"""Logging in to the page at a real OpenID Connect issuer, on three real masters: the one that a login comes back to is
not the one that began it."""

from __future__ import annotations

import re
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import ExitStack
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urljoin

import yaml

from gosched.client import GoSchedClient, GoSchedError, TlsFiles
from tests.integration.browser import WIDE, chromium
from tests.integration.oidc_issuer import OidcIssuer, confirm, private_key
from tests.integration.support import PATIENCE_S, until
from tests.ports import HeldPort
from tests.replication.certificates import Authority

PROGRAM = Path(sys.executable).with_name("gosched-master")
MEMBERS = ("m1", "m2", "m3")


class Masters:
    """Three masters with certificates that take logins; their pages are called at m2."""

    def __init__(self, folder: Path, running: ExitStack, *, secret: str = "") -> None:
        self._authority = Authority(folder / "ca")
        self._ports = {m: {use: HeldPort() for use in ("grpc", "http", "token", "raft")} for m in MEMBERS}
        self.issuer = OidcIssuer(folder, redirect=f"{self.url('m2')}/login/callback", secret=secret)
        self.issuer.start([private_key("one")])
        running.callback(self.issuer.stop)
        oidc = {"issuer": self.issuer.url, "client_id": "gosched", "page_url": self.url("m2")}
        if secret:
            file = folder / "secret"
            file.touch(mode=0o600)
            file.write_text(f"{secret}\n")
            oidc["client_secret_file"] = str(file)
        for m in MEMBERS:
            ports, home = self._ports[m], folder / m
            peers = [f"{other}={self._ports[other]['raft'].address}" for other in MEMBERS if other != m]
            files = self._authority.files(m, cluster="prod")
            settings = {
                "server": {f"{use}_addr": ports[use].address for use in ("grpc", "http", "token")},
                "raft": {"enabled": True, "node_id": m, "bind_addr": ports["raft"].address, "peers": peers},
                "access": {"admins": ["ann", "group:oidc:admins"]},
                "tls": {"cert": files.cert, "key": files.key, "ca": files.ca},
                "oidc": oidc,
                "data_dir": str(home),
            }
            home.mkdir()
            (home / "config.yaml").write_text(yaml.safe_dump(settings))
            log = running.enter_context((home / "log").open("w"))
            command = [str(PROGRAM), "--config", str(home / "config.yaml")]
            process = running.enter_context(subprocess.Popen(command, stdout=log, stderr=log))
            running.callback(process.terminate)
        ann = self._authority.files("ann", "client", cluster="prod")
        endpoints = ",".join(self._ports[m]["grpc"].address for m in MEMBERS)
        tls = TlsFiles(cert=ann.cert, key=ann.key, ca=ann.ca)
        self.client = running.enter_context(GoSchedClient(endpoints, tls=tls, timeout_s=PATIENCE_S))

        def all_serve() -> bool:
            try:
                return len(self.client.get_status().masters) == 3
            except GoSchedError:
                return False

        until(all_serve, "the masters serve")

    def url(self, member: str) -> str:
        return f"https://{self._ports[member]['http'].address}"

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self._authority.folder / "ca.pem"))  # noqa: TID251 - of a test


class Person:
    """A browser without scripts, whose cookies are those of the machine: they know no ports."""

    def __init__(self, masters: Masters) -> None:
        self.jar = CookieJar()
        self.browser = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPCookieProcessor(self.jar),
            urllib.request.HTTPSHandler(context=masters.trust()),
        )
        self.browser.addheaders = [("Accept", "text/html")]

    def cookies(self) -> list[str]:
        return sorted(cookie.name for cookie in self.jar if cookie.name.startswith("__Host-"))

    def open(self, url: str, form: bytes | None = None) -> tuple[int, str, str]:
        """Return the status, the page and where it is, behind all redirects."""
        try:
            with self.browser.open(url, data=form, timeout=PATIENCE_S) as answer:
                return answer.status, answer.read().decode(), answer.url
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode(), error.url


def test_a_login_comes_back_to_another_master_and_counts_at_each(tmp_path: Path) -> None:
    with ExitStack() as running:
        masters = Masters(tmp_path, running)
        masters.client.submit("name: train\nresources: {cpu: 1}\nrun: 'true'\n")
        person = Person(masters)
        _, form, at = person.open(f"{masters.url('m1')}/jobs?name=train")
        assert at.startswith(f"{masters.url('m1')}/login?next=")
        assert f'href="{masters.url("m2")}/login/oidc?next=%2Fjobs%3Fname%3Dtrain"' in form

        # It begins at m1 as one behind a balancer would, and comes back to m2.
        begin = f"{masters.url('m1')}/login/oidc?next=/jobs%3Fname%3Dtrain"
        page = confirm(begin, "alice", person.browser)
        assert "train" in page
        assert person.cookies() == ["__Host-gosched"]
        for member in MEMBERS:
            status, page, at = person.open(f"{masters.url(member)}/jobs?name=train")
            assert (status, at) == (200, f"{masters.url(member)}/jobs?name=train")
            assert "train" in page
        (mine,) = [cookie for cookie in person.jar if cookie.name == "__Host-gosched"]
        request = urllib.request.Request(
            f"{masters.url('m3')}/api/v1/access/check", headers={"Authorization": f"Bearer {mine.value}"}
        )
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=masters.trust())
        )
        with opener.open(request, timeout=PATIENCE_S) as answer:
            assert "oidc:alice@example.com" in answer.read().decode()
        _, _, at = person.open(f"{masters.url('m3')}/logout", b"")
        assert at == f"{masters.url('m3')}/login"
        assert person.cookies() == []

        # Who cancels at the issuer comes back without a session.
        person = Person(masters)
        _, page, at = person.open(f"{masters.url('m3')}/login/oidc?next=/jobs")
        abort = re.search(r'href="([^"]*/abort)"', page)
        assert abort, page
        status, page, _ = person.open(urljoin(at, abort[1]))
        assert (status, person.cookies()) == (401, [])
        assert "the login was denied at the issuer" in page

        # Nobody comes to the issuer while it is down, and those who are in stay in.
        person = Person(masters)
        assert "train" in confirm(begin, "alice", person.browser)
        masters.issuer.stop()
        assert person.open(f"{masters.url('m3')}/jobs")[0] == 200


def test_a_person_logs_in_with_the_button_in_a_browser(tmp_path: Path) -> None:
    with ExitStack() as running:
        masters = Masters(tmp_path, running, secret="s3cret:+/and long enough for HS256 too")
        masters.client.submit("name: train\nresources: {cpu: 1}\nrun: 'true'\n")
        # The test's authority is unknown to the browser.
        browser = running.enter_context(chromium(WIDE, "--ignore-certificate-errors"))
        browser.open(f"{masters.url('m1')}/jobs?name=train")
        browser.wait_for_text("Log in", "h1")
        browser.wait_for_text(f"Log in with {masters.issuer.url.removeprefix('http://')}", "main a.button")
        assert browser.accessibility() == []
        browser.picture(tmp_path / "login.png")
        assert browser.problems() == []
        browser.find("main a.button").click()
        browser.wait_for(lambda: browser.driver.current_url.startswith(masters.issuer.url), "the issuer's page")
        browser.find("[name=login]").send_keys("alice")
        browser.find("[name=password]").send_keys("any")
        browser.find("button[type=submit]").click()
        browser.wait_for(lambda: "consent" in browser.text("body").lower() or "Authorize" in browser.text(), "consent")
        browser.find("button[type=submit]").click()
        wanted = f"{masters.url('m2')}/jobs?name=train"
        browser.wait_for(lambda: browser.driver.current_url == wanted, "the page that was asked for")
        browser.wait_for_text("train", "main")
        browser.problems()  # those of the issuer's pages
        assert browser.run("return document.cookie") == ""  # no script reads the session
        browser.open(f"{masters.url('m3')}/jobs/train")
        browser.wait_for_text("train", "h1")
        assert browser.problems() == []
