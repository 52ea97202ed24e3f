"""`goschedctl queue`: list, show, apply."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from operator import itemgetter

import click

from gosched.api.json.cluster import queue_json
from gosched.cli.connect import connect, output_option, watch_option
from gosched.cli.output import Column, Json, amount_text, amounts_text, as_data, duration, emit, print_listing, table
from gosched.client import GoSchedClient, NotFound
from gosched.config.errors import suggestion
from gosched.core.records.tenant import Quota
from gosched.core.sharing import lineage

_COLUMNS: list[Column] = [
    ("QUEUE", lambda q: q["name"]),
    ("TYPE", lambda q: q["type"]),
    ("PENDING", lambda q: q["pending"]),
    ("RUNNING", lambda q: q["running"]),
    ("CPU", lambda q: q["used"]["cpu"]),
    ("MEMORY", lambda q: amount_text("memory_bytes", q["used"]["memory_bytes"])),
    ("GPU", lambda q: q["used"]["gpu"]),
]
_WIDE: list[Column] = [
    ("FAIR-SHARE", lambda q: amounts_text(q["fair_share"])),
    ("CEILING", lambda q: amounts_text(q["ceiling"])),
    ("DEMAND", lambda q: amounts_text(q["demand"])),
    ("ORDER", lambda q: q["order"]),
    ("WEIGHT", lambda q: q["weight"]),
    ("CAPACITY", lambda q: f"{q['capacity_pct']}%"),
    ("MAX", lambda q: f"{q['max_pct']}%"),
    ("PREEMPTION", lambda q: q["preemption"]),
    ("MAX-JOBS", lambda q: q["max_running_jobs"] or "-"),
]
_AMOUNTS = ("used", "demand", "fair_share", "guaranteed", "ceiling")


@click.group()
def command() -> None:
    """List and replace queues, which share the cluster."""


@command.command("list")
@watch_option
@output_option
@click.pass_context
def list_queues(ctx: click.Context, output: str, watch: bool) -> None:
    """List queues, with what is used and wanted in them; a parent shows the sums of its children."""
    client = connect(ctx)
    print_listing(lambda: _queues(client), _COLUMNS, wide=_WIDE, output=output, watch=watch)


@command.command("show")
@click.argument("queue")
@output_option
@click.pass_context
def show(ctx: click.Context, queue: str, output: str) -> None:
    """Show a queue: its rules, and what it holds of each resource."""
    queues = {shape["name"]: shape for shape in _queues(connect(ctx))}
    shape = queues.get(queue)
    if shape is None:
        raise NotFound(f"there is no queue {queue!r}{suggestion(queue, queues)}")
    if output in ("json", "yaml"):
        emit(as_data(shape, output))
    else:
        emit(shape["id"] if output == "name" else _text(shape, _preemption(shape, queues)))


@command.command("apply")
@click.argument("file", type=click.Path(allow_dash=True))
@click.pass_context
def apply(ctx: click.Context, file: str) -> None:
    """Replace all queues by those of FILE (- is standard input), or change nothing.

    FILE has `queues:` as in a master's config; with `quotas:`, they replace all quotas too.
    """
    from gosched.config import parse_queue_file
    from gosched.config.load import read_file

    text = sys.stdin.buffer.read() if file == "-" else read_file(file, what="queue file")
    queues, quotas = parse_queue_file(text, "standard input" if file == "-" else file)
    client = connect(ctx)
    before = {queue.path: queue.rules for queue in client.get_status().queues}
    old = {status.quota.tenant: status.quota for status in client.list_quotas() if _limits(status.quota)}
    if not client.set_queues(queues, quotas):
        emit("unchanged")
        return
    lines = [f"queue {line}" for line in _changes(before, {queue.path: queue for queue in queues})]
    if quotas is not None:
        wanted = {quota.tenant: quota for quota in quotas if _limits(quota)}
        lines += [f"quota {line}" for line in _changes(old, wanted)]
    emit("\n".join(lines))


def _queues(client: GoSchedClient) -> list[Json]:
    return sorted((queue_json(queue) for queue in client.get_status().queues), key=lambda q: str(q["name"]))


def _limits(quota: Quota) -> bool:
    return bool(quota.limit or quota.max_running_jobs)


def _changes(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    return [
        *(f"{name} added" for name in after if name not in before),
        *(f"{name} changed" for name in after if name in before and before[name] != after[name]),
        *(f"{name} removed" for name in before if name not in after),
    ]


def _preemption(queue: Json, queues: Mapping[str, Json]) -> str:
    """Return the queue's own rule, or that of its nearest ancestor that has one."""
    line = [queues[path] for path in reversed(lineage(queue["name"])) if path in queues]
    found = next((above for above in line if above["preemption"]), None)
    if found is None:
        return "lower_priority (default)"
    return found["preemption"] if found is queue else f"{found['preemption']} (of {found['name']})"


def _text(queue: Json, preemption: str) -> str:
    shares = f"weight {queue['weight']}, capacity {queue['capacity_pct']} %, at most {queue['max_pct']} %"
    at_most = f" (at most {queue['max_running_jobs']})" if queue["max_running_jobs"] else ""
    lines = [
        f"Queue      {queue['name']}",
        f"Type       {queue['type']} ({shares})",
        f"Order      {queue['order'] or 'by the algorithm of the masters'}",
        f"Preemption {preemption}",
        f"Jobs       {queue['running']} running{at_most}, {queue['pending']} pending",
    ]
    if queue["tenants"]:
        lines.append(f"Tenants    {', '.join(queue['tenants'])}")
    if queue["half_life_s"]:
        lines.append(f"Half-life  {duration(queue['half_life_s'])}")
    names = list(dict.fromkeys(name for part in _AMOUNTS for name in queue[part]))
    rows = [{"name": name, **{part: amount_text(name, queue[part].get(name)) for part in _AMOUNTS}} for name in names]
    columns: list[Column] = [("RESOURCE", lambda row: row["name"].removesuffix("_bytes"))]
    columns += [(part.upper().replace("_", "-"), itemgetter(part)) for part in _AMOUNTS]
    return "\n".join([*lines, "", table(rows, columns)])
