"""`goschedctl job list`: jobs in a table, with why they wait and since when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import click

from gosched.api.job_query import Direction, JobOrder, JobQuery
from gosched.api.json.jobs import job_json
from gosched.cli.connect import connect, now_ms, output_option, read_past_ms, watch_option
from gosched.cli.job_filters import filter_options, query_of
from gosched.cli.output import Column, Json, ago, print_listing, say, span
from gosched.cli.pages import print_pages
from gosched.core.reasons import WaitReason
from gosched.core.records.job import JobState

ENDED_SHOWN_MS = 3_600_000  # without -a: how long jobs are listed that have ended
_ORDERS = tuple(order.name.lower() for order in JobOrder if order)
_ENDED = tuple(state.name for state in JobState if state.is_final)
_WORDS = 60  # characters of a reason's words; -o wide has all
# Their words only say what the code says.
_PLAIN = (WaitReason.HELD, WaitReason.SUSPENDED)

_COLUMNS: list[Column] = [
    ("JOB", lambda j: j["id"]),
    ("NAME", lambda j: j["name"]),
    ("USER", lambda j: owner(j)),
    ("QUEUE", lambda j: j["queue"]),
    ("STATE", lambda j: j["state"]),
    ("TASKS", lambda j: _progress(j)),
    ("AGE", lambda j: ago(j["submitted_at"])),
    ("TIME", lambda j: _run_time(j)),
]
_REASON: list[Column] = [("REASON", lambda j: _reason(j, longest=_WORDS))]
_SPARE = ("QUEUE", "TASKS", "USER")
_WIDE: list[Column] = [
    ("TENANT", lambda j: j["tenant"]),
    ("PRIORITY", lambda j: j["priority"]),
    ("ATTEMPT", lambda j: j["attempt"] or ""),
    ("EVICTED", lambda j: j["preemptions"]),
    ("DEADLINE", lambda j: j["deadline"]),
    ("STARTS", lambda j: j["wait"]["estimated_start"] if j["wait"] else ""),
    ("PARENT", lambda j: j["parent"]),
    ("LABELS", lambda j: ",".join(f"{k}={v}" for k, v in j["labels"].items())),
    ("REASON", lambda j: _reason(j, longest=None)),
    ("DETAIL", lambda j: j["detail"]),
]


@click.command("list")
@click.option("-a", "--all", "everything", is_flag=True, help="Also jobs that ended more than an hour ago.")
@filter_options
@click.option("--since", metavar="TIME", help="Only jobs submitted or ended since: a moment, or 2h for two hours ago.")
@click.option("--array", metavar="JOB", default="", help="Only elements of this array, or runs of this schedule.")
@click.option(
    "--sort-by", "--sort", "sort", type=click.Choice(_ORDERS), default=_ORDERS[0], show_default=True, help="Order."
)
@click.option("--reverse", is_flag=True, help="The other way round: oldest first, lowest priority first.")
@click.option("--limit", type=click.IntRange(min=1), help="At most this many jobs.")
@watch_option
@output_option
@click.pass_context
def command(ctx: click.Context, /, everything: bool, limit: int | None, output: str, watch: bool, **flags: Any) -> None:
    """List jobs, newest first: those that live, and those that ended in the last hour.

    Also older ones with -a, --since, --array, or a --state in which jobs have ended.

    TIME is how long an attempt runs or ran. REASON of a waiting job: why it waits, and how long for this reason. A name
    under USER that ends with ? is the login name that the client gave, without a certificate. A narrow terminal has no
    room for QUEUE, TASKS and USER; -o wide shows all.
    """
    client = connect(ctx)
    query = _query(everything, flags)

    def pages() -> Iterator[list[Json]]:
        for rows in client.job_rows(query, limit=_shown(limit) if watch else limit):
            yield [job_json(row) for row in rows]

    columns = _COLUMNS if output == "wide" else [*_COLUMNS, *_REASON]
    if watch:
        fetch = lambda: [row for rows in pages() for row in rows]  # noqa: E731
        print_listing(fetch, columns, wide=_WIDE, spare=_SPARE, output=output, watch=True)
    elif not print_pages(pages(), columns, _WIDE, output, _SPARE):
        say(_nothing(query))


def _shown(limit: int | None) -> int | None:
    from gosched.cli.watching import rows_shown  # a program that prints once does without

    return rows_shown(limit)


def _nothing(query: JobQuery) -> str:
    """Return what is said where no job is listed."""
    if not query.ended_since_ms:
        return "no jobs"
    if query == JobQuery(order=query.order, direction=query.direction, ended_since_ms=query.ended_since_ms):
        return "no job lives, and none ended in the last hour: -a lists all"
    return "no such job lives, and none ended in the last hour: -a looks among all"


def _query(everything: bool, flags: dict[str, Any]) -> JobQuery:
    order = JobOrder[flags["sort"].upper()]
    descends = JobQuery(order=order).descends is not flags["reverse"]
    direction = Direction.DESCENDING if descends else Direction.ASCENDING
    query = replace(
        query_of(flags),
        since_ms=read_past_ms(flags["since"], "--since"),
        parent=flags["array"],
        order=order,
        direction=direction if flags["reverse"] else Direction.UNSPECIFIED,
    )
    asks_for_ended = everything or query.since_ms or query.parent or any(state.is_final for state in query.states)
    return query if asks_for_ended else replace(query, ended_since_ms=now_ms() - ENDED_SHOWN_MS)


def owner(job: Json) -> str:
    """Return who submitted it: a name that no certificate vouches for ends with a question mark."""
    return job["user"] if job["authenticated"] or not job["user"] else f"{job['user']}?"


def _progress(job: Json) -> str:
    """Return `running/all` tasks, or of a parent the runs that have ended."""
    children = job["array"] or job["schedule"]
    if children:
        ended = children["made"] - children["live"]
        return f"{ended}/{job['array']['size']}" if job["array"] else str(children["made"])
    return f"{job['succeeded'] if job['state'] == 'SUCCEEDED' else job['running']}/{job['task_count']}"


def dependencies(job: Json) -> str:
    return ", ".join(f"{before['job']} ({before['condition']})" for before in job["waits_for"])


def _run_time(job: Json) -> str:
    """Return how long the newest attempt runs or ran; empty: it waits, or never started."""
    began = job["placed_at"] or (job["started_at"] if job["array"] or job["schedule"] else None)
    if not began:
        return ""
    if not job["ended_at"]:
        return ago(began)
    return span((datetime.fromisoformat(job["ended_at"]) - datetime.fromisoformat(began)).total_seconds())


def _reason(job: Json, *, longest: int | None) -> str:
    """Return why it waits, or ended as it did; else what else there is to know."""
    wait = job["wait"]
    if not wait:
        return job["reason"] if job["state"] in _ENDED and job["reason"] != job["state"] else _note(job)
    since = f" for {ago(wait['since'])}" if wait["since"] else ""
    words = "" if wait["code"] in _PLAIN and not job["frozen"] else wait["message"].partition(": goschedctl ")[0]
    if longest is not None and len(words) > longest:
        words = f"{words[: longest - 3].rstrip()}..."
    return f"{wait['code']}{since}{f': {words}' if words else ''}"


def _note(job: Json) -> str:
    """Return what the REASON column says of a job that does not wait."""
    children = job["array"] or job["schedule"]
    failed = f"{children['failed']} failed" if children and children["failed"] else ""
    if job["state"] in _ENDED:
        return failed
    next_run = job["schedule"]["next_run_at"] if job["schedule"] else None
    notes = [
        "held" if job["held"] else "",
        f"waits for {dependencies(job)}" if job["waits_for"] else "",
        f"next run {next_run}" if next_run else "",
        failed,
        "deadline missed" if job["deadline_missed"] else "",
    ]
    return ", ".join(note for note in notes if note)
