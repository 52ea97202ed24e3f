"""What holds for every plan, checked against brute force on small clusters; and that each check can fail.

A mutation breaks the planner on purpose; the property that should notice it must.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gosched.core.cluster import Node
from gosched.core.command import GangPlacement
from gosched.core.job import Job, Strategy
from gosched.core.resources import Resources
from gosched.core.state import ClusterState
from gosched.scheduling import Plan, Policy, ViewBuilder, cycle, gangs, room, schedule
from gosched.scheduling.feasibility import slots
from tests.scheduling.cluster import allocation, group, job, node, state_of

SETTINGS = settings(
    max_examples=400, deadline=None, derandomize=True, database=None, report_multiple_bugs=False, print_blob=False
)
UNSHRUNK = settings(SETTINGS, phases=[Phase.generate])


@dataclass(frozen=True)
class Scenario:
    state: ClusterState
    strategy: Strategy

    def plan(self) -> Plan:
        made = ViewBuilder()
        made.reset(self.state)
        return schedule(made.view(self.state), Policy(strategy=self.strategy), 0, 1)


ZONES = st.sampled_from([(("zone", "x"),), (("zone", "y"),)])

NODES = st.builds(
    lambda cpu, mem, gpu, labels, model, held: (cpu, mem, gpu, labels, model, min(held, gpu)),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(0, 6),
    ZONES,
    st.sampled_from(["h100", "a100"]),
    st.integers(0, 3),
)

GROUPS = st.builds(
    group,
    count=st.integers(1, 5),
    cpu=st.integers(0, 3),
    mem=st.integers(0, 2),
    gpu=st.integers(0, 2),
    selector=st.just(()) | st.just(()) | ZONES,
    model=st.sampled_from(["", "", "h100"]),
    strategy=st.sampled_from(Strategy),
)


@st.composite
def scenarios(draw: st.DrawFn, max_groups: int = 1) -> Scenario:
    nodes: list[Node] = []
    held = []
    for i, (cpu, mem, gpu, labels, model, busy) in enumerate(draw(st.lists(NODES, min_size=1, max_size=4))):
        nodes.append(node(f"n{i}", cpu=cpu, mem=mem, gpu=gpu, labels=labels, model=model))
        if busy:
            taken = Resources(gpu_millis=busy * 1000)
            held.append(allocation(f"a{i}", f"n{i}", taken, gpus=tuple(range(gpu - busy, gpu))))
    jobs = [
        job(i + 1, *groups, priority=draw(st.integers(0, 1)))
        for i, groups in enumerate(
            draw(st.lists(st.lists(GROUPS, min_size=1, max_size=max_groups), min_size=1, max_size=5))
        )
    ]
    return Scenario(state_of(nodes, jobs, held), draw(st.sampled_from([Strategy.BINPACK, Strategy.SPREAD])))


def holds(state: ClusterState, job: Job, rank: int, node_id: str, free: dict[str, Resources]) -> bool:
    """Whether the node may run this rank, by the words of the records alone."""
    ask = [g for g in job.spec.groups for _ in range(g.count)][rank]
    machine = state.nodes[node_id]
    labelled = all(pair in machine.labels for pair in ask.node_selector)
    modelled = ask.gpu_model in ("", machine.gpu_model)
    enough = all(getattr(ask.resources, name) <= max(getattr(free[node_id], name), 0) for name in Resources.__slots__)
    return labelled and modelled and enough


def could_be_placed(state: ClusterState, job: Job, free: dict[str, Resources], rank: int = 0) -> bool:
    """Brute force over every assignment of ranks to nodes."""
    if rank == job.spec.task_count:
        return True
    need = [g.resources for g in job.spec.groups for _ in range(g.count)][rank]
    for node_id in free:
        left = {**free, node_id: free[node_id] - need}
        if holds(state, job, rank, node_id, free) and could_be_placed(state, job, left, rank + 1):
            return True
    return False


def left_after(state: ClusterState, gang: GangPlacement, free: dict[str, Resources]) -> dict[str, Resources]:
    """What remains; fails when a rank stands where it may not."""
    job = state.jobs[gang.job_id]
    needs = [g.resources for g in job.spec.groups for _ in range(g.count)]
    for task in gang.tasks:
        assert holds(state, job, task.rank, task.node_id, free)
        free = {**free, task.node_id: free[task.node_id] - needs[task.rank]}
    return free


def free_at_start(state: ClusterState) -> dict[str, Resources]:
    return {n.id: n.capacity - state.usage[n.id] for n in state.nodes.values()}


class Seen:
    """Whether the examples were worth anything."""

    placed = 0
    refused = 0

    def count(self, plan: Plan) -> None:
        self.placed += len(plan.gangs)
        self.refused += len(plan.explanations)


def check_whole_gangs_within_capacity(rules: settings = SETTINGS) -> None:
    seen = Seen()

    @rules
    @given(scenarios(max_groups=3))
    def check(scenario: Scenario) -> None:
        plan = scenario.plan()
        seen.count(plan)
        free = free_at_start(scenario.state)
        gpus = {n: set(scenario.state.node_gpus_held(n)) for n in scenario.state.nodes}
        for gang in plan.gangs:
            job = scenario.state.jobs[gang.job_id]
            assert [t.rank for t in gang.tasks] == list(range(job.spec.task_count))
            free = left_after(scenario.state, gang, free)
            needs = [g.resources.gpu_millis // 1000 for g in job.spec.groups for _ in range(g.count)]
            for task in gang.tasks:
                assert len(set(task.gpus)) == needs[task.rank]
                assert not gpus[task.node_id] & set(task.gpus)
                assert all(0 <= g < scenario.state.nodes[task.node_id].capacity.gpu_millis // 1000 for g in task.gpus)
                gpus[task.node_id] |= set(task.gpus)
        assert {g.job_id for g in plan.gangs} | set(plan.explanations) == set(scenario.state.jobs)
        assert not {g.job_id for g in plan.gangs} & set(plan.explanations)

    check()
    assert seen.placed > 50
    assert seen.refused > 50


def check_placed_if_and_only_if_it_fits(rules: settings = SETTINGS) -> None:
    seen = Seen()

    @rules
    @given(scenarios())
    def check(scenario: Scenario) -> None:
        plan = scenario.plan()
        seen.count(plan)
        free = free_at_start(scenario.state)
        placed = {gang.job_id: gang for gang in plan.gangs}
        for turn in sorted(scenario.state.jobs.values(), key=lambda j: (-j.spec.priority, j.sequence)):
            assert could_be_placed(scenario.state, turn, free) == (turn.id in placed)
            if turn.id in placed:
                free = left_after(scenario.state, placed[turn.id], free)

    check()
    assert seen.placed > 50
    assert seen.refused > 50


def check_order_of_input_does_not_matter(rules: settings = SETTINGS) -> None:
    @rules
    @given(scenarios(max_groups=2), st.integers(0, 1000))
    def check(scenario: Scenario, seed: int) -> None:
        shuffle = random.Random(seed)
        nodes, jobs = list(scenario.state.nodes.values()), list(scenario.state.jobs.values())
        shuffle.shuffle(nodes)
        shuffle.shuffle(jobs)
        again = Scenario(state_of(nodes, jobs, list(scenario.state.allocations.values())), scenario.strategy)
        assert again.plan() == scenario.plan()

    check()


def test_gangs_are_placed_whole_and_within_capacity() -> None:
    check_whole_gangs_within_capacity()


def test_a_gang_is_placed_if_and_only_if_it_fits_in_what_the_gangs_before_it_left() -> None:
    check_placed_if_and_only_if_it_fits()


def test_the_plan_does_not_depend_on_the_order_of_nodes_and_jobs() -> None:
    check_order_of_input_does_not_matter()


def one_slot_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "slots", lambda *args: slots(*args) + 1)


def one_slot_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "slots", lambda *args: slots(*args).clip(1) - 1)


def labels_and_models_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "eligible", lambda nodes, ask: nodes.ready)


def half_a_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    named = gangs._named

    def half(gang, shares, room):  # type: ignore[no-untyped-def]
        whole = named(gang, shares, room)
        kept = whole.tasks[: (len(whole.tasks) + 1) // 2]
        return GangPlacement(job_id=whole.job_id, attempt=whole.attempt, tasks=kept)

    monkeypatch.setattr(gangs, "_named", half)


def busy_gpus_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room.Room, "name_gpus", lambda self, row, count: tuple(range(count)))


def first_in_first_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle, "in_order", list)


@pytest.mark.parametrize(
    ("mutation", "check"),
    [
        (one_slot_too_many, check_whole_gangs_within_capacity),
        (half_a_gang, check_whole_gangs_within_capacity),
        (busy_gpus_named, check_whole_gangs_within_capacity),
        (labels_and_models_ignored, check_placed_if_and_only_if_it_fits),
        (one_slot_too_few, check_placed_if_and_only_if_it_fits),
        (first_in_first_looked_at, check_order_of_input_does_not_matter),
    ],
)
def test_a_broken_planner_is_noticed(
    monkeypatch: pytest.MonkeyPatch, mutation: Callable[[pytest.MonkeyPatch], None], check: Callable[[settings], None]
) -> None:
    mutation(monkeypatch)
    with pytest.raises(AssertionError):
        check(UNSHRUNK)
