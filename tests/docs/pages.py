"""The pages of the documentation, and what is written on them as code."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: The decision records are of their time: a flag or key that they name may be gone.
RECORDS = ROOT / "docs/adr"

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<info>.*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Code on a page."""

    page: Path
    #: Of its first line in the page, from 1.
    line: int
    #: The first word behind the fence; empty: the block is indented.
    language: str
    #: The words behind the language.
    marks: tuple[str, ...]
    #: Without indentation.
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """Return all pages that users read."""
    found = [page for page in sorted((ROOT / "docs").rglob("*.md")) if not page.is_relative_to(RECORDS)]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *found]


def blocks(page: Path) -> list[Block]:
    """Return the fenced and the indented code of a page, in its order."""
    lines = page.read_text().splitlines()
    return [*_blocks(page, lines)]


def _blocks(page: Path, lines: list[str]) -> Iterator[Block]:
    number = 0
    while number < len(lines):
        fence = _FENCE.match(lines[number])
        if fence:
            end = _end_of_fence(lines, number + 1, fence["fence"])
            language, *marks = fence["info"].split() or ["text"]
            if not language.startswith("{"):  # a directive of the site
                yield _block(page, lines, number + 1, end, language, tuple(marks))
            number = end + 1
        elif lines[number].startswith("    ") and (number == 0 or not lines[number - 1].strip()):
            end = number
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            yield _block(page, lines, number, end, "", ())
            number = end
        else:
            number += 1


def _end_of_fence(lines: list[str], start: int, fence: str) -> int:
    for number in range(start, len(lines)):
        if lines[number].strip() == fence:
            return number
    raise AssertionError(f"the fence above line {start} has no end")


def _block(page: Path, lines: list[str], start: int, end: int, language: str, marks: tuple[str, ...]) -> Block:
    text = textwrap.dedent("\n".join(lines[start:end])).strip("\n") + "\n"
    return Block(page=page, line=start + 1, language=language, marks=marks, text=text)
