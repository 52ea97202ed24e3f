"""`goschedctl submit FILE|-`, and `goschedctl submit FLAGS -- CMD`."""

from __future__ import annotations

import sys
from typing import Any

import click

from gosched.cli.connect import connect, output_option, read_duration_s
from gosched.cli.job_flags import (
    DashedCommand,
    command_after_dashes,
    given,
    job_of_flags,
    job_options,
    submit_options,
)
from gosched.cli.output import Json, as_data, emit, say
from gosched.cli.progress import ending, follow
from gosched.client import GoSchedClient, JobDetail, Submitted
from gosched.core.spec.job_spec import JobSpec


@click.command(cls=DashedCommand)
@click.argument("file", required=False, type=click.Path(allow_dash=True))
@job_options
@submit_options
@click.option("--wait", is_flag=True, help="Wait until the job ends; return its exit code.")
@click.option("--wait-timeout", metavar="DURATION", help="With --wait: give up after this time, with exit code 124.")
@click.option("--request-id", help="Id of the request: a repeat with the same id returns the first answer.")
@output_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    file: str | None,
    wait: bool,
    wait_timeout: str | None,
    request_id: str | None,
    output: str,
    **flags: Any,
) -> int:
    """Submit the jobs of FILE (- is standard input), or one job from flags: submit --cpu 4 --count 8 -- ./train.sh"""
    timeout_s = read_duration_s(wait_timeout, "--wait-timeout")
    specs = _specs(ctx, file, flags)
    if wait and any(spec.cron for spec in specs):
        raise click.UsageError(
            "--wait: a schedule has no end; wait for one of its runs, such as: goschedctl job wait NAME.1"
        )
    if request_id and len(specs) > 1:
        raise click.UsageError(f"--request-id names one job; there are {len(specs)} in {file}")
    client = connect(ctx)
    submitted = [submit(client, spec, request_id) for spec in specs]
    _print(submitted, specs, output)
    codes = [wait_shown(client, answer.job_id, timeout_s).exit_code for answer in submitted] if wait else [0]
    return next((code for code in codes if code), 0)


def submit(client: GoSchedClient, spec: JobSpec, request_id: str | None = None) -> Submitted:
    """Submit a job, and say the result on stderr."""
    answer = client.submit(spec, request_id=request_id)
    say(f"{spec.name}: {'already submitted' if answer.unchanged else 'submitted'} as {answer.job_id}")
    for warning in answer.warnings:
        say(f"{spec.name}: warning: {warning}")
    return answer


def wait_shown(client: GoSchedClient, job: str, timeout_s: float | None) -> JobDetail:
    """Wait until the job ends, show its progress meanwhile, and return it."""
    for detail in follow(client.watch(job, timeout_s=timeout_s)):
        last = detail
    say(f"{last.job.spec.name}: {ending(last)}")
    return last


def _specs(ctx: click.Context, file: str | None, flags: dict[str, Any]) -> list[JobSpec]:
    command = command_after_dashes(ctx)
    if file is not None and command is not None:
        raise click.UsageError(f"give either a file ({file}) or a command after --, not both")
    if command is not None:
        if not command:
            raise click.UsageError("the command after -- is empty: name the program to run")
        return [job_of_flags(command, flags)]
    if file is None:
        raise click.UsageError("nothing to submit: give a FILE, - for standard input, or a command after --")
    if given(flags):
        raise click.UsageError(f"{given(flags)[0]} describes a job without a file; set it in {file} instead")
    return read_specs(file)


def read_specs(file: str) -> list[JobSpec]:
    """Read the jobs of a file, or of standard input. Raises ConfigError."""
    from gosched.config import parse_job_file
    from gosched.config.load import read_file

    if file == "-":
        return parse_job_file(sys.stdin.buffer.read(), "standard input")
    return parse_job_file(read_file(file, what="job file"), file)


def _print(submitted: list[Submitted], specs: list[JobSpec], output: str) -> None:
    shapes: list[Json] = [
        {"id": answer.job_id, "name": spec.name, "unchanged": answer.unchanged, "warnings": list(answer.warnings)}
        for answer, spec in zip(submitted, specs, strict=True)
    ]
    if output in ("json", "yaml"):
        emit(as_data(shapes[0] if len(shapes) == 1 else shapes, output))
    else:
        emit("\n".join(answer.job_id for answer in submitted))
