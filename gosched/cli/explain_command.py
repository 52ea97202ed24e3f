"""`goschedctl explain JOB`: why a pending job waits, where a running one runs, how an ended one ended."""

from __future__ import annotations

import click

from gosched.api.json.explanations import explanation_json
from gosched.cli.attempts_text import attempts_of, attempts_text
from gosched.cli.connect import connect, output_option, watch_option
from gosched.cli.output import Json, ago, amounts_text, coloured, counted, expected_end_text, show, span, titled, until
from gosched.core.reasons import WaitReason

_SHOWN = 8  # entries of a list in one line; -o json has all


@click.command()
@click.argument("job")
@watch_option
@output_option
@click.pass_context
def command(ctx: click.Context, job: str, output: str, watch: bool) -> None:
    """Show why a job waits and when it starts: its position, its limits, the jobs in front of it, what would help."""
    client = connect(ctx)

    def fetch() -> Json:
        shape = explanation_json(client.explain(job))
        return shape if output == "name" else shape | {"attempts": attempts_of(client, shape["id"])}

    def text(shape: Json) -> str:
        return "\n\n".join([_text(shape), *attempts_text(shape["attempts"])])

    show(fetch, text, output=output, watch=watch)


def _text(job: Json) -> str:
    lines = [
        ("Job", f"{job['id']} ({job['name']})"),
        ("State", coloured(job["state"])),
        ("Queue", f"{job['queue']} (tenant {job['tenant']})"),
        *_waiting(job),
        *_future(job),
        *_details(job),
        *_running(job),
        *_ended(job),
    ]
    return titled(lines)


def nodes_text(nodes: list[Json]) -> str:
    places = [f"{n['node']} ({counted(n['tasks'], 'task')})" for n in nodes]
    more = f", and {counted(len(places) - _SHOWN, 'more node')}" if len(places) > _SHOWN else ""
    return ", ".join(places[:_SHOWN]) + more


def victims_text(victims: list[Json]) -> str:
    """Return `night (preempt, loses 3h of work), web (2 of its tasks, reclaim, loses 60s of work)`."""
    parts = [_victim_text(victim) for victim in victims]
    more = f", and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return ", ".join(parts[:_SHOWN]) + more


def _victim_text(victim: Json) -> str:
    some = "" if victim["whole"] else f"{victim['tasks']} of its tasks, "
    return f"{victim['name']} ({some}{victim['cause']}, loses {span(victim['lost_s'])} of work)"


def _waiting(job: Json) -> list[tuple[str, str]]:
    title = "Progress" if job["code"] in (WaitReason.ARRAY, WaitReason.SCHEDULE) else "Waits"
    return [
        ("Position", f"{job['position']} in its queue" if job["position"] else ""),
        (title, ": ".join(part for part in (job["code"], job["message"]) if part)),
        ("Limit", job["limit"] if job["limit"] != job["message"] else ""),
    ]


def _future(job: Json) -> list[tuple[str, str]]:
    """Return a line for each holder, in the order in which they end, then the start and what would help."""
    start = f"{job['estimated_start']} (in {until(job['estimated_start'])})" if job["estimated_start"] else ""
    holders = [(("Held by" if n == 0 else ""), _holder_text(h)) for n, h in enumerate(job["holders"][:_SHOWN])]
    more = len(job["holders"]) - _SHOWN
    return [
        *holders,
        ("", f"and {more} more" if more > 0 else ""),
        ("Starts", ": ".join(part for part in (start, job["estimated_from"]) if part)),
        ("Would help", job["change"]),
        ("Observed", f"would evict {victims_text(job['would_evict'])}" if job["would_evict"] else ""),
    ]


def _details(job: Json) -> list[tuple[str, str]]:
    use = job["queue_use"]
    if not job["position"] or use is None:  # not queued: held, or a parent, or ended
        return []
    return [
        ("Refused", ", ".join(f"{r['nodes']} {r['filter']}" for r in job["refused"])),
        ("Nearest", job["nearest"] if job["nearest"] != job["message"] else ""),
        ("Queue uses", amounts_text(use["used"])),
        ("Fair share", amounts_text(use["fair_share"])),
        ("Ceiling", amounts_text(use["ceiling"])),
    ]


def _holder_text(holder: Json) -> str:
    until_text = f"until {holder['until']}" if holder["until"] else "end unknown: it has no timeout"
    return f"{holder['id']} ({holder['name']}, queue {holder['queue']}): {amounts_text(holder['held'])}, {until_text}"


def _running(job: Json) -> list[tuple[str, str]]:
    if not job["nodes"]:
        return []
    since = f"{job['placed_at']} ({ago(job['placed_at'])} ago)" if job["placed_at"] else ""
    return [("Since", since), ("Expected end", expected_end_text(job)), ("Runs on", nodes_text(job["nodes"]))]


def _ended(job: Json) -> list[tuple[str, str]]:
    if not job["ended_at"]:
        return []
    reason = ": ".join(part for part in (job["reason"], job["detail"]) if part)
    code = "" if job["exit_code"] is None else str(job["exit_code"])
    return [("Ended", job["ended_at"]), ("Reason", reason), ("Exit code", code)]
