"""`goschedctl node cordon|uncordon|drain|label|taint|remove`: nodes that are named, or chosen by their labels."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from gosched.api.json.cluster import node_json
from gosched.cli.connect import connect, read_duration_s, read_labels
from gosched.cli.output import counted, say, say_error, until
from gosched.client import GoSchedClient, GoSchedError, NodeControlled, NotFound, Refused, TimedOut
from gosched.core.records.node import NodeState
from gosched.core.spec.placement_rules import Taint

F = TypeVar("F", bound=Callable[..., Any])

_SHOWN = 8  # staying jobs that are listed by name
_POLL_S = 0.5
_selector = click.option(
    "-l", "--labels", metavar="KEY=VALUE,...", help="Instead of names: all nodes with these labels."
)


def _chosen_nodes(function: F) -> F:
    return click.argument("nodes", nargs=-1, metavar="[NODE]...")(_selector(function))


@click.command()
@_chosen_nodes
@click.option("--reason", default="", help="Stored with the node.")
@click.pass_context
def cordon(ctx: click.Context, nodes: tuple[str, ...], labels: str | None, reason: str) -> int:
    """Stop placing tasks on nodes. Running tasks go on.

    \b
    Examples:
      goschedctl node cordon n1 n2 --reason "new disks"
      goschedctl node cordon -l zone=a
    """
    client, names = _asked(ctx, nodes, labels)
    return _each(names, lambda node: _done(client.cordon(node, reason=reason), "cordoned"))


@click.command()
@_chosen_nodes
@click.pass_context
def uncordon(ctx: click.Context, nodes: tuple[str, ...], labels: str | None) -> int:
    """Let nodes take tasks again, whatever closed them. This ends a drain, too."""
    client, names = _asked(ctx, nodes, labels)
    return _each(names, lambda node: _done(client.uncordon(node), "uncordoned"))


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="[NODE]... KEY=VALUE|KEY-...")
@_selector
@click.pass_context
def label(ctx: click.Context, words: tuple[str, ...], labels: str | None) -> int:
    """Set labels of nodes (zone=a), or drop them (zone-). Those of an agent's config are changed there.

    \b
    Examples:
      goschedctl node label n1 n2 zone=a disk=ssd
      goschedctl node label n1 disk-
      goschedctl node label -l zone=a power=green
    """
    nodes, changes = _parted(words, "KEY=VALUE or KEY-", "zone=a")
    wanted = dict(_pair(text) for text in changes if not text.endswith("-"))
    dropped = [text.removesuffix("-") for text in changes if text.endswith("-")]
    client, names = _asked(ctx, nodes, labels)
    return _each(names, lambda node: _done(client.label_node(node, labels=wanted, drop_labels=dropped), "labelled"))


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="[NODE]... KEY[=VALUE]:EFFECT|KEY[:EFFECT]-...")
@_selector
@click.pass_context
def taint(ctx: click.Context, words: tuple[str, ...], labels: str | None) -> int:
    """Set taints of nodes (gpu=true:no_schedule), or drop them (gpu-, gpu:no_schedule-).

    EFFECT is no_schedule, prefer_no_schedule or no_execute, which stops what runs there and does not tolerate it.
    Those of an agent's config are changed there.

    \b
    Examples:
      goschedctl node taint n1 n2 gpu=true:no_schedule
      goschedctl node taint -l zone=a gpu-
    """
    nodes, changes = _parted(words, "KEY=VALUE:EFFECT or KEY-", "gpu=true:no_schedule")
    records = _taints([text for text in changes if not text.endswith("-")])
    dropped = [text.removesuffix("-") for text in changes if text.endswith("-")]
    client, names = _asked(ctx, nodes, labels)
    done = "tainted" if records else "untainted"
    return _each(names, lambda node: _done(client.label_node(node, taints=records, drop_taints=dropped), done))


@click.command()
@_chosen_nodes
@click.option("--deadline", metavar="DURATION", help="Stop all remaining tasks after this time, such as 1h.")
@click.option("--reason", default="", help="Stored with the node.")
@click.option("--wait", is_flag=True, help="Wait until the nodes are empty.")
@click.option("--timeout", metavar="DURATION", help="With --wait: give up after this time, with exit code 124.")
@click.pass_context
def drain(
    ctx: click.Context,
    nodes: tuple[str, ...],
    labels: str | None,
    deadline: str | None,
    reason: str,
    wait: bool,
    timeout: str | None,
) -> int:
    """Empty nodes: they get no new tasks, and jobs that can start again elsewhere are evicted at once.

    Evicted tasks get their checkpoint signal and grace period; no retry is charged. Jobs that would not start again
    stay until they end, or until the deadline.

    \b
    Examples:
      goschedctl node drain n1 --deadline 1h --wait
      goschedctl node drain -l rack=r7 --reason "power work"
    """
    deadline_s, timeout_s = read_duration_s(deadline, "--deadline"), read_duration_s(timeout, "--timeout")
    if timeout_s is not None and not wait:
        raise click.UsageError("--timeout needs --wait; to stop remaining tasks after a time, give a --deadline")
    client, names = _asked(ctx, nodes, labels)

    def start(node: str) -> str:
        answer = client.drain(node, reason=reason, deadline_s=deadline_s)
        return "\n".join([_done(answer, "draining"), *_staying(client, answer)])

    code = _each(names, start)
    if wait and not code:
        ends = None if timeout_s is None else time.monotonic() + timeout_s
        return _each(names, lambda node: _until_empty(client, node, ends))
    return code


@click.command()
@_chosen_nodes
@click.pass_context
def remove(ctx: click.Context, nodes: tuple[str, ...], labels: str | None) -> int:
    """Remove DEAD nodes from the cluster. An agent that comes back later joins as a new node.

    To remove a node that runs, drain it and end its agent; it is DEAD a few seconds later.
    """
    client, names = _asked(ctx, nodes, labels)
    return _each(names, lambda node: _done(client.remove_node(node), "removed"))


def _asked(ctx: click.Context, nodes: tuple[str, ...], labels: str | None) -> tuple[GoSchedClient, tuple[str, ...]]:
    """Return a client, and the nodes that were named or have the labels. Raises UsageError, NotFound."""
    wanted = read_labels(labels)
    if nodes and wanted:
        raise click.UsageError("nodes are named, and chosen by labels too: do one of both")
    if not (nodes or wanted):
        raise click.UsageError("no nodes: name some, or choose all with a label: -l zone=a")
    client = connect(ctx)
    if nodes:
        return client, nodes
    found = sorted(detail.node.id for detail in client.list_nodes(labels=wanted))
    if not found:
        raise NotFound(f"no node has the labels {labels}")
    return client, tuple(found)


def _parted(words: tuple[str, ...], form: str, example: str) -> tuple[tuple[str, ...], list[str]]:
    """Return the names of nodes, and what is to be changed. Raises UsageError."""
    changes = [word for word in words if "=" in word or ":" in word or word.endswith("-")]
    if not changes:
        raise click.UsageError(f"nothing to change: expected {form} after the nodes, such as {example}")
    return tuple(word for word in words if word not in changes), changes


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (equals and key):
        raise click.UsageError(f"expected a label such as zone=a, or zone- to drop it, got {text!r}")
    return key, value


def _taints(texts: list[str]) -> tuple[Taint, ...]:
    from gosched.config.requests import Labels, read_request

    return read_request(Labels, {"taints": texts}, source="command line").taint_records()


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
            say_error(node, error)
            code = code or error.exit_code
    return code
