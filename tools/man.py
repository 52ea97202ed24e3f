"""Writes the manual pages from the commands themselves: `python tools/man.py FOLDER` makes FOLDER/man1 and FOLDER/man8.

Invariant: the same bytes for the same sources and SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click

from gosched import __version__
from gosched.agent.main import main as agent
from gosched.cli.main import cli
from gosched.master.main import main as master

_EXIT = {
    1: [
        ("0", "Done."),
        ("1", "Refused or failed."),
        ("2", "Wrong usage or config."),
        ("3", "It cannot be placed."),
        ("4", "Denied."),
        ("5", "No leader, or no master answered."),
        ("124", "Timed out."),
        ("130", "Interrupted."),
    ],
    8: [("0", "Ended by SIGTERM or SIGINT."), ("1", "It cannot go on."), ("2", "It cannot start.")],
}
_VARIABLES = {
    1: [
        ("GOSCHED_ENDPOINTS", "All masters, HOST:PORT,..."),
        ("GOSCHED_CONTEXT", "Another context file."),
        ("GOSCHED_TLS_CERT, GOSCHED_TLS_KEY, GOSCHED_TLS_CA", "PEM files of the client's certificate."),
        ("NO_COLOR", "No colour."),
    ],
    8: [("GOSCHED_...", "Each flag, in capitals and with underscores; a flag overrides it, it overrides the file.")],
}
_FILES = {
    "goschedctl": [("~/.config/gosched/context.yaml", "Endpoints and certificates, where no flag or variable is.")],
    "gosched-master": [("/etc/gosched/gosched.yaml", "Config, as the unit gosched-master.service has it.")],
    "gosched-agent": [("/etc/gosched/agent.yaml", "Config, as the unit gosched-agent.service has it.")],
}
PAGES = {"goschedctl": (cli, 1), "gosched-master": (master, 8), "gosched-agent": (agent, 8)}


def main(folder: Path) -> None:
    for program, (command, section) in PAGES.items():
        path = folder / f"man{section}" / f"{program}.{section}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(page(program, command, section)) + "\n")


def page(program: str, command: click.Command, section: int) -> Iterator[str]:
    """Return the lines of a manual page, in man(7)."""
    day = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())))
    context = click.Context(command, info_name=program)
    yield f'.TH {program.upper()} {section} {day} "gosched {__version__}"'
    yield ".SH NAME"
    yield f"{program} \\- {_text(_first_line(command)).rstrip('.')}"
    yield ".SH SYNOPSIS"
    yield f".B {_text(program)}"
    yield _text(" ".join(command.collect_usage_pieces(context)))
    yield ".SH OPTIONS"
    yield from _options(command, context)
    if isinstance(command, click.Group):
        yield ".SH COMMANDS"
        yield from _commands(command, context)
    yield from _definitions("EXIT STATUS", _EXIT[section])
    yield from _definitions("ENVIRONMENT", _VARIABLES[section])
    yield from _definitions("FILES", _FILES[program])
    yield ".SH SEE ALSO"
    others = [f".BR {_text(name)} ({number})" for name, (_, number) in PAGES.items() if name != program]
    yield " ,\n".join(others)


def _commands(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _commands(command, inner)
        else:
            yield from _command(command, inner)


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    words = context.command_path.partition(" ")[2]
    yield f'.SS "{_text(" ".join([words, *command.collect_usage_pieces(context)]))}"'
    for paragraph in (command.help or "").replace("\f", "").strip().split("\n\n"):
        lines = [line.strip() for line in paragraph.split("\n")]
        as_it_is = lines[0] == "\b"  # click's mark
        yield ".PP"
        yield from [".nf", *map(_text, lines[1:]), ".fi"] if as_it_is else map(_text, lines)
    yield from _options(command, context)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record and "--help" not in parameter.opts:
            yield from _item(*record)


def _definitions(title: str, pairs: list[tuple[str, str]]) -> Iterator[str]:
    yield f".SH {title}"
    for term, text in pairs:
        yield from _item(term, text)


def _item(term: str, text: str) -> Iterator[str]:
    yield ".TP"
    yield f".B {_text(term)}"
    yield _text(" ".join(text.split()))


def _first_line(command: click.Command) -> str:
    return (command.help or "").strip().split("\n")[0]


def _text(line: str) -> str:
    """A line as roff takes it: a hyphen that can be copied, and nothing at its beginning that is a request."""
    escaped = re.sub(r"([\\-])", lambda found: {"\\": "\\e", "-": "\\-"}[found[1]], line)
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    main(Path(sys.argv[1]))
