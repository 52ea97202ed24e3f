"""`goschedctl status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gosched.api.json.status import status_json
from gosched.cli.connect import connect, output_option, watch_option
from gosched.cli.output import Column, Json, ago, as_data, bytes_text, emit, say, show, table

if TYPE_CHECKING:
    from gosched.client import GoSchedClient

LEADER_S = 5.0  # an election takes about one second
_MASTERS: list[Column] = [
    ("MASTER", lambda m: m["id"]),
    ("ROLE", lambda m: m["role"]),
    ("HEALTHY", lambda m: "yes" if m["healthy"] else "no"),
    ("GRPC", lambda m: m["grpc_address"]),
    ("HTTP", lambda m: m["http_address"]),
    ("CLOCK", lambda m: None if m["clock_offset_s"] is None or not m["healthy"] else f"{m['clock_offset_s']:+.1f}s"),
]
_QUEUES: list[Column] = [
    ("QUEUE", lambda q: q["name"]),
    ("TYPE", lambda q: q["type"]),
    ("PENDING", lambda q: q["pending"]),
    ("RUNNING", lambda q: q["running"]),
    ("CPU", lambda q: q["used"]["cpu"]),
    ("GPU", lambda q: q["used"]["gpu"]),
]


@click.command()
@watch_option
@output_option
@click.pass_context
def command(ctx: click.Context, output: str, watch: bool) -> int:
    """Show the cluster at a glance: masters, nodes, jobs, resources, queues. -o name prints the leader.

    While no master leads: which masters answer, their roles, the ends of their logs, and who is missing; the exit code
    is 5.
    """
    from gosched.client.errors import Unavailable, Unreachable

    client = connect(ctx, timeout_s=LEADER_S)
    try:
        show(lambda: status_json(client.get_status()), status_text, output=output, watch=watch, name="leader")
    except Unreachable:
        raise
    except Unavailable as error:
        return _without_leader(client, str(error), output)
    return 0


def _without_leader(client: GoSchedClient, problem: str, output: str) -> int:
    """Print what the masters say of themselves. Raises Unavailable where none says anything."""
    from gosched.cli.without_leader import known_text, masters_known
    from gosched.client.errors import Unavailable

    masters = masters_known(client)
    if not masters:
        raise Unavailable(problem)
    if output in ("json", "yaml"):
        emit(as_data({"leader": "", "problem": problem, "masters": masters}, output))
    elif output != "name":
        emit(known_text(masters))
    say(f"goschedctl: {problem}")
    return Unavailable.exit_code


def status_text(status: Json) -> str:
    total, used = status["resources"]["total"], status["resources"]["used"]
    problem = status["clock"]["problem"]
    return "\n".join(
        [
            f"Leader     {status['leader'] or 'none'} (epoch {status['epoch']}, revision {status['revision']})",
            f"Nodes      {status['nodes_ready']} of {status['nodes']} ready",
            f"Jobs       {status['running']} running, {status['pending']} pending, {status['jobs']} in total",
            f"CPU        {used['cpu']} of {total['cpu']}",
            f"Memory     {bytes_text(used['memory_bytes'])} of {bytes_text(total['memory_bytes'])}",
            f"GPU        {used['gpu']} of {total['gpu']}",
            f"State      {bytes_text(status['state_bytes'])} of {bytes_text(status['state_bytes_limit'])}",
            *([f"Clock      {problem}"] if problem else []),
            *([f"Load       {status['load_problem']}"] if status["load_problem"] else []),
            *_feature_level(status),
            *_backup(status["backup"]),
            "",
            table(status["masters"], _MASTERS),
            "",
            table(status["queues"], _QUEUES),
        ]
    )


def _backup(backup: Json | None) -> list[str]:
    if backup is None:
        return []
    last = f"{ago(backup['last_success_at'])} ago" if backup["last_success_at"] else "none yet"
    problem = f"; the last attempt failed: {backup['problem']}" if backup["problem"] else ""
    return [f"Backup     {last}{problem}"]


def _feature_level(status: Json) -> list[str]:
    """Return a line while masters of two releases run together, or an upgrade is not finished."""
    now, newest = status["feature_level"], status["newest_feature_level"]
    known = [master["newest_feature_level"] for master in status["masters"]]
    if not now or max(known) <= now:
        return []
    if newest > now:
        what = "run goschedctl cluster finalize-upgrade"
    else:
        what = "upgrade all masters first" if newest else "every master must answer first"
    return [f"Features   level {now}; {max(known)} is available: {what}"]
