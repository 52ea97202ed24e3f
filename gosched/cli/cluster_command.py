"""`goschedctl cluster`: what is done to the cluster as a whole."""

from __future__ import annotations

import click

from gosched.cli.backup_commands import backup, backup_show, restore
from gosched.cli.connect import connect
from gosched.cli.output import say
from gosched.cli.upgrade_commands import upgrade_check
from gosched.client.shapes import time_json


@click.group()
def command() -> None:
    """Do something to the cluster as a whole."""


command.add_command(backup)
command.add_command(backup_show)
command.add_command(restore)
command.add_command(upgrade_check)


@command.command("set-clock")
@click.pass_context
def set_clock(ctx: click.Context) -> None:
    """Set the state's clock back to the masters', if it is ahead of them (`goschedctl status` says so).

    Waits, timeouts and drains then have as long to go as before; deadlines and windows stay where they are.
    """
    done = connect(ctx).set_clock()
    if done.unchanged:
        say("unchanged")
    else:
        say(f"the state's clock was set back from {time_json(done.from_ms)} to {time_json(done.to_ms)}")


@command.command("finalize-upgrade")
@click.pass_context
def finalize_upgrade(ctx: click.Context) -> None:
    """Let the cluster use what the new release brings, once all masters run it.

    Raises the cluster's feature level to the newest that every master knows. There is no way back: a master of the
    release before cannot join any more.
    """
    raised = connect(ctx).finalize_upgrade()
    done = "the cluster is at feature level" if raised.unchanged else "the cluster is now at feature level"
    say(f"{done} {raised.feature_level}")
