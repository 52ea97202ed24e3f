"""How wide text is on a terminal, and text that is cut to a width. East Asian letters and emoji take two columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

CUT = "…"
LEAST = 16  # columns that a cut value keeps
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


def width_of(text: str) -> int:
    """Return the columns that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # the import takes longer than most commands may

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """Return the text in at most so many columns; where it is cut, it ends in `…`."""
    if width_of(text) <= width:
        return text
    if text.isascii():
        return text[: max(0, width - 1)] + CUT
    from rich.cells import set_cell_size

    return set_cell_size(text, max(0, width - 1)).rstrip() + CUT


def cut_line(line: str, width: int) -> str:
    """Cut a line whose colours take no width; they end with it."""
    if "\x1b" not in line:
        return cut(line, width)
    parts, left = [], width
    for part in _COLOUR.split(line):
        if _COLOUR.fullmatch(part):
            parts.append(part)
        elif left > 0:
            shown = cut(part, left)
            parts.append(shown)
            left = 0 if shown != part else left - width_of(part)
    return "".join(parts)


def least_widths(widths: Sequence[int], titles: Sequence[str], whole: Sequence[bool]) -> list[int]:
    """Return how narrow columns may become: the first, which names the row, and those that are to stay `whole`, not at
    all; the others to LEAST, or to their titles."""
    least = [min(width, max(LEAST, width_of(title))) for width, title in zip(widths, titles, strict=True)]
    return [widths[i] if i == 0 or whole[i] else narrow for i, narrow in enumerate(least)]


def kept(least: Sequence[int], titles: Sequence[str], spare: Sequence[str], room: int) -> list[int]:
    """Return the positions of the columns that are shown: without those of `spare`, in its order, as far as the others
    do not fit into `room`."""
    found = list(range(len(titles)))
    for title in spare:
        if _taken([least[i] for i in found]) <= room:
            break
        found = [i for i in found if titles[i] != title]
    return found


def fitted(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Return the widths of columns so that they fit into `room`: the widest are made narrower, none below its least."""
    found = [*widths]
    surplus = _taken(found) - room
    while surplus > 0:
        wide = max(range(len(found)), key=lambda i: found[i] if found[i] > least[i] else -1)
        if found[wide] <= least[wide]:
            break
        found[wide] -= 1
        surplus -= 1
    return found


def _taken(widths: Sequence[int]) -> int:
    """Return the length of a line, with two spaces between its columns."""
    return sum(widths) + 2 * (len(widths) - 1)
