"""Decay in whole numbers against floats."""

from math import log
from random import Random

import pytest

from gosched.core.decay import accrued, average, decayed

HOUR = 3_600_000


def test_what_is_left_is_two_to_the_minus_x_within_three_parts_in_a_hundred_thousand():
    r = Random(11)
    for _ in range(5_000):
        half_life = r.randrange(60_000, 366 * 24 * HOUR)
        elapsed = r.randrange(10 * half_life)
        amount = 1 << 60
        assert decayed(amount, elapsed, half_life) / amount == pytest.approx(2 ** (-elapsed / half_life), rel=3e-5)


def test_nothing_passes_nothing_decays_and_after_very_long_nothing_is_left():
    assert decayed(12345, 0, HOUR) == 12345
    assert decayed(1000, HOUR, HOUR) == 500
    assert decayed(1 << 80, 1 << 60, 60_000) == 0
    assert decayed(0, HOUR, HOUR) == 0


def test_decay_never_grows_with_time():
    left = [decayed(1 << 40, t, 60_000) for t in range(0, 200_000, 7)]
    assert left == sorted(left, reverse=True)


def test_what_accrues_is_the_decayed_integral():
    for elapsed in (1, 1000, HOUR // 3, HOUR, 50 * HOUR):
        exact = 4000 * HOUR / log(2) * (1 - 2 ** (-elapsed / HOUR))
        assert accrued(4000, elapsed, HOUR) == pytest.approx(exact, rel=1e-3, abs=4000 * HOUR * 3e-5)


def test_constant_use_is_its_own_average_however_often_it_is_brought_up():
    used = 0
    for _ in range(20 * 60):
        used = decayed(used, 60_000, HOUR) + accrued(4000, 60_000, HOUR)
    assert average(used, HOUR) == pytest.approx(4000, rel=1e-3)
