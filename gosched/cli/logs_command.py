"""`goschedctl logs JOB`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import BinaryIO

import click

from gosched.cli.connect import connect
from gosched.cli.output import escaped, has_colour, say
from gosched.client import LogChunk

_COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "bright_cyan", "bright_yellow", "bright_green")
_LONGEST_LINE = 64 * 1024


@click.command()
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="Follow the output until the job has ended.")
@click.option("--task", default="", metavar="GROUP/INDEX", help="Only this task, such as worker/3.")
@click.pass_context
def command(ctx: click.Context, job: str, follow: bool, task: str) -> None:
    """Print what a job's tasks wrote: their stdout on stdout, their stderr on stderr."""
    client = connect(ctx)
    detail = client.get_job(job)
    several = detail.job.spec.task_count > 1 and not task
    print_logs(client.logs(detail.id, follow=follow, task=task), prefixed=several)


def print_logs(chunks: Iterable[LogChunk], *, prefixed: bool) -> None:
    """Print the bytes as they come, or with `prefixed` whole lines after the name of their task."""
    printer = _Prefixed() if prefixed else None
    for chunk in chunks:
        if chunk.note:
            say(f"{_short(chunk.task_id)}: {chunk.note}" if chunk.task_id else chunk.note)
        if chunk.data and printer:
            printer.add(chunk)
        elif chunk.data:
            _write(_out(chunk.stream), chunk.data)
    if printer:
        printer.finish()


class _Prefixed:
    """A printer of whole lines; it buffers the unfinished line of each stream, up to a bound."""

    def __init__(self) -> None:
        self._rest: dict[tuple[str, str], bytes] = {}

    def add(self, chunk: LogChunk) -> None:
        place = (chunk.task_id, chunk.stream)
        *lines, rest = (self._rest.pop(place, b"") + chunk.data).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            lines, rest = [*lines, rest], b""
        if rest:
            self._rest[place] = rest
        self._print(place, lines)

    def finish(self) -> None:
        for place, rest in self._rest.items():
            self._print(place, [rest])

    def _print(self, place: tuple[str, str], lines: list[bytes]) -> None:
        task, stream = place
        out = _out(stream)
        name = escaped(_short(task))
        prefix = f"{name} | "
        if has_colour(out):
            index = name.rpartition("/")[2]
            prefix = click.style(prefix, fg=_COLOURS[int(index) % len(_COLOURS) if index.isdigit() else 0])
        if lines:
            _write(out, b"".join(prefix.encode() + line + b"\n" for line in lines))


def _short(task_id: str) -> str:
    """Return `worker/3` of `JOB/worker/3`."""
    return task_id.partition("/")[2]


def _out(stream: str) -> BinaryIO:
    return sys.stderr.buffer if stream == "stderr" else sys.stdout.buffer


def _write(out: BinaryIO, data: bytes) -> None:
    out.write(data)
    out.flush()
