"""The attempts of a job, as `job show` and `explain` print them: a line for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gosched.api.json.history import attempt_json
from gosched.cli.output import Column, Json, ago, counted, span, table

if TYPE_CHECKING:
    from gosched.client import GoSchedClient

_SHOWN = 20  # the newest; -o json has all
_NODES = 3
_COLUMNS: list[Column] = [
    ("ATTEMPT", lambda a: a["number"]),
    ("STATE", lambda a: a["state"]),
    ("NODES", lambda a: _nodes(a)),
    ("TASKS", lambda a: len(a["tasks"])),
    ("PLACED", lambda a: a["placed_at"]),
    ("TIME", lambda a: _time(a)),
    ("EXIT", lambda a: a["exit_code"]),
    ("REASON", lambda a: _reason(a)),
]


def attempts_of(client: GoSchedClient, job: str) -> list[Json]:
    """Return the documents of a job's attempts; none from masters of the release before, which keep no history."""
    from gosched.client.errors import Refused  # it takes long to import

    try:
        return [attempt_json(attempt) for attempt in client.list_attempts(job)]
    except Refused:
        return []


def attempts_text(attempts: list[Json]) -> list[str]:
    """Return the lines of a job that was started more than once."""
    if len(attempts) < 2:
        return []
    left_out = len(attempts) - _SHOWN
    more = [f"and {counted(left_out, 'earlier attempt')}: goschedctl job show -o json"] if left_out > 0 else []
    return ["\n".join([table(attempts[-_SHOWN:], _COLUMNS), *more])]


def _nodes(attempt: Json) -> str:
    names = [*dict.fromkeys(task["node_name"] for task in attempt["tasks"])]
    more = len(names) - _NODES
    return ",".join(names[:_NODES]) + (f" and {more} more" if more > 0 else "")


def _time(attempt: Json) -> str:
    if not attempt["started_at"]:
        return ""
    from datetime import datetime

    if not attempt["ended_at"]:
        return ago(attempt["started_at"])
    return span(
        (datetime.fromisoformat(attempt["ended_at"]) - datetime.fromisoformat(attempt["started_at"])).total_seconds()
    )


def _reason(attempt: Json) -> str:
    """Return why it ended: the detail names the task; its node, where the gang was on several."""
    line = ": ".join(part for part in (attempt["reason"], attempt["detail"]) if part)
    failed = [task for task in attempt["tasks"] if task["state"] in ("FAILED", "LOST")]
    several = len({task["node_name"] for task in attempt["tasks"]}) > 1
    if attempt["state"] == "FAILED" and failed and several:
        first = min(failed, key=lambda task: task["ended_at"] or "")
        return f"{line} (on {first['node_name']})"
    return line
