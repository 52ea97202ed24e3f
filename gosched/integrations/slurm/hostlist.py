"""Names of nodes as Slurm writes them: `n[1-3,7],login`, and counts as `2(x3),1`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from gosched.core.limits import MAX_VALUES

MAX_NAMES = 100_000

_TAIL = re.compile(r"(.*?)(\d+)", re.DOTALL | re.ASCII)
_PART = re.compile(r"([^\[\],]*)(?:\[([0-9,-]+)\])?([^\[\],]*)")


def compressed(names: Sequence[str]) -> str:
    """Return the names in one word, in their order."""
    found: list[str] = []
    for (stem, _), group in groupby(map(_split, names), key=lambda part: (part[0], len(part[1]) and part[0])):
        numbers = [digits for _, digits in group]
        if not numbers[0]:
            found += [stem] * len(numbers)
        elif len(numbers) == 1:
            found.append(stem + numbers[0])
        else:
            found.append(f"{stem}[{','.join(_runs(numbers))}]")
    return ",".join(found)


def expanded(text: str) -> list[str]:
    """Return the names of such a word. Raises ValueError."""
    found: list[str] = []
    left = text.strip()
    while left:
        part = _PART.match(left)
        if part is None or not part[0]:
            raise ValueError(f"{text!r} is no list of nodes, such as n[1-3,7],login")
        stem, numbers, tail = part[1], part[2], part[3]
        found += [f"{stem}{number}{tail}" for number in _numbers(numbers, text)] if numbers else [stem + tail]
        left = left[part.end() :]
        if left and not left.startswith(","):
            raise ValueError(f"{text!r} is no list of nodes, such as n[1-3,7],login")
        left = left[1:]
        if len(found) > MAX_NAMES:
            raise ValueError(f"more than {MAX_NAMES} nodes")
    return found


def distinct(text: str) -> tuple[str, ...]:
    """Return the names of such a word, each once. Raises ValueError."""
    found = tuple(dict.fromkeys(expanded(text)))
    if not found:
        raise ValueError("names no node")
    if len(found) > MAX_VALUES:
        raise ValueError(f"names {len(found)} nodes; at most {MAX_VALUES} can be named")
    return found


def counted(counts: Sequence[int]) -> str:
    """Return counts of neighbours together: `2(x3),1`."""
    groups = [(count, len(list(group))) for count, group in groupby(counts)]
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in groups)


def _split(name: str) -> tuple[str, str]:
    """Return the stem and the digits that the name ends with; a long number is no number."""
    found = _TAIL.fullmatch(name)
    return (found[1], found[2]) if found and len(found[2]) < 10 else (name, "")


def _runs(numbers: Sequence[str]) -> list[str]:
    """Return ranges of numbers that follow each other, written with as many digits."""
    runs: list[list[str]] = []
    for number in numbers:
        last = runs[-1][-1] if runs else ""
        if last and int(number) == int(last) + 1 and len(number) == len(str(int(last) + 1).zfill(len(last))):
            runs[-1].append(number)
        else:
            runs.append([number])
    return [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]


def _numbers(text: str, whole: str) -> list[str]:
    found: list[str] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()) or len(first + last) > 18:
            raise ValueError(f"{whole!r} is no list of nodes, such as n[1-3,7],login")
        if int(last or first) - int(first) > MAX_NAMES:
            raise ValueError(f"more than {MAX_NAMES} nodes")
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last or first) + 1)]
    return found
