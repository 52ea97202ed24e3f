"""A ResourceManager that says what a test tells it to, on loopback. The real one is in tests/integration."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(slots=True)
class Answer:
    body: object = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    #: It says nothing until the server ends.
    hangs: bool = False
    #: It sends one byte now and then.
    trickles: bool = False
    #: It announces so many bytes more than it sends.
    lacks: int = 0


class Scripted:
    """Gives `answers` in turn, and the last one for ever."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, bytes, Mapping[str, str]]] = []
        self.ended = threading.Event()
        self.url = ""

    def next(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextlib.contextmanager
def serving(*answers: Answer, tls: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    script = Scripted(*answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            script.asked.append((self.command, self.path, body, dict(self.headers)))
            answer = script.next()
            if answer.hangs:
                script.ended.wait(30)
                return
            content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content) + answer.lacks))
            self.end_headers()
            with contextlib.suppress(OSError):
                if not answer.trickles:
                    self.wfile.write(content)
                while answer.trickles and not script.ended.wait(0.05):
                    self.wfile.write(b" ")

        do_POST = do_PUT = do_GET

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    script.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield script
    finally:
        script.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
