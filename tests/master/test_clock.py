"""The state's clock on a master: whose time it follows, and what it does when clocks differ or jump."""

from __future__ import annotations

import pytest

from gosched.master.base.clock import DOUBT_S, FRESH_S, MAX_AGENTS, SLOWER, StateClock

BOUND_MS = 300_000
NOON = 1_800_000_000_000
HOUR = 3_600_000
YEAR = 365 * 24 * HOUR


class Wall:
    """True time is NOON and what has passed; this machine's wall clock is `off_ms` ahead of it."""

    def __init__(self, off_ms: int = 0) -> None:
        self.passed_s = 0.0
        self.off_ms = off_ms

    @property
    def true_ms(self) -> int:
        return NOON + int(self.passed_s * 1000)

    def now_ms(self) -> int:
        return self.true_ms + self.off_ms

    def monotonic_s(self) -> float:
        return 5_000 + self.passed_s


def made(masters: int, off_ms: int = 0, *, state_ms: int = NOON) -> tuple[StateClock, Wall]:
    """A clock that has just seen the state's clock stand at `state_ms`."""
    wall = Wall(off_ms)
    clock = StateClock(wall, masters=masters, bound_ms=BOUND_MS)
    clock.applied(state_ms)
    return clock, wall


def hear(clock: StateClock, wall: Wall, **off_ms: int) -> None:
    """Other masters' clocks by how far they are ahead of true time."""
    for master, off in off_ms.items():
        clock.heard_master(master, wall.true_ms + off)


def test_a_new_cluster_begins_at_its_first_masters_wall_clock():
    wall = Wall()
    assert StateClock(wall, masters=3, bound_ms=BOUND_MS).now_ms() == NOON


@pytest.mark.parametrize("off_ms", [10_000, HOUR, YEAR])
def test_a_leader_whose_clock_is_ahead_of_the_two_others_stamps_their_time(off_ms):
    clock, wall = made(3, off_ms)
    hear(clock, wall, b=0, c=0)
    wall.passed_s = 7
    assert clock.now_ms() == NOON + 7_000


def test_after_a_leader_that_was_an_hour_ahead_time_passes_and_no_more_than_a_little_slower():
    clock, wall = made(3, state_ms=NOON + HOUR)
    hear(clock, wall, b=0, c=HOUR)
    wall.passed_s = 6
    assert clock.now_ms() == NOON + HOUR + int(6_000 * (1 - SLOWER))
    assert clock.agreed_ms() == wall.true_ms


def test_a_state_that_is_ahead_meets_the_masters_time_and_follows_it_then():
    clock, wall = made(3, state_ms=NOON + 1_000)
    for second in range(40):
        wall.passed_s = second
        hear(clock, wall, b=0, c=0)
        clock.now_ms()
    assert clock.now_ms() == wall.true_ms


def test_while_two_masters_differ_and_no_agent_is_heard_time_passes_by_the_monotonic_clock():
    clock, wall = made(3, HOUR)
    hear(clock, wall, b=0)
    wall.passed_s = 20
    assert clock.agreed_ms() is None
    assert clock.now_ms() == NOON + 20_000


@pytest.mark.parametrize("off_ms", [0, HOUR])
def test_agents_decide_between_two_masters_that_differ(off_ms):
    clock, wall = made(3, HOUR)
    hear(clock, wall, b=0)
    for number in range(3):
        clock.heard_agent(f"n{number}", wall.true_ms + off_ms)
    assert clock.agreed_ms() == wall.true_ms + off_ms


def test_agents_do_not_outvote_masters_that_agree():
    clock, wall = made(3)
    hear(clock, wall, b=0, c=-HOUR)
    for number in range(1000):
        clock.heard_agent(f"n{number}", wall.true_ms + HOUR)
    assert clock.agreed_ms() == wall.true_ms


def test_a_cluster_that_stood_still_for_a_night_is_at_the_masters_time_as_soon_as_they_are_heard():
    clock, wall = made(3, state_ms=NOON - 9 * HOUR)
    assert clock.now_ms() == NOON - 9 * HOUR  # the own wall clock alone proves nothing
    hear(clock, wall, b=50)
    assert clock.now_ms() == NOON


def test_the_only_master_with_its_agents_is_at_their_time_at_once():
    clock, wall = made(1, state_ms=NOON - 9 * HOUR)
    clock.heard_agent("n1", wall.true_ms)
    assert clock.now_ms() == NOON


def test_the_only_master_does_not_follow_a_jump_of_its_own_clock_that_its_agents_do_not_see():
    clock, wall = made(1)
    wall.passed_s = 5
    assert clock.now_ms() == NOON + 5_000
    wall.off_ms = HOUR
    for second in range(200):
        wall.passed_s = 5 + second
        clock.heard_agent("n1", wall.true_ms)
        assert clock.now_ms() == wall.true_ms
    assert clock.agreed_ms() is None


def test_a_lonely_masters_clock_that_jumps_is_believed_once_it_has_stayed_where_it_is():
    """A virtual machine that was paused for a day: NTP sets it right, and nobody else is there to ask."""
    clock, wall = made(1)
    wall.off_ms = 24 * HOUR
    assert clock.now_ms() == NOON
    wall.passed_s = DOUBT_S - 1
    assert clock.now_ms() == wall.true_ms
    wall.passed_s = DOUBT_S
    assert clock.now_ms() == wall.true_ms + 24 * HOUR


def test_a_lonely_masters_clock_that_jumps_and_jumps_again_is_doubted_anew():
    clock, wall = made(1)
    wall.off_ms = YEAR
    clock.now_ms()
    wall.passed_s, wall.off_ms = DOUBT_S - 1, 0  # set right in time
    assert clock.now_ms() == wall.true_ms
    wall.passed_s, wall.off_ms = DOUBT_S + 1, HOUR
    assert clock.now_ms() == wall.true_ms


def test_what_was_heard_long_ago_does_not_count():
    clock, wall = made(3, HOUR)
    hear(clock, wall, b=0, c=0)
    wall.passed_s = FRESH_S - 1
    assert clock.agreed_ms() == wall.true_ms
    wall.passed_s = FRESH_S + 1
    assert clock.agreed_ms() is None


def test_the_own_clock_that_steps_does_not_move_what_was_heard_of_others():
    clock, wall = made(3)
    hear(clock, wall, b=0, c=0)
    wall.off_ms = -YEAR
    wall.passed_s = 3
    assert clock.now_ms() == wall.true_ms


def test_time_never_goes_back_but_when_it_was_set_back():
    clock, wall = made(3, state_ms=NOON + YEAR)
    hear(clock, wall, b=0, c=0)
    assert clock.now_ms() == NOON + YEAR
    wall.passed_s = 1
    clock.hold(wall.true_ms)
    clock.applied(NOON + YEAR + 1_000)  # a batch that was on its way
    assert clock.now_ms() == wall.true_ms
    clock.applied(wall.true_ms)
    clock.release()
    wall.passed_s = 2
    assert clock.now_ms() == wall.true_ms


def test_a_clock_that_could_not_be_set_back_goes_on_from_the_states():
    clock, _ = made(3, state_ms=NOON + YEAR)
    clock.hold(NOON)
    clock.release()
    assert clock.now_ms() == NOON + YEAR


def test_a_follower_notices_that_the_clock_was_set_back():
    clock, wall = made(3, state_ms=NOON + YEAR)
    hear(clock, wall, b=0, c=0)
    clock.applied(NOON)
    assert clock.now_ms() == NOON


def test_the_agents_that_are_remembered_are_bounded():
    clock, wall = made(3)
    for number in range(MAX_AGENTS):
        clock.heard_agent(f"early{number}", wall.true_ms - YEAR)
    for number in range(MAX_AGENTS):
        clock.heard_agent(f"n{number}", wall.true_ms)
    assert clock.agreed_ms() == wall.true_ms, "with the early ones the median would be theirs, and nothing agreed"
