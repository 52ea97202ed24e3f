"""When schedules run, where the clocks change too."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from gosched.master.cron import next_run

BERLIN = "Europe/Berlin"


def ms(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def runs(cron: str, zone: str, start: str, count: int) -> list[str]:
    moment, found = ms(start, zone), []
    for _ in range(count):
        moment = next_run(cron, zone, moment)
        found.append(datetime.fromtimestamp(moment / 1000, ZoneInfo(zone)).isoformat(timespec="minutes"))
    return found


def test_the_next_run_is_after_the_moment_never_at_it() -> None:
    assert next_run("0 3 * * *", "", ms("2026-01-01T03:00")) == ms("2026-01-02T03:00")
    assert next_run("0 3 * * *", "", ms("2026-01-01T03:00") - 1) == ms("2026-01-01T03:00")
    assert next_run("30 6 * * MON", "Asia/Tokyo", ms("2026-01-01T00:00")) == ms("2026-01-05T06:30", "Asia/Tokyo")


def test_a_nightly_run_in_the_skipped_hour_comes_right_after_it_and_in_the_repeated_hour_once() -> None:
    spring = runs("30 2 * * *", BERLIN, "2026-03-28T00:00", 3)
    assert spring == ["2026-03-28T02:30+01:00", "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]
    autumn = runs("30 2 * * *", BERLIN, "2026-10-24T12:00", 2)
    assert [run[:16] for run in autumn] == ["2026-10-25T02:30", "2026-10-26T02:30"]


@pytest.mark.parametrize("start", ["2026-03-29T00:00", "2026-10-25T00:00"])
def test_an_hourly_run_follows_the_time_that_really_passes(start: str) -> None:
    moments = [ms(start, BERLIN)]
    for _ in range(6):
        moments.append(next_run("0 * * * *", BERLIN, moments[-1]))
    assert {after - before for before, after in pairwise(moments)} == {3_600_000}


@pytest.mark.parametrize(
    ("cron", "zone", "words"),
    [
        ("0 3 * *", "", "5 fields"),
        ("* * * * * *", "", "5 fields"),
        ("61 * * * *", "", "minute"),
        ("0 0 31 2 *", "", "day-of-month"),
        ("9" * 5000 + " * * * *", "", "cannot be read"),
        ("0 3 * * *", "Mars/Olympus", "Mars/Olympus"),
        ("0 3 * * *", "../etc/passwd", "not known"),
        ("0 3 * * *", "America", "not known"),
    ],
)
def test_what_cannot_be_a_schedule_is_said_in_one_line(cron: str, zone: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as raised:
        next_run(cron, zone, 0)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300
