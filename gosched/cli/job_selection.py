"""Which jobs an action is for: those that are named, or those that selectors choose.

Invariant: an action on many jobs that were not named is confirmed by its user, or by -y.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click

from gosched.api.job_row import JobRow
from gosched.cli.job_filters import FILTERS, filter_options, query_of
from gosched.cli.output import counted, escaped
from gosched.client import GoSchedClient
from gosched.core.records.job import JobState

F = TypeVar("F", bound=Callable[..., Any])

MANY = 10  # jobs; more are confirmed
LIVE = (JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED)
_LIVE_NAMES = tuple(state.name.lower() for state in LIVE)
_NAMES_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A job that an action is for."""

    #: Id, or the name as it was given.
    job: str
    #: Empty: it was named, and `job` says it.
    name: str = ""


def selection_options(function: F) -> F:
    """Add JOB... and the selectors."""
    return click.argument("jobs", nargs=-1, metavar="[JOB...]")(filter_options(function, _LIVE_NAMES))


def yes_option(function: F) -> F:
    help = f"Do not ask before it is done to more than {MANY} jobs that selectors chose."
    return click.option("-y", "--yes", is_flag=True, help=help)(function)


def choose(
    client: GoSchedClient, jobs: Sequence[str], flags: Mapping[str, Any], fits: Callable[[JobRow], bool], done: str
) -> list[Chosen]:
    """Return the jobs that are named, or that selectors choose. `fits`: what the action makes sense for, where --state
    does not say it. `done` is what becomes of them, for messages. Raises UsageError."""
    given = [name for name in FILTERS if flags[name]]
    if jobs and given:
        raise click.UsageError("give jobs, or selectors such as -l, -q, --user and --state, not both")
    if jobs:
        return [Chosen(job=job) for job in dict.fromkeys(jobs)]
    if not given:
        raise click.UsageError("name the jobs, or choose them by -l, -q, --user, --tenant or --state")
    return [Chosen(job=row.id, name=row.name) for row in _selected(client, flags, fits, done)]


def _selected(
    client: GoSchedClient, flags: Mapping[str, Any], fits: Callable[[JobRow], bool], done: str
) -> list[JobRow]:
    """Return the live jobs that the selectors choose. An array stands for its elements; --state looks at the elements
    themselves."""
    query = query_of(flags)
    if ended := [state.name.lower() for state in query.states if state.is_final]:
        raise click.UsageError(f"--state {ended[0]}: jobs that have ended cannot be {done}")
    found = [row for rows in client.job_rows(replace(query, states=query.states or LIVE)) for row in rows]
    if query.states:
        return [row for row in found if row.children is None]
    fitting = [row for row in found if fits(row)]
    parents = {row.id for row in fitting if row.children is not None}
    return [row for row in fitting if row.parent not in parents]


def confirmed(chosen: Sequence[Chosen], verb: str, *, yes: bool) -> bool:
    """Return whether it may be done to jobs that were not named; the user is asked where they are many. Raises
    UsageError without a terminal."""
    if yes or len(chosen) <= MANY or not chosen[0].name:
        return True
    names = ", ".join([one.name for one in chosen[:_NAMES_SHOWN]])
    what = f"{counted(len(chosen), 'job')} ({names} and {len(chosen) - _NAMES_SHOWN} more)"
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"this would {verb} {what}: look at them with goschedctl job list, then repeat it with -y"
        )
    return click.confirm(escaped(f"{verb} {what}?"), err=True)
