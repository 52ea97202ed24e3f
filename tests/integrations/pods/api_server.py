"""An API server that keeps one pod, does what a test tells it, and may be told to fail; the real one is in
tests/kubernetes/test_pods.py."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
Answer = tuple[int, object]


class ApiServer:
    def __init__(self) -> None:
        self.pod: Json | None = None
        self.asked: list[tuple[str, Json]] = []
        self.log = b""
        self.log_status = 200
        self.url = ""
        #: Takes the method; what it returns goes in place of an answer.
        self.instead: Callable[[str], Answer | None] = lambda method: None
        #: Called before each look at the pod: time that passes.
        self.tick: Callable[[], None] = lambda: None
        #: A pod that is deleted is gone at once.
        self.forgets = True

    def count(self, method: str) -> int:
        return [asked for asked, _ in self.asked].count(method)

    def set_state(self, state: Json, phase: str = "Running", **more: object) -> None:
        assert self.pod is not None
        self.pod["status"] = {"phase": phase, "containerStatuses": [{"name": "task", "state": state}], **more}
        self.pod["metadata"]["resourceVersion"] = str(int(self.pod["metadata"]["resourceVersion"]) + 1)

    def end(self, code: int, **more: str) -> None:
        self.set_state({"terminated": {"exitCode": code, **more}}, "Failed" if code else "Succeeded")

    def keep(self, pod: Json, uid: str = "uid-1") -> None:
        pod["metadata"] |= {"uid": uid, "resourceVersion": "1"}
        self.pod = {"status": {"phase": "Pending"}, **pod}

    def answer(self, method: str, path: str, body: Json) -> Answer:
        self.asked.append((method, body))
        if (other := self.instead(method)) is not None:
            return other
        if method == "POST":
            if self.pod is not None:
                return 409, {"message": "already exists"}
            self.keep(body)
            return 201, self.pod
        if method == "GET":
            self.tick()
        if self.pod is None:
            return 404, {"message": 'pods "x" not found'}
        metadata = self.pod["metadata"]
        if method == "PATCH":
            metadata["annotations"] |= body["metadata"]["annotations"]
        if method == "DELETE":
            wanted = body["preconditions"]
            if (wanted["uid"], wanted["resourceVersion"]) != (metadata["uid"], metadata["resourceVersion"]):
                return 409, {"message": "the precondition failed"}
            metadata["deletionTimestamp"] = "2026-01-02T03:04:05Z"
            answer = self.pod
            self.pod = None if self.forgets else self.pod
            return 200, answer
        return (self.log_status, self.log) if "/log?" in path else (200, self.pod)


@contextlib.contextmanager
def api_server() -> Iterator[ApiServer]:
    kept = ApiServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, said = kept.answer(self.command, self.path, json.loads(body or b"{}"))
            content = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(content)

        do_POST = do_PATCH = do_DELETE = do_GET

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
