"""`goschedctl job`: list, show, cancel, wait."""

from __future__ import annotations

import click

from gosched.cli.connect import connect, listing_options, output_option, read_duration_s, read_labels
from gosched.cli.output import Column, Json, ago, as_data, coloured, print_listing, say, table
from gosched.cli.submit_command import wait_shown
from gosched.client import GoSchedError
from gosched.client.shapes import job_detail_json, job_json
from gosched.core.job import JobState

_STATES = tuple(state.name.lower() for state in JobState if state)
_COLUMNS: list[Column] = [
    ("JOB", lambda j: j["id"]),
    ("NAME", lambda j: j["name"]),
    ("QUEUE", lambda j: j["queue"]),
    ("STATE", lambda j: j["state"]),
    ("TASKS", lambda j: f"{j['succeeded'] if j['state'] == 'SUCCEEDED' else j['running']}/{j['task_count']}"),
    ("AGE", lambda j: ago(j["submitted_at"])),
    ("REASON", lambda j: j["reason"]),
]
_WIDE: list[Column] = [
    ("TENANT", lambda j: j["tenant"]),
    ("PRIORITY", lambda j: j["priority"]),
    ("ATTEMPT", lambda j: j["attempt"]),
    ("LABELS", lambda j: ",".join(f"{k}={v}" for k, v in j["labels"].items())),
    ("DETAIL", lambda j: j["detail"]),
]
_TASKS: list[Column] = [
    ("TASK", lambda t: f"{t['group']}/{t['index']}"),
    ("STATE", lambda t: t["state"]),
    ("NODE", lambda t: t["node"]),
    ("EXIT", lambda t: t["exit_code"]),
    ("GPUS", lambda t: ",".join(map(str, t["gpus"]))),
    ("STARTED", lambda t: t["started_at"]),
    ("ENDED", lambda t: t["ended_at"]),
    ("REASON", lambda t: f"{t['reason']}: {t['detail']}" if t["detail"] else t["reason"]),
]


@click.group()
def command() -> None:
    """Jobs of the cluster. JOB is an id, or a name: then the newest of that name."""


@command.command("list")
@click.option("-q", "--queue", default="", help="Only of this queue.")
@click.option("--state", type=click.Choice(_STATES), multiple=True, help="Only in this state; may be repeated.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@listing_options
@click.pass_context
def list_jobs(
    ctx: click.Context,
    queue: str,
    state: tuple[str, ...],
    limit: int | None,
    output: str,
    labels: str | None,
    watch: bool,
) -> None:
    """Jobs, newest first."""
    client, wanted = connect(ctx), read_labels(labels)
    states = [JobState[name.upper()] for name in state]

    def fetch() -> list[Json]:
        return [job_json(job) for job in client.list_jobs(states=states, queue=queue, labels=wanted, limit=limit)]

    print_listing(fetch, _COLUMNS, wide=_WIDE, output=output, watch=watch)


@command.command("show")
@click.argument("job")
@output_option
@click.pass_context
def show(ctx: click.Context, job: str, output: str) -> None:
    """A job and its tasks."""
    shape = job_detail_json(connect(ctx).get_job(job))
    if output in ("json", "yaml"):
        click.echo(as_data(shape, output))
    elif output == "name":
        click.echo(shape["id"])
    else:
        click.echo(_text(shape))


@command.command("cancel")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option("--reason", default="", help="Kept with the job.")
@click.pass_context
def cancel(ctx: click.Context, jobs: tuple[str, ...], reason: str) -> int:
    """Stop jobs: their tasks get a signal, then their grace, then are killed."""
    client, code = connect(ctx), 0
    for job in jobs:
        try:
            say(f"{client.cancel(job, reason=reason)}: cancelled")
        except GoSchedError as error:
            say(f"goschedctl: {job}: {error}")
            code = code or error.exit_code
    return code


@command.command("wait")
@click.argument("job")
@click.option("--timeout", metavar="DURATION", help="Give up after this time, with exit code 124.")
@click.pass_context
def wait(ctx: click.Context, job: str, timeout: str | None) -> int:
    """Wait for the end of a job; return its own exit code (128+n for a signal)."""
    return wait_shown(connect(ctx), job, read_duration_s(timeout, "--timeout")).exit_code


def _text(job: Json) -> str:
    reason = ": ".join(part for part in (job["reason"], job["detail"]) if part)
    lines = [
        f"Job        {job['id']}",
        f"Name       {job['name']}",
        f"Queue      {job['queue']} (tenant {job['tenant']}, priority {job['priority']})",
        f"State      {coloured(job['state'])}{f' ({reason})' if reason else ''}",
        f"Attempt    {job['attempt']}",
        f"Submitted  {job['submitted_at']}",
        f"Started    {job['started_at'] or '-'}",
        f"Ended      {job['ended_at'] or '-'}",
    ]
    if job["exit_code"] is not None:
        lines.append(f"Exit code  {job['exit_code']}")
    return "\n".join([*lines, "", table(job["tasks"], _TASKS)])
