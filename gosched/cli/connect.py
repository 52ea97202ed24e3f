"""The client for the endpoints of the command line, and the options that many commands share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gosched.config.context import DEFAULT, ClientContext, load_client_context
from gosched.config.errors import ConfigError

if TYPE_CHECKING:
    from gosched.client import GoSchedClient

F = TypeVar("F", bound=Callable[..., Any])

CONNECT_S = 10.0  # a failover takes about one second; after ten, a user at a prompt needs a reason
OUTPUTS = ("table", "wide", "json", "yaml", "name")


def connect(ctx: click.Context, *, timeout_s: float | None = None) -> GoSchedClient:
    """Return a client, which is closed when the command ends."""
    from gosched.client import GoSchedClient  # some commands need no master
    from gosched.client.own_context import tls_of, token_of

    context = client_context(ctx)
    client = GoSchedClient(
        context.endpoints,
        tls=tls_of(context),
        token=token_of(context),
        timeout_s=timeout_s or CONNECT_S,
        fails_fast=True,
    )
    ctx.with_resource(client)
    return client


def client_context(ctx: click.Context) -> ClientContext:
    """Return the cluster that the command line or the environment names; a message on it says what named it."""
    root = ctx.find_root()
    context = load_client_context(root.params.get("endpoints"), root.params.get("context"))
    if isinstance(root.obj, Named):
        root.obj.source = context.source
    return context


@dataclass(slots=True)
class Named:
    """What named the endpoints of a command, for what is said where none of them can be reached."""

    source: str = ""

    @property
    def advice(self) -> str:
        if not self.source:
            return ""
        which = "the default" if self.source == DEFAULT else f"from {self.source}"
        how = "set others with --endpoints, GOSCHED_ENDPOINTS or a context (goschedctl config set-context)"
        return f". The endpoints are {which}: {how}"


def output_option(function: F) -> F:
    return click.option(
        "-o", "--output", type=click.Choice(OUTPUTS), default="table", show_default=True, help="Output format."
    )(function)


def watch_option(function: F) -> F:
    return click.option(
        "--watch", "-w", is_flag=True, help="Keep it up to date until Ctrl-C; on a pipe, print each change."
    )(function)


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
    if text is None:
        return None
    from gosched.config.quantity import duration_ms

    try:
        return duration_ms(f"{text}s" if text.isdigit() else text) / 1000
    except ValueError as error:
        raise ConfigError(f"{flag}: {error}") from None


def read_past_ms(text: str | None, flag: str) -> int:
    """Read `2h` for two hours ago, or a moment, in ms since 1970; 0 where the flag is not given. Raises ConfigError."""
    if not text:
        return 0
    from gosched.config.moment import past_ms

    try:
        return past_ms(f"{text}s" if text.isdigit() else text, now_ms())
    except ValueError as error:
        raise ConfigError(f"{flag}: {error}") from None


def now_ms() -> int:
    return time.time_ns() // 1_000_000
