from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gosched.config.quantity import cpu_millis, duration_ms, gpu_count, gpu_millis, memory_bytes, whole_amount

STEADY = settings(deadline=None, derandomize=True)


@pytest.mark.parametrize(
    ("parse", "value", "expected"),
    [
        (cpu_millis, 2, 2000),
        (cpu_millis, "500m", 500),
        (cpu_millis, Decimal("0.1"), 100),
        (cpu_millis, "1.005", 1005),
        (memory_bytes, "1.5Ti", 1649267441664),
        (memory_bytes, "2GB", 2 * 10**9),
        (memory_bytes, "512Mi", 512 * 2**20),
        (memory_bytes, "0.1k", 100),
        (memory_bytes, 0, 0),
        (duration_ms, "30s", 30_000),
        (duration_ms, "1h30m", 5_400_000),
        (duration_ms, "1.5s", 1500),
        (duration_ms, "7d", 604_800_000),
        (duration_ms, 0, 0),
        (gpu_count, "8", 8),
        (gpu_millis, Decimal("0.5"), 500),
        (gpu_millis, "16", 16_000),
        (whole_amount, "3", 3),
    ],
)
def test_amounts_are_exact(parse, value, expected):
    assert parse(value) == expected


@pytest.mark.parametrize(
    ("parse", "value", "words"),
    [
        (cpu_millis, "-1", "negative"),
        (cpu_millis, "0.0001", "too fine"),
        (cpu_millis, "2x", "expected a number of CPUs"),
        (cpu_millis, True, "expected a number of CPUs"),
        (cpu_millis, None, "got nothing"),
        (cpu_millis, "1e3", "expected a number of CPUs"),
        (memory_bytes, 5, "needs a unit such as 5Mi"),
        (memory_bytes, "5Gx", "unknown unit"),
        (memory_bytes, "0.0001Ki", "not a whole number of bytes"),
        (memory_bytes, "99999999999Pi", "more than can be counted"),
        (duration_ms, 5, "with a unit"),
        (duration_ms, "5 m", "with a unit"),
        (duration_ms, "0.0001s", "too fine"),
        (gpu_count, "0.5", "expected a whole number of GPUs"),
        (gpu_millis, "0.0001", "GPUs come in thousandths"),
        (gpu_millis, "8x", "expected a number of GPUs such as 2 or 0.5"),
        (whole_amount, "1.5", "expected a whole number"),
        (whole_amount, "2Gi", "expected a whole number"),
        (whole_amount, None, "got nothing"),
    ],
)
def test_what_is_not_an_amount_says_what_is(parse, value, words):
    with pytest.raises(ValueError, match=words):
        parse(value)


@STEADY
@given(st.integers(0, 10**9), st.sampled_from(["Ki", "Mi", "Gi"]))
def test_memory_is_the_number_times_its_unit(number, unit):
    power = {"Ki": 1, "Mi": 2, "Gi": 3}[unit]
    assert memory_bytes(f"{number}{unit}") == number * 1024**power


@STEADY
@given(st.decimals(0, 10**9, places=3))
def test_cpus_round_nowhere(number):
    assert Decimal(cpu_millis(number)) == number * 1000
