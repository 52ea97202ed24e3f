"""An issuer for tests: keys made here, tokens signed with them, and a real server on loopback that may misbehave."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

NOW_MS = 1_800_000_000_000
NOW_S = NOW_MS // 1000


@cache
def rsa_key(name: str, bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key(name: str) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@cache
def ed_key(name: str) -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def jwk(private: Any, **more: Any) -> dict[str, Any]:
    readers = {rsa.RSAPrivateKey: RSAAlgorithm, ec.EllipticCurvePrivateKey: ECAlgorithm}
    reader = next((reader for kind, reader in readers.items() if isinstance(private, kind)), OKPAlgorithm)
    return {**reader.to_jwk(private.public_key(), as_dict=True), **more}


def encoded(value: object) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class Issuer:
    """What it serves is in `pages`, by path; a page is bytes, or a function that answers by itself."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes | Callable[[BaseHTTPRequestHandler], None]] = {}
        self.asked: list[str] = []
        self.forms: list[dict[str, str]] = []
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._serve({})

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self._serve({key: values[0] for key, values in parse_qs(raw).items()})

            def _serve(self, form: dict[str, str]) -> None:
                issuer.asked.append(self.path)
                issuer.forms.append(form)
                page = issuer.pages.get(self.path)
                if callable(page):
                    page(self)
                else:
                    respond(self, 404 if page is None else 200, page or b"")

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                pass  # callers that go away are what these tests are about

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        self.keys = [jwk(rsa_key("a"), kid="a"), jwk(ec_key("e"), kid="e")]
        self.pages["/.well-known/openid-configuration"] = json.dumps(self.document()).encode()

    def document(self, **more: object) -> dict[str, object]:
        return {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/keys",
            "token_endpoint": f"{self.url}/token",
            "device_authorization_endpoint": f"{self.url}/device",
            "revocation_endpoint": f"{self.url}/revoke",
            **more,
        }

    @property
    def keys(self) -> list[dict[str, Any]]:
        return self._keys

    @keys.setter
    def keys(self, keys: list[dict[str, Any]]) -> None:
        self._keys = keys
        self.pages["/keys"] = json.dumps({"keys": keys}).encode()

    def claims(self, **more: object) -> dict[str, object]:
        claims = {
            "iss": self.url,
            "aud": "gosched",
            "sub": "0001",
            "email": "alice@example.com",
            "email_verified": True,
            "groups": ["ml", "admins"],
            "iat": NOW_S,
            "exp": NOW_S + 600,
            **more,
        }
        return {key: value for key, value in claims.items() if value is not None}

    def token(self, key: Any = None, alg: str = "RS256", kid: str | None = "a", header: Any = None, **more: Any) -> str:
        headers = {**({} if kid is None else {"kid": kid}), **(header or {})}
        return jwt.encode(self.claims(**more), rsa_key("a") if key is None else key, algorithm=alg, headers=headers)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def respond(handler: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def drip(handler: BaseHTTPRequestHandler) -> None:
    """One byte now and then: no single read takes long."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    for _ in range(200):
        try:
            handler.wfile.write(b"{")
            handler.wfile.flush()
        except OSError:
            return
        time.sleep(0.05)


@contextmanager
def issuer() -> Iterator[Issuer]:
    running = Issuer()
    try:
        yield running
    finally:
        running.close()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
