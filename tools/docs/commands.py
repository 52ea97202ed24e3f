"""The references of the command lines: each command with its help, from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator

import click

from gosched.agent.main import main as agent
from gosched.cli.main import cli
from gosched.integrations.kubernetes.main import main as kube
from gosched.master.main import main as master
from tools.docs.markdown import code, console, page, table

_COLUMNS = 110


def goschedctl() -> str:
    """Return the page of goschedctl: what stands before any command, then each command."""
    root = _context(cli, "goschedctl", None)
    parts = ["`goschedctl COMMAND --help` shows the same. [Exit codes](exit-codes.md) are on a page of their own."]
    rows = [
        (f"[`{path}`](#{path.replace(' ', '-')})", command.get_short_help_str(200)) for path, command, _ in _all(root)
    ]
    parts += [
        table(("command", "does"), rows),
        "## Options of every command",
        table(("option", "meaning"), _options(root)),
    ]
    for path, command, context in _all(root):
        parts += [f"## {path}", console(command.get_help(context))]
    return page("Commands of goschedctl", *parts)


def daemons() -> str:
    """Return the page of the flags of masters and agents."""
    parts = [
        "Each flag overrides a [setting](settings-master.md); `GOSCHED_GRPC_ADDR` is the variable of `--grpc-addr`."
    ]
    for name, command in (("gosched-master", master), ("gosched-agent", agent), ("gosched-kube", kube)):
        parts += [f"## {name}", console(command.get_help(_context(command, name, None)))]
    return page("Flags of masters and agents", *parts)


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    width = {"terminal_width": _COLUMNS, "max_content_width": _COLUMNS} if parent is None else {}
    settings = {**command.context_settings, **width}
    return click.Context(command, info_name=name, parent=parent, **settings)  # type: ignore[arg-type]


def _all(context: click.Context, path: str = "") -> Iterator[tuple[str, click.Command, click.Context]]:
    group = context.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        inner = _context(command, name, context)
        if isinstance(command, click.Group):
            yield from _all(inner, f"{path}{name} ")
        else:
            yield f"{path}{name}", command, inner


def _options(context: click.Context) -> Iterator[tuple[str, str]]:
    for parameter in context.command.get_params(context):
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record:
            yield code(record[0]), record[1]
