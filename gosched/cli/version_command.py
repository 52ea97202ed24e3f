"""`goschedctl version`."""

from __future__ import annotations

import click

from gosched import __version__
from gosched.cli.output import emit


@click.command()
def command() -> None:
    """Print the version."""
    emit(f"gosched {__version__}")
