"""`goschedctl version`."""

from __future__ import annotations

import click

from gosched import __version__


@click.command()
def command() -> None:
    """Print the version."""
    click.echo(f"gosched {__version__}")
