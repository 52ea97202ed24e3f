"""Moments as people write them, into milliseconds since 1970. Invariant: a moment is the same everywhere, so a date and
a time need their offset."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from gosched.config.errors import shown
from gosched.config.quantity import duration_ms

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment_ms(value: object) -> int:
    """Read RFC 3339, with its offset."""
    if isinstance(value, str) and _RFC3339.fullmatch(value.strip()):
        try:
            moment = datetime.fromisoformat(value.strip().upper())
        except ValueError as error:
            raise ValueError(f"there is no such time: {shown(value)} ({error})") from None
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    raise ValueError(f'expected a time with its offset such as "2026-12-01T06:00:00Z", got {shown(value)}')


def moment_from_ms(text: str, now_ms: int) -> int:
    """Read `now`, `+2h` from now, or a moment."""
    words = text.strip()
    if words == "now":
        return now_ms
    if words.startswith("+"):
        return now_ms + duration_ms(words[1:])
    try:
        return moment_ms(words)
    except ValueError as error:
        raise ValueError(f"{error}; or +2h for two hours from now") from None


def past_ms(text: str, now_ms: int) -> int:
    """Read `2h` for two hours ago, or a moment."""
    words = text.strip()
    try:
        ago = words[:1].isdigit() and "-" not in words
        return max(1, now_ms - duration_ms(words) if ago else moment_ms(words))
    except ValueError as error:
        raise ValueError(f"{error}; or 2h for two hours ago") from None
