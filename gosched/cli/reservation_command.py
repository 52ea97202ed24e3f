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
    ("FOR", lambda r: _whom(r)),
    ("REASON", lambda r: r["reason"]),
]
_WIDE: list[Column] = [("ON", lambda r: ",".join(r["nodes"]))]


@click.group()
def command() -> None:
    """Nodes kept for some, or for nobody, from one moment to another; and the starts that jobs were promised."""


@command.command("create")
@click.argument("name")
@click.option("--nodes", metavar="NODE,...", help="These nodes.")
@click.option("--resources", metavar="gpu=64,cpu=128", help="Instead: enough nodes to have so much.")
@click.option("--from", "start", metavar="TIME", default="now", show_default=True, help="2026-12-01T06:00:00Z, or +2h.")
@click.option("--to", "end", metavar="TIME", required=True, help="As --from.")
@click.option("--queue", "queues", multiple=True, help="For jobs of this queue; may be repeated.")
@click.option("--tenant", "tenants", multiple=True, help="For jobs of this tenant; may be repeated.")
@click.option("--reason", default="", help="Shown to those who wait.")
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
    """Keep nodes for queues and tenants; for nobody if none is named: maintenance. Again with NAME changes it."""
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
    """Windows, promised starts of jobs, and fences of jobs whose victims have not ended."""
    client = connect(ctx)
    print_listing(lambda: reserved_json(client.list_reservations()), _COLUMNS, wide=_WIDE, output=output, watch=watch)


@command.command("delete")
@click.argument("name")
@click.pass_context
def delete(ctx: click.Context, name: str) -> None:
    """Give the nodes of a window back to everybody."""
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
    """Raises ConfigError, with the flag."""
    from gosched.config.windows import window_from_flags

    if (nodes is None) == (resources is None):
        raise click.UsageError("say which nodes with --nodes n1,n2, or how much with --resources gpu=64; not both")
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


def _whom(row: Json) -> str:
    if row["kind"] != "window":
        return "the job"
    kept = [*(f"queue {queue}" for queue in row["queues"]), *(f"tenant {tenant}" for tenant in row["tenants"])]
    return ", ".join(kept) or "nobody"
