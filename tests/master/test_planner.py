"""What the planner stumbles over is set aside, and nothing else is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from gosched.master.planning import planner as module
from gosched.master.planning.planner import FIRST_RETRY_MS, SEARCH_AGAIN_MS, UNKNOWN, Planner
from gosched.scheduling import Plan, Policy, View, schedule
from gosched.scheduling.actions import clear_windows, repair
from gosched.scheduling.fairness.queue_limits import QueueLimits
from gosched.scheduling.plugins.interface import API_VERSION, Plugin
from gosched.scheduling.preemption.eviction_rules import EvictionBudget
from gosched.scheduling.reservations import ReservationKeeper
from gosched.scheduling.snapshot.running_gangs import RunningGang
from gosched.scheduling.suspects import Kind, Suspect
from tests.scheduling.support.cluster import group, job, node, view_of
from tests.scheduling.support.notation import NOW_MS
from tests.scheduling.support.tables import World, begin


class Stumbling:
    """The planner, with a bug that some jobs meet, and that says nothing of them."""

    def __init__(self, *bad: str) -> None:
        self.bad = frozenset(bad)
        self.plans = 0

    def __call__(self, view: View, policy: Policy, now_ms: int, seed: int, *stumble: Any) -> Plan:
        self.plans += 1
        if self.bad & {gang.job_id for gang in view.pending}:
            raise ZeroDivisionError("a bug")
        return schedule(view, policy, now_ms, seed, *stumble)


def view(jobs: int) -> View:
    return view_of([node("a", cpu=1000)], [job(i, group(cpu=1)) for i in range(1, jobs + 1)])


def placed(plan: Plan) -> set[str]:
    return {gang.job_id for gang in plan.gangs}


def jobs(*numbers: int) -> set[str]:
    return {f"j{number}" for number in numbers}


def fail_at(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, is_bad: Callable[..., bool]) -> Counter[str]:
    """A bug in a function of the planner, for some of its calls; how often it was met."""
    right, met = getattr(where, name), Counter[str]()

    def wrong(*given: Any, **named: Any) -> Any:
        if is_bad(*given, **named):
            met[name] += 1
            raise KeyError(2)
        return right(*given, **named)

    monkeypatch.setattr(where, name, wrong)
    return met


def planned(planner: Planner, world: World, now_ms: int = NOW_MS) -> Plan:
    return planner.plan(world.builder.view(world.state), now_ms, 7)


def aside(planner: Planner) -> set[Suspect]:
    return set(planner.set_aside)


def test_jobs_that_the_planner_fails_at_are_found_by_halves_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    stumbling = Stumbling("j7", "j40")
    monkeypatch.setattr(module, "schedule", stumbling)
    bugs: list[str] = []
    planner = Planner(Policy(), bugs.append)
    plan = planner.plan(view(50), 0, 1)
    assert placed(plan) == jobs(*range(1, 51)) - {"j7", "j40"}
    assert {job: why.code for job, why in plan.explanations.items()} == {"j7": "PLANNER_BUG", "j40": "PLANNER_BUG"}
    assert "ZeroDivisionError: a bug" in plan.explanations["j7"].message
    assert bugs == ["job", "job"]
    assert stumbling.plans < 25  # it looks by halves
    before = stumbling.plans
    assert placed(planner.plan(view(50), 1, 1)) == placed(plan)
    assert stumbling.plans == before + 1  # and remembers


def test_what_was_set_aside_is_tried_again_after_a_while_and_under_a_new_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stumbling, same = Stumbling("j1"), view(2)
    monkeypatch.setattr(module, "schedule", stumbling)
    planner = Planner(Policy())
    plan = planner.plan(same, 1000, 1)
    assert (placed(plan), plan.wake_at_ms) == ({"j2"}, 1000 + FIRST_RETRY_MS)
    assert placed(planner.plan(same, 1000 + FIRST_RETRY_MS, 1)) == {"j2"}
    (again,) = planner.set_aside.values()
    assert again.until_ms == 1000 + 3 * FIRST_RETRY_MS, "each time it takes longer"
    stumbling.bad = frozenset()
    assert placed(planner.plan(same, again.until_ms - 1, 1)) == {"j2"}
    assert placed(planner.plan(same, again.until_ms, 1)) == {"j1", "j2"}
    assert not planner.set_aside
    stumbling.bad = frozenset(["j1"])
    assert placed(planner.plan(same, again.until_ms, 1)) == {"j2"}
    stumbling.bad = frozenset()
    planner.reset()
    assert placed(planner.plan(same, again.until_ms, 1)) == {"j1", "j2"}


def test_what_has_changed_is_tried_again_but_not_at_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    stumbling = Stumbling("j1")
    monkeypatch.setattr(module, "schedule", stumbling)
    planner = Planner(Policy())
    planner.plan(view(2), 0, 1)
    stumbling.bad = frozenset()
    assert placed(planner.plan(view(2), 1, 1)) == {"j2"}
    assert placed(planner.plan(view(2), module.CHANGED_MS, 1)) == {"j1", "j2"}


def test_jobs_that_wait_no_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "schedule", Stumbling("j1"))
    planner = Planner(Policy())
    planner.plan(view(2), 0, 1)
    left = view_of([node("a", cpu=1000)], [job(2, group(cpu=1))])
    assert placed(planner.plan(left, 1, 1)) == {"j2"}
    assert not planner.set_aside


def test_a_bug_that_most_jobs_meet_costs_two_more_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_at(monkeypatch, QueueLimits, "shape", lambda self, gang, plugins: gang.sequence % 3 > 0)
    counting = Stumbling()
    monkeypatch.setattr(module, "schedule", counting)
    planner = Planner(Policy())
    plan = planner.plan(view(300), 0, 1)
    assert placed(plan) == jobs(*range(3, 301, 3))
    assert {why.code for why in plan.explanations.values()} == {"PLANNER_BUG"}
    assert counting.plans <= 32, "most of them of one job alone"


def test_a_job_that_fails_only_after_another_has_is_not_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    broken: list[str] = []

    def is_bad(self: QueueLimits, gang: Any, placement: Any, nodes: Any) -> bool:
        """j1 breaks what j2 needs."""
        fails = gang.job_id == "j1" or (gang.job_id == "j2" and broken[-1:] == ["j1"])
        broken.append(gang.job_id)
        return fails

    fail_at(monkeypatch, QueueLimits, "take", is_bad)
    planner = Planner(Policy())
    plan = planner.plan(view(4), 0, 1)
    assert plan.more, "the next cycle is at once"
    assert placed(plan) | placed(planner.plan(view(4), 1, 1)) == jobs(2, 3, 4)
    assert aside(planner) == {Suspect(Kind.JOB, "j1")}


CLUSTER = """
    queues
      x  capacity 50%
      y  capacity 50% {limit}
    quotas
      t  cpu=100
    nodes
      a  4cpu
      b  4cpu
      c  4cpu
      d  4cpu
    jobs
      gang   x yields since=1h : 2x 4cpu  on a b
      low    x yields priority=1 since=1h timeout=2h : 1x 4cpu  on c
      one    x : 1x 1cpu
      two    y tenant=t : 1x 1cpu
      three  x priority=9 never : 1x 1cpu
"""
WAITING = {"one", "two", "three"}


def cluster(more: str = "", limit: str = "") -> World:
    return begin(CLUSTER.format(limit=limit) + more)


def test_a_repair_that_fails_costs_that_repair_and_the_job_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster()
    world.kill("a")
    fail_at(monkeypatch, repair, "repaired", lambda *_: True)
    bugs: list[str] = []
    planner = Planner(Policy(), bugs.append)
    plan = planned(planner, world)
    assert (placed(plan), aside(planner), bugs) == (WAITING, {Suspect(Kind.REPAIR, "gang")}, ["repair"])
    why = planner.why("gang")
    assert why is not None
    assert why.code == "PLANNER_BUG"
    assert "bug with its repair (KeyError: 2)" in why.message
    assert planner.why("one") is None


def test_a_running_job_at_which_the_search_for_victims_fails_costs_no_waiting_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = cluster("      high   x priority=9 : 2x 4cpu\n      next   x priority=9 : 1x 4cpu\n")
    fail_at(monkeypatch, EvictionBudget, "is_evictable", lambda self, holder: holder.job_id == "gang")
    planner = Planner(Policy())
    plan = planned(planner, world)
    assert aside(planner) == {Suspect(Kind.RUNNING, "gang")}
    assert placed(plan) >= WAITING | {"next"}
    assert "PLANNER_BUG" not in {why.code for why in plan.explanations.values()}


def test_a_running_job_that_nothing_can_be_planned_with_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster()
    fail_at(monkeypatch, RunningGang, "ends_ms", lambda self, now_ms: self.job_id == "low")
    world.submit(["big", "x", ":", "4x", "4cpu"])  # a start is looked for in the release profile
    planner = Planner(Policy())
    assert placed(planned(planner, world)) == WAITING
    assert aside(planner) == {Suspect(Kind.RUNNING, "low")}
    assert "low" in world.state.jobs


def test_a_reservation_that_fails_is_left_out_and_its_job_planned_without(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster("      big  y timeout=1h : 2x 4cpu\n    reservations\n      big  2h  c d\n")
    fail_at(monkeypatch, ReservationKeeper, "_holds", lambda self, reserved: True)
    planner = Planner(Policy())
    plan = planned(planner, world)
    assert (placed(plan), aside(planner)) == (WAITING, {Suspect(Kind.RESERVATION, "big")})
    assert "its reserved start" in plan.explanations["big"].message


def test_a_window_that_fails_keeps_its_nodes_and_costs_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster("    windows\n      later  c  from=1h to=2h\n      now  b  from=1m to=3h\n")
    world.go("2m")
    fail_at(monkeypatch, clear_windows, "admits", lambda window, *_: window.name == "now")
    planner = Planner(Policy())
    plan = planned(planner, world, NOW_MS + 120_000)
    assert (placed(plan), aside(planner)) == (WAITING, {Suspect(Kind.WINDOW, "now")})
    assert {task.node_id for gang in plan.gangs for task in gang.tasks} == {"d"}


def test_a_queue_a_quota_and_an_account_that_fail_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster(limit="limit cpu=100")

    def limits_of(self: QueueLimits, view: View, name: str, *_: Any) -> bool:
        return name == "y"

    fail_at(monkeypatch, QueueLimits, "_of_queue", limits_of)
    planner = Planner(Policy())
    plan = planned(planner, world)
    assert (placed(plan), aside(planner)) == (WAITING - {"two"}, {Suspect(Kind.QUEUE, "y")})
    assert "bug with queue y (KeyError: 2)" in plan.explanations["two"].message
    monkeypatch.undo()
    fail_at(monkeypatch, QueueLimits, "_of_tenant", lambda self, view, name, used: name == "t")
    planner = Planner(Policy())
    plan = planned(planner, world)
    assert (placed(plan), aside(planner)) == (WAITING - {"two"}, {Suspect(Kind.QUOTA, "t")})
    assert "bug with quota t" in plan.explanations["two"].message
    monkeypatch.undo()


class Odd(Plugin):
    """A plugin whose own keys cannot be read."""

    name = "odd"
    api_version = API_VERSION

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        raise KeyError(2)


def test_a_plugin_that_fails_where_no_call_is_guarded_is_left_out() -> None:
    planner = Planner(Policy(plugins=(Odd({}),)))
    plan = planned(planner, cluster())
    assert (placed(plan), aside(planner)) == (WAITING, {Suspect(Kind.PLUGIN, "odd")})


def test_a_planner_that_fails_at_everything_gives_an_empty_plan_and_seldom_searches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans = fail_at(monkeypatch, module, "schedule", lambda *_: True)
    bugs: list[str] = []
    planner = Planner(Policy(), bugs.append)
    for now_ms in range(1000, 1000 + SEARCH_AGAIN_MS, 1000):
        plan = planner.plan(view(3), now_ms, 1)
        assert (plan.gangs, plan.wake_at_ms) == ([], now_ms + module.RETRY_MS)
        assert {why.code for why in plan.explanations.values()} == {"PLANNER_BUG"}
    assert not planner.set_aside
    assert set(bugs) == {UNKNOWN}
    assert plans["schedule"] <= 8 + 2 * 30, "one search, and then two plans in each cycle"
    monkeypatch.undo()
    assert placed(planner.plan(view(3), 1000 + SEARCH_AGAIN_MS, 1)) == jobs(1, 2, 3)


def test_several_running_jobs_that_fail_are_found_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    world, right = cluster(), schedule

    def wrong(view: View, policy: Policy, now_ms: int, seed: int, *stumble: Any) -> Plan:
        if view.holders:
            raise ZeroDivisionError("a bug")
        return right(view, policy, now_ms, seed, *stumble)

    monkeypatch.setattr(module, "schedule", wrong)
    planner = Planner(Policy())
    assert placed(planned(planner, world)) == WAITING
    assert {suspect.kind for suspect in aside(planner)} == {Kind.RUNNING}


def test_a_search_in_a_large_cluster_is_spread_over_cycles_in_which_others_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stumbling = Stumbling("j77")
    monkeypatch.setattr(module, "schedule", stumbling)
    seconds = iter(range(0, 1_000_000, 3))  # each look at the clock is beyond what one cycle may take
    planner = Planner(Policy(), monotonic=lambda: next(seconds))
    started: set[str] = set()
    per_cycle = []
    for cycle in range(12):
        before = stumbling.plans
        plan = planner.plan(view(100), cycle, 1)
        started |= placed(plan)
        per_cycle.append(stumbling.plans - before)
        assert set(plan.explanations) | placed(plan) == jobs(*range(1, 101))
    assert started == jobs(*range(1, 101)) - {"j77"}
    assert aside(planner) == {Suspect(Kind.JOB, "j77")}
    assert max(per_cycle) <= 5


def test_a_cycle_without_a_bug_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Stumbling()
    monkeypatch.setattr(module, "schedule", counting)
    planner = Planner(Policy())
    assert placed(planner.plan(view(5), 0, 1)) == jobs(1, 2, 3, 4, 5)
    assert counting.plans == 1


def test_an_exception_of_the_search_itself_ends_no_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "schedule", Stumbling("j1"))
    monkeypatch.setattr(module, "search", fail_at)  # called wrongly
    planner = Planner(Policy())
    assert placed(planner.plan(view(2), 0, 1)) == set()


def test_what_the_state_machine_fails_at_is_tried_ever_more_seldom_until_it_is_taken() -> None:
    planner, now_ms, waits = Planner(Policy()), 0, list[int]()
    for _ in range(4):
        assert "j3" in placed(planner.plan(view(5), now_ms, 1)), "it is tried again"
        planner.refuse("j3", "KeyError in CommitPlan, a bug of gosched", now_ms)
        plan = planner.plan(view(5), now_ms, 1)
        assert placed(plan) == jobs(1, 2, 4, 5)
        assert "KeyError in CommitPlan" in plan.explanations["j3"].message
        (again_ms,) = [each.until_ms for each in planner.set_aside.values()]
        waits.append(again_ms - now_ms)
        now_ms = again_ms
    assert waits == [FIRST_RETRY_MS << n for n in range(4)]
    planner.plan(view(2), now_ms, 1)
    assert aside(planner) == set(), "it waits no more"


def test_a_leader_that_runs_out_of_memory_blames_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> Plan:
        raise MemoryError

    planner = Planner(Policy())
    monkeypatch.setattr(module, "schedule", exhausted)
    plan = planner.plan(view(2), 0, 1)
    assert placed(plan) == set()
    assert "lacks memory" in plan.explanations["j1"].message
    assert aside(planner) == set()
    monkeypatch.setattr(module, "schedule", schedule)
    assert placed(planner.plan(view(2), 1, 1)) == jobs(1, 2)
