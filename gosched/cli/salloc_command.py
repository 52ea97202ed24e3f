"""`goschedctl salloc`: an allocation for as long as a command runs in it."""

from __future__ import annotations

import os

import click

from gosched.cli.connect import connect
from gosched.cli.exec_command import STDIN, terminal_size, until_end
from gosched.cli.interruption import cancelling
from gosched.cli.job_follow import until_started
from gosched.cli.output import as_data, say
from gosched.cli.progress import ending, follow
from gosched.cli.sbatch_command import says_itself, submitted
from gosched.client import GoSchedClient, GoSchedError, JobDetail, TimedOut
from gosched.client.exec import Exec
from gosched.config.jobs.draft import JobDraft
from gosched.core.reasons import Reason
from gosched.core.records.job import JobState

_SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": ["--help"]}
#: From the end of the command to that of its job. One that ended before it held the allocation does not end it.
_RELEASE_S = 30.0
#: The allocation is there once the members have gathered. Where the job ends before, so does this.
_RUN = """until [ -e {0}/lease ]; do sleep 0.1; done; exec {0}/{1} run {0} "$@" """


@click.command(context_settings=_SETTINGS)
@click.argument("words", metavar="[OPTIONS] [COMMAND [ARGUMENT]...]", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...]) -> int:
    """Wait for an allocation, run a command in it, a shell without COMMAND, and give it back.

    Options are those of sbatch. COMMAND runs in the allocation's first task, not here, with SLURM_ variables, and srun
    in it runs commands on all nodes. The allocation ends with COMMAND, and COMMAND with this program or its connection.

    \b
    Examples:
      goschedctl salloc -N2 --ntasks-per-node=4 --time=1:00:00
      goschedctl salloc -n4 srun hostname
    """
    from gosched.integrations.slurm.convert import held_for, job_of, options_of, read_command_line
    from gosched.integrations.slurm.options import SALLOC

    line, rest = read_command_line(words, SALLOC)
    if says_itself(ctx, line, "salloc"):
        return 0
    script = held_for(rest)
    given = options_of(line, script, os.environ)
    client = connect(ctx)
    job = job_of(given, script, os.environ, os.getcwd(), os.urandom(3).hex(), client.list_nodes)
    for warning in given.warnings:
        say(f"salloc: warning: {warning}")
    tell = _silent if "quiet" in given else say
    id = submitted(client, JobDraft(text=as_data(job, "yaml").encode(), source=f"the job of {script.name}"), "salloc")
    with cancelling(client, id) as interruption:
        tell(f"salloc: Pending job allocation {id}")
        watched = until_started(client, id, None)
        *_, detail = watched if "quiet" in given else follow(watched)
    if detail.state.is_final:
        say(f"salloc: error: no allocation: {ending(detail)}")
        return interruption.code or detail.exit_code or 1
    tell(f"salloc: Granted job allocation {id}")
    code = _run(client, detail, rest)
    try:
        end = client.wait(id, _RELEASE_S)
    except TimedOut:
        interruption.cancel("salloc: the command has ended, and its allocation had not")
        return code
    if end.state is JobState.SUCCEEDED or end.job.reason == Reason.NONZERO_EXIT:
        tell(f"salloc: Relinquished job allocation {id}")
    else:
        say(f"salloc: error: Job allocation {id} has been revoked: {ending(end)}")
    return code


def _run(client: GoSchedClient, job: JobDetail, words: list[str]) -> int:
    """Run the command in the job's first task, and return its exit code."""
    from gosched.integrations.slurm.batch import ALLOCATION, DIRECTORY

    first = min(job.tasks, key=lambda task: task.rank)
    in_background = _is_in_background()
    has_terminal = os.isatty(STDIN) and os.isatty(1) and not in_background
    try:
        with Exec(
            client,
            job.id,
            ["sh", "-c", _RUN.format(DIRECTORY, ALLOCATION), "sh", *words],
            task=f"{first.group}/{first.index}",
            env={"TERM": os.environ.get("TERM", "dumb")} if has_terminal else None,
            size=terminal_size() if has_terminal else None,
        ) as running:
            return until_end(running, interactive=not in_background, terminal=has_terminal)
    except (GoSchedError, KeyboardInterrupt):
        client.cancel(job.id, reason="salloc could not run its command, or lost it")
        raise


def _is_in_background() -> bool:
    """Return whether to read from the terminal, or to set it, would stop this program."""
    try:
        return os.tcgetpgrp(STDIN) != os.getpgrp()
    except OSError:  # it is no terminal, or not that of this program
        return False


def _silent(_text: str) -> None:
    """What --quiet leaves out."""
