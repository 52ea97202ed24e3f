"""`goschedctl yarn`: look at a YARN cluster, end applications; those that start some are in `yarn_submit`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click

from gosched.api.json.values import time_json
from gosched.cli.connect import output_option
from gosched.cli.output import Column, Json, ago, bytes_text, print_listing, say, show, titled
from gosched.cli.yarn_submit import run, submit, yarn_client

_MIB = 1 << 20

_NODES: list[Column] = [
    ("NODE", lambda n: n["id"]),
    ("STATE", lambda n: n["state"]),
    ("RACK", lambda n: n["rack"]),
    ("CONTAINERS", lambda n: n["containers"]),
    ("MEMORY", lambda n: _part(n["used_memory_mib"], n["available_memory_mib"])),
    ("VCORES", lambda n: f"{n['used_vcores']}/{n['used_vcores'] + n['available_vcores']}"),
    ("HEARD", lambda n: ago(n["heard"])),
]
_NODES_WIDE: list[Column] = [
    ("VERSION", lambda n: n["version"]),
    ("LABELS", lambda n: ",".join(n["labels"])),
    ("HEALTH", lambda n: n["health_report"]),
]
_QUEUES: list[Column] = [
    ("QUEUE", lambda q: q["path"]),
    ("STATE", lambda q: q["state"]),
    ("CAPACITY", lambda q: _percent(q["capacity_pct"])),
    ("MAX", lambda q: _percent(q["max_capacity_pct"])),
    ("OF-CLUSTER", lambda q: _percent(q["absolute_capacity_pct"])),
    ("MAX-OF-CLUSTER", lambda q: _percent(q["absolute_max_capacity_pct"])),
    ("USED", lambda q: _percent(q["absolute_used_pct"])),
    ("MEMORY", lambda q: bytes_text(q["used_memory_mib"] * _MIB)),
    ("VCORES", lambda q: q["used_vcores"]),
    ("APPS", lambda q: q["applications"]),
]
_APPS: list[Column] = [
    ("APPLICATION", lambda a: a["id"]),
    ("NAME", lambda a: a["name"]),
    ("USER", lambda a: a["user"]),
    ("QUEUE", lambda a: a["queue"]),
    ("STATE", lambda a: a["state"]),
    ("RESULT", lambda a: a["final_status"]),
    ("PROGRESS", lambda a: _percent(a["progress_pct"])),
    ("MEMORY", lambda a: bytes_text(a["memory_mib"] * _MIB)),
    ("VCORES", lambda a: a["vcores"]),
    ("STARTED", lambda a: ago(a["started"])),
]
_APPS_WIDE: list[Column] = [
    ("TYPE", lambda a: a["type"]),
    ("TAGS", lambda a: ",".join(a["tags"])),
    ("TRACKING", lambda a: a["tracking_url"]),
]


@click.group()
@click.option(
    "--rm",
    metavar="URL,...",
    envvar="GOSCHED_YARN_RM",
    help="Web addresses of all ResourceManagers, such as http://rm1:8088.  [env: GOSCHED_YARN_RM]",
)
@click.option("--user", metavar="NAME", help="Who asks, where YARN believes it.  [default: the account's name]")
@click.option("--ca", metavar="FILE", help="The authority of their certificates, in PEM form.  [default: the system's]")
def command(rm: str | None, user: str | None, ca: str | None) -> None:
    """Look at a YARN cluster, submit an application to it, end one.

    Of several ResourceManagers the active one is asked. A cluster that asks for Kerberos is shown the tickets of kinit,
    and --user counts for nothing there (pip install 'gosched[kerberos]').
    """


@command.command("info")
@output_option
@click.pass_context
def info(ctx: click.Context, output: str) -> None:
    """Show which ResourceManager answers, and what its cluster has."""
    client = yarn_client(ctx)

    def text(found: Json) -> str:
        return titled(
            [
                ("Release", found["version"]),
                ("State", f"{found['state']}, {found['ha_state'] or 'alone'} since {found['started']}"),
                (
                    "Nodes",
                    f"{found['active_nodes']} active, {found['unhealthy_nodes']} unhealthy, {found['lost_nodes']} lost",
                ),
                ("Memory", f"{_of(found, 'memory_mib', _MIB)} allocated"),
                ("Vcores", f"{found['allocated_vcores']}/{found['total_vcores']} allocated"),
                ("Apps", f"{found['apps_running']} running, {found['apps_pending']} pending"),
            ]
        )

    show(lambda: {**_json(client.metrics()), **_json(client.info())}, text, output=output)


@command.command("nodes")
@click.option("--state", "states", multiple=True, help="Only in this state, such as LOST; may be repeated.")
@output_option
@click.pass_context
def nodes(ctx: click.Context, states: tuple[str, ...], output: str) -> None:
    """List the nodes that are not gone; with --state those in one of these states."""
    client = yarn_client(ctx)
    print_listing(
        lambda: [_json(node) for node in client.nodes(states=states)], _NODES, wide=_NODES_WIDE, output=output
    )


@command.command("queues")
@output_option
@click.pass_context
def queues(ctx: click.Context, output: str) -> None:
    """List the queues: guarantee and ceiling in percent of the parent's and of the cluster, and what they hold.

    `goschedctl import yarn-queues` makes queues of gosched out of them.
    """
    client = yarn_client(ctx)

    def fetch() -> list[Json]:
        found = sorted(client.scheduler().root.all(), key=lambda queue: queue.path)
        return [{"id": queue.path, **_json(queue)} for queue in found]

    print_listing(fetch, _QUEUES, output=output)


@command.command("apps")
@click.option("--state", "states", multiple=True, help="Only in this state, such as RUNNING; may be repeated.")
@click.option("--queue", default="", help="Only of this queue.")
@click.option("--of", "owner", metavar="USER", default="", help="Only of this user.")
@click.option("--tag", "tags", multiple=True, help="Only with this tag; may be repeated.")
@click.option("--limit", type=click.IntRange(1), default=1000, show_default=True, help="At most so many.")
@output_option
@click.pass_context
def apps(
    ctx: click.Context, states: tuple[str, ...], queue: str, owner: str, tags: tuple[str, ...], limit: int, output: str
) -> None:
    """List applications, those that have ended too."""
    client = yarn_client(ctx)

    def fetch() -> list[Json]:
        found = client.apps(states=states, queue=queue, user=owner, tags=tags, limit=limit)
        return [_json(app) for app in sorted(found, key=lambda app: app.id)]

    print_listing(fetch, _APPS, wide=_APPS_WIDE, output=output, noun="application")


@command.command("app")
@click.argument("id")
@output_option
@click.pass_context
def app(ctx: click.Context, id: str, output: str) -> None:
    """Show an application: its state, why it is in it, and where its logs are."""
    client = yarn_client(ctx)

    def text(found: Json) -> str:
        head = titled(
            [
                ("App", f"{found['id']} ({found['name']})"),
                ("State", f"{found['state']}, result {found['final_status']}, {_percent(found['progress_pct'])}"),
                ("Queue", f"{found['queue']}, priority {found['priority']}"),
                ("User", found["user"]),
                ("Type", found["type"]),
                ("Tags", ",".join(found["tags"])),
                ("Started", found["started"] or ""),
                ("Ended", found["finished"] or ""),
                ("Holds", f"{bytes_text(found['memory_mib'] * _MIB)}, {found['vcores']} vcores"),
                ("Containers", str(found["containers"])),
                ("Page", found["tracking_url"]),
                ("Logs", found["log_url"]),
            ]
        )
        return "\n".join([head, *found["diagnostics"].splitlines()])

    show(lambda: _json(client.app(id)), text, output=output)


command.add_command(submit)
command.add_command(run)


@command.command("kill")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.pass_context
def kill(ctx: click.Context, ids: tuple[str, ...]) -> None:
    """End applications, and wait until they have ended."""
    client = yarn_client(ctx)
    for id in ids:
        state = client.kill(id)
        say(f"{id}: {state if state == 'KILLED' else f'had ended before: {state}'}")


def _json(record: Any) -> Json:
    """Return the fields of a record; moments as others are printed."""
    shape: Json = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if field.name.endswith("_ms"):
            shape[field.name.removesuffix("_ms")] = time_json(value)
        elif field.name != "children":
            shape[field.name] = list(value) if isinstance(value, tuple) else value
    return shape


def _of(found: Json, what: str, unit: int) -> str:
    return f"{bytes_text(found[f'allocated_{what}'] * unit)}/{bytes_text(found[f'total_{what}'] * unit)}"


def _part(used_mib: int, available_mib: int) -> str:
    return f"{bytes_text(used_mib * _MIB)}/{bytes_text((used_mib + available_mib) * _MIB)}"


def _percent(value: float | None) -> str:
    """Return at most two digits after the point: YARN computes with less than they suggest."""
    return "-" if value is None else f"{round(value, 2):g}%"
