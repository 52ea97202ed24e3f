"""`goschedctl srun`: a step of the batch script that it is called from."""

from __future__ import annotations

import os
import sys

import click

from gosched.config.errors import ConfigError

_SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": ["--help"]}


@click.command(context_settings=_SETTINGS)
@click.argument("words", metavar="[OPTIONS] COMMAND [ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)
def command(words: tuple[str, ...]) -> int:
    """Run a command as a step of a batch script, in as many copies as the job has tasks, on all of its nodes.

    It works in a job that sbatch has submitted, where it is in PATH as srun. Elsewhere `goschedctl run -- COMMAND` runs
    a command as a job.

    \b
    Examples:
      goschedctl srun -n 2 hostname
    """
    if "SLURM_JOB_ID" not in os.environ or "GOSCHED_PORT" not in os.environ:
        raise ConfigError("srun starts steps of a job that sbatch has submitted: here use goschedctl run -- COMMAND")
    os.execv(sys.executable, [sys.executable, "-I", "-m", "gosched.agent.slurm.srun", *words])
