"""`goschedctl node`: list."""

from __future__ import annotations

import click

from gosched.cli.connect import connect, listing_options, read_labels
from gosched.cli.output import Column, Json, ago, bytes_text, print_listing
from gosched.client.shapes import node_json


def _used(row: Json, amount: str) -> str:
    return f"{row['resources']['used'][amount]}/{row['resources']['total'][amount]}"


def _memory(row: Json) -> str:
    used, total = (row["resources"][side]["memory_bytes"] for side in ("used", "total"))
    return f"{bytes_text(used)}/{bytes_text(total)}"


def _taint(taint: Json) -> str:
    """`gpu=true:no_schedule`, as it is written in an agent's config."""
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
]
_WIDE: list[Column] = [
    ("ADDRESS", lambda n: n["address"]),
    ("GPU-MODEL", lambda n: n["gpu_model"]),
    ("LABELS", lambda n: ",".join(f"{k}={v}" for k, v in n["labels"].items())),
    ("TAINTS", lambda n: ",".join(_taint(t) for t in n["taints"])),
    ("REASON", lambda n: n["reason"]),
]


@click.group()
def command() -> None:
    """Nodes of the cluster."""


@command.command("list")
@listing_options
@click.pass_context
def list_nodes(ctx: click.Context, output: str, labels: str | None, watch: bool) -> None:
    """All nodes, with what they have and what is used of it."""
    client, wanted = connect(ctx), read_labels(labels)

    def fetch() -> list[Json]:
        return sorted((node_json(n) for n in client.list_nodes(labels=wanted)), key=lambda n: str(n["id"]))

    print_listing(fetch, _COLUMNS, wide=_WIDE, output=output, watch=watch)
