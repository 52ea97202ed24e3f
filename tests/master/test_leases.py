from __future__ import annotations

from gosched.master.leases import CHECK_S, Leases


class FakeClock:
    def __init__(self) -> None:
        self.s = 100.0

    def now_ms(self) -> int:
        return int(self.s * 1000)

    def monotonic_s(self) -> float:
        return self.s


def pass_time(leases: Leases, clock: FakeClock, seconds: float) -> list[str]:
    """Checked as often as the leader does; what expired on the way."""
    expired: list[str] = []
    for _ in range(int(seconds / CHECK_S)):
        clock.s += CHECK_S
        expired = leases.expired() or expired
    return expired


def new() -> tuple[Leases, FakeClock]:
    clock = FakeClock()
    return Leases(clock, timeout_s=10, first_s=15), clock


def test_a_node_silent_for_ten_seconds_has_no_lease() -> None:
    leases, clock = new()
    leases.begin([])
    leases.renew("n1")
    assert pass_time(leases, clock, 9.5) == []
    assert pass_time(leases, clock, 0.5) == ["n1"]


def test_a_heartbeat_renews_the_lease() -> None:
    leases, clock = new()
    leases.begin([])
    leases.renew("n1")
    assert pass_time(leases, clock, 9) == []
    leases.renew("n1")
    assert pass_time(leases, clock, 9) == []
    assert leases.age_ms("n1") == 9000


def test_the_first_term_under_a_new_leader_is_longer_and_a_heartbeat_does_not_shorten_it() -> None:
    leases, clock = new()
    leases.begin(["n1"])
    leases.renew("n1")
    assert pass_time(leases, clock, 14.5) == []
    assert pass_time(leases, clock, 0.5) == ["n1"]


def test_a_pause_of_the_leader_itself_kills_no_node() -> None:
    leases, clock = new()
    leases.begin(["n1"])
    assert pass_time(leases, clock, 14) == []
    clock.s += 60  # stopped, or starved
    assert leases.expired() == []
    assert pass_time(leases, clock, 0.5) == []
    assert pass_time(leases, clock, 0.5) == ["n1"]


def test_a_node_that_was_never_heard_by_this_leader_has_no_age() -> None:
    leases, _ = new()
    leases.begin(["n1"])
    assert leases.age_ms("n1") == -1
