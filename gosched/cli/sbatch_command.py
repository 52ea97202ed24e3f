"""`goschedctl sbatch`: a batch script of Slurm's users, as a job."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gosched.cli.connect import connect
from gosched.cli.output import as_data, emit, say
from gosched.client import GoSchedClient
from gosched.config.errors import ConfigError
from gosched.config.jobs.draft import JobDraft

if TYPE_CHECKING:
    from gosched.integrations.slurm.command_line import Given

_SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": ["--help"]}


@click.command(context_settings=_SETTINGS)
@click.argument("words", metavar="[OPTIONS] [SCRIPT [ARGUMENT]...]", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...]) -> int:
    """Submit a batch script as Slurm's sbatch does. It is read from standard input without SCRIPT and --wrap.

    The options here go over variables such as SBATCH_PARTITION, and these over the #SBATCH lines of the script.

    The script runs once, in the job's first task, with SLURM_ variables; srun in it runs a command in all tasks. What
    gosched cannot do ends with an error that names the option. --test-only prints the job file.

    \b
    Examples:
      goschedctl sbatch --test-only --ntasks=2 --wrap 'srun hostname'
      goschedctl sbatch --nodes=2 --ntasks-per-node=4 --mem=8G --time=1:00:00 train.sh --epochs 3
      id=$(goschedctl sbatch --parsable --array=0-9 --wrap 'echo $SLURM_ARRAY_TASK_ID')
    """
    from gosched.integrations.slurm.convert import job_of, options_of, read_command_line, script_of

    given, rest = read_command_line(words)
    if says_itself(ctx, given, "sbatch"):
        return 0
    script = script_of(rest, given, _text(rest, is_wrapped="wrap" in given))
    given = options_of(given, script, os.environ)
    job = job_of(given, script, os.environ, os.getcwd(), os.urandom(3).hex(), lambda: connect(ctx).list_nodes())
    for warning in given.warnings:
        say(f"sbatch: warning: {warning}")
    draft = JobDraft(text=as_data(job, "yaml").encode(), source=f"the job of {script.name}")
    if "test-only" in given:
        from gosched.cli.job_input import read_here

        read_here(draft)
        emit(as_data(job, "yaml"))
        return 0
    job_id = submitted(connect(ctx), draft, "sbatch")
    if "parsable" in given:
        emit(job_id)
    elif "quiet" not in given:
        emit(f"Submitted batch job {job_id}")
    return _exit_code(ctx, job_id, is_array="array" in job) if "wait" in given else 0


def _text(words: list[str], *, is_wrapped: bool) -> str:
    """Return the text of the script; empty: a command stands in its place. Raises ConfigError."""
    if is_wrapped:
        return ""
    try:
        data = Path(words[0]).read_bytes() if words else sys.stdin.buffer.read()
        return data.decode()
    except OSError as error:
        raise ConfigError(f"cannot read the script {words[0]}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{words[0] if words else 'standard input'} is no script: it is no text") from error


def says_itself(ctx: click.Context, given: Given, program: str) -> bool:
    """Say what the options --help, --usage and --version ask for; return whether one of them was given."""
    if "help" in given or "usage" in given:
        emit(ctx.get_help())
        return True
    if "version" in given:
        emit(f"gosched's {program}, after that of Slurm 22.05")
        return True
    return False


def submitted(client: GoSchedClient, draft: JobDraft, program: str) -> str:
    """Submit a job, and return its id. `program`: has the word where there are warnings."""
    from gosched.cli.job_input import read_by_master
    from gosched.client.reading import ReadJob, submit_read

    (spec,) = read_by_master(client, draft)
    answer = submit_read(client, spec) if isinstance(spec, ReadJob) else client.submit(spec)
    for warning in answer.warnings:
        say(f"{program}: warning: {warning}")
    return answer.job_id


def _exit_code(ctx: click.Context, job: str, *, is_array: bool) -> int:
    """Wait for a job, and return its exit code; of an array the highest of its elements."""
    from gosched.api.job_query import JobQuery

    client = connect(ctx)
    code = client.wait(job).exit_code
    if not code or not is_array:
        return code
    return max([row.exit_code or 0 for rows in client.job_rows(JobQuery(parent=job)) for row in rows] or [0]) or code
