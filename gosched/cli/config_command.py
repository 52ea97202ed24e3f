"""`goschedctl config`: validate, view, and the contexts."""

from __future__ import annotations

import click

from gosched.cli.contexts_commands import (
    current_context,
    delete_context,
    get_contexts,
    set_context,
    use_context,
    view_contexts,
)
from gosched.cli.job_flags import DashedCommand, command_after_dashes
from gosched.cli.output import say


@click.group()
def command() -> None:
    """Name clusters (contexts), and check config files."""


for _command in (get_contexts, current_context, use_context, set_context, delete_context):
    command.add_command(_command)


@command.command("view", cls=DashedCommand)
@click.argument("file", type=click.Path(), required=False)
@click.option("--effective", is_flag=True, help="The settings of a daemon, with the source of each.")
@click.option("--agent/--master", default=None, help="With --effective: of which program.  [default: by FILE's keys]")
@click.option(
    "-o", "--output", type=click.Choice(("table", "wide", "json", "yaml", "name")), default="table", show_default=True
)
@click.pass_context
def view(ctx: click.Context, file: str | None, effective: bool, agent: bool | None, output: str) -> None:
    """Show the contexts of this user, or with --effective the settings of a master or an agent.

    The settings are those of a daemon that is started with FILE, the environment of this shell and the flags after --:

    \b
      goschedctl config view --effective gosched.yaml -- --grpc-addr :9095
    """
    words = command_after_dashes(ctx)
    if not effective:
        if file or words or agent is not None:
            raise click.UsageError("the settings of a daemon are shown with --effective")
        view_contexts(output)
        return
    from gosched.cli.effective_settings import view_settings

    if agent is None:
        agent = file is not None and _is_of_agent(file)
    view_settings(file, agent=agent, words=words or (), output=output)


@command.command("validate")
@click.argument("file", type=click.Path())
@click.option("--agent/--master", default=None, help="Which program the file is for.  [default: by its keys]")
def validate(file: str, agent: bool | None) -> None:
    """Check a config file. An error names the line, the key and what was expected."""
    from gosched.config import ConfigError, load_agent_settings, load_master_settings
    from gosched.config.address import open_warning

    if agent is None:
        agent = _is_of_agent(file)
    settings = load_agent_settings(file, {}) if agent else load_master_settings(file, {})
    try:
        listens = settings.listens()
        for line in (*[listen.notice for listen in listens], open_warning(listens)):
            if line:
                say(f"note: {line}")
    except ConfigError as error:  # the file is valid, but starting with it needs another flag
        say(f"note: {error}")
    say(f"{file}: valid config of {'an agent' if agent else 'a master'}")


def _is_of_agent(file: str) -> bool:
    from gosched.config.files import read_file
    from gosched.config.load import looks_like_agent

    return looks_like_agent(read_file(file, what="config file"), file)
