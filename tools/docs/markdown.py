"""Markdown of generated pages: tables whose cells may hold any text, and a note on where a page is from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import TextWrapper

NOTE = "<!-- Made by `make reference`; do not edit. -->"


def page(title: str, *parts: str) -> str:
    """Return a page with its parts apart by empty lines."""
    return "\n\n".join([NOTE, f"# {title}", *(_wrapped(part.strip("\n")) for part in parts if part)]) + "\n"


def _wrapped(part: str) -> str:
    """Return paragraphs of prose in lines of 120; tables, headings and blocks as they are."""
    paragraphs = part.split("\n\n")
    if any(paragraph.startswith(("|", "#", "```")) for paragraph in paragraphs):
        return part
    wrapper = TextWrapper(120, break_long_words=False, break_on_hyphens=False)
    return "\n\n".join(wrapper.fill(" ".join(paragraph.split())) for paragraph in paragraphs)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; columns that are empty in every row are left out."""
    body = [list(row) for row in rows]
    shown = [place for place in range(len(head)) if any(row[place] for row in body)]
    lines = [[head[place] for place in shown], ["---"] * len(shown)]
    lines += [[cell(row[place]) for place in shown] for row in body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(text: str) -> str:
    """Return the text on one line, with bars that end no cell."""
    return " ".join(text.replace("\\|", "|").replace("|", "\\|").split())


def code(text: str) -> str:
    """Return the text as it is; nothing for nothing."""
    return f"`{text}`" if text else ""


def console(text: str) -> str:
    """Return a block of plain text."""
    return f"```text\n{text.rstrip()}\n```"
