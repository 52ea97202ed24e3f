"""`goschedctl job`: list, show, cancel, wait, hold, release, suspend, resume, requeue, scale, history, validate,
schema.

Invariant: a command's module is imported only when that command runs, or when all are listed.
"""

from __future__ import annotations

from importlib import import_module

import click

_ACTIONS, _FILES = "job_actions", "job_files"
_MODULES = {
    "list": "job_list",
    "show": "job_show",
    "cancel": _ACTIONS,
    "wait": "job_wait",
    "hold": _ACTIONS,
    "release": _ACTIONS,
    "suspend": _ACTIONS,
    "resume": _ACTIONS,
    "requeue": _ACTIONS,
    "scale": _ACTIONS,
    "history": "job_history",
    "validate": _FILES,
    "schema": _FILES,
}


class _Verbs(click.Group):
    """The commands of jobs: each is `command` of its module, or of a module with several one of `commands`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return None
        module = import_module(f"gosched.cli.{_MODULES[cmd_name]}")
        several = _MODULES[cmd_name] in (_ACTIONS, _FILES)
        found: click.Command = module.commands[cmd_name] if several else module.command
        return found


@click.group(cls=_Verbs)
def command() -> None:
    """List and control jobs. JOB is an id, or a name: the newest job of that name."""
