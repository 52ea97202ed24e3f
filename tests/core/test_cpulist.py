"""Lists of CPUs and masks are two forms of one thing."""

from random import Random

import pytest

from gosched.core.cpulist import format_cpulist, parse_cpulist
from gosched.core.limits import MAX_CPUS


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", []),
        ("0", [0]),
        ("0-3,8", [0, 1, 2, 3, 8]),
        ("63-65", [63, 64, 65]),
        (f"{MAX_CPUS - 1}", [MAX_CPUS - 1]),
    ],
)
def test_a_list_and_its_mask(text, cpus):
    mask = sum(1 << cpu for cpu in cpus)
    assert parse_cpulist(text) == mask
    assert format_cpulist(mask) == text


@pytest.mark.parametrize("text", ["3,1,2", "1-2,2-3", "0,1", "01", "0-0"])
def test_other_spellings_are_read_and_written_in_one_way(text):
    shortest = format_cpulist(parse_cpulist(text))
    assert shortest != text
    assert parse_cpulist(shortest) == parse_cpulist(text)


@pytest.mark.parametrize(
    "text", [",", "0,", "-1", "1-", "a", "1 ", "3-1", "0x1", "\u0661", f"{MAX_CPUS}", "0-99999", "9" * 9]
)
def test_what_is_no_list_is_refused_in_one_short_line(text):
    with pytest.raises(ValueError, match="CPUs") as caught:
        parse_cpulist(text)
    assert len(str(caught.value)) < 150


def test_any_mask_survives_the_way_there_and_back():
    r = Random(7)
    for _ in range(500):
        mask = r.getrandbits(r.randrange(1, 200)) & r.getrandbits(200)
        assert parse_cpulist(format_cpulist(mask)) == mask
