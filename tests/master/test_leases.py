from __future__ import annotations

from gosched.master.agents.leases import CHECK_S, Leases


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


def test_the_first_term_is_never_shorter_than_the_lease_that_the_leader_before_gave() -> None:
    clock = FakeClock()
    leases = Leases(clock, timeout_s=10, first_s=3)
    leases.begin(["n1"])
    assert pass_time(leases, clock, 9.5) == []
    assert pass_time(leases, clock, 0.5) == ["n1"]
    assert leases.timeout_ms == 10_000
    assert not leases.is_confirmed(), "there is no time to spare: each lease needs a look at who leads"


def test_a_leader_is_sure_of_itself_for_half_the_time_that_a_new_one_waits_longer() -> None:
    leases, clock = new()
    leases.begin(["n1"])
    assert not leases.is_confirmed()
    leases.confirmed(clock.monotonic_s())
    clock.s += 2.4
    assert leases.is_confirmed()
    clock.s += 0.1
    assert not leases.is_confirmed()
    leases.confirmed(clock.monotonic_s())
    leases.begin(["n1"])
    assert not leases.is_confirmed(), "that was another epoch"


def test_a_node_whose_lease_is_over_is_given_up_until_it_is_dead_or_heard_otherwise() -> None:
    leases, clock = new()
    leases.begin([])
    for node in ("n1", "n2"):
        leases.renew(node)
    assert not leases.is_given_up("n1")
    pass_time(leases, clock, 10)
    assert leases.is_given_up("n1")
    leases.drop("n1")
    leases.renew("n2")  # it registered anew before it was marked dead
    leases.expired()
    assert not leases.is_given_up("n1")
    assert not leases.is_given_up("n2")


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
