from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gosched.config.quantity import duration_ms, memory_bytes
from gosched.core.amounts import amount_text, amounts_text, bytes_text, duration_text, moment_text
from gosched.core.features import FeatureLevel
from gosched.state_machine import units


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("cpu", 64_000, "64 CPUs"),
        ("cpu", 1000, "1 CPU"),
        ("cpu", 500, "0.5 CPUs"),
        ("memory", 3 << 39, "1.5Ti of memory"),
        ("storage", 1023, "1023B of storage"),
        ("gpu:h100", 8000, "8 h100 GPUs"),
        ("fpga", 2, "2 of fpga"),
    ],
)
def test_amounts_are_in_the_units_people_write(name: str, amount: int, text: str) -> None:
    assert amount_text(name, amount) == text


def test_several_amounts_are_one_list() -> None:
    assert amounts_text({"cpu": 8000, "memory": 1 << 30}) == "8 CPUs, 1Gi of memory"


@given(st.integers(0, 366 * 86_400_000))
def test_a_duration_is_read_back_exactly(span_ms: int) -> None:
    assert duration_ms(duration_text(span_ms)) == span_ms


@pytest.mark.parametrize(
    ("span_ms", "text"), [(0, "0s"), (5_400_000, "1h30m"), (2500, "2.5s"), (90_061_001, "1d1h1m1.001s")]
)
def test_a_duration_is_in_the_units_people_write(span_ms: int, text: str) -> None:
    assert duration_text(span_ms) == text


@given(st.integers(0, 253_402_300_799_999))
def test_a_moment_is_that_of_the_calendar(at_ms: int) -> None:
    assert moment_text(at_ms) == f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


@given(st.integers(1, 1 << 52))
def test_bytes_are_said_to_a_thousandth_and_never_too_many(amount: int) -> None:
    number, unit = re.fullmatch(r"([0-9.]+)([KMGT]i|B)", bytes_text(amount)).groups()
    assert amount * 999 // 1000 <= Decimal(number) * memory_bytes(f"1{unit}") <= amount


def test_below_level_5_a_message_is_that_of_the_previous_release() -> None:
    assert units.duration(FeatureLevel.FIRST, 1000) == "1000 ms"
    assert units.moment(FeatureLevel.FIRST, 1000) == "1000 ms"
    assert units.amount(FeatureLevel.FIRST, "cpu", 3000) == "3000 cpu"
    assert units.bare_amount(FeatureLevel.FIRST, "cpu", 2000) == "2000"
    assert units.amount(FeatureLevel.BOUNDED, "cpu", 3000) == "3 CPUs"
