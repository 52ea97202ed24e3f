"""`goschedctl config`: validate."""

from __future__ import annotations

import click

from gosched.cli.output import say


@click.group()
def command() -> None:
    """Check config files of masters and agents."""


@command.command("validate")
@click.argument("file", type=click.Path())
@click.option("--agent/--master", default=None, help="Which program the file is for.  [default: by its keys]")
def validate(file: str, agent: bool | None) -> None:
    """Check a config file. An error names the line, the key and what was expected."""
    from gosched.config import ConfigError, load_agent_settings, load_master_settings
    from gosched.config.load import looks_like_agent, read_file

    if agent is None:
        agent = looks_like_agent(read_file(file, what="config file"), file)
    settings = load_agent_settings(file, {}) if agent else load_master_settings(file, {})
    try:
        for listen in settings.listens():
            if listen.notice:
                say(f"note: {listen.notice}")
    except ConfigError as error:  # the file is valid, but starting with it needs another flag
        say(f"note: {error}")
    say(f"{file}: valid config of {'an agent' if agent else 'a master'}")
