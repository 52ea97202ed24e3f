"""`goschedctl job history`: jobs that have ended, as accounting keeps them, also when the jobs are forgotten."""

from __future__ import annotations

import csv
import io
from itertools import islice

import click

from gosched.api.json.history import finished_job_json
from gosched.cli.connect import connect, read_past_ms
from gosched.cli.job_filters import state_option
from gosched.cli.output import Column, Json, emit, print_listing, span, spent_text
from gosched.core.records.job import JobState

_ENDED = tuple(state.name.lower() for state in JobState if state.is_final)
_COLUMNS: list[Column] = [
    ("JOB", lambda j: j["id"]),
    ("NAME", lambda j: j["name"]),
    ("QUEUE", lambda j: j["queue"]),
    ("TENANT", lambda j: j["tenant"]),
    ("USER", lambda j: j["user"]),
    ("STATE", lambda j: j["state"]),
    ("EXIT", lambda j: j["exit_code"]),
    ("ATTEMPTS", lambda j: j["attempts"]),
    ("TASKS", lambda j: j["tasks"]),
    ("WAITED", lambda j: _between(j["submitted_at"], j["started_at"])),
    ("ELAPSED", lambda j: _between(j["started_at"], j["ended_at"])),
    ("SPENT", lambda j: spent_text(j["spent"])),
    ("ENDED", lambda j: j["ended_at"]),
    ("REASON", lambda j: j["reason"] if j["reason"] != j["state"] else ""),
]
_SPARE = ("TENANT", "QUEUE", "TASKS", "WAITED", "SPENT", "ATTEMPTS", "USER")


@click.command("history")
@click.option(
    "--since",
    metavar="TIME",
    default="24h",
    show_default=True,
    help="Only jobs ended since: a moment, or 7d for seven days ago.",
)
@click.option("--until", metavar="TIME", help="Only jobs ended before: a moment, or 1h for an hour ago.")
@click.option("--tenant", default="", help="Only jobs of this tenant.")
@click.option("-q", "--queue", default="", help="Only jobs of this queue.")
@click.option("--user", default="", help="Only jobs that this user submitted.")
@state_option(_ENDED)
@click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True, help="At most this many jobs.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(("table", "json", "yaml", "csv", "name")),
    default="table",
    show_default=True,
    help="Output format.",
)
@click.pass_context
def command(
    ctx: click.Context,
    since: str,
    until: str | None,
    tenant: str,
    queue: str,
    user: str,
    state: tuple[JobState, ...],
    limit: int,
    output: str,
) -> None:
    """List jobs that have ended, the newest first, also those whose records are dropped."""
    if live := [one.name.lower() for one in state if not one.is_final]:
        raise click.UsageError(f"--state {live[0]}: the history has jobs that have ended: {', '.join(_ENDED)}")
    jobs = connect(ctx).finished_jobs(
        since_ms=read_past_ms(since, "--since"),
        until_ms=read_past_ms(until, "--until"),
        tenant=tenant,
        queue=queue,
        user=user,
        states=state,
    )
    rows = [finished_job_json(job) for job in islice(jobs, limit)]
    if output == "csv":
        emit(_csv(rows))
    else:
        print_listing(lambda: rows, _COLUMNS, spare=_SPARE, output=output)


def _csv(rows: list[Json]) -> str:
    """Return one line for each job, with plain numbers; what it has spent has columns of its own."""
    flat = [{key: value for key, value in row.items() if key != "spent"} | row["spent"] for row in rows]
    text = io.StringIO()
    keys = list(flat[0]) if flat else [member.key for member in finished_job_json.members if member.key != "spent"]
    writer = csv.DictWriter(text, keys, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue().rstrip("\n")


def _between(start: str | None, end: str | None) -> str:
    from datetime import datetime

    if not start or not end:
        return ""
    return span((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())
