"""The moments of --begin, in the zone of this machine."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from gosched.core.amounts import duration_text
from gosched.core.limits import MAX_DURATION_MS

_EXPECTED = (
    "expected HH:MM[:SS], midnight, noon, fika, teatime, today, tomorrow, now, now+2hours, YYYY-MM-DD[THH:MM[:SS]], "
    "MMDDYY or MM/DD/YY"
)
_HOURS = {"midnight": 0, "noon": 12, "fika": 15, "teatime": 16}
_DAYS = {"today": 0, "tomorrow": 1}
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_FROM_NOW = re.compile(rf"now(?:\s*\+\s*(\d{{1,9}})\s*(?:({'|'.join(_SECONDS)})s?)?)?", re.ASCII)
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?(?:\s*([ap])m)?", re.ASCII)
_DATE = re.compile(r"(?:(\d{4})-(\d{2})-(\d{2})(?:t(.+))?|(\d{1,2})/(\d{1,2})/(\d{2})|(\d{2})(\d{2})(\d{2}))", re.ASCII)


def begin_of(text: str, now: datetime) -> dict[str, Any]:
    """Return `begin` of a job file; empty: at once, since the moment is now or has passed. `now`: without a zone, by
    the clock of this machine. Raises ValueError, in words for people."""
    words = text.strip().lower()
    if found := _FROM_NOW.fullmatch(words):
        seconds = int(found[1] or 0) * _SECONDS[found[2] or "second"]
        if seconds * 1000 > MAX_DURATION_MS:
            raise ValueError(f"{text!r} is beyond {duration_text(MAX_DURATION_MS)} from now, the longest wait")
        return {"in": f"{seconds}s"} if seconds else {}
    try:
        moment = _moment(words, now)
        return {"at": moment.astimezone().isoformat(timespec="seconds")} if moment > now else {}
    except (ValueError, OverflowError):
        raise ValueError(f"{_EXPECTED}, got {text!r}") from None


def _moment(words: str, now: datetime) -> datetime:
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if words in _DAYS:
        return today + timedelta(days=_DAYS[words])
    if found := _DATE.fullmatch(words):
        year, month, day, time, *short = found.groups()
        if year:
            return _at(datetime(int(year), int(month), int(day)), time or "midnight")
        month, day, year = (part for part in short if part)
        return datetime(2000 + int(year), int(month), int(day))
    moment = _at(today, words)
    return moment if moment > now else _at(today + timedelta(days=1), words)


def _at(day: datetime, words: str) -> datetime:
    """Return a time of the day."""
    if words in _HOURS:
        return day.replace(hour=_HOURS[words])
    found = _TIME.fullmatch(words)
    if not found:
        raise ValueError(f"{words!r} is no time")
    hour = int(found[1])
    if found[4]:
        if not 1 <= hour <= 12:
            raise ValueError(f"{words!r} is no hour of half a day")
        hour = hour % 12 + (12 if found[4] == "p" else 0)
    return day.replace(hour=hour, minute=int(found[2]), second=int(found[3] or 0))
