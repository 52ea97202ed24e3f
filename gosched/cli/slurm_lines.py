"""What the commands by Slurm's names share: their options, and the jobs that they list."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import click

from gosched.api.job_row import JobRow
from gosched.cli.output import emit, say
from gosched.client import GoSchedClient, NotFound
from gosched.core.records.job import JobState
from gosched.integrations.slurm.command_line import Given, read_words
from gosched.integrations.slurm.node_lines import names_of
from gosched.integrations.slurm.options import Option
from gosched.integrations.slurm.queue import Line, now_ms

F = TypeVar("F", bound=Callable[..., Any])

MOST_LOOKED_UP = 1000  # running jobs whose nodes are asked for
_AT_ONCE = 8
_SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": True, "help_option_names": ["--help"]}


def slurm_command(metavar: str) -> Callable[[F], click.Command]:
    """Return a command whose words are read as Slurm's commands read theirs."""

    def made(function: F) -> click.Command:
        words = click.argument("words", metavar=metavar, nargs=-1, type=click.UNPROCESSED)(function)
        return click.command(context_settings=_SETTINGS)(click.pass_context(words))

    return made


def read(table: Sequence[Option], words: Sequence[str], name: str) -> tuple[Given, list[str]]:
    """Return the options, wherever they stand, and the other words. Raises ConfigError."""
    given, rest, left = Given(), list[str](), list(words)
    while left:
        left = read_words(table, left, given)
        rest, left = [*rest, *left[:1]], left[1:]
    for warning in given.warnings:
        say(f"{name}: warning: {warning}")
    return given, rest


def own_user() -> str:
    return getpass.getuser()


def lines_of(client: GoSchedClient, rows: Iterable[JobRow], *, with_nodes: bool) -> list[Line]:
    """Return the lines of jobs, with the nodes of those that run."""
    now, found = now_ms(), list(rows)
    running = [row.id for row in found if row.state in (JobState.RUNNING, JobState.SUSPENDED) and not row.array_size]
    nodes: dict[str, tuple[str, ...]] = {}
    if with_nodes and running:
        if len(running) > MOST_LOOKED_UP:
            say(f"{len(running)} jobs run: the nodes of the first {MOST_LOOKED_UP} are shown")
        names = names_of(client.list_nodes())
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            looked_up = running[:MOST_LOOKED_UP]
            nodes = dict(zip(looked_up, pool.map(lambda job: _nodes(client, job, names), looked_up), strict=True))
    return [Line(row=row, nodes=nodes.get(row.id, ()), now_ms=now) for row in found]


def print_lines(lines: Sequence[str]) -> None:
    if lines:
        emit("\n".join(lines))


def _nodes(client: GoSchedClient, job: str, names: dict[str, str]) -> tuple[str, ...]:
    try:
        tasks = client.get_job(job).tasks
    except NotFound:  # it has ended meanwhile
        return ()
    return tuple(dict.fromkeys(names.get(task.node_id, task.node_id) for task in tasks if task.node_id))
