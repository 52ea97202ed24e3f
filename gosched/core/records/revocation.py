"""Certificates that are refused although their authority signed them, as it is replicated."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """A certificate that is refused."""

    #: Its serial number, in lower-case hex without leading zeros.
    certificate: str
    #: What it says of its holder, such as a URI or a common name; empty: the certificate was not at hand.
    holder: str = ""
    #: `master`, `agent` or `client`; empty: not known, and so perhaps any of them.
    role: str = ""
    #: Why, in the words of who revoked it.
    reason: str = ""
    #: The user who revoked it; empty: a caller without a name.
    by: str = ""
    #: When it was revoked, in ms since 1970.
    at_ms: int
    #: When the certificate ends, and with it the need to refuse it, in ms since 1970; 0: not known.
    ends_at_ms: int = 0
