"""A log that breaks anywhere is printed once; tests/kubernetes/test_pods.py has it with a real kubelet."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from gosched.integrations.pods import cursor
from gosched.integrations.pods.cursor import Cursor

BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def stamp(moment: datetime, zone: str = "Z") -> bytes:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond * 1000:09}{zone}".encode()


class Log:
    """A file of lines with times, as a kubelet shows it."""

    def __init__(self, lines: list[tuple[datetime, bytes]]) -> None:
        self.lines = lines

    def since(self, text: str) -> bytes:
        begin = datetime.fromisoformat(text) if text else BEGAN - timedelta(days=1)
        return b"".join(stamp(moment) + b" " + line for moment, line in self.lines if moment >= begin)


@pytest.mark.parametrize("seed", range(60))
def test_wherever_it_breaks_nothing_is_lost_or_repeated(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor, "PIECE_BYTES", 200)
    chance = random.Random(seed)
    moment, lines = BEGAN, list[tuple[datetime, bytes]]()
    for number in range(chance.randrange(1, 200)):
        moment += timedelta(milliseconds=chance.choice([0, 0, 1, 40, 900, 3000]))
        late = timedelta(milliseconds=chance.choice([0, 0, 30]))  # of the other stream: in the wrong order
        long = b"x" * chance.choice([0, 0, 10, 1000])
        lines.append((moment - late, b"%d %s\n" % (number, long)))
    log, read, printed = Log(lines), Cursor(), b""
    for _ in range(chance.randrange(8)):
        shown = log.since(read.resume())
        shown = shown[: chance.randrange(len(shown) + 1)]
        while shown:
            size = chance.randrange(1, 300)
            printed += read.take(shown[:size])
            shown = shown[size:]
    printed += read.take(log.since(read.resume())) + read.end()
    assert printed == b"".join(line for _, line in lines)


def test_times_may_be_of_any_zone_and_the_last_line_without_an_end() -> None:
    read = Cursor()
    assert read.resume() == ""
    shown = stamp(BEGAN, "+02:00") + b" a\n" + stamp(BEGAN, "+02:00") + b" b"
    assert read.take(shown) == b"a\n"
    assert read.end() == b"b"
    assert read.resume() == "2026-01-02T01:04:04Z"
    assert read.take(shown) + read.end() == b""


def test_words_of_the_kubelet_are_printed_and_not_counted() -> None:
    read = Cursor()
    read.resume()
    line = stamp(BEGAN) + b" a\n"
    assert read.take(b"unable to retrieve container logs\n" + line) == b"unable to retrieve container logs\na\n"
    read.resume()
    assert read.take(line + line) == b"a\n"


def test_a_log_that_was_rotated_away_goes_on_with_what_is_there() -> None:
    read = Cursor()
    read.resume()
    read.take((stamp(BEGAN) + b" a\n") * 5)
    read.resume()
    assert read.take(stamp(BEGAN + timedelta(seconds=9)) + b" b\n") == b"b\n"


def test_it_keeps_counts_of_the_newest_seconds_alone() -> None:
    read = Cursor()
    read.resume()
    for second in range(1000):
        read.take(stamp(BEGAN + timedelta(seconds=second)) + b" a\n")
    assert len(read._printed) <= 2
