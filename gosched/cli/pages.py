"""Prints a listing page by page, as its pages come: the first lines are there before the last page is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gosched.cli.output import Column, Json, Table, as_data, emit


def print_pages(
    pages: Iterable[list[Json]],
    columns: Sequence[Column],
    wide: Sequence[Column],
    output: str,
    spare: Sequence[str] = (),
) -> bool:
    """Print pages of rows; return whether there was a row. What is printed is one document, however many pages.
    `spare`: as of a Table."""
    if output == "json":
        return _print_json(pages)
    shown = Table([*columns, *wide]) if output == "wide" else Table(columns, fits=True, spare=spare)
    found = False
    for rows in pages:
        if output == "yaml":
            text = as_data(rows, output) if rows or not found else ""
        elif output == "name":
            text = "\n".join(str(row["id"]) for row in rows)
        else:
            text = shown.text(rows)
        found = found or bool(rows)
        if text:
            emit(text)
    return found


def _print_json(pages: Iterable[list[Json]]) -> bool:
    found = False
    for rows in pages:
        if rows:
            items = as_data(rows, "json").removeprefix("[").removesuffix("\n]")
            emit(f"{',' if found else '['}{items}", newline=False)
            found = True
    emit("\n]" if found else "[]")
    return found
