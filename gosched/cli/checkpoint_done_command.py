"""`goschedctl checkpoint-done`: a task says that it has saved itself.

Rule kept: it talks to no master, so it works while there is none.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

VARIABLE = "GOSCHED_CHECKPOINT_FILE"


@click.command()
def command() -> None:
    """Say, inside of a task, that it has saved itself.

    Who waits for it (an eviction, say) goes on at once. The same as: touch "$GOSCHED_CHECKPOINT_FILE"
    """
    path = os.environ.get(VARIABLE, "")
    if not path:
        raise click.ClickException(f"{VARIABLE} is not set: run this inside of a task, which has it")
    try:
        Path(path).touch()
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from error
