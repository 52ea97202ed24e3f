"""Registries on loopback that answer as Docker's own: one with one image, as slow as a test wants it, that counts; and
one that has none, and says why."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import json
import tarfile
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.integration.containers import tar_of

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_SLICES = 200


class ImageRegistry:
    """`open`: the layer is sent while it is set. `pause_s`: after each of the 200 slices of the layer."""

    def __init__(self, rootfs: Path, scratch: Path) -> None:
        archive = tar_of(rootfs, scratch / "layer.tar")
        with tarfile.open(archive, "a") as tar:
            tar.addfile(tarfile.TarInfo(f"only-of-{uuid.uuid4()}"))  # a daemon does not fetch a layer that it knows
        plain = archive.read_bytes()
        self.layer = gzip.compress(plain, compresslevel=1)
        config = {"architecture": "amd64", "os": "linux", "config": {"Cmd": ["sh"]}}
        self.config = json.dumps({**config, "rootfs": {"type": "layers", "diff_ids": [_digest(plain)]}}).encode()
        kind = "application/vnd.docker.image.rootfs.diff.tar.gzip"
        layers = [{"mediaType": kind, "size": len(self.layer), "digest": _digest(self.layer)}]
        about = {"mediaType": "application/vnd.docker.container.image.v1+json"}
        about |= {"size": len(self.config), "digest": _digest(self.config)}  # type: ignore[dict-item]
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": about, "layers": layers}
        self.manifest = json.dumps(manifest).encode()
        self.open = threading.Event()
        self.pause_s = 0.0
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._asked: list[str] = []

    def note(self, what: str) -> None:
        with self._lock:
            self._asked.append(what)

    def asked(self, what: str) -> int:
        """How often for `tag` (once by each pull) or `layer`."""
        with self._lock:
            return self._asked.count(what)

    def answer(self, method: str, path: str) -> tuple[int, str, bytes]:
        """Status, type and body."""
        if path == "/v2/":
            return 200, "application/json", b"{}"
        if "/manifests/" in path:
            if method == "HEAD":
                self.note("tag")
            return 200, MANIFEST, self.manifest
        for blob in (self.config, self.layer):
            if path.endswith(_digest(blob)):
                return 200, "application/octet-stream", blob
        return 404, "application/json", b'{"errors":[{"code":"BLOB_UNKNOWN","message":"blob unknown"}]}'


class _Handler(BaseHTTPRequestHandler):
    def begin(self, status: int, kind: str, body: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def served(registry: ImageRegistry) -> Iterator[str]:
    """Yields its address."""

    class Handler(_Handler):
        def do_GET(self) -> None:
            status, kind, body = registry.answer(self.command, self.path)
            self.begin(status, kind, body, Docker_Content_Digest=_digest(body))
            if self.command == "GET":
                with contextlib.suppress(ConnectionError):  # who pulled has gone
                    self._send(body)

        do_HEAD = do_GET

        def _send(self, body: bytes) -> None:
            if body is not registry.layer:
                self.wfile.write(body)
                return
            registry.note("layer")
            size = len(body) // _SLICES + 1
            for at in range(0, len(body), size):
                while not registry.open.wait(0.05):
                    if registry.closing.is_set():
                        return
                self.wfile.write(body[at : at + size])
                if registry.closing.wait(registry.pause_s):
                    return

    with _listening(Handler) as address:
        try:
            yield address
        finally:
            registry.closing.set()


@contextlib.contextmanager
def refusing(status: int, code: str, login: str = "") -> Iterator[str]:
    """Yields the address of a registry that answers with this status and code, and whoever does not say `login`,
    name:password, with 401."""
    wanted = "Basic " + base64.b64encode(login.encode()).decode()

    class Handler(_Handler):
        def do_GET(self) -> None:
            is_let_in = not login or self.headers.get("Authorization") == wanted
            answer, why = (status, code) if is_let_in else (401, "UNAUTHORIZED")
            body = json.dumps({"errors": [{"code": why, "message": why.lower().replace("_", " ")}]}).encode()
            if answer == 401:
                self.begin(401, "application/json", body, WWW_Authenticate='Basic realm="test"')
            else:
                self.begin(200 if self.path == "/v2/" else answer, "application/json", body)
            self.wfile.write(body)

        do_HEAD = do_GET

    with _listening(Handler) as address:
        yield address


@contextlib.contextmanager
def _listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    # Each connection has a thread: a daemon may open one more than it uses.
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(10)


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
