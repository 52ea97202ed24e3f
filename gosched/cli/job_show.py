"""`goschedctl job show`: a job, its tasks and their usage; or its spec, as a job file."""

from __future__ import annotations

from datetime import datetime

import click

from gosched.api.json.jobs import job_detail_json
from gosched.cli.attempts_text import attempts_of, attempts_text
from gosched.cli.connect import connect, output_option, watch_option
from gosched.cli.job_list import dependencies, owner
from gosched.cli.output import (
    Column,
    Json,
    ago,
    bytes_text,
    coloured,
    counted,
    duration,
    emit,
    expected_end_text,
    filled,
    seconds_text,
    show,
    span,
    spent_text,
    table,
    titled,
)
from gosched.client import GoSchedError
from gosched.core.reasons import WaitReason
from gosched.core.spec.job_spec import JobSpec

_TASKS: list[Column] = [
    ("TASK", lambda t: f"{t['group']}/{t['index']}"),
    ("STATE", lambda t: t["state"]),
    ("NODE", lambda t: t["node"] if t["state"] != "PENDING" else ""),  # a pending task is on no node
    ("EXIT", lambda t: t["exit_code"]),
    ("TIME", lambda t: _time(t)),
]
_TASKS_USE: list[Column] = [  # shown where there is something to show
    ("GPUS", lambda t: ",".join(map(str, t["gpus"]))),
    ("CPU", lambda t: round(t["usage"]["cpu"], 2)),
    ("CPU-TIME", lambda t: _seconds(t["usage"]["cpu_s"])),
    ("THROTTLED", lambda t: _seconds(t["usage"]["throttled_s"])),
    ("MEMORY", lambda t: _bytes(t["usage"]["memory_bytes"])),
    ("PEAK", lambda t: _bytes(t["usage"]["memory_peak_bytes"])),
    ("READ", lambda t: _bytes(t["usage"]["read_bytes"])),
    ("WRITTEN", lambda t: _bytes(t["usage"]["written_bytes"])),
]
_TASKS_WIDE: list[Column] = [
    ("CPU-WAIT", lambda t: _seconds(t["usage"]["cpu_stalled_s"])),
    ("MEM-WAIT", lambda t: _seconds(t["usage"]["memory_stalled_s"])),
    ("IO-WAIT", lambda t: _seconds(t["usage"]["io_stalled_s"])),
    ("STARTED", lambda t: t["started_at"]),
    ("ENDED", lambda t: t["ended_at"]),
]
_REASON: list[Column] = [
    ("REASON", lambda t: f"{t['reason']}: {t['detail']}" if t["detail"] else t["reason"]),
]

_STAGES: list[Column] = [
    ("STAGE", lambda s: f"{s['id']}.{s['attempt']}" if s["attempt"] else s["id"]),
    ("TASKS", lambda s: f"{s['done']}/{s['tasks']}"),
    ("DONE", lambda s: f"{s['done'] * 100 // s['tasks']}%" if s["tasks"] else ""),
    ("RUNNING", lambda s: s["running"]),
    ("FAILED", lambda s: s["failed"]),
    ("NAME", lambda s: s["name"]),
]


@click.command("show")
@click.argument("job")
@watch_option
@output_option
@click.pass_context
def command(ctx: click.Context, job: str, output: str, watch: bool) -> None:
    """Show a job, its tasks and their usage: current usage while it runs, the total once it has ended.

    A job that was started more than once has a line for each attempt; -o json has the tasks of all of them.

    An application of Spark that runs has its stages, and the addresses of its UI and on the history server.

    -o wide adds start and end times, and the WAIT columns: how long a task's processes waited for CPU, memory and disk.

    -o yaml is the job file that submits the job again: goschedctl job show JOB -o yaml | goschedctl submit -
    """
    client = connect(ctx)
    if output == "yaml":
        if watch:
            raise click.UsageError("-o yaml is the job file, which does not change: leave out -w, or take -o json")
        emit(_job_file(client.get_job(job).job.spec))
        return

    def fetch() -> Json:
        detail = client.get_job(job)
        live = client.list_usage(job=detail.id).tasks if detail.job.active else ()
        shape = job_detail_json(detail, live)
        return shape if output == "name" else shape | {"attempts": attempts_of(client, detail.id)}

    def text(shape: Json) -> str:
        return "\n\n".join([_text(shape, wide=output == "wide"), *attempts_text(shape["attempts"])])

    show(fetch, text, output=output, watch=watch)


def _job_file(spec: JobSpec) -> str:
    """Return the job as a job file. Raises GoSchedError."""
    from gosched.config.jobs.writer import Unwritable, job_text  # pydantic is slow to import

    try:
        return job_text(spec).rstrip()
    except Unwritable as error:
        raise GoSchedError(
            f"job {spec.name} cannot be written as a job file: {error}; -o json shows all of it"
        ) from error


def _time(task: Json) -> str:
    """Return how long the task has run."""
    if not task["started_at"]:
        return ""
    return ago(task["started_at"]) if not task["ended_at"] else span(_between_s(task["started_at"], task["ended_at"]))


def _between_s(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def _seconds(seconds: float) -> str:
    return seconds_text(seconds) if seconds else ""


def _bytes(amount: int) -> str:
    return bytes_text(amount) if amount else ""


def _text(job: Json, *, wide: bool) -> str:
    is_counted = job["reason"] in (WaitReason.ARRAY, WaitReason.SCHEDULE)  # the lines below say the same
    code = "" if job["reason"] == job["state"] else job["reason"]
    reason = "" if is_counted else ": ".join(part for part in (code, job["detail"]) if part)
    lines = [
        ("Job", job["id"]),
        ("Name", job["name"]),
        ("Queue", f"{job['queue']} (tenant {job['tenant']}, priority {job['priority']})"),
        ("State", f"{coloured(job['state'])}{f' ({reason})' if reason else ''}"),
        ("Attempt", _attempt(job)),
        ("Submitted", f"{job['submitted_at']}{f' by {owner(job)}' if job['user'] else ''}"),
        ("Started", job["started_at"] or "-"),
        ("Ended", job["ended_at"] or "-"),
        ("Expected end", expected_end_text(job)),
        ("Exit code", "" if job["exit_code"] is None else str(job["exit_code"])),
        ("Wanted", f"{job['wanted']} of its {counted(job['task_count'], 'task')}" if job["wanted"] else ""),
        *_about_time(job),
        *_about_children(job),
        *_about_spark(job["spark"]),
    ]
    tasks = job["tasks"]
    columns = [*_TASKS, *filled(tasks, _TASKS_USE), *(_TASKS_WIDE if wide else []), *filled(tasks, _REASON)]
    return "\n\n".join([titled(lines), *([table(tasks, columns)] if tasks else []), *_stages(job["spark"])])


def _attempt(job: Json) -> str:
    """Return the newest attempt that started; empty: none has."""
    number = job["attempt"]
    waits = number and job["state"] == "PENDING"
    return f"{number}, and waits for the next one" if waits else str(number or "")


def _about_time(job: Json) -> list[tuple[str, str]]:
    limits = [f"{key} {duration(job[f'{key}_s'])}" for key in ("estimate", "timeout") if job[f"{key}_s"]]
    missed = " (missed)" if job["deadline_missed"] else ""
    return [
        ("Part of", f"{job['parent']}, number {job['element']}" if job["parent"] else ""),
        ("Held", "until it is released: goschedctl job release" if job["held"] else ""),
        ("Waits for", dependencies(job)),
        ("Begins", f"not before {job['begin']}" if job["begin"] else ""),
        ("Deadline", f"{job['deadline']}{missed}" if job["deadline"] else ""),
        ("Limits", ", ".join(limits)),
        ("Evicted", counted(job["preemptions"], "time") if job["preemptions"] else ""),
        ("Checkpoint", job["checkpoint_at"] or ""),
        ("Spent", spent_text(job["spent"])),
        ("Backfilled", f"may be evicted from {job['evictable_from']}" if job["evictable_from"] else ""),
    ]


def _about_children(job: Json) -> list[tuple[str, str]]:
    array, schedule = job["array"], job["schedule"]
    children = array or schedule
    if not children:
        return []
    counts = [f"{children[what]} {what}" for what in ("live", "succeeded", "failed", "cancelled") if children[what]]
    ended = children["made"] - children["live"]
    of = f"{ended} of {array['size']} done" if array else f"{children['made']} so far"
    return [
        (
            "Schedule",
            f"{schedule['cron']} ({schedule['timezone']}, overlap: {schedule['overlap']})" if schedule else "",
        ),
        ("Next run", (schedule["next_run_at"] or "-") if schedule else ""),
        ("Elements" if array else "Runs", ", ".join([of, *counts])),
        ("Failed", _listed(array["failed_elements"], array["failed"]) if array else ""),
    ]


def _about_spark(spark: Json | None) -> list[tuple[str, str]]:
    if spark is None:
        return []
    return [
        ("Spark", f"{spark['application']}{'' if spark['stages'] else ', between stages'}"),
        ("Spark UI", spark["ui"]),
        ("History", spark["history"]),
    ]


def _stages(spark: Json | None) -> list[str]:
    """Return the table of the stages of Spark that run; none where there are none."""
    if spark is None or not spark["stages"]:
        return []
    more = f"\nand {counted(spark['more_stages'], 'more stage')}" if spark["more_stages"] else ""
    return [f"{table(spark['stages'], _STAGES)}{more}"]


def _listed(names: list[str], count: int) -> str:
    """Return the elements that failed last; the others, which may be forgotten already, are only counted."""
    more = count - len(names)
    return ", ".join(names) + (f" and {more} more" if names and more > 0 else "")
