"""The headers of pages: what a browser may do with them.

Invariant: no script and no style but those in `static/` runs, and a page talks to masters of the cluster alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# Addresses come from masters, yet what does not look like one must not become a directive of the policy.
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253}):[0-9]{1,5}")

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self';"
    " connect-src {connect}; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {  # beside those of every answer (http/app.py)
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


def page_headers(addresses: Iterable[str]) -> dict[str, str]:
    """Return the headers of a page. `addresses`: HTTP of the other masters, which it asks whether they answer."""
    connect = " ".join(["'self'", *[host for host in addresses if is_address(host)]])
    return {**HEADERS, "Content-Security-Policy": _POLICY.format(connect=connect), "Cache-Control": "no-store"}


def is_address(text: str) -> bool:
    """Return whether the text is host:port and nothing else."""
    return _ADDRESS.fullmatch(text) is not None
