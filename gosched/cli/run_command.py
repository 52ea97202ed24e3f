"""`goschedctl run -- CMD`: like running the command here, but on the cluster."""

from __future__ import annotations

from typing import Any

import click

from gosched.cli.connect import connect
from gosched.cli.interruption import cancelling
from gosched.cli.job_flags import DashedCommand, command_after_dashes, draft_of_command, job_options
from gosched.cli.job_follow import followed
from gosched.cli.job_input import AnyJob, read_by_master
from gosched.cli.output import say
from gosched.cli.progress import ending
from gosched.cli.submit_command import submit
from gosched.cli.tracing import trace_this
from gosched.client import GoSchedClient, GoSchedError
from gosched.core.records.job import JobState


@click.command(cls=DashedCommand)
@job_options
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> int:
    """Submit CMD as a job, follow its output, and return its exit code (128+n for a signal).

    Its stdout comes to stdout, its stderr and the messages about the job to stderr. Ctrl-C cancels
    the job and shows the rest of its output; a second Ctrl-C leaves at once. It stays in job list, as any other job.

    \b
    Examples:
      goschedctl run -- echo hello
      goschedctl run --mem 256Mi --env GREETING=hello -- sh -c 'echo $GREETING'
      goschedctl run --count 2 --cpu 0.5 -- sh -c 'echo $GOSCHED_TASK_INDEX of $GOSCHED_TASK_COUNT'
    """
    words = command_after_dashes(ctx)
    if not words:
        raise click.UsageError("nothing to run: give a command after --, such as: goschedctl run --cpu 2 -- ./train.sh")
    trace_this(ctx)
    draft, client = draft_of_command(words, flags), connect(ctx)
    return run_to_end(client, read_by_master(client, draft)[0])


def run_to_end(client: GoSchedClient, spec: AnyJob, task: str = "") -> int:
    """Submit a job, show its progress until it starts, print its logs (of one `task` alone, if it is given), return its
    exit code.

    Of an array, only the progress is shown. A signal cancels the job, whose output is printed until it has ended.
    """
    job = submit(client, spec).job_id
    with cancelling(client, job) as interruption:
        try:
            detail = followed(client, spec, job, task=task)
        except BrokenPipeError:  # as a local program would end
            interruption.cancel("nothing reads the output")
            raise
        except (KeyboardInterrupt, GoSchedError):
            say(interruption.left())
            raise
    if not spec.is_parent and detail.state is not JobState.SUCCEEDED:
        say(f"{spec.name}: {ending(detail)}")
    return detail.exit_code if interruption.code is None else interruption.code
