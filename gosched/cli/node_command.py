"""`goschedctl node`: list, show, cordon, uncordon, drain, label, taint, remove, join-token."""

from __future__ import annotations

import click

from gosched.api.json.cluster import node_json
from gosched.api.json.usage import node_usage_json, task_usage_json
from gosched.cli.connect import connect, listing_options, output_option, read_labels, watch_option
from gosched.cli.join_token_command import join_token
from gosched.cli.node_control import cordon, drain, label, remove, taint, uncordon
from gosched.cli.node_text import node_text
from gosched.cli.output import Column, Json, ago, bytes_text, print_listing, show
from gosched.client import GoSchedClient


def _used(row: Json, amount: str) -> str:
    return f"{row['resources']['used'][amount]}/{row['resources']['total'][amount]}"


def _memory(row: Json) -> str:
    used, total = (row["resources"][side]["memory_bytes"] for side in ("used", "total"))
    return f"{bytes_text(used)}/{bytes_text(total)}"


def _taint(taint: Json) -> str:
    """Return `gpu=true:no_schedule`, as agents' configs write it."""
    value = f"={taint['value']}" if taint["value"] else ""
    return f"{taint['key']}{value}:{taint['effect']}"


_COLUMNS: list[Column] = [
    ("NODE", lambda n: n["id"]),
    ("HOST", lambda n: n["name"]),
    ("STATE", lambda n: n["state"]),
    ("TASKS", lambda n: n["tasks"]),
    ("CPU", lambda n: _used(n, "cpu")),
    ("MEMORY", _memory),
    ("GPU", lambda n: _used(n, "gpu")),
    ("AGE", lambda n: ago(n["registered_at"])),
    ("REASON", lambda n: n["reason"]),
]
_WIDE: list[Column] = [
    ("ADDRESS", lambda n: n["address"]),
    ("GPU-MODEL", lambda n: n["gpu_model"]),
    ("LABELS", lambda n: ",".join(f"{k}={v}" for k, v in n["labels"].items())),
    ("TAINTS", lambda n: ",".join(_taint(t) for t in n["taints"])),
    ("NOT-ENFORCED", lambda n: n["isolation"]),
]


@click.group()
def command() -> None:
    """List and control nodes. NODE is an id, or a name that no other node has."""


@command.command("list")
@listing_options
@click.pass_context
def list_nodes(ctx: click.Context, output: str, labels: str | None, watch: bool) -> None:
    """List nodes, with their resources and how much of them is held."""
    client, wanted = connect(ctx), read_labels(labels)

    def fetch() -> list[Json]:
        return sorted((node_json(n) for n in client.list_nodes(labels=wanted)), key=lambda n: str(n["id"]))

    print_listing(fetch, _COLUMNS, wide=_WIDE, output=output, watch=watch)


@command.command("show")
@click.argument("node")
@watch_option
@output_option
@click.pass_context
def show_node(ctx: click.Context, node: str, output: str, watch: bool) -> None:
    """Show a node, its usage and its tasks."""
    client = connect(ctx)
    show(lambda: _shape(client, node), node_text, output=output, watch=watch)


for _control in (cordon, uncordon, drain, label, taint, remove, join_token):
    command.add_command(_control)


def _shape(client: GoSchedClient, node: str) -> Json:
    """Return the row of a listing, with `usage` (null: not known) and `running`: the tasks on the node."""
    detail = client.get_node(node)
    live = client.list_usage(node=detail.node.id, tasks=detail.tasks > 0)
    usage = next((node_usage_json(node) for node in live.nodes), None)
    running = [task_usage_json(task) for task in live.tasks]
    return {**node_json(detail), "usage": usage, "running": sorted(running, key=lambda t: str(t["id"]))}
