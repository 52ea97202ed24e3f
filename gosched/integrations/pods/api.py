"""The few requests about one pod, to an API server.

Invariant: each ends in time and has a bound, but for a log that is followed, which ends when it is silent for long or
is closed.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from gosched.config.errors import shown
from gosched.integrations.pods.access import Access
from gosched.integrations.pods.errors import (
    PodConflict,
    PodDenied,
    PodError,
    PodNotFound,
    PodRefused,
    PodUnreachable,
)
from gosched.wire.http_exchange import Unreachable, exchange
from gosched.wire.tls_files import words_of

TIMEOUT_S = 15.0
#: Of a log that is followed; then it is asked for anew, in case the connection was lost.
SILENCE_S = 300.0
MAX_BYTES = 4 << 20  # etcd takes objects of 1.5 MiB
_READ_BYTES = 64 << 10

Json = dict[str, Any]


class PodApi:
    """The pods of one namespace. It holds no connection."""

    def __init__(self, access: Access, namespace: str = "") -> None:
        self._access = access
        self.namespace = namespace or access.namespace
        self._path = f"/api/v1/namespaces/{quote(self.namespace, safe='')}/pods"

    def create(self, pod: Json) -> Json:
        """Create a pod. Raises PodConflict: there is one of this name."""
        return self._ask("POST", self._path, pod)

    def get(self, name: str) -> Json:
        """Return a pod. Raises PodNotFound."""
        return self._ask("GET", self._of(name))

    def annotate(self, name: str, uid: str, annotations: dict[str, str]) -> Json:
        """Set annotations of a pod. Raises PodConflict: the one of this name is another one now."""
        change = {"metadata": {"uid": uid, "annotations": annotations}}
        return self._ask("PATCH", self._of(name), change, kind="application/merge-patch+json")

    def delete(self, name: str, *, uid: str, version: str, grace_s: int) -> None:
        """Have a pod ended. Raises PodConflict: it is another one now, or has changed since it was read."""
        only = {"uid": uid, "resourceVersion": version}
        self._ask("DELETE", self._of(name), {"gracePeriodSeconds": grace_s, "preconditions": only})

    def log(self, name: str, container: str, *, since: str, follows: bool) -> LogStream:
        """Open the log of a container, each line with its time. Raises PodError."""
        query = {"container": container, "timestamps": "true", "follow": "true" if follows else "false"}
        if since:
            query["sinceTime"] = since
        return LogStream(self._access, f"{self._of(name)}/log?{urlencode(query)}")

    def _of(self, name: str) -> str:
        return f"{self._path}/{quote(name, safe='')}"

    def _ask(self, method: str, path: str, body: Json | None = None, *, kind: str = "application/json") -> Json:
        url = self._access.url + path
        try:
            reply = exchange(
                url,
                self._access.trust,
                method=method,
                headers={**_headers(self._access), "Content-Type": kind},
                body=None if body is None else json.dumps(body).encode(),
                timeout_s=TIMEOUT_S,
                max_bytes=MAX_BYTES,
            )
        except Unreachable as error:
            raise PodUnreachable(str(error)) from error
        if not 200 <= reply.status < 300:
            raise _refusal(reply.status, reply.body, url)
        return _object(reply.body, url)


class LogStream:
    """A log that is being read. `close` may be called by another thread, and ends its reading."""

    def __init__(self, access: Access, path: str) -> None:
        self._url = access.url + path
        parts = urlsplit(self._url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with contextlib.ExitStack() as opened:
            try:
                plain = opened.enter_context(socket.create_connection((parts.hostname or "", port), timeout=TIMEOUT_S))
                # Of a socket with TLS another thread must not touch more than the file descriptor.
                self._same = opened.enter_context(plain.dup())
                line = plain
                if access.trust is not None:
                    line = opened.enter_context(access.trust.wrap_socket(plain, server_hostname=parts.hostname))
                connection = http.client.HTTPConnection(parts.netloc)
                connection.sock = line
                connection.request("GET", f"{parts.path}?{parts.query}", headers=_headers(access))
                self._answer = opened.enter_context(contextlib.closing(connection.getresponse()))
                line.settimeout(SILENCE_S)
                if self._answer.status != 200:
                    raise _refusal(self._answer.status, self._answer.read(MAX_BYTES), self._url)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise _lost(self._url, error) from error
            self._opened = opened.pop_all()

    def read(self) -> Iterator[bytes]:
        """Yield what comes, until the end of the log. Raises PodUnreachable where the connection ends before."""
        try:
            while data := self._answer.read1(_READ_BYTES):
                yield data
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            raise _lost(self._url, error) from error

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._same.shutdown(socket.SHUT_RDWR)

    def free(self) -> None:
        """Give back what the stream holds. For the thread that reads, once it does not any more."""
        self._opened.close()


def _headers(access: Access) -> dict[str, str]:
    token = access.token()
    return {"Accept": "application/json, */*"} | ({"Authorization": f"Bearer {token}"} if token else {})


def _lost(url: str, error: Exception) -> PodUnreachable:
    words = words_of(error) if isinstance(error, OSError) else " ".join(ascii(error).split())
    return PodUnreachable(f"{url.partition('?')[0]}: {words[:200]}")


def _object(body: bytes, url: str) -> Json:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        start = shown(body[:60].decode(errors="replace"))
        raise PodUnreachable(f"{url}: expected an object of Kubernetes, got {start}: is this an API server?")
    return found


def _refusal(status: int, body: bytes, url: str) -> PodError:
    said = ""
    with contextlib.suppress(PodUnreachable):
        said = str(_object(body, url).get("message") or "")
    words = " ".join(said.split())[:500] or f"{url.partition('?')[0]}: answers {status}"
    match status:
        case 401:
            return PodDenied(f"{words}: the API server does not know the caller: look at the token or certificate")
        case 403:
            return PodDenied(words)
        case 404:
            return PodNotFound(words)
        case 409:
            return PodConflict(words)
        case 429 | 500 | 502 | 503 | 504:
            return PodUnreachable(f"{words} ({status})")
    return PodRefused(words)
