"""What a channel to a master shows: a certificate, a token, or both."""

from __future__ import annotations

from typing import Any

import grpc

from gosched.client.targets import Token
from gosched.wire.shared_token import is_of_this_machine, token_of_address


def channel_credentials(tls: tuple[bytes, bytes, bytes], token: Token) -> Any:
    """Return the credentials of a channel. `tls`: CA, key, certificate; the last two may be empty."""
    ca, key, cert = tls
    shown = grpc.ssl_channel_credentials(root_certificates=ca, private_key=key or None, certificate_chain=cert or None)
    if not token:
        return shown
    return grpc.composite_channel_credentials(shown, grpc.metadata_call_credentials(_Bearer(token), name="token"))


def socket_credentials(token: Token) -> Any:
    """Return the credentials of a channel over a Unix socket that bears a token: it stays on this machine."""
    local = grpc.local_channel_credentials(grpc.LocalConnectionType.UDS)
    return grpc.composite_channel_credentials(local, grpc.metadata_call_credentials(_Bearer(token), name="token"))


def plain_token(target: str, token: Token) -> str:
    """Return what is shown without TLS: to this machine alone, the token of this user's own cluster, or else the given
    one."""
    if not is_of_this_machine(target):
        return ""
    return token_of_address(target) or (token if isinstance(token, str) else "")


class _Bearer(grpc.AuthMetadataPlugin):  # type: ignore[misc] # grpc has no types
    """Adds the token to each call; gRPC asks in a thread of its own."""

    def __init__(self, token: Token) -> None:
        self._token = token

    def __call__(self, context: Any, callback: Any) -> None:
        try:
            token = self._token() if callable(self._token) else self._token
        except Exception as error:  # whatever it is, the call fails with it
            callback((), error)
            return
        callback((("authorization", f"Bearer {token}"),), None)
