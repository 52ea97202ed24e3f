from __future__ import annotations

import random

import pytest

from gosched.master.agents.leases import AT_ONCE, CHECK_S, Leases


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
    assert leases.lease_ms("n1") == 10_000
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
    assert "its event loop stood for 59.5 s" in leases.doubt
    assert pass_time(leases, clock, 4.5) == [], "its heartbeat may be one that waits unread"
    assert pass_time(leases, clock, 0.5) == ["n1"]
    assert leases.doubt == ""


def test_a_late_leader_gives_up_no_node_and_goes_on_by_itself() -> None:
    leases, clock = new()
    leases.begin([])
    leases.renew("n1")
    for _ in range(60):  # 30 s in which heartbeats are read late
        for node, waited_s in (("n2", 1.5), ("n3", 2.5), ("n4", 2.0)):
            leases.lateness.read(node, waited_s)
        assert pass_time(leases, clock, CHECK_S) == []
    assert "heartbeats wait 1.5 s" in leases.doubt
    for node in ("n2", "n3", "n4"):
        leases.lateness.read(node, 0.1)
    assert pass_time(leases, clock, 4.5) == []
    assert pass_time(leases, clock, 0.5) == ["n1"], "half a lease after the last sign"


def test_calls_of_agents_that_were_given_up_unread_are_a_sign_of_lateness_for_half_a_lease() -> None:
    leases, clock = new()
    leases.begin([])
    leases.renew("n1")
    for _ in range(60):
        leases.lateness.dropped()
        assert pass_time(leases, clock, CHECK_S) == [], "nothing is read in time"
    assert "calls of agents were given up" in leases.doubt
    assert pass_time(leases, clock, 8.5) == [], "the last sign was at the end of half a lease, and counts for as long"
    assert pass_time(leases, clock, 1) == ["n1"], "what was dropped long ago is no sign"


def test_a_late_call_that_another_master_passed_on_says_nothing_and_one_in_time_does() -> None:
    leases, clock = new()
    leases.begin([])
    leases.renew("n1")
    for step in range(20):
        leases.lateness.read(f"m{step}", 2.9, passed_on=True)
        expired = pass_time(leases, clock, CHECK_S)
    assert expired == ["n1"]
    leases, clock = new()
    leases.begin([])
    leases.renew("n1")
    for step in range(20):
        leases.lateness.dropped()
        leases.lateness.read(f"m{step}", 0.1, passed_on=True)
        expired = pass_time(leases, clock, CHECK_S)
    assert expired == ["n1"]


def test_a_heartbeat_that_is_read_in_time_shows_that_none_waits_long() -> None:
    """Others have slow connections, or lie."""
    leases, clock = new()
    leases.begin([])
    leases.renew("n1")
    for step in range(20):
        for agent in range(5):
            leases.lateness.read(f"m{agent}", 2.9)
            leases.lateness.dropped()
        if step % 9 == 0:
            leases.lateness.read("n2", 0.01)
        expired = pass_time(leases, clock, CHECK_S)
        assert leases.doubt == ""
    assert expired == ["n1"]


def test_two_agents_that_are_read_late_make_no_leader_late() -> None:
    leases, clock = new()
    leases.begin([])
    leases.renew("n1")
    for step in range(20):
        leases.lateness.read(f"m{step % 2}", 2.9)
        expired = pass_time(leases, clock, CHECK_S)
    assert expired == ["n1"]


def lose(leases: Leases, clock: FakeClock, lost: int, nodes: int) -> list[tuple[float, int]]:
    """Let so many of the nodes fall silent together; return when how many were given up, in seconds since then."""
    names = [f"n{i:04}" for i in range(nodes)]
    leases.begin([])
    for name in names:
        leases.renew(name)
    began, given_up = clock.s, []
    while clock.s - began < 120:
        clock.s += CHECK_S
        for name in names[lost:]:
            leases.renew(name)
        over = leases.expired()
        for name in over:
            leases.drop(name)
        if over:
            assert set(over) <= set(names[:lost])
            given_up.append((clock.s - began, len(over)))
    return given_up


def test_a_rack_of_a_large_cluster_is_given_up_once_its_leases_are_over() -> None:
    leases, clock = new()
    assert lose(leases, clock, 40, 1000) == [(10.0, 40)]


def test_most_of_the_nodes_are_given_up_one_lease_later_and_some_at_a_time() -> None:
    leases, clock = new()
    given_up = lose(leases, clock, 600, 1000)
    assert given_up[0][0] == 20.0
    assert sum(count for _, count in given_up) == 600
    assert max(count for _, count in given_up) == AT_ONCE
    assert given_up[-1][0] == 20.0 + (600 / AT_ONCE - 1) * CHECK_S


def test_a_silent_node_that_is_heard_before_its_turn_lives() -> None:
    leases, clock = new()
    leases.begin([f"n{i:04}" for i in range(200)])
    clock.s += 25
    leases.resume()
    for _ in range(21):
        clock.s += CHECK_S
        chosen = leases.expired()
    assert len(chosen) == AT_ONCE
    assert not leases.is_given_up("n0150")
    leases.renew("n0150")
    for name in chosen:
        leases.drop(name)
    later = []
    for _ in range(3):
        clock.s += CHECK_S
        later += leases.expired()
        for name in later:
            leases.drop(name)
    assert len(set(later)) == 149
    assert "n0150" not in later


def test_nodes_of_a_large_cluster_are_heard_more_rarely_as_far_as_leases_allow() -> None:
    leases = Leases(FakeClock(), timeout_s=30, first_s=45, heartbeat_s=5)
    for nodes, heartbeat_ms in ((0, 5000), (2000, 5000), (5000, 10_000), (9000, 15_000)):
        leases.begin([str(i) for i in range(nodes)])
        assert leases.heartbeat_ms == heartbeat_ms


def test_a_lease_that_tasks_end_with_outlives_a_change_of_leaders() -> None:
    leases, clock = new()
    leases.begin(["n1", "n2"], asked_s=clock.s - 1)
    assert leases.lease_ms("n1") == 14_000, "no next leader gives it up earlier than that"
    clock.s += 30
    leases.resume()
    for node, lease_ms in (("n1", 12_500), ("n2", 10_000)):
        leases.confirmed(clock.s - 2.4)
        leases.renew(node, tasks_end_with_it=node == "n1")
        assert leases.lease_ms(node) == lease_ms
    assert pass_time(leases, clock, 10) == ["n2"]
    leases.drop("n2")
    assert pass_time(leases, clock, 2) == []
    assert pass_time(leases, clock, 0.5) == ["n1"]


@pytest.mark.parametrize("first_s", [10, 11, 15, 40])
def test_no_leader_gives_a_node_up_before_the_lease_that_it_was_told_is_over(first_s: float) -> None:
    """One leader leads, the next one opens its epoch at any moment after the first was last known to lead, and begins
    its leases later still. The node hears of the first alone. Times are of one clock; answers take time."""
    longer = 0
    for seed in range(300):
        rng, clock = random.Random(seed), FakeClock()
        leader = Leases(clock, timeout_s=10, first_s=first_s)
        confirmed = until = clock.s - rng.uniform(0, 0.5)
        leader.begin(["n1"], asked_s=confirmed)
        for _ in range(rng.randrange(1, 12)):
            clock.s += rng.uniform(0.1, 4)
            leader.resume()
            sent = clock.s - rng.uniform(0, 0.3)
            leader.renew("n1")
            if not leader.is_confirmed():
                confirmed = clock.s
                clock.s += rng.uniform(0, 0.2)
                leader.confirmed(confirmed)
            leader.renew("n1", tasks_end_with_it=True)
            told_s = leader.lease_ms("n1") / 1000
            longer += told_s > 10
            until = max(until, sent + told_s)
        # The next epoch: after the moment at which the first was confirmed, perhaps long before now.
        opened = max(confirmed, clock.s - rng.uniform(0, 8))
        assert until <= opened + first_s + 1e-3, f"seed {seed}"
        gone_at = 0.0
        while not gone_at:
            clock.s += CHECK_S
            gone_at = clock.s if leader.expired() else 0.0
        assert until <= gone_at, f"seed {seed}"
    assert bool(longer) is (first_s > 10)


def test_an_epoch_that_was_opened_lately_confirms_leases() -> None:
    leases, clock = new()
    leases.begin(["n1"], asked_s=clock.s)
    assert leases.is_confirmed()
    clock.s += 2.5
    assert not leases.is_confirmed()


def test_a_node_that_was_never_heard_by_this_leader_has_no_age() -> None:
    leases, _ = new()
    leases.begin(["n1"])
    assert leases.age_ms("n1") == -1


def cut_off(leases: Leases, clock: FakeClock, nodes: int, *, cut_s: float, seed: int) -> list[tuple[float, int]]:
    """Let heartbeats at random moments, every 5 s about, stop for so long; return when how many were given up then, in
    seconds since the cut."""
    rng = random.Random(seed)
    due = {f"n{i:04}": clock.s + rng.uniform(0, 5) for i in range(nodes)}
    leases.begin(due)
    began, given_up = clock.s + 30, list[tuple[float, int]]()
    while clock.s < began + 60:
        clock.s += CHECK_S
        for name, at in due.items():
            if at <= clock.s:
                is_cut = began <= clock.s < began + cut_s
                due[name] = clock.s + (rng.uniform(0, 2) if is_cut else rng.uniform(4.25, 5))
                if not is_cut and not leases.is_given_up(name):
                    leases.renew(name)
        over = leases.expired()
        for name in over:
            leases.drop(name)
        if over:
            given_up.append((clock.s - began, len(over)))
    return given_up


@pytest.mark.parametrize("nodes", [50, 100, 200, 400, 1000])
def test_a_leader_that_hears_no_agent_gives_up_none_for_another_lease_and_none_that_come_back(nodes: int) -> None:
    for seed in range(5):
        for cut_s in (6, 9, 11, 13):
            clock = FakeClock()
            leases = Leases(clock, timeout_s=10, first_s=15, heartbeat_s=5)
            assert cut_off(leases, clock, nodes, cut_s=cut_s, seed=seed) == [], (cut_s, seed)
        clock = FakeClock()
        leases = Leases(clock, timeout_s=10, first_s=15, heartbeat_s=5)
        given_up = cut_off(leases, clock, nodes, cut_s=60, seed=seed)
        assert given_up[0][0] >= 15
        assert sum(count for _, count in given_up) == nodes


def test_a_node_that_comes_back_has_no_shorter_lease_than_it_was_told() -> None:
    leases, clock = new()
    leases.begin(["n1"])
    leases.wait_for("n1", 300)
    clock.s += 20
    leases.resume()
    leases.confirmed(clock.s)
    leases.renew("n1")  # it registers
    told_s = leases.lease_ms("n1") / 1000
    until = clock.s + told_s
    clock.s += 1
    leases.is_back("n1")
    leases.renew("n1")  # its first heartbeat, whose answer is lost
    while not leases.expired():
        clock.s += CHECK_S
        leases.resume()
        assert clock.s < until + 2, "and it is not waited for any longer"
    assert clock.s >= until


def test_a_node_that_registers_anew_while_it_is_given_up_lives() -> None:
    leases, clock = new()
    leases.begin([])
    leases.renew("n1")
    assert pass_time(leases, clock, 10) == ["n1"]
    leases.spare("n1")
    assert not leases.is_given_up("n1")
    assert pass_time(leases, clock, 9.5) == []


def test_after_a_stall_one_dead_node_is_given_up_as_soon_as_that_allows() -> None:
    leases, clock = new()
    names = [f"n{i:03}" for i in range(100)]
    leases.begin([])
    for name in names:
        leases.renew(name)
    clock.s += 8  # the loop stands
    assert leases.expired() == []
    for name in names[1:]:
        leases.renew(name)
    gone_at = 0.0
    for step in range(60):
        clock.s += CHECK_S
        if step % 5 == 0:
            for name in names[1:]:
                leases.renew(name)
        if leases.expired():
            gone_at = clock.s
            break
    assert gone_at <= 100 + 10 + 8 + CHECK_S, "its lease, and the stall"
