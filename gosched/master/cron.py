"""When a schedule runs next.

Rule: a pure function of the expression, the time zone and the moment. Where clocks change it does as Debian's cron: a
run at fixed hours that falls in the skipped hour comes right after it, and one in the repeated hour comes once; a run
of every hour or every few minutes follows the time that really passes.
"""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

FIELDS = 5


def next_run(cron: str, timezone: str, after_ms: int) -> int:
    """The first moment after `after_ms`, in ms; an empty `timezone` is UTC. Raises ValueError with one line."""
    try:
        zone = ZoneInfo(timezone) if timezone else UTC
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(
            f"schedule.timezone {timezone[:64]!a} is not known: give a name such as Europe/Berlin"
        ) from error
    if len(cron.split()) != FIELDS:
        raise ValueError(f"schedule.cron {cron[:64]!a} must have {FIELDS} fields: minute hour day month weekday")
    try:
        moment = next(CronSim(cron, datetime.fromtimestamp(after_ms / 1000, zone)))
    except (CronSimError, ValueError, OverflowError) as error:
        raise ValueError(f"schedule.cron {cron[:64]!a} cannot be read: {error}") from error
    except StopIteration as error:
        raise ValueError(f"schedule.cron {cron[:64]!a} names no moment in the next 50 years") from error
    return int(moment.timestamp()) * 1000
