"""The examples in the help of goschedctl: lines of paragraphs that click prints as they stand."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click

from gosched.cli.main import cli

_COMMAND = re.compile(r"goschedctl .*")
_SHELL = (">", "|", ")", "&&", ";")


def commands(
    command: click.Command = cli, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All commands, by their words after goschedctl."""
    yield path, command
    if isinstance(command, click.Group):
        ctx = click.Context(command, info_name=" ".join(("goschedctl", *path)))
        for name in command.list_commands(ctx):
            found = command.get_command(ctx, name)
            assert found is not None
            yield from commands(found, (*path, name))


def texts(command: click.Command) -> list[str]:
    options = [param.help or "" for param in command.params if isinstance(param, click.Option)]
    return [command.help or "", command.epilog or "", *options]


def examples(command: click.Command) -> list[str]:
    """The command lines of a help text, as they are pasted into a shell."""
    kept = [part for text in texts(command) for part in text.split("\n\n") if part.lstrip().startswith("\b")]
    lines = [line for part in kept for line in re.sub(r"\\\n *", "", part).splitlines()]
    return [found[0] for line in lines if (found := _COMMAND.search(line))]


def words(line: str) -> list[str]:
    """The arguments of goschedctl in a line of a shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=">|&;()")
    lexer.whitespace_split = True
    found: list[str] = []
    for word in lexer:
        if word in _SHELL or set(word) <= set(">|&;()"):
            break
        found.append(word)
    return found[1:]
