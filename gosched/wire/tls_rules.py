"""What every TLS connection of this system is: TLS 1.2 at least, with forward secrecy and authenticated encryption.

gRPC brings a TLS of its own with the same rules: its least version is 1.2, and gosched.programs names its suites.
Between the masters' replicas it is TLS 1.3 alone (replication/replica.py).

Invariant: a context that another program is trusted by, or is shown a certificate by, is made here.
"""

from __future__ import annotations

import ssl

MINIMUM = ssl.TLSVersion.TLSv1_2
#: Of TLS 1.2; those of TLS 1.3 are all sane.
SUITES = "ECDHE+AESGCM:ECDHE+CHACHA20"


def trusting(purpose: ssl.Purpose, ca: str | None, *, pem: str | None = None) -> ssl.SSLContext:
    """Return a context that takes certificates of this authority alone, from clients as from servers; None: of those
    that the system trusts. `pem`: the authority itself, in place of its file. Raises OSError, ssl.SSLError."""
    context = ssl.create_default_context(purpose, cafile=ca, cadata=pem)  # noqa: TID251
    context.minimum_version = MINIMUM
    context.set_ciphers(SUITES)
    context.verify_mode = ssl.CERT_REQUIRED
    return context
