"""`goschedctl status`."""

from __future__ import annotations

import click

from gosched.api.json.cluster import status_json
from gosched.cli.connect import connect, output_option
from gosched.cli.output import Column, Json, ago, as_data, bytes_text, emit, table

_MASTERS: list[Column] = [
    ("MASTER", lambda m: m["id"]),
    ("ROLE", lambda m: m["role"]),
    ("HEALTHY", lambda m: "yes" if m["healthy"] else "no"),
    ("GRPC", lambda m: m["grpc_address"]),
    ("HTTP", lambda m: m["http_address"]),
    ("CLOCK", lambda m: None if m["clock_offset_s"] is None else f"{m['clock_offset_s']:+.1f}s"),
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
@output_option
@click.pass_context
def command(ctx: click.Context, output: str) -> None:
    """Show the cluster at a glance: masters, nodes, jobs, resources, queues."""
    status = status_json(connect(ctx).get_status())
    if output in ("json", "yaml"):
        emit(as_data(status, output))
    elif output == "name":
        emit(status["leader"])
    else:
        emit(status_text(status))


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
    what = "run goschedctl cluster finalize-upgrade" if newest > now else "upgrade all masters first"
    return [f"Features   level {now}; {max(known)} is available: {what}"]
