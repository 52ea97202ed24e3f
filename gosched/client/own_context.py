"""Where a client goes that was told no endpoints: where goschedctl goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gosched.client.errors import Misused
from gosched.client.targets import TlsFiles, Token

if TYPE_CHECKING:
    from gosched.config.context import ClientContext


def endpoints_and_tls(
    endpoints: str | Sequence[str] | None, tls: TlsFiles | None, token: Token
) -> tuple[str | Sequence[str], TlsFiles | None, Token]:
    """Return the endpoints, the files for TLS and the token: as they were given, else those of the environment or the
    context file. Raises Misused."""
    if endpoints is not None:
        return endpoints, tls, token
    from gosched.config.context import load_client_context
    from gosched.config.errors import ConfigError

    try:
        context = load_client_context(None)
    except ConfigError as error:
        raise Misused(str(error)) from error
    return context.endpoints, tls or tls_of(context), token or token_of(context)


def tls_of(context: ClientContext) -> TlsFiles | None:
    """Return the files for TLS that a context names."""
    return TlsFiles(cert=context.tls[0], key=context.tls[1], ca=context.tls[2]) if context.tls else None


def token_of(context: ClientContext) -> Token:
    """Return the token of a context: GOSCHED_TOKEN, what is in its `token_file`, or that of its login. Raises
    ConfigError."""
    if context.token:
        return context.token
    if not context.tls:
        return None
    from gosched.identity.tokens import login_file
    from gosched.identity.tokens import token_of as token_of_login

    if not login_file(context).exists():
        return None
    return lambda: token_of_login(context) or ""
