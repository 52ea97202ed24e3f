"""One request over HTTP to a server of somebody else, and its answer.

Invariant: it ends in time, its answer has a bound, and a redirect is an answer like others: nothing is asked of a host
that the caller did not name.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from gosched.wire.tls_files import words_of


class Unreachable(Exception):
    """One line that says why there is no answer; another try may get one."""


class TooLarge(Unreachable):
    """The answer is larger than its bound."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes
    #: Names are in small letters; the values of a repeated one have commas between them.
    headers: Mapping[str, str]


def server_address(text: str) -> str | None:
    """Return the address of a server, without a slash at its end; None: that is none. What has no scheme is of http."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return None
    if not is_good or parts.query or parts.fragment or "@" in parts.netloc:
        return None
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def exchange(
    url: str,
    trust: ssl.SSLContext | None,
    *,
    method: str,
    headers: Mapping[str, str],
    body: bytes | None = None,
    timeout_s: float,
    max_bytes: int,
) -> Reply:
    """Return the answer, whatever its status. Blocks for `timeout_s` at most, beside the lookup of a name. `trust`:
    None does for http. Raises Unreachable."""
    parts = urlsplit(url)
    cut = threading.Event()
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        host = parts.hostname or ""
        with socket.create_connection((host, port), timeout=timeout_s) as plain:
            same = plain.dup()
            clock = threading.Timer(timeout_s, _cut, (same, cut))
            clock.daemon = True
            clock.start()
            try:
                line = plain
                if parts.scheme == "https":
                    assert trust is not None, "https needs to know whom to trust"
                    line = trust.wrap_socket(plain, server_hostname=host)
                with line:
                    target = f"{parts.path or '/'}{'?' * bool(parts.query)}{parts.query}"
                    reply = _ask(line, parts.netloc, method, target, headers, body, max_bytes)
                if cut.is_set():  # where the end of the connection is that of the answer
                    raise TimeoutError
            finally:
                clock.cancel()
                same.close()
    except ssl.SSLCertVerificationError as error:
        raise Unreachable(f"{url}: its certificate is not trusted: {error.verify_message}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        if cut.is_set() or isinstance(error, TimeoutError):
            raise Unreachable(f"{url}: no whole answer within {timeout_s:g} s") from error
        words = words_of(error) if isinstance(error, OSError) else " ".join(ascii(error).split())
        raise Unreachable(f"{url}: {words[:200]}") from error
    if len(reply.body) > max_bytes:
        raise TooLarge(f"{url}: its answer is larger than {max_bytes // 1024} KiB")
    return reply


def _ask(
    line: socket.socket,
    host: str,
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: bytes | None,
    max_bytes: int,
) -> Reply:
    connection = http.client.HTTPConnection(host)
    connection.sock = line
    connection.request(method, target, body=body, headers={"Connection": "close", **headers})
    with contextlib.closing(connection.getresponse()) as answer:
        content = answer.read(max_bytes + 1)
        if answer.length and len(content) <= max_bytes:  # read() with a bound does not say that there was less
            raise http.client.IncompleteRead(content, answer.length)
        found = {name.lower(): ", ".join(answer.headers.get_all(name, [])) for name in answer.headers}
    return Reply(answer.status, content, found)


def _cut(plain: socket.socket, cut: threading.Event) -> None:
    """End a request whose time is over: whatever reads or writes there returns at once."""
    cut.set()
    with contextlib.suppress(OSError):
        plain.shutdown(socket.SHUT_RDWR)
