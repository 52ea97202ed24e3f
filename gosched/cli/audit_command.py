"""`goschedctl audit`: verify, list. Works on the files of an audit log alone, without a cluster."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gosched.cli.connect import read_past_ms
from gosched.cli.output import Column, Json, as_data, counted, emit, say, table

if TYPE_CHECKING:
    from gosched.audit.chain import Head

_PATHS = click.argument(
    "paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(exists=True, readable=True, path_type=Path)
)
_COLUMNS: list[Column] = [
    ("TIME", lambda r: r.get("time")),
    ("USER", lambda r: r.get("user")),
    ("ADDRESS", lambda r: r.get("address")),
    ("ACTION", lambda r: r.get("action")),
    ("OUTCOME", lambda r: r.get("outcome")),
    ("COUNT", lambda r: r.get("count", 1)),
    ("ABOUT", lambda r: r.get("object")),
    ("REASON", lambda r: r.get("reason")),
]


@click.group()
def command() -> None:
    """Check and read audit logs: files of the masters, or what a syslog daemon wrote of them."""


def _head(ctx: click.Context, param: click.Parameter, value: str | None) -> Head | None:
    from gosched.audit.chain import head_of

    try:
        return head_of(value) if value else None
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@command.command("verify")
@_PATHS
@click.option("--expect", callback=_head, metavar="SEQ:HASH", help="A head that was noted before: it must be there.")
@click.option("--restarts", is_flag=True, help="The chain may begin anew at a start of the master, as in syslog.")
def verify(paths: tuple[Path, ...], expect: Head | None, restarts: bool) -> int:
    """Check the chain of hashes of one master's audit log, and print its head as SEQ:HASH.

    PATH is a folder with the files of the log, or a file. The exit code is 1 if a line was changed, removed, added or
    moved; the first such line is named. Lines cut off at the end show only against a head that was noted elsewhere.
    """
    from gosched.audit.verify import verify as verdict_of

    if len(paths) > 1 and any(path.is_dir() for path in paths):
        raise click.UsageError("each master has a chain of its own: give one folder, or files of one")

    try:
        verdict = verdict_of(paths, expect, restarts=restarts)
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from error
    for note in verdict.notes:
        say(note)
    if verdict.problem:
        say(f"goschedctl: {verdict.problem}")
        return 1
    if not verdict.lines:
        say("goschedctl: there are no lines")
        return 1
    say(f"{counted(verdict.lines, 'line')} from {verdict.first} to {verdict.head.seq}: whole")
    emit(str(verdict.head))
    return 0


@command.command("list")
@_PATHS
@click.option("--user", default="", help="Only what this user did.")
@click.option("--refused", is_flag=True, help="Only what was refused.")
@click.option("--since", metavar="TIME", help="Only since then: 2h for two hours ago, or a moment.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=1000, show_default=True, help="The newest so many.")
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True)
def list_records(paths: tuple[Path, ...], user: str, refused: bool, since: str | None, limit: int, output: str) -> None:
    """Show the records of audit logs, the oldest first. The chain is not checked."""
    from gosched.audit.reading import Reading

    newest = deque[Json](maxlen=limit)
    matched = 0
    reading = Reading(user=user, refused=refused, since_ms=read_past_ms(since, "--since"))
    try:
        for record in reading.records(paths):
            newest.append(record)
            matched += 1
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from error
    found = list(newest)
    if matched > limit:
        say(f"{counted(matched - limit, 'older record')} left out: see --limit")
    if reading.unread:
        say(f"{counted(reading.unread, 'line')} cannot be read: goschedctl audit verify names the first")
    if output == "json":
        emit(as_data(found, "json"))
    elif found:
        emit(table(found, _COLUMNS, fits=True, spare=("COUNT", "REASON", "ADDRESS")))
    else:
        say("no records")
