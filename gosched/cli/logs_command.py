"""`goschedctl logs JOB`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import BinaryIO

import click

from gosched.api.json.values import time_json
from gosched.api.log_lines import LogLine, LogLines, task_label
from gosched.cli.connect import connect, read_past_ms
from gosched.cli.job_filters import task_option
from gosched.cli.output import escaped, has_colour, say
from gosched.cli.progress import phase
from gosched.client import LogChunk, NotFound
from gosched.core.records.job import JobState

_COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "bright_cyan", "bright_yellow", "bright_green")


@click.command()
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="Follow the output until the job has ended.")
@task_option
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="The Nth attempt; default: the newest.")
@click.option("-p", "--previous", is_flag=True, help="The attempt before the newest.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="The last N lines of each task's streams.")
@click.option("--since", metavar="TIME", help="Only lines begun since: 10m for ten minutes ago, or a moment.")
@click.option("--timestamps", is_flag=True, help="In front of each line, when it was read from the task.")
@click.pass_context
def command(
    ctx: click.Context,
    job: str,
    follow: bool,
    task: str,
    attempt: int | None,
    previous: bool,
    tail: int | None,
    since: str | None,
    timestamps: bool,
) -> int:
    """Print what a job's tasks wrote: their stdout on stdout, their stderr on stderr.

    Of several tasks each line stands after the name of its task. JOB may be an array or a schedule: then the logs of
    all of its jobs are printed that are not forgotten.

    Of each log that is missing, a line on stderr says why; the exit code is 1 then.
    """
    if attempt and previous:
        raise click.UsageError("--attempt and --previous exclude each other")
    since_ms = read_past_ms(since, "--since")
    client = connect(ctx)
    detail = client.get_job(job)
    spec = detail.job.spec
    chunks = client.logs(
        detail.id,
        follow=follow,
        task=task,
        attempt=attempt or 0,
        previous=previous,
        tail=tail,
        since_ms=since_ms,
        timestamps=timestamps,
    )
    if follow and detail.job.state is JobState.PENDING and not spec.is_parent:
        say(f"{spec.name}: {phase(detail)}")  # otherwise nothing is to be seen until it starts
    several = spec.is_parent or (spec.task_count > 1 and not task)
    one_task = sum(group.count for group in spec.groups) == 1
    is_whole = print_logs(chunks, prefixed=several, timed=timestamps, one_task=one_task)
    return 0 if is_whole else NotFound.exit_code


def print_logs(chunks: Iterable[LogChunk], *, prefixed: bool, timed: bool = False, one_task: bool = False) -> bool:
    """Print the bytes as they come, or whole lines: with `prefixed` after the name of their task, with `timed` after
    their time. `one_task`: a job of an array has one, which goes without saying. Return False where logs were missing;
    which, and why, is on stderr."""
    printer = _Lines(prefixed, timed, one_task) if prefixed or timed else None
    missing: set[str] = set()
    try:
        for chunk in chunks:
            if chunk.missing and chunk.allocation_id in missing:
                continue  # said already, before the stream broke and went on
            if chunk.missing:
                missing.add(chunk.allocation_id)
            if chunk.note:
                name = task_label(chunk.job_name, chunk.task_id, one_task=one_task)
                said = chunk.missing and not chunk.job_name
                say(chunk.note if said or not name else f"{name}: {chunk.note}")
            if chunk.data and printer:
                printer.add(chunk)
            elif chunk.data:
                _write(_out(chunk.stream), chunk.data)
    except NotFound:
        if not missing:
            raise
    finally:
        if printer:
            printer.finish()
    return not missing


class _Lines:
    """A printer of whole lines."""

    def __init__(self, prefixed: bool, timed: bool, one_task: bool) -> None:
        self._prefixed = prefixed
        self._timed = timed
        self._one_task = one_task
        self._lines = LogLines[tuple[str, str]]()
        self._colours: dict[str, str] = {}  # by name, in the order in which the tasks come up
        self._places: dict[tuple[str, str], tuple[str, str]] = {}  # name and stream, by allocation and stream

    def add(self, chunk: LogChunk) -> None:
        key = (chunk.allocation_id, chunk.stream)
        name = task_label(chunk.job_name, chunk.task_id, one_task=self._one_task)
        place = self._places.setdefault(key, (name, chunk.stream))
        self._print(place, self._lines.add(key, chunk.data, chunk.offset, chunk.times))

    def finish(self) -> None:
        for key, line in self._lines.finish():
            self._print(self._places[key], [line])

    def _print(self, place: tuple[str, str], lines: list[LogLine]) -> None:
        name, stream = place
        out = _out(stream)
        prefix = (self._prefix(name, has_colour(out)) if self._prefixed else "").encode()
        if lines:
            _write(out, b"".join([prefix + self._time(line) + line.data + b"\n" for line in lines]))

    def _prefix(self, name: str, coloured: bool) -> str:
        prefix = f"{escaped(name)} | "
        colour = self._colours.setdefault(name, _COLOURS[len(self._colours) % len(_COLOURS)])
        return click.style(prefix, fg=colour) if coloured else prefix

    def _time(self, line: LogLine) -> bytes:
        return f"{time_json(line.at_ms) or '-'} ".encode() if self._timed else b""


def _out(stream: str) -> BinaryIO:
    return sys.stderr.buffer if stream == "stderr" else sys.stdout.buffer


def _write(out: BinaryIO, data: bytes) -> None:
    out.write(data)
    out.flush()
