"""`goschedctl version`: the releases of the client and the servers, and whether they are compatible."""

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
@click.option("--client", "alone", is_flag=True, help="Only this program's version; no master is asked.")
@click.option("--agents", "with_agents", is_flag=True, help="Show the agents' versions, too.")
@output_option
@click.pass_context
def command(ctx: click.Context, alone: bool, with_agents: bool, output: str) -> int:
    """Show the versions of goschedctl and the masters, and warn of incompatible ones.

    Programs may be one release apart, and none should be newer than the masters. The exit code is 5 if no master
    answers.
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
        say(f"goschedctl: {problem}; --client asks no master")
    return UNREACHABLE if problem else 0


def _ask(ctx: click.Context, found: Json, with_agents: bool) -> str:
    """Add what the masters say to `found`; return why none answers, or an empty string."""
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
