"""`goschedctl run -- CMD`: like running the command here, but on the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from gosched.cli.connect import connect
from gosched.cli.job_flags import DashedCommand, command_after_dashes, job_of_flags, job_options
from gosched.cli.logs_command import print_logs
from gosched.cli.output import say
from gosched.cli.progress import ending, follow
from gosched.cli.submit_command import submit, wait_shown
from gosched.client import GoSchedClient, GoSchedError, JobDetail
from gosched.core.records.job import JobState
from gosched.core.records.task import TaskState
from gosched.core.spec.job_spec import JobSpec


@click.command(cls=DashedCommand)
@job_options
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> int:
    """Submit CMD as a job, follow its output, return its exit code: run --cpu 2 -- ./train.sh. Ctrl-C cancels it."""
    words = command_after_dashes(ctx)
    if not words:
        raise click.UsageError("nothing to run: give a command after --, such as: goschedctl run --cpu 2 -- ./train.sh")
    return run_to_end(connect(ctx), job_of_flags(words, flags))


def run_to_end(client: GoSchedClient, spec: JobSpec) -> int:
    """Submit a job, show its progress until it starts, print its logs, return its exit code.

    Of an array, only the progress is shown.
    """
    job = submit(client, spec).job_id
    try:
        if spec.is_parent:
            return wait_shown(client, job, None).exit_code
        for _ in follow(_until_started(client, job)):
            pass
        print_logs(client.logs(job, follow=True), prefixed=spec.task_count > 1)
        detail = client.wait(job)
    except KeyboardInterrupt:
        _cancel(client, job)
        raise
    if detail.state is not JobState.SUCCEEDED:
        say(f"{spec.name}: {ending(detail)}")
    return detail.exit_code


def _until_started(client: GoSchedClient, job: str) -> Iterator[JobDetail]:
    for detail in client.watch(job):
        yield detail
        waiting = any(task.state <= TaskState.STARTING for task in detail.tasks)
        if detail.state is JobState.RUNNING and not waiting:
            return


def _cancel(client: GoSchedClient, job: str) -> None:
    try:
        client.cancel(job, reason="interrupted")
        say(f"interrupted: {job} is cancelled")
    except GoSchedError as error:
        say(f"interrupted, but {job} could not be cancelled: {error}")
