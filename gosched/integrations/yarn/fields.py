"""JSON of a ResourceManager, read field by field.

Hadoop makes JSON out of what it would write as XML: a list of one may come as the object itself, an empty list as null
or an empty text, and several elements of one name as a name that is repeated.

Invariant: a field that is missing or null has the default of its kind, one that nobody asks for is not looked at, and
one of another type is an error that names it.
"""

from __future__ import annotations

import json
import math
from typing import Any

from gosched.config.errors import shown
from gosched.integrations.yarn.errors import YarnBadAnswer


class Fields:
    """An object of an answer. `at`: where it stands, for errors."""

    def __init__(self, values: dict[str, Any], at: str) -> None:
        self._values = values
        self._at = at

    def text(self, key: str, default: str = "") -> str:
        value = self._values.get(key)
        if value is None:
            return default
        if isinstance(value, str):
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        raise self._wrong(key, "a text")

    def needed(self, key: str) -> str:
        """Return a text that an answer without is no answer."""
        found = self.text(key)
        if not found:
            raise YarnBadAnswer(f"{self._at} has no {key}: is this a ResourceManager?")
        return found

    def real(self, key: str) -> float | None:
        """Return a number; None: there is none, as of a share of nothing (NaN)."""
        value = self._values.get(key)
        if value is None:
            return None
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                raise self._wrong(key, "a number") from None
        if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) > 1 << 63:
            raise self._wrong(key, "a number")
        return float(value) if math.isfinite(value) else None

    def count(self, key: str) -> int:
        """Return a whole number; 0 for a negative one: Hadoop's way to say that there is none."""
        value = self._values.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return max(0, min(value, 1 << 63))
        return max(0, int(self.real(key) or 0))

    def child(self, key: str) -> Fields | None:
        value = self._values.get(key)
        if value in (None, "", []):
            return None
        return self._object(value, key)

    def children(self, key: str) -> list[Fields]:
        """Return a list of objects, also where it is one object or nothing."""
        value = self._values.get(key)
        if value in (None, "", {}):
            return []
        values = value if isinstance(value, list) else [value]
        return [self._object(one, f"{key}[{place}]") for place, one in enumerate(values)]

    def words(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, also where it is one text or nothing."""
        value = self._values.get(key)
        if value in (None, ""):
            return ()
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(one, str) for one in values):
            raise self._wrong(key, "texts")
        return tuple(values)

    def _object(self, value: object, key: str) -> Fields:
        at = f"{self._at}.{key}"
        if not isinstance(value, dict):
            raise YarnBadAnswer(f"{at}: expected an object, got {shown(value)}")
        return Fields(value, at)

    def _wrong(self, key: str, kind: str) -> YarnBadAnswer:
        return YarnBadAnswer(f"{self._at}.{key}: expected {kind}, got {shown(self._values[key])}")


def parse(body: bytes, at: str) -> Fields:
    """Read an answer. Raises YarnBadAnswer."""
    try:
        value = json.loads(body, object_pairs_hook=_merged)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        start = body[:60].decode(errors="replace")
        raise YarnBadAnswer(f"{at}: the answer is no JSON but {shown(start)}: is this a ResourceManager?") from error
    if not isinstance(value, dict):
        raise YarnBadAnswer(f"{at}: expected an object, got {shown(value)}")
    return Fields(value, at)


def _merged(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; values of a repeated name become a list."""
    found: dict[str, Any] = {}
    repeated: set[str] = set()
    for name, value in pairs:
        if name not in found:
            found[name] = value
        elif name in repeated:
            found[name].append(value)
        else:
            found[name] = [found[name], value]
            repeated.add(name)
    return found
