"""Every command line on a page has the commands and flags that the programs have."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gosched.agent.main import main as agent
from gosched.cli.main import cli, root_options_first
from gosched.integrations.kubernetes.main import main as kube
from gosched.master.main import main as master
from tests.docs.pages import Block, blocks, pages

PROGRAMS = {"goschedctl": cli, "gosched-master": master, "gosched-agent": agent, "gosched-kube": kube}
_LANGUAGES = ("", "sh", "bash", "console")
_ENDS = {"|", "||", "&&", ";", "&", ">", ">>", "<", "2>", "(", ")", "`"}
#: A sketch of a command's syntax is no command.
_SKETCH = re.compile(r"\[-|\.\.\.| / | COMMAND\b|\[\w+\||[a-z]\|[a-z]|<\w+>")
_INLINE = re.compile(r"`((?:goschedctl|gosched-master|gosched-agent|gosched-kube) [^`]+)`")


def command_lines(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Yield the program and the words of each command line of ours in a block."""
    for line in block.text.replace("\\\n", " ").splitlines():
        line = line.removeprefix("$ ")
        if not any(program in line for program in PROGRAMS) or _SKETCH.search(line.split(" #")[0]):
            continue
        try:
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words = list(lexer)
        except ValueError:  # a quotation that goes on in the next line
            continue
        yield from _commands(words)


def _commands(words: list[str]) -> Iterator[tuple[str, list[str]]]:
    starts = [
        place
        for place, word in enumerate(words)
        if word.rpartition("/")[2] in PROGRAMS
        and (place == 0 or words[place - 1] in _BEFORE or "=" in words[place - 1])
    ]
    for start in starts:
        end = next((place for place in range(start + 1, len(words)) if words[place] in _ENDS), len(words))
        yield words[start].rpartition("/")[2], words[start + 1 : end]


_BEFORE = _ENDS | {"sudo", "do", "then", "--", "exec", "nice", "time"}


def parse(command: click.Command, name: str, words: list[str]) -> None:
    """Parse the words as the program would, without looking at what they name. Raise click's own errors."""
    context = click.Context(command, info_name=name)
    words = root_options_first(words) if command is cli else words
    while isinstance(command, click.Group):
        _, words, _ = command.make_parser(context).parse_args(words)
        if not words:
            return
        name, found, words = command.resolve_command(context, words)
        assert found is not None, f"there is no command {name}"
        command, context = found, click.Context(found, info_name=name, parent=context, **found.context_settings)
    command.make_parser(context).parse_args(words)


def inline(page: Path) -> Iterator[Block]:
    """Yield the command lines within the text of a page, each as a block."""
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        for found in _INLINE.finditer(line):
            yield Block(page=page, line=number, language="", marks=(), text=found[1].replace("\\|", "|"))


LINES = [
    (f"{block.place} {' '.join([program, *words])}", program, words)
    for page in pages()
    for block in [*blocks(page), *inline(page)]
    if block.language in _LANGUAGES
    for program, words in command_lines(block)
]


def test_each_command_line_can_be_parsed() -> None:
    wrong = []
    for place, program, words in LINES:
        try:
            parse(PROGRAMS[program], program, list(words))
        except click.BadOptionUsage as error:
            if words[-1] != error.option_name:  # otherwise the text only names the flag
                wrong.append(f"{place}: {error.format_message()}")
        except (click.ClickException, AssertionError) as error:
            wrong.append(f"{place}: {error.format_message() if isinstance(error, click.ClickException) else error}")
    assert wrong == []


def test_command_lines_are_found() -> None:
    assert len(LINES) >= 80


@pytest.mark.parametrize(
    "line",
    [
        "goschedctl submt a.yaml",
        "goschedctl submit --cpus 4 -- a",
        "sudo gosched-master --pears=a",
        "goschedctl job shaw a",
    ],
)
def test_a_wrong_line_is_found(line: str) -> None:
    block = Block(page=pages()[0], line=1, language="sh", marks=(), text=line)
    ((program, words),) = command_lines(block)
    with pytest.raises((click.ClickException, AssertionError)):
        parse(PROGRAMS[program], program, words)
