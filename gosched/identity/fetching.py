"""One request to an issuer: a GET, or a POST of a form.

Invariant: it ends in time, its answer has a bound, and a redirect is an answer like others: nothing is asked of a host
that the issuer's own documents do not name.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from gosched.config.errors import ConfigError
from gosched.config.oidc_model import is_safe_url
from gosched.wire.tls_files import words_of
from gosched.wire.tls_rules import trusting

MAX_BYTES = 512 * 1024
TIMEOUT_S = 5.0


class Unreachable(Exception):
    """One line that says why there is no answer; another try may get one."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes


def fetch(
    url: str,
    trust: ssl.SSLContext,
    *,
    form: Mapping[str, str] | None = None,
    authorization: str = "",
    timeout_s: float = TIMEOUT_S,
) -> Reply:
    """Return the answer, whatever its status. Blocks for `timeout_s` at most, beside the lookup of a name.
    `authorization`: the header of that name; empty: none. Raises Unreachable."""
    if not is_safe_url(url):
        raise Unreachable(f"{url!a} is neither https nor on this machine")
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = parts.hostname or ""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as plain:
            same = plain.dup()
            clock = threading.Timer(timeout_s, _cut, (same,))
            clock.daemon = True
            clock.start()
            try:
                secure = parts.scheme == "https"
                line = trust.wrap_socket(plain, server_hostname=host) if secure else plain
                with line:
                    target = f"{parts.path or '/'}{'?' * bool(parts.query)}{parts.query}"
                    return _ask(line, parts.netloc, target, form, authorization)
            finally:
                clock.cancel()
                same.close()
    except ssl.SSLCertVerificationError as error:
        raise Unreachable(f"{url}: its certificate is not trusted: {error.verify_message}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        words = words_of(error) if isinstance(error, OSError) else " ".join(ascii(error).split())
        raise Unreachable(f"{url}: {words[:200]}") from error


def trust_of(ca: str | None) -> ssl.SSLContext:
    """Return whose certificates an issuer may have. Raises ConfigError."""
    try:
        return trusting(ssl.Purpose.SERVER_AUTH, ca)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError(f"oidc.ca: {ca}: cannot be read as certificates in PEM form: {words_of(error)}") from error


def _ask(line: socket.socket, host: str, target: str, form: Mapping[str, str] | None, authorization: str) -> Reply:
    connection = http.client.HTTPConnection(host)
    connection.sock = line
    body = None if form is None else urlencode(form)
    headers = {"Accept": "application/json", "Connection": "close"}
    if authorization:
        headers["Authorization"] = authorization
    if body is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    connection.request("GET" if body is None else "POST", target, body=body, headers=headers)
    with contextlib.closing(connection.getresponse()) as answer:
        content = answer.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"its answer is larger than {MAX_BYTES // 1024} KiB")
    return Reply(answer.status, content)


def _cut(plain: socket.socket) -> None:
    """End a request whose time is over: whatever reads or writes there returns at once."""
    with contextlib.suppress(OSError):
        plain.shutdown(socket.SHUT_RDWR)
