"""Fields that came with a later feature level: masters of the release before compute the digest without them."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.digest import record_digest
from gosched.core.primitives import added


@dataclass(frozen=True, slots=True, kw_only=True)
class _Before:
    name: str
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Since:
    name: str
    size: int = 0
    user: str = added("")
    known: bool = added(False)


def _digest(record: object) -> int:
    return record_digest("jobs", "j1", record)


def test_a_record_without_its_added_fields_has_the_digest_of_the_release_before() -> None:
    assert _digest(_Since(name="a", size=3)) == _digest(_Before(name="a", size=3))


def test_a_field_of_a_later_round_leaves_those_of_the_rounds_before() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Later(_Since):
        wanted: int = added(0, 2)

    assert _digest(Later(name="a", user="x")) == _digest(_Since(name="a", user="x"))
    assert _digest(Later(name="a")) == _digest(_Before(name="a"))
    assert len({_digest(Later(name="a")), _digest(Later(name="a", wanted=1)), _digest(Later(name="a", wanted=2))}) == 3


def test_an_added_field_that_is_set_is_digested() -> None:
    digests = {_digest(_Since(name="a")), _digest(_Since(name="a", user="x")), _digest(_Since(name="a", known=True))}
    assert len(digests) == 3
