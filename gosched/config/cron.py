"""When a schedule runs: cron expressions in a time zone. The only importer of cronsim.

Invariant: what `check_schedule` lets pass has a next run on every machine that knows the time zone.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from gosched.config.errors import shown

_FIELDS = 5  # minute, hour, day of month, month, day of week; cronsim would take seconds as a sixth one
_EXPECTED = 'expected minute, hour, day of month, month and day of week, such as "0 2 * * *"'


def check_schedule(cron: str, timezone: str) -> None:
    """Raise ValueError, with one line, for an expression or a zone that cannot be used."""
    zone(timezone)
    if next_run_ms(cron, timezone, 0) is None:
        raise ValueError(f"{shown(cron)} never comes: there is no such day")


def zone(timezone: str) -> tzinfo:
    """Return the time zone of a name. UTC is known without the machine's zone files. Raise ValueError."""
    if timezone == "UTC":
        return UTC
    try:
        return ZoneInfo(timezone)
    except (OSError, ValueError, LookupError):  # it reads a file of that name, and the name may be anything
        raise ValueError(f"unknown time zone {shown(timezone)}: write one such as Europe/Berlin or UTC") from None


def next_run_ms(cron: str, timezone: str, after_ms: int) -> int | None:
    """Return the first run after a moment; None: in fifty years none. Raises ValueError.

    Where clocks are turned, as Debian's cron: what falls into a skipped hour runs right after it, what falls into a
    repeated one runs once.
    """
    if len(cron.split()) != _FIELDS:
        raise ValueError(f"{_EXPECTED}, got {shown(cron)}")
    try:
        runs = CronSim(cron, datetime.fromtimestamp(after_ms / 1000, UTC).astimezone(zone(timezone)))
        moment = next(runs, None)
    except CronSimError as error:
        raise ValueError(f"{_EXPECTED}, got {shown(cron)} ({error})") from None
    return None if moment is None else round(moment.timestamp() * 1000)
