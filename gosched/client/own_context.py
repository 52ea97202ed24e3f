"""Where a client goes that was told no endpoints: where goschedctl goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gosched.client.errors import Misused
from gosched.client.targets import TlsFiles

if TYPE_CHECKING:
    from gosched.config.context import ClientContext


def endpoints_and_tls(
    endpoints: str | Sequence[str] | None, tls: TlsFiles | None
) -> tuple[str | Sequence[str], TlsFiles | None]:
    """Return the endpoints and the files for TLS: as they were given, else those of the environment or the context
    file. Raises Misused."""
    if endpoints is not None:
        return endpoints, tls
    from gosched.config.context import load_client_context
    from gosched.config.errors import ConfigError

    try:
        context = load_client_context(None)
    except ConfigError as error:
        raise Misused(str(error)) from error
    return context.endpoints, tls or tls_of(context)


def tls_of(context: ClientContext) -> TlsFiles | None:
    """Return the files for TLS that a context names."""
    return TlsFiles(cert=context.tls[0], key=context.tls[1], ca=context.tls[2]) if context.tls else None
