"""What the help of goschedctl tells people to type is what goschedctl takes."""

from __future__ import annotations

import re

import click
import pytest

from gosched.cli.main import cli, root_options_first
from tests.cli.examples import commands, examples, texts, words

ALL = [(" ".join(path), line) for path, command in commands() for line in examples(command)]
MENTION = re.compile(r"goschedctl (?!and )([a-z][a-z-]*)(?: ([a-z][a-z-]*))?")


def parsed(args: list[str]) -> click.Context:
    """The context of the innermost command. Raises UsageError where an argument is wrong."""
    ctx, command = cli.make_context("goschedctl", root_options_first(args)), cli
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(ctx, [*ctx._protected_args, *ctx.args])
        assert found is not None
        ctx, command = found.make_context(name, rest, parent=ctx), found
    return ctx


@pytest.mark.parametrize(("path", "line"), ALL, ids=[line for _, line in ALL])
def test_an_example_is_of_its_command_and_parses(path: str, line: str) -> None:
    assert parsed(words(line)).command_path == f"goschedctl {path}"


def test_the_commands_that_people_begin_with_have_examples() -> None:
    assert {"submit", "run", "plan", "job validate", "job schema", "completion"} <= {path for path, _ in ALL}


def test_an_example_with_an_unknown_option_would_be_found() -> None:
    with pytest.raises(click.UsageError):
        parsed(words("goschedctl submit job.yaml --cuont 3"))


def test_every_command_that_a_help_text_names_is_there() -> None:
    known = {path for path, _ in commands()}
    for path, command in commands():
        for text in texts(command):
            for first, second in MENTION.findall(" ".join(text.split())):
                group = next((c for p, c in commands() if p == (first,)), None)
                assert (first,) in known, f"{path}: goschedctl {first}"
                assert not second or not isinstance(group, click.Group) or (first, second) in known, (
                    f"{path}: {first} {second}"
                )
