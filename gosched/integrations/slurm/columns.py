"""Formats of columns: `%.18i %9P` of squeue and sinfo, `JobID,State%12` of sacct; and times as Slurm prints them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

R = TypeVar("R")

_FIELD = re.compile(r"%(\.?)(\d{0,4})([A-Za-z])")
_NAMED = re.compile(r"([A-Za-z]+)(?:%(-?)(\d{1,4}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Generic[R]):
    """What a column shows."""

    title: str
    value: Callable[[R], object]
    #: Of sacct, where none is said.
    width: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Field(Generic[R]):
    """A column in a format."""

    column: Column[R]
    #: 0: as wide as the value.
    width: int
    right: bool
    #: The text up to the next one.
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Format(Generic[R]):
    """A line for each row."""

    before: str
    fields: tuple[Field[R], ...]
    #: Between fields, which then have no widths; empty: they have.
    delimiter: str = ""
    #: A delimiter stands behind the last field, too.
    ends: bool = False

    def header(self) -> str:
        return self._line([field.column.title for field in self.fields])

    def line(self, row: R) -> str:
        return self._line([str(field.column.value(row)) for field in self.fields])

    def rule(self) -> str:
        """Return the line below the header of sacct."""
        return self._line(["-" * field.width for field in self.fields])

    def _line(self, values: Sequence[str]) -> str:
        if self.delimiter:
            return self.delimiter.join(values) + (self.delimiter if self.ends else "")
        shown = []
        for field, value in zip(self.fields, values, strict=True):
            cut = value[: field.width] if field.width else value
            shown.append((cut.rjust(field.width) if field.right else cut.ljust(field.width)) + field.after)
        return self.before + "".join(shown)


def by_letters(text: str, columns: Mapping[str, Column[R]], command: str) -> Format[R]:
    """Return the format of squeue's -o. Raises ValueError."""
    found: list[Field[R]] = []
    marks = list(_FIELD.finditer(text))
    bare = _FIELD.sub("", text)
    if "%" in bare.replace("%%", "") or not marks:
        raise ValueError(f"expected columns such as '%.18i %.9P %T', got {text!r}")
    for place, mark in enumerate(marks):
        if mark[3] not in columns:
            known = " ".join(f"%{letter}" for letter in columns)
            raise ValueError(f"{command} has no column %{mark[3]} here; it has {known}")
        end = marks[place + 1].start() if place + 1 < len(marks) else len(text)
        field = Field(
            column=columns[mark[3]], width=int(mark[2] or 0), right=bool(mark[1]), after=text[mark.end() : end]
        )
        found.append(field)
    return Format(before=text[: marks[0].start()], fields=tuple(found))


def letters_of(text: str) -> set[str]:
    """Return the columns of a format of letters."""
    return {mark[3] for mark in _FIELD.finditer(text)}


def by_names(
    text: str, columns: Mapping[str, Column[R]], command: str, *, delimiter: str = "", ends: bool = False
) -> Format[R]:
    """Return the format of sacct's -o. Raises ValueError."""
    known = {name.lower(): column for name, column in columns.items()}
    found: list[Field[R]] = []
    for part in text.split(","):
        mark = _NAMED.fullmatch(part.strip())
        if mark is None or mark[1].lower() not in known:
            raise ValueError(f"{command} has no column {part.strip()!r} here; it has {', '.join(columns)}")
        column = known[mark[1].lower()]
        found.append(Field(column=column, width=int(mark[3] or column.width), right=mark[2] != "-", after=" "))
    return Format(before="", fields=tuple(found), delimiter=delimiter, ends=ends)


def lines(form: Format[R], rows: Iterable[R], *, header: bool, rule: bool = False) -> list[str]:
    """Return the lines of a listing."""
    head = [form.header(), *([form.rule()] if rule and not form.delimiter else [])] if header else []
    return [*head, *(form.line(row).rstrip() if not form.delimiter else form.line(row) for row in rows)]


def span(seconds: float, *, full: bool = False) -> str:
    """Return a time as `1-02:03:04`, or `3:04` where it is short. `full`: with hours in any case."""
    whole = max(0, int(seconds))
    days, rest = divmod(whole, 86_400)
    hours, minutes, left = rest // 3600, rest // 60 % 60, rest % 60
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{left:02}"
    if full:
        return f"{hours:02}:{minutes:02}:{left:02}"
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def moment(at_ms: int) -> str:
    """Return a moment in the zone of this machine, as Slurm prints it."""
    return datetime.fromtimestamp(at_ms / 1000).strftime("%Y-%m-%dT%H:%M:%S") if at_ms else ""
