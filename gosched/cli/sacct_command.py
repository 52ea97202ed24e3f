"""`goschedctl sacct`: jobs, those that have ended too, in Slurm's columns."""

from __future__ import annotations

import click

from gosched.api.job_query import Direction, JobQuery
from gosched.cli.connect import connect
from gosched.cli.slurm_lines import lines_of, own_user, print_lines, read, slurm_command
from gosched.integrations.slurm.columns import by_names, lines
from gosched.integrations.slurm.query_options import SACCT
from gosched.integrations.slurm.queue import (
    SACCT_BRIEF,
    SACCT_COLUMNS,
    SACCT_DEFAULT,
    choice_of,
    ids,
    is_shown,
    since_ms,
)


@slurm_command("[OPTIONS]")
def command(ctx: click.Context, /, words: tuple[str, ...]) -> None:
    """List your jobs since midnight, as Slurm's sacct does; -a of all users, -S since another time, -j these jobs.

    They are there as long as masters keep jobs that have ended; goschedctl job history goes back further. Steps have no
    lines of their own.

    \b
    Examples:
      goschedctl sacct -a -X -o JobID,JobName%30,State,ExitCode,Elapsed
      goschedctl sacct -n -P -j j-1m89nj815z6yqxs9q -o State
    """
    given, rest = read(SACCT, words, "sacct")
    if rest:
        raise click.UsageError(f"{rest[0]!r} is no option")
    plain = "parsable" in given or "parsable2" in given
    text = given.get("format") or (SACCT_BRIEF if "brief" in given else SACCT_DEFAULT)
    try:
        delimiter = (given.get("delimiter") or "|") if plain else ""
        form = by_names(text, SACCT_COLUMNS, "sacct", delimiter=delimiter, ends="parsable2" not in given)
        jobs = set(ids([given.get("jobs")]))
        since = since_ms(given.get("starttime") or "midnight")
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if not jobs and not {"user", "allusers"} & given.values.keys():
        given.values["me"] = ""
    choice = choice_of(given, own_user(), state="state", tenant="accounts")
    client = connect(ctx)
    is_bounded = not jobs or "starttime" in given
    query = JobQuery(since_ms=since if is_bounded else 0, direction=Direction.ASCENDING)
    rows = [
        row
        for page in client.job_rows(query)
        for row in page
        if is_shown(row) and (not jobs or row.id in jobs or row.parent in jobs)
    ]
    found = lines_of(client, rows, with_nodes=False)
    print_lines(lines(form, filter(choice.fits, found), header="noheader" not in given, rule=True))
