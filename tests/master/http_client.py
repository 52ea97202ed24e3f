"""HTTP for tests: requests over real sockets, by the standard library."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.master.harness import LIMIT_S, Front


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def content_type(self) -> str:
        return self.headers.get("Content-Type", "").partition(";")[0]

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


async def request(
    to: Front | str,
    method: str,
    path: str,
    *,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """Make one request, of a master or of an address. A `body` that is not bytes is sent as JSON."""
    address = to if isinstance(to, str) else to.server.record.http_address
    sent = dict(headers or {})
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
        sent.setdefault("Content-Type", "application/json")

    def make() -> Answer:
        kind = http.client.HTTPConnection if tls is None else http.client.HTTPSConnection
        more = {} if tls is None else {"context": tls}
        connection = kind(address, timeout=LIMIT_S, **more)
        try:
            connection.request(method, path, body=body, headers=sent)
            response = connection.getresponse()
            return Answer(status=response.status, headers=response.headers, body=response.read())
        finally:
            connection.close()

    return await asyncio.to_thread(make)


async def get(to: Front | str, path: str, **more: Any) -> Answer:
    return await request(to, "GET", path, **more)
