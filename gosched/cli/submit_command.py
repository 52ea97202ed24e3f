"""`goschedctl submit FILE|-`, and `goschedctl submit FLAGS -- CMD`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gosched.cli.connect import OUTPUTS, connect, read_duration_s
from gosched.cli.job_flags import DashedCommand, job_options, submit_options
from gosched.cli.job_input import AnyJob, draft_of, read_by_master
from gosched.cli.output import Json, as_data, emit, say
from gosched.cli.tracing import trace_this
from gosched.client import GoSchedClient, NotSubmitted, Submitted
from gosched.client.errors import Unavailable
from gosched.client.reading import ReadJob, submit_all, submit_read


def format_or_file(ctx: click.Context, param: click.Parameter, value: str) -> str | Path:
    """Return a format of what is printed, or the path of a file, which has a dot or a slash (callback of an option)."""
    if value in OUTPUTS:
        return value
    if "." in value or "/" in value:
        return Path(value)
    known = ", ".join(OUTPUTS)
    raise click.BadParameter(f"{value!r} is none of {known}; a file has a dot or a slash: ./{value}", ctx, param)


@click.command(cls=DashedCommand)
@click.argument("file", required=False, type=click.Path(allow_dash=True))
@job_options
@submit_options
@click.option("--wait", is_flag=True, help="Wait until the job ends; return its exit code.")
@click.option("--wait-timeout", metavar="DURATION", help="With --wait: give up after this time, with exit code 124.")
@click.option("--request-id", help="Id of the request: a repeat with it within 16 minutes returns the first answer.")
@click.option(
    "-o",
    "--output",
    metavar="FORMAT|FILE",
    callback=format_or_file,
    default="table",
    help="table, json, yaml or name; or a FILE such as ./train.log: wait, and write the job's output there.",
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    file: str | None,
    wait: bool,
    wait_timeout: str | None,
    request_id: str | None,
    output: str | Path,
    **flags: Any,
) -> int:
    """Submit the jobs of FILE (- is standard input), or one job that flags and a command describe.

    With FILE, flags take the place of what it says, for each of its jobs; --env, --labels, --volume and --after add to
    it. A flag that would be of one task group among several is refused: --set says of which.

    The jobs of a file are submitted by a hundred at once, each with an outcome of its own. Exit code 1: one was not
    taken. If the masters are lost on the way, what was submitted is on stderr; with --request-id the same command goes
    on, and submits none twice.

    \b
    Examples:
      goschedctl submit job.yaml
      goschedctl submit job.yaml --name again --count 4 --set retry.max=0 --env SEED=2
      goschedctl submit --cpu 1 --mem 256Mi --count 2 -- sh -c 'echo hello from $GOSCHED_TASK_INDEX'
      goschedctl submit --array 0-9%2 -- sh -c 'echo element $GOSCHED_ARRAY_INDEX'
      goschedctl submit --wait -- sh -c 'exit 0'
      goschedctl submit job.yaml --name logged --output ./job.log
    """
    timeout_s = read_duration_s(wait_timeout, "--wait-timeout")
    draft = draft_of(ctx, file, flags)
    trace_this(ctx)
    client = connect(ctx)
    specs = read_by_master(client, draft)
    if wait and any(spec.cron for spec in specs):
        raise click.UsageError(
            "--wait: a schedule has no end; wait for one of its runs, such as: goschedctl job wait NAME.1"
        )
    if isinstance(output, Path) and len(specs) > 1:
        raise click.UsageError(f"--output FILE is of one job; there are {len(specs)} in {file}")
    if isinstance(output, Path):
        return _with_output_in(output, client, specs[0], request_id, timeout_s)
    if len(specs) > 1:
        submitted = _submit_all(client, specs, request_id)
    else:
        submitted = [(specs[0].name, submit(client, specs[0], request_id))]
    _print(submitted, output, is_list=len(specs) > 1)
    if len(submitted) < len(specs):
        return 1
    return _wait(client, [(name, answer.job_id) for name, answer in submitted], timeout_s) if wait else 0


def submit(client: GoSchedClient, spec: AnyJob, request_id: str | None = None) -> Submitted:
    """Submit a job, and say the result on stderr."""
    try:
        if isinstance(spec, ReadJob):
            answer = submit_read(client, spec, request_id)
        else:
            answer = client.submit(spec, request_id=request_id)
    except Unavailable as error:
        if error.request_id:
            say(
                f"{spec.name}: to repeat it and not run it twice, add --request-id={error.request_id} within 15 minutes"
            )
        raise
    _say(spec.name, answer)
    return answer


def _submit_all(client: GoSchedClient, specs: list[AnyJob], request_id: str | None) -> list[tuple[str, Submitted]]:
    """Submit jobs by few requests, say what became of each on stderr, and return those that were taken, with their
    names."""
    taken = []
    for spec, answer in zip(specs, submit_all(client, specs, request_id), strict=True):
        if isinstance(answer, NotSubmitted):
            say(f"{spec.name}: not submitted: {answer.problem}")
        else:
            _say(spec.name, answer)
            taken.append((spec.name, answer))
    return taken


def _say(name: str, answer: Submitted) -> None:
    say(f"{name}: {'already submitted' if answer.unchanged else 'submitted'} as {answer.job_id}")
    for warning in answer.warnings:
        say(f"{name}: warning: {warning}")


def _wait(client: GoSchedClient, left: list[tuple[str, str]], timeout_s: float | None) -> int:
    """Wait for jobs, by name and id, one after the other; return the exit code of the first that failed."""
    from gosched.cli.job_follow import wait_shown  # slow, as are the records of jobs
    from gosched.cli.job_wait import going_on

    codes = []
    with going_on(left):
        for job_id in [job_id for _, job_id in left]:
            codes.append(wait_shown(client, job_id, timeout_s).exit_code)
            left[: len(left) > 1] = []
    return next((code for code in codes if code), 0)


def _with_output_in(
    file: Path, client: GoSchedClient, spec: AnyJob, request_id: str | None, timeout_s: float | None
) -> int:
    """Submit the job, write its output to the file until it has ended, and return its exit code."""
    from gosched.cli.job_follow import followed, output_file
    from gosched.cli.job_wait import going_on
    from gosched.cli.progress import ending

    if spec.is_parent:
        raise click.UsageError("--output FILE: an array or a schedule has no output of its own, but its jobs have")
    with output_file(file) as out:  # first of all: a file that cannot be written to is an error before there is a job
        job = submit(client, spec, request_id).job_id
        say(f"{spec.name}: its output goes to {file}")
        with going_on([(spec.name, job)]):
            detail = followed(client, spec, job, timeout_s, out)
    say(f"{spec.name}: {ending(detail)}")
    return detail.exit_code


def _print(submitted: list[tuple[str, Submitted]], output: str, *, is_list: bool) -> None:
    shapes: list[Json] = [
        {"id": answer.job_id, "name": name, "unchanged": answer.unchanged, "warnings": list(answer.warnings)}
        for name, answer in submitted
    ]
    if output in ("json", "yaml"):
        emit(as_data(shapes if is_list else shapes[0], output))
    elif submitted:
        emit("\n".join(answer.job_id for _, answer in submitted))
