"""The jobs that a command line describes: those of FILE with flags over them, or one of flags and a command.

Invariant: a program in place of FILE is an error with the line to type, and is not sent to a master.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from gosched.cli.job_flags import JOB_FILES, command_after_dashes, draft_of_command, draft_of_file
from gosched.client import GoSchedClient, Misused, Refused, Unavailable
from gosched.client.reading import ReadJob, read_jobs
from gosched.config.errors import ConfigError
from gosched.config.jobs.draft import JobDraft

if TYPE_CHECKING:
    from gosched.core.spec.job_spec import JobSpec

_PROGRAMS = (".py", ".sh", ".pl", ".r", ".jl")

AnyJob: TypeAlias = "JobSpec | ReadJob"


def draft_of(ctx: click.Context, file: str | None, flags: dict[str, Any]) -> JobDraft:
    """Return the file with the flags over it, or the command with its flags. Raise ConfigError, UsageError."""
    command = command_after_dashes(ctx)
    if file is not None and command is not None:
        raise click.UsageError(f"give either a file ({file}) or a command after --, not both")
    if command is not None:
        if not command:
            raise click.UsageError("the command after -- is empty: name the program to run")
        return draft_of_command(command, flags)
    if file is None:
        raise click.UsageError(f"nothing to {ctx.info_name}: give a FILE, - for standard input, or a command after --")
    return _draft_of_file(ctx, file, flags)


def read_by_master(client: GoSchedClient, draft: JobDraft) -> list[AnyJob]:
    """Return the jobs of a draft, which a master reads: to import the reader takes longer than all else that submits a
    job. Raise ConfigError, GoSchedError."""
    try:
        return list[AnyJob](read_jobs(client, draft))
    except (Refused, Misused):  # a master of an earlier release, or a draft that is too large for masters
        return list[AnyJob](read_here(draft))
    except Unavailable:
        read_here(draft)  # what is wrong with the file can be said without a master
        raise


def read_here(draft: JobDraft) -> list[JobSpec]:
    """Return the jobs of a draft. Raise ConfigError."""
    from gosched.config.jobs.jobfile import read_draft  # slow

    return read_draft(draft)


def read_job_file(file: str) -> tuple[bytes, str]:
    """Return the text of a job file, or of standard input, and what it is called. Raise ConfigError."""
    from gosched.config.files import read_file

    if file == "-":
        return sys.stdin.buffer.read(), "standard input"
    return read_file(file, what="job file"), file


def _draft_of_file(ctx: click.Context, file: str, flags: dict[str, Any]) -> JobDraft:
    text = b""
    try:
        text, source = read_job_file(file)
        draft = draft_of_file(text, source, flags)
        if _is_program(file, text):
            read_here(draft)
        return draft
    except ConfigError as error:
        if not _is_program(file, text):
            raise
        program = file if "/" in file or not Path(file).exists() else f"./{file}"
        line = shlex.join([*ctx.command_path.split(), "--", program])
        raise ConfigError(f"{file} is a program, not a job file; to run it as a job: {line}") from error


def _is_program(file: str, text: bytes) -> bool:
    if file.endswith(JOB_FILES) or file == "-":
        return False
    from shutil import which  # slow

    return text.startswith((b"#!", b"\x7fELF")) or file.endswith(_PROGRAMS) or (not text and bool(which(file)))
