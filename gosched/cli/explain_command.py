"""`goschedctl explain JOB`: what holds a pending job, where a running one runs, how an ended one ended."""

from __future__ import annotations

import click

from gosched.cli.connect import connect, output_option
from gosched.cli.output import Json, ago, amounts_text, as_data, coloured
from gosched.client.shapes import explanation_json


@click.command()
@click.argument("job")
@output_option
@click.pass_context
def command(ctx: click.Context, job: str, output: str) -> None:
    """Why a job waits: its position, the limit that holds it, what each filter refused, the nearest miss."""
    shape = explanation_json(connect(ctx).explain(job))
    if output in ("json", "yaml"):
        click.echo(as_data(shape, output))
    else:
        click.echo(shape["id"] if output == "name" else _text(shape))


def _text(job: Json) -> str:
    lines = [
        ("Job", f"{job['id']} ({job['name']})"),
        ("State", coloured(job["state"])),
        ("Queue", f"{job['queue']} (tenant {job['tenant']})"),
        *_waiting(job),
        *_running(job),
        *_ended(job),
    ]
    return "\n".join(f"{title:<11}{text}" for title, text in lines if text)


def _waiting(job: Json) -> list[tuple[str, str]]:
    use = job["queue_use"]
    if not job["message"] or use is None:
        return [("Waits", job["message"])]
    return [
        ("Position", f"{job['position']} in its queue" if job["position"] else ""),
        ("Waits", ": ".join(part for part in (job["code"], job["message"]) if part)),
        ("Held by", job["limit"]),
        ("Refused", ", ".join(f"{r['nodes']} {r['filter']}" for r in job["refused"])),
        ("Nearest", job["nearest"] if job["nearest"] != job["message"] else ""),
        ("Queue has", amounts_text(use["used"])),
        ("Fair share", amounts_text(use["fair_share"])),
        ("Ceiling", amounts_text(use["ceiling"])),
    ]


def _running(job: Json) -> list[tuple[str, str]]:
    if not job["nodes"]:
        return []
    places = [f"{n['node']} ({n['tasks']} {'task' if n['tasks'] == 1 else 'tasks'})" for n in job["nodes"]]
    since = f"{job['started_at']} ({ago(job['started_at'])} ago)" if job["started_at"] else ""
    return [("Since", since), ("Runs on", ", ".join(places))]


def _ended(job: Json) -> list[tuple[str, str]]:
    if not job["ended_at"]:
        return []
    reason = ": ".join(part for part in (job["reason"], job["detail"]) if part)
    code = "" if job["exit_code"] is None else str(job["exit_code"])
    return [("Ended", job["ended_at"]), ("Reason", reason), ("Exit code", code)]
