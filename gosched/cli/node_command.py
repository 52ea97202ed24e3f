"""`goschedctl node`: list, show, cordon, uncordon, drain, remove."""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from gosched.api.json.cluster import node_json
from gosched.api.json.usage import node_usage_json, task_usage_json
from gosched.cli.connect import connect, listing_options, output_option, read_duration_s, read_labels
from gosched.cli.node_text import node_text
from gosched.cli.output import Column, Json, ago, as_data, bytes_text, counted, emit, print_listing, say, until
from gosched.client import GoSchedClient, GoSchedError, NodeControlled, NotFound, Refused, TimedOut
from gosched.core.records.node import NodeState

_SHOWN = 8  # staying jobs that are listed by name
_POLL_S = 0.5


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
@output_option
@click.pass_context
def show(ctx: click.Context, node: str, output: str) -> None:
    """Show a node, its usage and its tasks."""
    shape = _shape(connect(ctx), node)
    if output in ("json", "yaml"):
        emit(as_data(shape, output))
    else:
        emit(shape["id"] if output == "name" else node_text(shape))


@command.command("cordon")
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
@click.option("--reason", default="", help="Stored with the node.")
@click.pass_context
def cordon(ctx: click.Context, nodes: tuple[str, ...], reason: str) -> int:
    """Stop placing tasks on nodes. Running tasks go on."""
    client = connect(ctx)
    return _each(nodes, lambda node: _done(client.cordon(node, reason=reason), "cordoned"))


@command.command("uncordon")
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
@click.pass_context
def uncordon(ctx: click.Context, nodes: tuple[str, ...]) -> int:
    """Let nodes take tasks again, whatever closed them. This ends a drain, too."""
    client = connect(ctx)
    return _each(nodes, lambda node: _done(client.uncordon(node), "uncordoned"))


@command.command("drain")
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
@click.option("--deadline", metavar="DURATION", help="Stop all remaining tasks after this time, such as 1h.")
@click.option("--reason", default="", help="Stored with the node.")
@click.option("--wait", is_flag=True, help="Wait until the nodes are empty.")
@click.option("--timeout", metavar="DURATION", help="With --wait: give up after this time, with exit code 124.")
@click.pass_context
def drain(
    ctx: click.Context, nodes: tuple[str, ...], deadline: str | None, reason: str, wait: bool, timeout: str | None
) -> int:
    """Empty nodes: they get no new tasks, and jobs that can start again elsewhere are evicted at once.

    Evicted tasks get their checkpoint signal and grace period; no retry is charged. Jobs that would not start again
    stay until they end, or until the deadline.
    """
    deadline_s, timeout_s = read_duration_s(deadline, "--deadline"), read_duration_s(timeout, "--timeout")
    if timeout_s is not None and not wait:
        raise click.UsageError("--timeout needs --wait; to stop remaining tasks after a time, give a --deadline")
    client = connect(ctx)

    def start(node: str) -> str:
        answer = client.drain(node, reason=reason, deadline_s=deadline_s)
        return "\n".join([_done(answer, "draining"), *_staying(client, answer)])

    code = _each(nodes, start)
    if wait and not code:
        ends = None if timeout_s is None else time.monotonic() + timeout_s
        return _each(nodes, lambda node: _until_empty(client, node, ends))
    return code


@command.command("remove")
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
@click.pass_context
def remove(ctx: click.Context, nodes: tuple[str, ...]) -> int:
    """Remove DEAD nodes from the cluster. An agent that comes back later joins as a new node."""
    client = connect(ctx)
    return _each(nodes, lambda node: _done(client.remove_node(node), "removed"))


def _shape(client: GoSchedClient, node: str) -> Json:
    """Return the row of a listing, with `usage` (null: not known) and `running`: the tasks on the node."""
    detail = client.get_node(node)
    live = client.list_usage(node=detail.node.id, tasks=detail.tasks > 0)
    usage = next((node_usage_json(node) for node in live.nodes), None)
    running = [task_usage_json(task) for task in live.tasks]
    return {**node_json(detail), "usage": usage, "running": sorted(running, key=lambda t: str(t["id"]))}


def _done(answer: NodeControlled, done: str) -> str:
    return f"{answer.node_id}: {'unchanged' if answer.unchanged else done}"


def _staying(client: GoSchedClient, answer: NodeControlled) -> list[str]:
    """Return lines that name the jobs that stay, and until when."""
    if not answer.staying:
        return []
    drain_by = node_json(client.get_node(answer.node_id))["drain_by"]
    end = (
        f"are stopped at {drain_by} (in {until(drain_by)})"
        if drain_by
        else "stay until they end, because there is no --deadline"
    )
    more = len(answer.staying) - _SHOWN
    return [
        f"{answer.node_id}: these jobs would not start again elsewhere, and {end}:",
        *(f"  {job} ({_name(client, job)})" for job in answer.staying[:_SHOWN]),
        *([f"  and {more} more"] if more > 0 else []),
    ]


def _name(client: GoSchedClient, job: str) -> str:
    try:
        return client.get_job(job).job.spec.name
    except NotFound:
        return "ended"


def _until_empty(client: GoSchedClient, node: str, ends: float | None) -> str:
    left = -1
    while True:
        detail = client.get_node(node)
        name = detail.node.id
        if detail.node.state is NodeState.DEAD:
            return f"{name}: dead; nothing runs on it"
        if not detail.tasks:
            return f"{name}: empty"
        if detail.node.state is not NodeState.DRAINING:
            raise Refused("it was uncordoned meanwhile and is not empty")
        if detail.tasks != left:
            left = detail.tasks
            say(f"{name}: {counted(left, 'task')} left")
        if ends is not None and time.monotonic() >= ends:
            raise TimedOut(f"time is up; {counted(left, 'task')} left")
        time.sleep(_POLL_S)


def _each(nodes: tuple[str, ...], act: Callable[[str], str]) -> int:
    """Print what became of each node; return the exit code of the first that failed."""
    code = 0
    for node in nodes:
        try:
            for line in act(node).split("\n"):
                say(line)
        except GoSchedError as error:
            say(f"goschedctl: {node}: {error}")
            code = code or error.exit_code
    return code
