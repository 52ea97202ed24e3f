"""`goschedctl completion SHELL`: the script that makes a shell complete commands and flags."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from gosched.cli.main import VARIABLE
from gosched.cli.output import emit

PROGRAM = "goschedctl"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell. It completes commands, flags, and the names of live jobs, of nodes,
    queues, tenants and contexts.

    \b
    bash (4.4 or newer):  source <(goschedctl completion bash)      in ~/.bashrc
    zsh:                  source <(goschedctl completion zsh)       in ~/.zshrc, after compinit
    fish:                 goschedctl completion fish > ~/.config/fish/completions/goschedctl.fish
    """
    found = get_completion_class(shell)
    assert found is not None  # these three come with click
    emit(found(ctx.find_root().command, {}, PROGRAM, VARIABLE).source())
