"""`goschedctl job`: list, show, cancel, wait, hold, release, suspend, resume, requeue."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import click

from gosched.api.json.jobs import job_detail_json, job_json
from gosched.cli.connect import connect, listing_options, output_option, read_duration_s, read_labels
from gosched.cli.output import (
    Column,
    Json,
    ago,
    as_data,
    bytes_text,
    coloured,
    counted,
    duration,
    emit,
    filled,
    print_listing,
    say,
    seconds_text,
    span,
    spent_text,
    table,
    titled,
)
from gosched.cli.submit_command import wait_shown
from gosched.client import GoSchedError
from gosched.core.commands.jobs import Action
from gosched.core.reasons import WaitReason
from gosched.core.records.job import JobState

_STATES = tuple(state.name.lower() for state in JobState if state)
_ENDED = tuple(state.name for state in JobState if state.is_final)
_COLUMNS: list[Column] = [
    ("JOB", lambda j: j["id"]),
    ("NAME", lambda j: j["name"]),
    ("QUEUE", lambda j: j["queue"]),
    ("STATE", lambda j: j["state"]),
    ("TASKS", lambda j: _progress(j)),
    ("AGE", lambda j: ago(j["submitted_at"])),
    ("REASON", lambda j: j["reason"] or _note(j)),
]
_WIDE: list[Column] = [
    ("TENANT", lambda j: j["tenant"]),
    ("PRIORITY", lambda j: j["priority"]),
    ("ATTEMPT", lambda j: j["attempt"]),
    ("EVICTED", lambda j: j["preemptions"]),
    ("DEADLINE", lambda j: j["deadline"]),
    ("PARENT", lambda j: j["parent"]),
    ("LABELS", lambda j: ",".join(f"{k}={v}" for k, v in j["labels"].items())),
    ("DETAIL", lambda j: j["detail"]),
]
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


@click.group()
def command() -> None:
    """List and control jobs. JOB is an id, or a name: the newest job of that name."""


@command.command("list")
@click.option("-q", "--queue", default="", help="Only jobs of this queue.")
@click.option("--state", type=click.Choice(_STATES), multiple=True, help="Only jobs in this state; may be repeated.")
@click.option("--limit", type=click.IntRange(min=1), help="At most this many jobs.")
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
    """List jobs, newest first."""
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
    """Show a job, its tasks and their usage: current usage while it runs, the total once it has ended.

    -o wide adds start and end times, and the WAIT columns: how long a task's processes waited for CPU, memory and disk.
    """
    client = connect(ctx)
    detail = client.get_job(job)
    live = client.list_usage(job=detail.id).tasks if detail.job.active else ()
    shape = job_detail_json(detail, live)
    if output in ("json", "yaml"):
        emit(as_data(shape, output))
    elif output == "name":
        emit(shape["id"])
    else:
        emit(_text(shape, wide=output == "wide"))


@command.command("cancel")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option("--reason", default="", help="Stored with the job.")
@click.pass_context
def cancel(ctx: click.Context, jobs: tuple[str, ...], reason: str) -> int:
    """Cancel jobs: their tasks get SIGTERM, and are killed when their grace period is over."""
    client = connect(ctx)
    return _each(jobs, lambda job: f"{client.cancel(job, reason=reason)}: cancelled")


@command.command("wait")
@click.argument("job")
@click.option("--timeout", metavar="DURATION", help="Give up after this time, with exit code 124.")
@click.pass_context
def wait(ctx: click.Context, job: str, timeout: str | None) -> int:
    """Wait until a job ends and return its exit code (128+n for a signal)."""
    return wait_shown(connect(ctx), job, read_duration_s(timeout, "--timeout")).exit_code


@command.command("suspend")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option(
    "--free",
    is_flag=True,
    help="Stop the tasks and free their resources; a resume starts them anew.",
)
@click.pass_context
def suspend(ctx: click.Context, jobs: tuple[str, ...], free: bool) -> int:
    """Freeze the tasks of jobs where they run, until the jobs are resumed.

    Frozen tasks keep their memory, GPUs and nodes. With --free the tasks are stopped instead and their resources are
    free for other jobs; a resumed job then waits at its old position in the queue.
    """
    if free:
        return _control(ctx, jobs, Action.SUSPEND, "suspended, its resources are free")
    return _control(ctx, jobs, Action.FREEZE, "suspended")


def _control(ctx: click.Context, jobs: tuple[str, ...], action: Action, done: str) -> int:
    client = connect(ctx)

    def act(job: str) -> str:
        answer = client.control(job, action)
        return f"{answer.job_id}: {'unchanged' if answer.unchanged else done}"

    return _each(jobs, act)


def _add_control(action: Action, done: str, help: str) -> None:
    """Add the command of an action."""

    @command.command(action.name.lower(), help=help)
    @click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
    @click.pass_context
    def control(ctx: click.Context, jobs: tuple[str, ...]) -> int:
        return _control(ctx, jobs, action, done)


_add_control(Action.HOLD, "held", "Keep waiting jobs from starting until they are released.")
_add_control(Action.RELEASE, "released", "Let held jobs start.")
_add_control(
    Action.RESUME,
    "resumed",
    "Let suspended jobs run on; after suspend --free they wait at their old position in the queue.",
)
_add_control(Action.REQUEUE, "requeued", "Stop the tasks of jobs and put the jobs back into their queues.")


def _each(jobs: tuple[str, ...], act: Callable[[str], str]) -> int:
    """Print what became of each job; return the exit code of the first that failed."""
    code = 0
    for job in jobs:
        try:
            say(act(job))
        except GoSchedError as error:
            say(f"goschedctl: {job}: {error}")
            code = code or error.exit_code
    return code


def _progress(job: Json) -> str:
    """Return `running/all` tasks, or of a parent the runs that have ended."""
    children = job["array"] or job["schedule"]
    if children:
        ended = children["made"] - children["live"]
        return f"{ended}/{job['array']['size']}" if job["array"] else str(children["made"])
    return f"{job['succeeded'] if job['state'] == 'SUCCEEDED' else job['running']}/{job['task_count']}"


def _note(job: Json) -> str:
    """Return what the REASON column says of a job without a reason."""
    children = job["array"] or job["schedule"]
    if children and job["state"] in _ENDED:
        return f"{children['failed']} failed" if children["failed"] else ""
    notes = [
        "keeps its resources" if job["frozen"] else "",
        "held" if job["held"] else "",
        f"waits for {_dependencies(job)}" if job["waits_for"] else "",
        f"next run {job['schedule']['next_run_at']}" if job["schedule"] and job["schedule"]["next_run_at"] else "",
        f"{children['failed']} failed" if children and children["failed"] else "",
        "deadline missed" if job["deadline_missed"] else "",
    ]
    return ", ".join(note for note in notes if note)


def _dependencies(job: Json) -> str:
    return ", ".join(f"{before['job']} ({before['condition']})" for before in job["waits_for"])


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
        ("Attempt", str(job["attempt"])),
        ("Submitted", job["submitted_at"]),
        ("Started", job["started_at"] or "-"),
        ("Ended", job["ended_at"] or "-"),
        ("Exit code", "" if job["exit_code"] is None else str(job["exit_code"])),
        *_about_time(job),
        *_about_children(job),
    ]
    tasks = job["tasks"]
    columns = [*_TASKS, *filled(tasks, _TASKS_USE), *(_TASKS_WIDE if wide else []), *filled(tasks, _REASON)]
    return "\n\n".join([titled(lines), *([table(tasks, columns)] if tasks else [])])


def _about_time(job: Json) -> list[tuple[str, str]]:
    limits = [f"{key} {duration(job[f'{key}_s'])}" for key in ("estimate", "timeout") if job[f"{key}_s"]]
    missed = " (missed)" if job["deadline_missed"] else ""
    return [
        ("Part of", f"{job['parent']}, number {job['element']}" if job["parent"] else ""),
        ("Held", "until it is released: goschedctl job release" if job["held"] else ""),
        ("Waits for", _dependencies(job)),
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


def _listed(names: list[str], count: int) -> str:
    """Return the elements that failed last; the others, which may be forgotten already, are only counted."""
    more = count - len(names)
    return ", ".join(names) + (f" and {more} more" if names and more > 0 else "")
