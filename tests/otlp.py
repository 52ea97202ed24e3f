"""An OTLP receiver in this process, for tests of what is sent; a real collector is in tests/integration."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

LIMIT_S = 30.0


class Collector(BaseHTTPRequestHandler):
    """Keeps the requests and their headers; `status` is its answer."""

    got: list[ExportTraceServiceRequest]
    heads: list[Any]
    status = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path == "/v1/traces"
        if self.status == 200:
            self.got.append(ExportTraceServiceRequest.FromString(body))
            self.heads.append(self.headers)
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass

    @classmethod
    def spans(cls) -> list[Any]:
        return [
            span
            for request in cls.got
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@contextmanager
def otlp_receiver() -> Iterator[tuple[type[Collector], str]]:
    """Yields what it keeps, and its URL."""

    class Own(Collector):
        pass

    Own.got, Own.heads = [], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Own)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield Own, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join(LIMIT_S)
        server.server_close()
