"""What an import or an export leaves out, as lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gosched.cli.output import Json, say

if TYPE_CHECKING:
    from gosched.integrations.notes import Note


def say_notes(notes: Iterable[Note]) -> None:
    """Print a line for each note on stderr."""
    for note in notes:
        say(f"{note.name}{' = ' * bool(note.value)}{note.value}: {note.advice}")


def notes_json(notes: Iterable[Note]) -> list[Json]:
    return [{"name": note.name, "value": note.value, "advice": note.advice} for note in notes]
