"""The client for the endpoints of the command line, and the options that many commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gosched.config.context import load_client_context
from gosched.config.errors import ConfigError

if TYPE_CHECKING:
    from gosched.client import GoSchedClient

F = TypeVar("F", bound=Callable[..., Any])

CONNECT_S = 10.0  # a failover takes about one second; after ten, a user at a prompt needs a reason
OUTPUTS = ("table", "wide", "json", "yaml", "name")


def connect(ctx: click.Context, *, timeout_s: float | None = None) -> GoSchedClient:
    """Return a client, which is closed when the command ends."""
    from gosched.client import GoSchedClient, TlsFiles  # some commands need no master

    context = load_client_context(ctx.find_root().obj)
    tls = TlsFiles(cert=context.tls[0], key=context.tls[1], ca=context.tls[2]) if context.tls else None
    client: GoSchedClient = ctx.with_resource(
        GoSchedClient(context.endpoints, tls=tls, timeout_s=timeout_s or CONNECT_S)
    )
    return client


def output_option(function: F) -> F:
    return click.option(
        "-o", "--output", type=click.Choice(OUTPUTS), default="table", show_default=True, help="Output format."
    )(function)


def watch_option(function: F) -> F:
    return click.option("--watch", "-w", is_flag=True, help="Print again after each change, until Ctrl-C.")(function)


def listing_options(function: F) -> F:
    """Add the options of listings whose objects have labels."""
    function = watch_option(function)
    function = click.option("-l", "--labels", metavar="KEY=VALUE,...", help="Only objects with these labels.")(function)
    return output_option(function)


def read_labels(text: str | None) -> dict[str, str]:
    labels: dict[str, str] = {}
    for item in (text or "").split(","):
        key, equals, value = item.partition("=")
        if item.strip() and not (equals and key.strip()):
            raise click.UsageError(f"--labels: expected KEY=VALUE,..., got {item!r}")
        if item.strip():
            labels[key.strip()] = value.strip()
    return labels


def read_duration_s(text: str | None, flag: str) -> float | None:
    from gosched.config.quantity import duration_ms

    if text is None:
        return None
    try:
        return duration_ms(f"{text}s" if text.isdigit() else text) / 1000
    except ValueError as error:
        raise ConfigError(f"{flag}: {error}") from None
