"""What pages are made of: addresses, filters, texts, bars, shared answers."""

from __future__ import annotations

import asyncio

import pytest

from gosched.master.web.bars import WIDTH, bar, stacked
from gosched.master.web.query import Query
from gosched.master.web.recent import Recent
from gosched.master.web.security import is_address, page_headers
from gosched.master.web.sparkline import HEIGHT, sparkline
from gosched.master.web.text import amounts, moment, percent, quantity, span
from gosched.master.web.timeline import MOST_TICKS, SPANS, axis

GI = 1 << 30


class FakeClock:
    """Stands still but for what the test lets pass."""

    passed_s = 0.0

    def monotonic_s(self) -> float:
        return self.passed_s

    def now_ms(self) -> int:
        return 0


@pytest.mark.parametrize("text", ["10.0.0.1:8080", "master-2.gosched.svc:8080", "[::1]:8080"])
def test_an_address_of_a_master_is_allowed_by_the_policy(text: str) -> None:
    assert is_address(text)
    assert f"connect-src 'self' {text};" in page_headers([text])["Content-Security-Policy"]


@pytest.mark.parametrize(
    "text", ["", "x", "*:80", "a b:80", "a;script-src *:80", "evil.example:80/x", "a:80\r\nX: y", "'self':1"]
)
def test_what_is_no_address_never_becomes_part_of_the_policy(text: str) -> None:
    assert page_headers([text])["Content-Security-Policy"] == page_headers([])["Content-Security-Policy"]


def test_the_policy_allows_nothing_but_the_sites_own_files() -> None:
    policy = page_headers([])["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_a_query_takes_what_it_understands_and_leaves_out_the_rest() -> None:
    query = Query({"page": "7", "state": "READY", "q": " x " + "y" * 1000, "more": "-1", "huge": "9" * 400})
    assert query.number("page", 1, least=1, most=9) == 7
    assert [query.number(name, 1, least=1, most=9) for name in ("more", "huge", "state", "none")] == [1, 1, 1, 1]
    assert (query.choice("state", ("READY", "DEAD")), query.choice("state", ("DEAD",), "x")) == ("READY", "x")
    assert len(query.text("q")) <= 256
    assert Query({"a": "1&2", "page": "3"}).link("/x", page="", b="ü") == "/x?a=1%262&b=%C3%BC"


def test_amounts_are_in_peoples_units() -> None:
    assert [quantity(6500, "gpu"), quantity(12_400_000, "cpu"), quantity(1536 * GI, "memory")] == [
        "6.5",
        "12,400",
        "1.5 TiB",
    ]
    assert amounts({"cpu": 1000, "gpu": 8000, "memory": 512 * GI}) == "8 GPUs, 1 CPU, 512 GiB"
    assert amounts({}) == ""
    assert [span(900), span(65_000), span(7_260_000), span(-5)] == ["0 s", "1 min 5 s", "2 h 1 min", "0 s"]
    assert (percent(1, 3), percent(1, 0), moment(0), moment(10**18)) == ("33%", "–", "–", "1970-01-01 00:00:00")


def test_bars_stay_within_their_width_whatever_the_amounts_are() -> None:
    drawn = bar(10, ("held", 50), ("busy", 5), ("none", -3), marks=(("limit", 99),))
    assert [(s.kind, s.width) for s in drawn.segments] == [("held", WIDTH), ("busy", WIDTH // 2)]
    assert drawn.marks[0].x < WIDTH
    assert [(s.x, s.width) for s in stacked(10, ("a", 4), ("b", 100)).segments] == [(0, 400), (400, 600)]
    assert bar(0, ("held", 1)).segments == ()
    assert [float(point.split(",")[1]) for point in sparkline([0, 5, 50], 10).points.split()] == [HEIGHT, HEIGHT / 2, 0]


@pytest.mark.parametrize("length", SPANS)
def test_an_axis_has_a_few_marks_at_round_times(length: str) -> None:
    shown = axis(1_700_000_123_456, length, past=1 / 12)
    assert 3 <= len(shown.ticks()) <= MOST_TICKS + 1
    assert 0 < shown.now_x < 10
    assert (shown.x(0), shown.x(1 << 60)) == (0, 100)


def test_what_many_ask_for_at_once_is_made_once_and_what_failed_is_made_again() -> None:
    async def story() -> None:
        clock, made = FakeClock(), []
        recent: Recent[int] = Recent(clock, kept_s=1, most=2)

        async def make() -> int:
            await asyncio.sleep(0)
            made.append(len(made))
            if len(made) == 3:
                raise ValueError("once")
            return made[-1]

        assert await asyncio.gather(*[recent.get("a", make) for _ in range(50)]) == [0] * 50
        assert await recent.get("b", make) == 1
        clock.passed_s += 2
        with pytest.raises(ValueError, match="once"):
            await recent.get("a", make)
        assert await recent.get("a", make) == 3
        for key in range(20):
            await recent.get(key, make)
        assert len(recent._made) <= 2
        await recent.close()

    asyncio.run(story())
