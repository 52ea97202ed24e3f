"""`goschedctl slurm-aliases`: small programs by Slurm's names that call goschedctl, in a directory that users choose.

Invariant: a file that this command did not make is neither replaced nor removed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import click

from gosched.cli.output import emit, say
from gosched.config.errors import ConfigError

NAMES = ("sbatch", "salloc", "srun", "squeue", "sinfo", "scancel", "sacct", "scontrol")
_MARK = "# made by goschedctl slurm-aliases"


@click.group()
def command() -> None:
    """Install or remove commands by Slurm's names that call goschedctl: sbatch, squeue and the others.

    Nothing is installed but on request. Put the directory in front of PATH.
    """


@command.command("install")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
def install(directory: Path) -> None:
    """Write the commands into DIRECTORY, which must exist. Files of others are not replaced.

    \b
    Examples:
      goschedctl slurm-aliases install ~/bin
    """
    foreign = [name for name in NAMES if _is_foreign(directory / name)]
    if foreign:
        raise ConfigError(f"{directory} has {', '.join(foreign)} of another program: choose another directory")
    program = shutil.which("goschedctl", path=str(Path(sys.argv[0]).absolute().parent)) or shutil.which("goschedctl")
    words = shlex.join([program] if program else [sys.executable, "-m", "gosched.cli.main"])
    for name in NAMES:
        _write(directory / name, f'#!/bin/sh\n{_MARK}\nexec {words} {name} -- "$@"\n')
    emit("\n".join(str(directory / name) for name in NAMES))


@command.command("remove")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
def remove(directory: Path) -> None:
    """Remove the commands from DIRECTORY. Files of others stay.

    \b
    Examples:
      goschedctl slurm-aliases remove .
    """
    own = [directory / name for name in NAMES if (directory / name).is_file() and not _is_foreign(directory / name)]
    for path in own:
        path.unlink()
    say(f"{len(own)} commands are removed from {directory}")


def _is_foreign(path: Path) -> bool:
    """Return whether there is something at a path that was not made here."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        return True
    try:
        with path.open("rb") as file:
            return _MARK.encode() not in file.read(200)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error


def _write(path: Path, text: str) -> None:
    """Write a program as a whole: one that runs meanwhile finds the old one or the new one."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        scratch.write_text(text)
        scratch.chmod(0o755)
        scratch.rename(path)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
