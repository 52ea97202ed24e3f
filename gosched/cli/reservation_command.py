"""`goschedctl reservation`: create, list, delete."""

from __future__ import annotations

import time

import click

from gosched.api.json.reservations import reserved_json, window_json
from gosched.cli.connect import connect, output_option, watch_option
from gosched.cli.output import Column, Json, as_data, counted, emit, print_listing, say
from gosched.config.errors import ConfigError
from gosched.core.records.window import Window
from gosched.core.resources import AmountMap

_COLUMNS: list[Column] = [
    ("NAME", lambda r: r["id"]),
    ("KIND", lambda r: r["kind"]),
    ("FROM", lambda r: r["start"]),
    ("TO", lambda r: r["end"]),
    ("NODES", lambda r: len(r["nodes"])),
    ("FOR", lambda r: _reserved_for(r)),
    ("REASON", lambda r: r["reason"]),
]
_WIDE: list[Column] = [("ON", lambda r: ",".join(r["nodes"]))]


@click.group()
def command() -> None:
    """Reserve nodes in time windows, for queues and tenants or for maintenance; list windows and reserved starts."""


@command.command("create")
@click.argument("name")
@click.option("--nodes", metavar="NODE,...", help="These nodes.")
@click.option(
    "--resources", metavar="gpu=64,cpu=128", help="Instead of --nodes: as many nodes as have these resources together."
)
@click.option("--from", "start", metavar="TIME", default="now", show_default=True, help="2026-12-01T06:00:00Z, or +2h.")
@click.option("--to", "end", metavar="TIME", required=True, help="In the same form as --from.")
@click.option("--queue", "queues", multiple=True, help="For jobs of this queue; may be repeated.")
@click.option("--tenant", "tenants", multiple=True, help="For jobs of this tenant; may be repeated.")
@click.option("--reason", default="", help="Shown for jobs that wait because of it.")
@output_option
@click.pass_context
def create(
    ctx: click.Context,
    name: str,
    nodes: str | None,
    resources: str | None,
    start: str,
    end: str,
    queues: tuple[str, ...],
    tenants: tuple[str, ...],
    reason: str,
    output: str,
) -> None:
    """Reserve nodes for queues and tenants, or for maintenance if none is named. An existing NAME is changed."""
    window, amounts = _window(name, nodes, resources, (start, end), queues, tenants, reason)
    answer = connect(ctx).set_window(window, resources=amounts)
    shape = {**window_json(answer.window), "in_the_way": list(answer.in_the_way)}
    if output in ("json", "yaml"):
        emit(as_data(shape, output))
    else:
        emit(shape["id"])
    nodes = counted(len(answer.window.nodes), "node")
    say(f"{name}: {nodes} from {shape['start']} to {shape['end']}: {','.join(shape['nodes'])}")
    for job in answer.in_the_way:
        say(f"{name}: {job} may still run then, and cannot be evicted: cancel it, or give it a timeout")


@command.command("list")
@watch_option
@output_option
@click.pass_context
def list_reservations(ctx: click.Context, output: str, watch: bool) -> None:
    """List windows, reserved starts of jobs, and fences of jobs whose victims have not ended."""
    client = connect(ctx)

    def fetch() -> list[Json]:
        return reserved_json(client.list_reservations())

    print_listing(fetch, _COLUMNS, wide=_WIDE, output=output, watch=watch, noun="reservation")


@command.command("delete")
@click.argument("name")
@click.pass_context
def delete(ctx: click.Context, name: str) -> None:
    """Delete a window, so that its nodes take all jobs again."""
    connect(ctx).drop_window(name)
    say(f"{name}: deleted")


def _window(
    name: str,
    nodes: str | None,
    resources: str | None,
    times: tuple[str, str],
    queues: tuple[str, ...],
    tenants: tuple[str, ...],
    reason: str,
) -> tuple[Window, AmountMap]:
    """Return the window that the flags describe, and the resources to choose nodes for. Raises ConfigError."""
    from gosched.config.windows import window_from_flags

    if (nodes is None) == (resources is None):
        raise click.UsageError("give either nodes, --nodes n1,n2, or resources, --resources gpu=64")
    now_ms = time.time_ns() // 1_000_000
    value: dict[str, object] = {
        "name": name,
        "start_ms": _moment(times[0], "--from", now_ms),
        "end_ms": _moment(times[1], "--to", now_ms),
        "nodes": [node for node in (nodes or "").split(",") if node.strip()],
        "resources": dict(_amount(item) for item in (resources or "").split(",") if item.strip()),
        "queues": list(queues),
        "tenants": list(tenants),
        "reason": reason,
    }
    flags = {"name": "NAME", "start_ms": "--from", "end_ms": "--to", "queues": "--queue", "tenants": "--tenant"}
    return window_from_flags(value, {(key,): flags.get(key, f"--{key}") for key in value})


def _moment(text: str, flag: str, now_ms: int) -> int:
    from gosched.config.moment import moment_from_ms

    try:
        return moment_from_ms(text, now_ms)
    except ValueError as error:
        raise ConfigError(f"{flag}: {error}") from None


def _amount(item: str) -> tuple[str, str]:
    name, equals, amount = item.partition("=")
    if not (name.strip() and equals):
        raise click.UsageError(f"--resources: expected NAME=AMOUNT,..., got {item!r}")
    return name.strip(), amount.strip()


def _reserved_for(row: Json) -> str:
    if row["kind"] != "window":
        return "the job"
    kept = [*(f"queue {queue}" for queue in row["queues"]), *(f"tenant {tenant}" for tenant in row["tenants"])]
    return ", ".join(kept) or "maintenance"
