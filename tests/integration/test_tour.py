"""The tour of the terminal: every command on the page works on a real cluster, and prints something where it did."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.docs.record import PAGES, record

COMMANDS = re.compile(r"^\$ (.+)\n(?!\$ |```|> )", re.MULTILINE)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_the_tour_works(page: Path) -> None:
    before = page.read_text()
    again, failures = record(page)
    assert failures == []
    assert COMMANDS.findall(again) == COMMANDS.findall(before)  # those that print something print something
    assert again.count("```console") == before.count("```console") > 5
