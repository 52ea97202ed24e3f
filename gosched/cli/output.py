"""Printing: tables, JSON and YAML, amounts and times as text.

Invariant: stdout carries data only, and colour only on a terminal without NO_COLOR. Text from users, tasks and runtimes
reaches a terminal without control characters: everything is printed by `emit` and `say`, except what tasks write
themselves (`logs`, `exec`), which is passed on unchanged.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from gosched.cli.cells import cut, fitted, kept, least_widths, width_of
from gosched.core.text import CONTROL, printable

Json = dict[str, Any]
Column = tuple[str, Callable[[Json], object]]  # the title, and how to get a row's value

T = TypeVar("T", Json, list[Json])

_STATE_COLOURS = {
    "RUNNING": "green",
    "READY": "green",
    "SUCCEEDED": "green",
    "PENDING": "yellow",
    "SUSPENDED": "yellow",
    "CORDONED": "yellow",
    "DRAINING": "yellow",
    "FAILED": "red",
    "LOST": "red",
    "DEAD": "red",
    "CANCELLED": "magenta",
    "KILLED": "magenta",
}
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT.*Z")
_COLOURED = re.compile(rf"\x1b\[3\dm(?:{'|'.join(_STATE_COLOURS)})\x1b\[0m")


def print_listing(
    fetch: Callable[[], list[Json]],
    columns: Sequence[Column],
    *,
    wide: Sequence[Column] = (),
    spare: Sequence[str] = (),
    output: str,
    watch: bool = False,
    noun: str = "",
) -> None:
    """Print the rows once, or with `watch` again after each change until Ctrl-C. `spare`: as of a Table. `noun`: what
    there is none of, where there are no rows; by default the title of the first column."""
    nothing = f"no {noun or columns[0][0].lower()}s"

    def text(rows: list[Json]) -> str:
        shown = table(rows, columns, fits=True, spare=spare) if output == "table" else table(rows, [*columns, *wide])
        return shown if rows or not watch else f"{shown}\n({nothing})"

    def once() -> list[Json]:
        rows = fetch()
        if not rows and not watch and output in ("table", "wide", "name"):
            say(nothing)
        return rows

    show(once, text, output=output, watch=watch)


def show(
    fetch: Callable[[], T], text: Callable[[T], str], *, output: str, watch: bool = False, name: str = "id"
) -> None:
    """Print what `fetch` returns, once or with `watch` again after each change until Ctrl-C: as JSON, YAML or by its
    `name` where `output` says so, otherwise as `text` has it."""

    def rendered(value: T) -> str:
        if output in ("json", "yaml"):
            return as_data(value, output)
        if output == "name":
            return "\n".join(str(row[name]) for row in (value if isinstance(value, list) else [value]))
        return text(value)

    if watch:
        from gosched.cli.watching import watch as watching

        watching(fetch, rendered, output)
    elif found := rendered(fetch()):
        emit(found)


def as_data(value: object, output: str) -> str:
    if output == "json":
        text = json.dumps(value, indent=2, ensure_ascii=False)
        return CONTROL.sub(lambda found: found[0] if found[0] == "\n" else json.dumps(found[0])[1:-1], text)
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # ten times as fast
    return str(yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True)).rstrip()


def table(rows: list[Json], columns: Sequence[Column], *, fits: bool = False, spare: Sequence[str] = ()) -> str:
    """Return aligned columns without borders, so that other tools can cut them. Values have no control characters.
    `fits`, `spare`: as of a Table."""
    return Table(columns, fits=fits, spare=spare).text(rows)


class Table:
    """A table that is printed page by page: its columns grow with the values, and never shrink again."""

    def __init__(self, columns: Sequence[Column], *, fits: bool = False, spare: Sequence[str] = ()) -> None:
        """`fits`: on a terminal columns are left out and long values cut where a line would be too long; `spare` are
        the titles of those that are left out, in this order."""
        self._columns = [*columns]
        self._fits = fits
        self._spare = spare
        self._titles = [title for title, _ in columns]
        self._widths = [len(title) for title in self._titles]
        self._has_titles = False

    def text(self, rows: list[Json]) -> str:
        """Return the lines of more rows; the titles come before the first ones."""
        body = self._body(rows)
        widths = self._widths
        if self._fits and sys.stdout.isatty():
            from shutil import get_terminal_size  # slow to import, and on a terminal alone

            room = get_terminal_size().columns
            if not self._has_titles and self._left_out(body, room):
                body = self._body(rows)
            widths = fitted(self._widths, self._least(body), room)
            body = [[cut(value, width) for value, width in zip(row, widths, strict=True)] for row in body]
        titles = [] if self._has_titles else [_aligned(self._titles, self._titles, widths)]
        self._has_titles = True
        return "\n".join([*titles, *(_aligned(row, list(map(coloured, row)), widths) for row in body)])

    def _body(self, rows: list[Json]) -> list[list[str]]:
        body = [[_plain(value(row)) for _, value in self._columns] for row in rows]
        self._widths = [max([width, *(width_of(row[i]) for row in body)]) for i, width in enumerate(self._widths)]
        return body

    def _least(self, body: list[list[str]]) -> list[int]:
        # A moment that is cut says nothing.
        whole = [any(_MOMENT.fullmatch(row[i]) for row in body) for i in range(len(self._titles))]
        return least_widths(self._widths, self._titles, whole)

    def _left_out(self, body: list[list[str]], room: int) -> bool:
        """Leave out columns that do not fit; return whether there were some."""
        found = kept(self._least(body), self._titles, self._spare, room)
        self._columns = [self._columns[i] for i in found]
        self._titles = [self._titles[i] for i in found]
        self._widths = [self._widths[i] for i in found]
        return len(found) < len(body[0]) if body else False


def _aligned(plain: list[str], shown: list[str], widths: list[int]) -> str:
    """Pad each cell by the width of its plain text: escape sequences of colours have no width."""
    cells = zip(plain, shown, widths, strict=True)
    return "  ".join(text + " " * (width - width_of(word)) for word, text, width in cells).rstrip()


def coloured(word: str) -> str:
    colour = _STATE_COLOURS.get(word)
    return click.style(word, fg=colour) if colour and has_colour(sys.stdout) else word


def has_colour(stream: Any) -> bool:
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR")


def emit(text: str, *, newline: bool = True) -> None:
    """Print data on stdout."""
    click.echo("\n".join(escaped(line) for line in text.split("\n")), nl=newline)


def as_line(value: object) -> str:
    """Return JSON in one line."""
    return json.dumps(value)


def paint(sequences: str) -> None:
    """Send lines that are escaped already to the terminal, with the sequences that place them."""
    sys.stdout.write(sequences)
    sys.stdout.flush()


def say(message: str) -> None:
    """Print one line for people on stderr."""
    click.echo(escaped(message), err=True)


def say_error(name: str, error: Exception) -> None:
    """Print on stderr what went wrong with one of several things; its name comes first, unless the error says it."""
    text = str(error)
    is_said = re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text)
    say(f"goschedctl: {text}" if is_said else f"goschedctl: {name}: {text}")


def escaped(text: str) -> str:
    """Return one line without control characters (`\\x1b` instead of an escape), except the colours of `coloured`."""
    end, parts = 0, []
    for own in _COLOURED.finditer(text):
        parts += [printable(text[end : own.start()]), own[0]]
        end = own.end()
    return "".join([*parts, printable(text[end:])])


def titled(lines: Iterable[tuple[str, str]]) -> str:
    """Return one line for each pair whose text is not empty."""
    return "\n".join(f"{title:<11}{escaped(text)}" for title, text in lines if text)


def bytes_text(amount: int) -> str:
    for unit, size in (("Ti", 1024**4), ("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024)):
        if amount >= size:
            return f"{amount / size:.1f}".removesuffix(".0") + unit
    return str(amount)


def amounts_text(amounts: Json) -> str:
    """Return `cpu 4, memory 1.5Gi, gpu:h100 8`, with all amounts that are named, zeros too."""
    named = {name.removesuffix("_bytes"): amount_text(name, amount) for name, amount in amounts.items()}
    return ", ".join(f"{name} {named[name]}" for name in sorted(named, key=_place_of))


def _place_of(name: str) -> tuple[int, str]:
    from gosched.core.sharing import BUILT_IN  # records take long to import

    kind = name.partition(":")[0]
    return (BUILT_IN.index(kind) if kind in BUILT_IN else len(BUILT_IN), name)


def counted(count: int, noun: str) -> str:
    """Return `1 node`, `2 nodes`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def amount_text(name: str, amount: int | float | None) -> str:
    if amount is None:
        return "-"
    return bytes_text(int(amount)) if name.endswith("_bytes") else str(amount)


def ago(iso: str | None) -> str:
    """Return the time since then as `42s`, `7m`, `3h`, `5d`; a moment in the future counts as now."""
    return "-" if iso is None else span((datetime.now(UTC) - datetime.fromisoformat(iso)).total_seconds())


def expected_end_text(shape: Json) -> str:
    """Return `2026-12-01T14:10:00Z, by 2026-12-01T15:00:00Z with 90 %`; empty: nothing is expected."""
    by = f"by {shape['likely_end']} with 90 %" if shape["likely_end"] else ""
    return ", ".join([part for part in (shape["expected_end"] or "", by) if part])


def until(iso: str) -> str:
    """Return the time until then, as `ago` does for the past."""
    return span((datetime.fromisoformat(iso) - datetime.now(UTC)).total_seconds())


def span(seconds: float) -> str:
    """Return `42s`, `7m`, `3h`, `5d`; a negative span is `0s`."""
    whole = max(0, int(seconds))
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if whole >= 2 * size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def duration(seconds: float) -> str:
    """Return `1h30m`, as job files write it; a fraction of a second is kept."""
    left, parts = seconds, []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if left >= size:
            parts.append(f"{int(left // size)}{unit}")
            left %= size
    return "".join([*parts, *([f"{left:g}s"] if left or not parts else [])])


def seconds_text(seconds: float) -> str:
    """Return a duration in milliseconds below a second, in tenths below a minute, in whole seconds above it."""
    millis = round(seconds * 1000)
    if millis < 1000:
        return f"{millis}ms" if millis else "0s"
    return f"{seconds:.1f}s" if seconds < 60 else duration(int(seconds))


def spent_text(spent: Json) -> str:
    """Return `cpu 1h2m, gpu 3h, memory 5.2 GiB-h`; empty when nothing was spent."""
    memory = spent["memory_byte_s"] / 1024**3 / 3600
    parts = [
        f"cpu {seconds_text(spent['cpu_s'])}" if spent["cpu_s"] else "",
        f"gpu {seconds_text(spent['gpu_s'])}" if spent["gpu_s"] else "",
        f"memory {memory:.1f} GiB-h" if memory >= 0.05 else f"memory {memory:.3f} GiB-h" if memory >= 0.0005 else "",
    ]
    return ", ".join(part for part in parts if part)


def percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.0f}%"


def filled(rows: list[Json], columns: Sequence[Column]) -> list[Column]:
    """Return the columns that have a value in at least one row."""
    return [(title, value) for title, value in columns if any(value(row) not in (None, "", "-", 0) for row in rows)]


def _plain(value: object) -> str:
    return "-" if value is None or value == "" else printable(str(value))
