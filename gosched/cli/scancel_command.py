"""`goschedctl scancel`: cancels jobs that are named, or chosen as squeue chooses them."""

from __future__ import annotations

import click

from gosched.api.job_query import JobQuery
from gosched.cli.connect import connect
from gosched.cli.output import say, say_error
from gosched.cli.slurm_lines import lines_of, own_user, read, slurm_command
from gosched.client import GoSchedError, Unavailable
from gosched.integrations.slurm.query_options import SCANCEL
from gosched.integrations.slurm.queue import LIVE, choice_of, ids

_FILTERS = ("user", "me", "state", "partition", "account", "name")


@slurm_command("[OPTIONS] [JOB[_INDEX]...]")
def command(ctx: click.Context, /, words: tuple[str, ...]) -> int:
    """Cancel jobs, as Slurm's scancel does: those that are named, an array with all of its elements, JOB_3 or
    JOB_[1-4] for some of them; or all that -u, --me, -t, -p, -A and -n choose.

    \b
    Examples:
      goschedctl scancel --me -t PENDING
    """
    given, rest = read(SCANCEL, words, "scancel")
    try:
        jobs = ids(rest)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if "" in rest or (rest and not jobs):  # no filter alone then, which would choose all jobs
        raise click.UsageError("a job's id is empty")
    if not jobs and not any(name in given for name in _FILTERS):
        raise click.UsageError("name the jobs, or choose them by -u, --me, -t, -p, -A or -n")
    choice = choice_of(given, own_user(), state="state", tenant="account")
    client = connect(ctx)
    if not jobs or any(name in given for name in _FILTERS):
        rows = [row for page in client.job_rows(JobQuery(states=LIVE)) for row in page]
        found = [line.row.id for line in lines_of(client, rows, with_nodes=False) if choice.fits(line)]
        jobs = [job for job in jobs if job in found] if jobs else found
    code = 0
    for job in jobs:
        try:
            client.request_cancel(job)
        except Unavailable:
            raise
        except GoSchedError as error:
            if "quiet" not in given:
                say_error(job, error)
            code = code or error.exit_code
    if not jobs and "quiet" not in given:
        say("no job fits: nothing is cancelled")
    return code
