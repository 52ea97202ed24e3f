"""`goschedctl queue`: list, show, apply."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from operator import itemgetter

import click

from gosched.api.json.cluster import queue_json
from gosched.cli.connect import connect, output_option, watch_option
from gosched.cli.output import (
    Column,
    Json,
    amount_text,
    amounts_text,
    counted,
    duration,
    emit,
    print_listing,
    say,
    show,
    table,
)
from gosched.cli.sharing_changes import change_lines, knows_tries, quota_changes
from gosched.client import GoSchedClient, NotFound
from gosched.config.errors import suggestion
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
    """List queues, with what is used and wanted in them; a parent shows the sums of its children.

    -o yaml is the `queues:` of a config file, as `queue apply` reads them; -o json has what they hold, too.
    """
    client = connect(ctx)
    if output == "yaml":
        show(lambda: _as_file(client), str, output=output, watch=watch)
        return
    print_listing(lambda: _queues(client), _COLUMNS, wide=_WIDE, output=output, watch=watch)


@command.command("show")
@click.argument("queue")
@watch_option
@output_option
@click.pass_context
def show_queue(ctx: click.Context, queue: str, output: str, watch: bool) -> None:
    """Show a queue: its rules, and what it holds of each resource."""
    client, queues = connect(ctx), dict[str, Json]()

    def fetch() -> Json:
        queues.clear()
        queues.update({shape["name"]: shape for shape in _queues(client)})
        if queue not in queues:
            raise NotFound(f"there is no queue {queue!r}{suggestion(queue, queues)}")
        return queues[queue]

    show(fetch, lambda shape: _text(shape, _preemption(shape, queues)), output=output, watch=watch)


@command.command("apply")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Drop queues without asking.")
@click.pass_context
def apply(ctx: click.Context, file: str, dry_run: bool, yes: bool) -> int:
    """Replace all queues by those of FILE (- is standard input), or change nothing.

    FILE has `queues:` as in a master's config, and as `queue list -o yaml` prints them; with `quotas:`, they replace
    all quotas too. What changes is printed. Before queues are dropped it asks; without a terminal, -y is needed.
    """
    from gosched.config import parse_queue_file
    from gosched.config.files import read_file
    from gosched.config.queue_writer import queue_keys

    text = sys.stdin.buffer.read() if file == "-" else read_file(file, what="queue file")
    queues, quotas = parse_queue_file(text, "standard input" if file == "-" else file)
    client = connect(ctx)
    status = client.get_status()
    before = {queue.path: queue_keys(queue.rules) for queue in status.queues}
    after = {queue.path: queue_keys(queue) for queue in queues}
    lines = change_lines("queue", before, after)
    if quotas is not None:
        lines += quota_changes(client.list_quotas(), quotas)
    if dry_run:
        if knows_tries(status):
            client.set_queues(queues, quotas, dry_run=True)  # what would be refused is refused
        emit("\n".join(lines) or "unchanged")
        return 0
    dropped = sorted(before.keys() - after.keys())
    if dropped and not yes and not _may_drop(dropped, lines):
        return 1
    emit("\n".join(lines) if client.set_queues(queues, quotas) else "unchanged")
    return 0


def _may_drop(queues: list[str], lines: list[str]) -> bool:
    """Ask, on a terminal, whether these queues may be dropped; without one say what is missing."""
    named = f"{counted(len(queues), 'queue')}: {', '.join(queues)}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        say(f"goschedctl: this would drop {named}; nothing was changed. Give -y to drop them, or --dry-run to look")
        return False
    for line in lines:
        say(line)
    if click.confirm(f"Drop {named}?", err=True):
        return True
    say("nothing was changed")
    return False


def _as_file(client: GoSchedClient) -> Json:
    from gosched.config.queue_writer import queues_keys

    return queues_keys([queue.rules for queue in client.get_status().queues])


def _queues(client: GoSchedClient) -> list[Json]:
    return sorted((queue_json(queue) for queue in client.get_status().queues), key=lambda q: str(q["name"]))


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
