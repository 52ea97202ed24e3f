"""Credentials of gRPC, for servers and for those that dial.

Invariant: each handshake of a server uses the files that are in use then.
"""

from __future__ import annotations

from typing import Any

import grpc

from gosched.wire.tls_watch import TlsPem, TlsSet, TlsWatch

CONNECTION_AGE_MS = 3_600_000
#: Of servers with TLS: calls move to a new connection after this time, without a failure, so that the certificates of
#: both ends are looked at again. Streams stay on the old one until they end.
SERVER_OPTIONS = (("grpc.max_connection_age_ms", CONNECTION_AGE_MS),)


def server_credentials(tls: TlsWatch, *, require_client_auth: bool = True) -> Any:
    """Return credentials that follow the files. With `require_client_auth` both ends show a certificate."""
    shown = tls.current

    def configuration(found: TlsSet) -> Any:
        ca = found.pem.ca if require_client_auth else None
        return grpc.ssl_server_certificate_configuration([(found.pem.key, found.pem.cert)], root_certificates=ca)

    def fetch() -> Any:
        """Return what is new, or nothing. gRPC calls it before each handshake, in any thread."""
        nonlocal shown
        found = tls.current
        if found is shown:
            return None
        shown = found
        return configuration(found)

    return grpc.dynamic_ssl_server_credentials(
        configuration(shown), fetch, require_client_authentication=require_client_auth
    )


def channel_credentials(pem: TlsPem) -> Any:
    return grpc.ssl_channel_credentials(root_certificates=pem.ca, private_key=pem.key, certificate_chain=pem.cert)
