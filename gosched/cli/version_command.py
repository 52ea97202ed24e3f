"""`goschedctl version`: the releases of the client and the servers, and whether they go together."""

from __future__ import annotations

import click

from gosched import __version__
from gosched.cli.connect import connect, output_option
from gosched.cli.output import Column, Json, as_data, emit, say, table

WAIT_S = 3.0
UNREACHABLE = 5
_COLUMNS: list[Column] = [
    ("PROGRAM", lambda row: row["program"]),
    ("NAME", lambda row: row["name"]),
    ("VERSION", lambda row: row["version"] or "unknown"),
]


@click.command()
@click.option("--client", "alone", is_flag=True, help="Only this program's; no master is asked.")
@click.option("--agents", "with_agents", is_flag=True, help="The agents' versions, too.")
@output_option
@click.pass_context
def command(ctx: click.Context, alone: bool, with_agents: bool, output: str) -> int:
    """The versions of goschedctl and the masters; warns of releases that do not go together.

    Programs may be one release apart, and none should be newer than the masters. Where no master answers, the
    exit code is 5.
    """
    found: Json = {"client": __version__, "masters": [], "agents": [], "warnings": []}
    problem = "" if alone else _ask(ctx, found, with_agents)
    if output in ("json", "yaml"):
        emit(as_data(found, output))
    elif output == "name":
        emit(__version__)
    else:
        emit(_text(found))
    for line in found["warnings"]:
        say(f"warning: {line}")
    if problem:
        say(f"goschedctl: {problem}; --client asks none")
    return UNREACHABLE if problem else 0


def _ask(ctx: click.Context, found: Json, with_agents: bool) -> str:
    """Add what the masters say; return why none does."""
    from gosched.client.errors import Unavailable  # brings gRPC along
    from gosched.client.skew import warnings

    client = connect(ctx, timeout_s=WAIT_S)
    try:
        masters = {master.id: master.version for master in client.get_status().masters}
        nodes = client.list_usage().nodes if with_agents else ()
    except Unavailable as error:
        return str(error)
    found["masters"] = [{"id": id, "version": version} for id, version in masters.items()]
    found["agents"] = [{"id": n.node_id, "name": n.name, "version": n.version} for n in nodes]
    found["warnings"] = warnings(__version__, masters, {node.node_id: node.version for node in nodes})
    return ""


def _text(found: Json) -> str:
    rows: list[Json] = [{"program": "client", "name": "goschedctl", "version": found["client"]}]
    rows += [{"program": "master", "name": master["id"], "version": master["version"]} for master in found["masters"]]
    rows += [{"program": "agent", "name": agent["name"], "version": agent["version"]} for agent in found["agents"]]
    return table(rows, _COLUMNS)
