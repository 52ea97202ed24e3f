"""The options that choose jobs by what they are, as a listing and the actions take them; and the one for a task."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import click

from gosched.api.job_query import JobQuery
from gosched.cli.connect import read_labels
from gosched.config.errors import suggestion
from gosched.core.records.job import JobState

F = TypeVar("F", bound=Callable[..., Any])

STATES = {state.name.lower(): state for state in JobState if state}
#: The options' names as parameters of a command.
FILTERS = ("queue", "tenant", "user", "state", "labels")


def filter_options(function: F, states: Collection[str] = STATES) -> F:
    """Add -q, --tenant, --user, --state and -l; `query_of` makes a query of what was given. `states`: those that the
    help names."""
    for option in reversed(
        (
            click.option("-q", "--queue", default="", help="Only jobs of this queue, and of queues below it."),
            click.option("--tenant", default="", help="Only jobs of this tenant."),
            click.option(
                "--user", default="", help="Only jobs that this user submitted, by certificate or login name."
            ),
            state_option(states),
            click.option("-l", "--labels", metavar="KEY=VALUE,...", help="Only jobs with these labels."),
        )
    ):  # the option added last comes first in the help
        function = option(function)
    return function


def state_option(states: Collection[str]) -> Callable[[F], F]:
    """Return --state, whose help names these, and whose completion offers them."""
    return click.option(
        "--state",
        multiple=True,
        metavar="STATE,...",
        callback=_states,
        shell_complete=lambda ctx, param, word: [name for name in states if name.startswith(word)],
        help=f"Only jobs in one of these states: {', '.join(states)}.",
    )


def task_option(function: F) -> F:
    """Add --task; masters know the names."""
    return click.option(
        "--task", default="", metavar="[GROUP/]INDEX", help="This task, such as worker/3; 3 in a job with one group."
    )(function)


def query_of(flags: Mapping[str, Any]) -> JobQuery:
    """Return the query that the filters say."""
    return JobQuery(
        queue=flags["queue"],
        tenant=flags["tenant"],
        user=flags["user"],
        states=flags["state"],
        labels=tuple(sorted(read_labels(flags["labels"]).items())),
    )


def _states(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[JobState, ...]:
    words = [word.strip().lower() for value in values for word in value.split(",")]
    for word in words:
        if word not in STATES:
            near = suggestion(word, STATES) or f"; it is one of {', '.join(STATES)}"
            raise click.BadParameter(f"{word!r} is no state{near}", ctx=ctx, param=parameter)
    return tuple(dict.fromkeys(STATES[word] for word in words))
