"""When schedules run, where the clocks change too."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from gosched.config.cron import check_schedule, next_run_ms, zone

BERLIN = "Europe/Berlin"


def ms(text: str, timezone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(timezone)).timestamp() * 1000)


def runs(cron: str, timezone: str, after: str, count: int) -> list[str]:
    found, moment = [], ms(after)
    for _ in range(count):
        moment = next_run_ms(cron, timezone, moment)
        found.append(datetime.fromtimestamp(moment / 1000, UTC).strftime("%d %H:%M"))
    return found


def test_a_run_at_two_in_berlin_follows_the_clocks_there():
    assert runs("0 2 * * *", BERLIN, "2026-01-10T00:00", 1) == ["10 01:00"]
    assert runs("0 2 * * *", BERLIN, "2026-07-10T00:00", 1) == ["11 00:00"]


def test_the_run_in_the_skipped_hour_comes_right_after_it():
    assert runs("30 2 * * *", BERLIN, "2026-03-28T12:00", 2) == ["29 01:00", "30 00:30"]


def test_the_run_in_the_repeated_hour_comes_once():
    assert runs("30 2 * * *", BERLIN, "2026-10-24T12:00", 2) == ["25 00:30", "26 01:30"]


def test_each_run_is_later_than_the_one_before_over_a_whole_year():
    moments = [ms("2026-01-01T00:00")]
    while moments[-1] < ms("2027-01-01T00:00"):
        moments.append(next_run_ms("*/30 1-3 * * *", BERLIN, moments[-1]))
    assert all(a < b for a, b in pairwise(moments))
    assert len(moments) > 365 * 5


def test_a_run_that_is_due_now_is_not_the_next_one():
    assert next_run_ms("0 2 * * *", "UTC", ms("2026-01-10T02:00")) == ms("2026-01-11T02:00")


def test_utc_needs_no_zone_files(monkeypatch):
    monkeypatch.setattr("gosched.config.cron.ZoneInfo", None)
    assert zone("UTC") is UTC


@pytest.mark.parametrize(
    ("cron", "timezone", "words"),
    [
        ("0 2 * *", "UTC", "expected minute, hour, day of month, month and day of week"),
        ("0 0 2 * * *", "UTC", "expected minute, hour"),
        ("61 * * * *", "UTC", "Bad minute"),
        ("@daily", "UTC", "expected minute, hour"),
        ("", "UTC", "expected minute, hour"),
        ("0 2 * * *", "Europe/Brelin", "unknown time zone 'Europe/Brelin'"),
        ("0 2 * * *", "../../etc/passwd", "unknown time zone"),
        ("0 2 * * *", "", "unknown time zone"),
        ("0 2 * * *", "a\0b", "unknown time zone"),
    ],
)
def test_what_cannot_be_a_schedule_is_refused_in_one_line(cron, timezone, words):
    with pytest.raises(ValueError, match=r"^.*$") as caught:
        check_schedule(cron, timezone)
    assert words in str(caught.value)
