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
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from gosched.core.sharing import BUILT_IN
from gosched.core.text import CONTROL, printable

Json = dict[str, Any]
Column = tuple[str, Callable[[Json], object]]  # the title, and how to get a row's value

WATCH_PERIOD_S = 1.0
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
_COLOURED = re.compile(rf"\x1b\[3\dm(?:{'|'.join(_STATE_COLOURS)})\x1b\[0m")


def print_listing(
    fetch: Callable[[], list[Json]],
    columns: Sequence[Column],
    *,
    wide: Sequence[Column] = (),
    output: str,
    watch: bool = False,
) -> None:
    """Print the rows once, or with `watch` again after each change until Ctrl-C."""
    text = render(fetch(), columns, wide, output)
    if text:
        emit(text)
    while watch:
        time.sleep(WATCH_PERIOD_S)
        newer = render(fetch(), columns, wide, output)
        if newer != text:
            if sys.stdout.isatty():
                click.clear()
            emit(newer)
            sys.stdout.flush()
        text = newer


def render(rows: list[Json], columns: Sequence[Column], wide: Sequence[Column], output: str) -> str:
    if output in ("json", "yaml"):
        return as_data(rows, output)
    if output == "name":
        return "\n".join(str(row["id"]) for row in rows)
    return table(rows, [*columns, *wide] if output == "wide" else columns)


def as_data(value: object, output: str) -> str:
    if output == "json":
        text = json.dumps(value, indent=2, ensure_ascii=False)
        return CONTROL.sub(lambda found: found[0] if found[0] == "\n" else json.dumps(found[0])[1:-1], text)
    import yaml

    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True)).rstrip()


def table(rows: list[Json], columns: Sequence[Column]) -> str:
    """Return aligned columns without borders, so that other tools can cut them. Values have no control characters."""
    titles = [title for title, _ in columns]
    body = [[_plain(value(row)) for _, value in columns] for row in rows]
    widths = [max(len(row[i]) for row in [titles, *body]) for i in range(len(columns))]
    lines = [_aligned(titles, titles, widths), *(_aligned(row, list(map(coloured, row)), widths) for row in body)]
    return "\n".join(lines)


def _aligned(plain: list[str], shown: list[str], widths: list[int]) -> str:
    """Pad each cell by the width of its plain text: escape sequences of colours have no width."""
    cells = zip(plain, shown, widths, strict=True)
    return "  ".join(text + " " * (width - len(word)) for word, text, width in cells).rstrip()


def coloured(word: str) -> str:
    colour = _STATE_COLOURS.get(word)
    return click.style(word, fg=colour) if colour and has_colour(sys.stdout) else word


def has_colour(stream: Any) -> bool:
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR")


def emit(text: str) -> None:
    """Print data on stdout."""
    click.echo("\n".join(escaped(line) for line in text.split("\n")))


def say(message: str) -> None:
    """Print one line for people on stderr."""
    click.echo(escaped(message), err=True)


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
