"""`goschedctl squeue`: jobs that live, in Slurm's columns."""

from __future__ import annotations

import click

from gosched.api.job_query import Direction, JobQuery
from gosched.cli.connect import connect
from gosched.cli.slurm_lines import lines_of, own_user, print_lines, read, slurm_command
from gosched.integrations.slurm.columns import by_letters, letters_of, lines
from gosched.integrations.slurm.query_options import SQUEUE
from gosched.integrations.slurm.queue import (
    LIVE,
    SQUEUE_COLUMNS,
    SQUEUE_DEFAULT,
    SQUEUE_LONG,
    choice_of,
    ids,
    is_shown,
)


@slurm_command("[OPTIONS]")
def command(ctx: click.Context, /, words: tuple[str, ...]) -> None:
    """List jobs that wait and run, as Slurm's squeue does; with -t also those that have ended.

    -o '%.18i %9P %T' chooses columns by Slurm's letters, -h leaves out the titles; -u, --me, -j, -t, -p, -A, -n, -w
    choose jobs. An array has a line for each element that was made, and one (JOB_[+4]) for those that are to come.

    \b
    Examples:
      goschedctl squeue --me
      goschedctl squeue -h -t RUNNING,PD -o '%i %j %T %M %R'
    """
    given, rest = read(SQUEUE, words, "squeue")
    if rest:
        raise click.UsageError(f"{rest[0]!r} is no option")
    text = given.get("format") or (SQUEUE_LONG if "long" in given else SQUEUE_DEFAULT)
    try:
        form = by_letters(text, SQUEUE_COLUMNS, "squeue")
        jobs = set(ids([given.get("jobs")]))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    choice = choice_of(given, own_user(), state="states", tenant="account")
    client = connect(ctx)
    query = JobQuery(states=() if "states" in given else LIVE, direction=Direction.ASCENDING)
    rows = [
        row
        for page in client.job_rows(query)
        for row in page
        if is_shown(row) and (not jobs or row.id in jobs or row.parent in jobs)
    ]
    if jobs and not rows:
        client.get_job(min(jobs))  # it has ended, or this says that there is none
    found = lines_of(client, rows, with_nodes=bool(choice.nodes or letters_of(text) & {"N", "R", "D"}))
    print_lines(lines(form, filter(choice.fits, found), header="noheader" not in given))
