"""`goschedctl checkpoint-done`: a task reports that its checkpoint is written.

Invariant: no master is called, so it works while there is none.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

VARIABLE = "GOSCHED_CHECKPOINT_FILE"


@click.command()
def command() -> None:
    """Report, from inside a task, that its checkpoint is written.

    An eviction that waits for the checkpoint goes on at once. The same as: touch "$GOSCHED_CHECKPOINT_FILE"
    """
    path = os.environ.get(VARIABLE, "")
    if not path:
        raise click.ClickException(f"{VARIABLE} is not set: run this inside a task, where it is")
    try:
        Path(path).touch()
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from error
