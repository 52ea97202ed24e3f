"""A registry of one image on loopback, as slow as a test wants it; it answers as Docker's own, and counts."""

from __future__ import annotations

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


@contextlib.contextmanager
def served(registry: ImageRegistry) -> Iterator[str]:
    """Yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, kind, body = registry.answer(self.command, self.path)
            self.send_response(status)
            self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
            self.send_header("Docker-Content-Digest", _digest(body))
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
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

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            registry.closing.set()
            server.shutdown()
            thread.join(10)


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
