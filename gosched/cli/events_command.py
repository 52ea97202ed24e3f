"""`goschedctl events`: what has happened, and with -f what happens."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, TypedDict

import click

from gosched.api.history import HistoryEvent
from gosched.api.json.history import event_json
from gosched.cli.connect import connect, read_past_ms
from gosched.cli.output import Column, Json, as_data, emit, say, table

if TYPE_CHECKING:
    from gosched.client import GoSchedClient

_COLUMNS: list[Column] = [
    ("TIME", lambda e: e["at"]),
    ("KIND", lambda e: e["kind"]),
    ("ABOUT", lambda e: e["job_name"] or e["node"] or ""),
    ("MESSAGE", lambda e: e["message"]),
]
_WIDE: list[Column] = [
    ("REVISION", lambda e: e["revision"]),
    ("JOB", lambda e: e["job"]),
    ("ATTEMPT", lambda e: e["attempt"] or ""),
    ("NODE", lambda e: e["node"]),
    ("CODE", lambda e: e["code"]),
]
_LINE = "{at}  {kind:<22}  {about:<20}  {message}"


class _Wanted(TypedDict):
    """The filters that a page of events and a stream of them share."""

    job: str
    node: str
    kinds: tuple[str, ...]
    queue: str
    tenant: str


@click.command()
@click.argument("about", required=False, metavar="[JOB|NODE]")
@click.option("-f", "--follow", "-w", "--watch", "follow", is_flag=True, help="Go on with what happens, until Ctrl-C.")
@click.option("--kind", multiple=True, metavar="KIND", help="Only of this kind, such as job_failed; may be repeated.")
@click.option("--since", metavar="TIME", help="Only since then: 2h for two hours ago, or a moment.")
@click.option("--node", "of_node", is_flag=True, help="The name is a node's.")
@click.option("-q", "--queue", default="", help="Only of jobs of this queue.")
@click.option("--tenant", default="", help="Only of jobs of this tenant.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="About so many; with --since all."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(("table", "wide", "json", "yaml")),
    default="table",
    show_default=True,
    help="Output format; json with -f is an object on each line.",
)
@click.pass_context
def command(
    ctx: click.Context,
    about: str | None,
    follow: bool,
    kind: tuple[str, ...],
    since: str | None,
    of_node: bool,
    queue: str,
    tenant: str,
    limit: int,
    output: str,
) -> None:
    """Show what has happened, the oldest first: to all jobs and nodes, or to one.

    With -f it goes on, over a change of leaders too, without a loss and without a repeat.
    """
    client = connect(ctx)
    job, node = _subject(client, about, of_node)
    wanted = _Wanted(job=job, node=node, kinds=kind, queue=queue, tenant=tenant)
    since_ms = read_past_ms(since, "--since")
    page = client.list_events(**wanted, since_ms=since_ms, limit=10_000 if since else limit)
    events = [*page.events]
    while page.more:
        page = client.list_events(**wanted, after=page.revision, limit=10_000)
        events += page.events
    if not follow:
        _print([event_json(event) for event in events], output)
        return
    for event in events:
        _print_one(event, output)
    for event in client.watch_events(after=page.revision, **wanted):
        _print_one(event, output)


def _subject(client: GoSchedClient, about: str | None, of_node: bool) -> tuple[str, str]:
    """Return the job or the node that is meant: a node where one has that name, and no job of the history has."""
    from gosched.client.errors import NotFound, Refused

    if not about or of_node:
        return "", about or ""
    if client.list_events(job=about, limit=1).events:
        return about, ""
    try:
        client.get_node(about)
    except NotFound:
        return about, ""
    except Refused:  # several have this name
        pass
    return "", about


def _print(events: list[Json], output: str) -> None:
    if not events and output not in ("json", "yaml"):
        say("no events")
    if output in ("json", "yaml"):
        emit(as_data(events, output))
    else:
        emit(table(events, [*_COLUMNS, *(_WIDE if output == "wide" else [])]))


def _print_one(event: HistoryEvent, output: str) -> None:
    found = event_json(event)
    if output == "json":
        emit(json.dumps(found, ensure_ascii=True))
    elif output == "yaml":
        emit(f"---\n{as_data(found, output)}")
    else:
        about = found["job_name"] or found["node"] or "-"
        more = f"  (revision {found['revision']}, {found['job'] or found['node']})" if output == "wide" else ""
        emit(_LINE.format(at=found["at"], kind=found["kind"], about=about, message=found["message"]) + more)
    sys.stdout.flush()
