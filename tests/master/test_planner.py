"""A job that the planner stumbles over is set aside; all others are planned."""

import pytest

from gosched.master.planning import planner as module
from gosched.master.planning.planner import MAX_SET_ASIDE, Planner
from gosched.scheduling import Plan, Policy, View, schedule
from tests.scheduling.support.cluster import group, job, node, view_of


class Stumbling:
    """The planner, with a bug that some jobs meet."""

    def __init__(self, *bad: str) -> None:
        self.bad = frozenset(bad)
        self.plans = 0

    def __call__(self, view: View, policy: Policy, now_ms: int, seed: int) -> Plan:
        self.plans += 1
        if self.bad & {gang.job_id for gang in view.pending}:
            raise ZeroDivisionError("a bug")
        return schedule(view, policy, now_ms, seed)


def view(jobs: int) -> View:
    return view_of([node("a", cpu=1000)], [job(i, group(cpu=1)) for i in range(1, jobs + 1)])


def placed(plan: Plan) -> set[str]:
    return {gang.job_id for gang in plan.gangs}


def test_jobs_that_the_planner_stumbles_over_are_set_aside_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    stumbling = Stumbling("j7", "j40")
    monkeypatch.setattr(module, "schedule", stumbling)
    planner = Planner(Policy())
    plan = planner.plan(view(50), 0, 1)
    assert placed(plan) == {f"j{i}" for i in range(1, 51)} - {"j7", "j40"}
    assert {job: why.code for job, why in plan.explanations.items()} == {"j7": "PLANNER_BUG", "j40": "PLANNER_BUG"}
    assert stumbling.plans < 20  # it looks by halves
    before = stumbling.plans
    assert placed(planner.plan(view(50), 0, 1)) == placed(plan)
    assert stumbling.plans == before + 1  # and remembers


def test_what_was_set_aside_is_tried_again_under_a_new_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    stumbling = Stumbling("j1")
    monkeypatch.setattr(module, "schedule", stumbling)
    planner = Planner(Policy())
    assert placed(planner.plan(view(2), 0, 1)) == {"j2"}
    stumbling.bad = frozenset()
    planner.reset()
    assert placed(planner.plan(view(2), 0, 1)) == {"j1", "j2"}


def test_jobs_that_wait_no_more_are_not_counted_as_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    stumbling = Stumbling(*[f"j{i}" for i in range(1, MAX_SET_ASIDE + 1)])
    monkeypatch.setattr(module, "schedule", stumbling)
    planner = Planner(Policy())
    assert placed(planner.plan(view(MAX_SET_ASIDE + 1), 0, 1)) == set()  # at the bound it plans nothing
    left = view_of([node("a", cpu=1000)], [job(MAX_SET_ASIDE + 1, group(cpu=1))])
    assert placed(planner.plan(left, 0, 1)) == {f"j{MAX_SET_ASIDE + 1}"}
    assert not planner.set_aside


def test_a_planner_that_stumbles_over_everything_stops_looking_at_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "schedule", Stumbling(*[f"j{i}" for i in range(1, 301)]))
    planner = Planner(Policy())
    assert placed(planner.plan(view(300), 0, 1)) == set()
    assert len(planner.set_aside) == MAX_SET_ASIDE


def test_a_planner_that_fails_with_nothing_to_plan_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(view: View, policy: Policy, now_ms: int, seed: int) -> Plan:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(module, "schedule", broken)
    with pytest.raises(ZeroDivisionError):
        Planner(Policy()).plan(view(3), 0, 1)
