"""One request to an issuer: a GET, or a POST of a form.

Invariant: nothing is asked of a host that the issuer's own documents do not name, nor over a line that others read.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from urllib.parse import urlencode

from gosched.config.errors import ConfigError
from gosched.config.oidc_model import is_safe_url
from gosched.wire.http_exchange import Reply, Unreachable, exchange
from gosched.wire.tls_files import words_of
from gosched.wire.tls_rules import trusting

MAX_BYTES = 512 * 1024
TIMEOUT_S = 5.0


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
    body = None if form is None else urlencode(form).encode()
    headers = {"Accept": "application/json"}
    if authorization:
        headers["Authorization"] = authorization
    if body is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    method = "GET" if body is None else "POST"
    return exchange(url, trust, method=method, headers=headers, body=body, timeout_s=timeout_s, max_bytes=MAX_BYTES)


def trust_of(ca: str | None) -> ssl.SSLContext:
    """Return whose certificates an issuer may have. Raises ConfigError."""
    try:
        return trusting(ssl.Purpose.SERVER_AUTH, ca)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError(f"oidc.ca: {ca}: cannot be read as certificates in PEM form: {words_of(error)}") from error
