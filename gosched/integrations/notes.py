"""What an import or an export says of what it does not carry over as it was."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A setting that has no equivalent, or not the same one, and what to do instead."""

    #: As the file names it.
    name: str
    #: As the file writes it.
    value: str
    advice: str
