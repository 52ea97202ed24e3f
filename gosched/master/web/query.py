"""The filters of a page, from the address bar.

Invariant: whatever stands there, a page is shown: what is not understood counts as not given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

MAX_TEXT = 256


class Query:
    """What was asked for in an address."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = {name: value[:MAX_TEXT] for name, value in values.items()}

    def text(self, name: str) -> str:
        return self._values.get(name, "").strip()

    def choice(self, name: str, allowed: Sequence[str], default: str = "") -> str:
        """Return one of the allowed values, else the default."""
        value = self.text(name)
        return value if value in allowed else default

    def number(self, name: str, default: int, *, least: int, most: int) -> int:
        """Return a whole number within the bounds, else the default."""
        text = self.text(name)
        value = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else default
        return value if least <= value <= most else default

    def link(self, path: str, **changed: object) -> str:
        """Return the address of the same query with some values changed; empty and None leave one out."""
        values: dict[str, object] = {**self._values, **changed}
        kept = {name: str(value) for name, value in values.items() if value not in ("", None)}
        return f"{path}?{urlencode(kept)}" if kept else path
