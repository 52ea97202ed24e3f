"""`goschedctl job wait`: until jobs have ended."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from gosched.cli.connect import connect, read_duration_s
from gosched.cli.job_selection import choose, selection_options
from gosched.cli.output import say
from gosched.cli.progress import ending, follow
from gosched.client import GoSchedClient, GoSchedError, JobDetail, TimedOut

MAX_ANY = 100  # jobs of which --any follows each
_LOOK_S = 0.2  # between two looks of the main thread, which alone is interrupted


@click.command("wait")
@selection_options
@click.option("--any", "first", is_flag=True, help="Wait for the first of the jobs to end, not for all.")
@click.option("--timeout", metavar="DURATION", help="Give up after this time, with exit code 124.")
@click.pass_context
def command(ctx: click.Context, /, jobs: tuple[str, ...], first: bool, timeout: str | None, **flags: Any) -> int:
    """Wait until jobs end, and return the exit code of the first that failed (128+n for a signal).

    With --any: until one of them ends, whose exit code it returns. Selectors choose among the jobs that live now.
    """
    timeout_s = read_duration_s(timeout, "--timeout")
    ends = None if timeout_s is None else time.monotonic() + timeout_s
    client = connect(ctx)
    chosen = choose(client, jobs, flags, lambda row: not row.cron, "waited for")  # a schedule has no end
    if first and len(chosen) > MAX_ANY:
        raise click.UsageError(f"--any follows {MAX_ANY} jobs at most; there are {len(chosen)}")
    # By id from now on: a newer job of a name is another one.
    details = [_as_it_is(client, one.job, ends) for one in chosen]
    if not details:
        say("no job fits: there is nothing to wait for")
        return 0
    with going_on([(detail.job.spec.name, detail.id) for detail in details]):
        ended = [_first(client, details, ends)] if first else [_end_of(client, one, ends) for one in details]
    failed = [detail for detail in ended if detail.exit_code]
    return min(failed, key=lambda detail: detail.job.ended_at_ms).exit_code if failed else 0


@contextmanager
def going_on(jobs: Sequence[tuple[str, str]]) -> Iterator[None]:
    """Say of jobs, by name and id, that they go on when the wait for them is interrupted or takes too long."""
    try:
        yield
    except (KeyboardInterrupt, TimedOut) as error:
        why = "interrupted" if isinstance(error, KeyboardInterrupt) else "not ended in time"
        names = ", ".join(f"{name} ({job_id})" for name, job_id in jobs[:3]) + (", ..." if len(jobs) > 3 else "")
        goes, one = ("goes", jobs[0][1]) if len(jobs) == 1 else ("go", "JOB")
        say(f"{why}: {names} {goes} on; goschedctl job wait {one} waits again, goschedctl job cancel {one} ends it")
        raise


def _as_it_is(client: GoSchedClient, job: str, ends: float | None) -> JobDetail:
    """Return a job as it is now. Unlike `get_job` it ends in time where no master answers."""
    return next(client.watch(job, timeout_s=_left(ends)))


def _end_of(client: GoSchedClient, job: JobDetail, ends: float | None) -> JobDetail:
    """Show the progress of a job until it has ended."""
    last = job
    if not job.state.is_final:
        for detail in follow(client.watch(job.id, timeout_s=_left(ends))):
            last = detail
    say(f"{last.job.spec.name}: {ending(last)}")
    return last


def _first(client: GoSchedClient, jobs: Sequence[JobDetail], ends: float | None) -> JobDetail:
    """Return the first of the jobs to end. Raises GoSchedError."""
    found: queue.SimpleQueue[JobDetail | GoSchedError] = queue.SimpleQueue()

    def watch(job: JobDetail) -> None:
        try:
            found.put(client.wait(job.id, _left(ends)))
        except GoSchedError as error:
            found.put(error)

    for job in jobs:
        threading.Thread(target=watch, args=(job,), daemon=True).start()
    while found.empty():
        time.sleep(_LOOK_S)
    first = found.get()
    if isinstance(first, GoSchedError):
        raise first
    say(f"{first.job.spec.name}: {ending(first)}")
    return first


def _left(ends: float | None) -> float | None:
    return None if ends is None else max(0.0, ends - time.monotonic())
