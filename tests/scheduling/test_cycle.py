"""What a cycle decides: order, gangs whole or not at all, strategies, backoff, bounds."""

from __future__ import annotations

import pytest

from gosched.core.records.node import NodeState
from gosched.core.spec.placement_rules import Strategy
from gosched.scheduling import Policy
from gosched.scheduling.actions import start_now
from gosched.scheduling.placement import gang_placement
from tests.scheduling.support.cluster import allocation, group, job, node, plan_of, resources, where, why

BINPACK = Policy(strategy=Strategy.BINPACK)
SPREAD = Policy(strategy=Strategy.SPREAD)


def test_a_gang_of_8_cpus_waits_while_4_are_there_and_starts_on_both_nodes_once_a_second_one_joins() -> None:
    gang = job(1, group(count=8, cpu=1))
    alone = plan_of([node("a", cpu=4)], [gang])
    assert where(alone) == {}
    assert why(alone, "j1") == "needs 8 CPUs in all; 4 are on ready nodes"

    both = plan_of([node("a", cpu=4), node("b", cpu=4)], [gang])
    assert where(both) == {"j1": "a a a a b b b b"}
    assert both.explanations == {}


def test_a_gang_that_lacks_one_of_four_nodes_holds_nothing_and_a_small_job_behind_it_runs() -> None:
    nodes = [node("a", cpu=1), node("b", cpu=1), node("c", cpu=1)]
    plan = plan_of(nodes, [job(1, group(count=4, cpu=1)), job(2, group(count=1, cpu=1))])
    assert where(plan) == {"j2": "a"}
    assert why(plan, "j1") == "needs 4 CPUs in all; 3 are on ready nodes"


def test_a_gang_whose_groups_do_not_all_fit_takes_nothing() -> None:
    nodes = [node("a", cpu=3), node("b", cpu=3)]
    plan = plan_of(
        nodes,
        [job(1, group(count=2, cpu=2, name="big"), group(count=1, cpu=2, name="one")), job(2, group(count=2, cpu=3))],
    )
    assert where(plan) == {"j2": "a b"}
    assert why(plan, "j1") == "each task group fits alone, but not all together"


@pytest.mark.parametrize(
    ("jobs", "order"),
    [
        ([job(1), job(2), job(3)], ["j1", "j2", "j3"]),
        ([job(1), job(2, priority=5), job(3)], ["j2", "j1", "j3"]),
        ([job(3, priority=1), job(2, priority=1), job(1)], ["j2", "j3", "j1"]),
    ],
    ids=["first come, first served", "priority before order", "order within a priority"],
)
def test_order(jobs: list, order: list[str]) -> None:
    withgroups = [job(j.sequence, group(), priority=j.spec.priority) for j in jobs]
    assert [g.job_id for g in plan_of([node("a")], withgroups).gangs] == order


# nodes by id -> free CPUs of 4; a gang of n tasks of 1 CPU; where its ranks land, which follow the order of the nodes
@pytest.mark.parametrize(
    ("free", "count", "policy", "expected"),
    [
        ({"a": 4, "b": 4}, 2, BINPACK, "a a"),
        ({"a": 4, "b": 2}, 2, BINPACK, "b b"),
        ({"a": 4, "b": 2}, 3, BINPACK, "a b b"),
        ({"a": 4, "b": 1, "c": 2}, 4, BINPACK, "a b c c"),
        ({"a": 4, "b": 4}, 2, SPREAD, "a b"),
        ({"a": 2, "b": 4}, 1, SPREAD, "b"),
        ({"a": 4, "b": 4}, 3, SPREAD, "a a b"),
        ({"a": 1, "b": 4, "c": 4}, 5, SPREAD, "a b b c c"),
        ({"a": 1, "b": 4}, 4, SPREAD, "a b b b"),
    ],
)
def test_strategy(free: dict[str, int], count: int, policy: Policy, expected: str) -> None:
    nodes = [node(n, cpu=4) for n in free]
    held = [allocation(n, n, resources(cpu=4 - cpus)) for n, cpus in free.items()]
    assert where(plan_of(nodes, [job(1, group(count=count))], held, policy)) == {"j1": expected}


def test_the_strategy_of_a_group_goes_before_the_clusters() -> None:
    plan = plan_of([node("a"), node("b")], [job(1, group(count=2, strategy=Strategy.SPREAD))], policy=BINPACK)
    assert where(plan) == {"j1": "a b"}


@pytest.mark.parametrize("state", [NodeState.CORDONED, NodeState.DRAINING, NodeState.DEAD])
def test_only_ready_nodes_take_tasks(state: NodeState) -> None:
    plan = plan_of([node("a", state=state), node("b", cpu=1)], [job(1, group()), job(2, group())])
    assert where(plan) == {"j1": "b"}


def test_selectors_and_gpu_models_choose_nodes() -> None:
    nodes = [
        node("a", gpu=2, model="a100", labels=(("zone", "x"),)),
        node("b", gpu=2, model="h100", labels=(("zone", "x"),)),
        node("c", gpu=2, model="h100", labels=(("disk", "ssd"), ("zone", "y"))),
    ]
    jobs = [
        job(1, group(gpu=1, model="h100", selector=(("zone", "x"),))),
        job(2, group(selector=(("disk", "ssd"), ("zone", "y")))),
        job(3, group(selector=(("zone", "z"),))),
        job(4, group(gpu=1, model="b200")),
        job(5, group(gpu=1, model="a100", selector=(("zone", "y"),))),
    ]
    plan = plan_of(nodes, jobs)
    assert where(plan) == {"j1": "b", "j2": "c"}
    assert why(plan, "j3") == "no ready node has the labels zone=z"
    assert why(plan, "j4") == "no ready node has GPUs of model b200"
    assert why(plan, "j5") == "no ready node has GPUs of model a100 and the labels zone=y"


def test_tasks_get_the_lowest_free_gpus_and_no_two_tasks_the_same() -> None:
    nodes = [node("a", cpu=8, gpu=6)]
    held = [allocation("x", "a", resources(cpu=1, gpu=2), gpus=(0, 3))]
    plan = plan_of(nodes, [job(1, group(count=2, gpu=1)), job(2, group(gpu=2))], held)
    assert [[t.gpus for t in g.tasks] for g in plan.gangs] == [[(1,), (2,)], [(4, 5)]]


def test_tasks_without_gpus_leave_nodes_with_gpus_alone_while_others_have_room() -> None:
    nodes = [node("a", cpu=2, gpu=8), node("b", cpu=1)]
    held = [allocation("x", "a", resources(cpu=1))]
    assert where(plan_of(nodes, [job(1, group()), job(2, group())], held)) == {"j1": "b", "j2": "a"}


def test_ranks_count_through_the_groups_in_the_order_of_the_spec() -> None:
    nodes = [node("a", cpu=1), node("b", cpu=3)]
    plan = plan_of(
        nodes,
        [
            job(
                1,
                group(cpu=1, name="lead"),
                group(count=1, cpu=3, name="work"),
            )
        ],
    )
    (gang,) = plan.gangs
    assert [(t.rank, t.node_id) for t in gang.tasks] == [(0, "a"), (1, "b")]


def test_a_packing_that_the_first_order_misses_is_found_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [node("a", cpu=3), node("b", cpu=4)]
    jobs = [job(1, group(count=2, cpu=2, name="x"), group(count=1, cpu=3, name="y"))]
    assert where(plan_of(nodes, jobs)) == {"j1": "b b a"}
    monkeypatch.setattr(gang_placement, "TRIES", 1)
    assert where(plan_of(nodes, jobs)) == {}


def test_a_job_in_backoff_waits_and_names_the_time_to_wake_up() -> None:
    jobs = [job(1, group(), not_before_ms=9_000), job(2, group(), not_before_ms=5_000), job(3, group())]
    plan = plan_of([node("a")], jobs, now_ms=4_999)
    assert where(plan) == {"j3": "a"}
    assert plan.wake_at_ms == 5_000
    assert why(plan, "j2") == "waits until 1970-01-01T00:00:05Z before it is tried again"
    assert where(plan_of([node("a")], jobs, now_ms=5_000)) == {"j2": "a", "j3": "a"}


def test_a_cycle_ends_at_its_bound_asks_for_another_and_keeps_the_order() -> None:
    jobs = [job(1, group(count=2)), job(2, group(count=2)), job(3, group())]
    plan = plan_of([node("a", cpu=8)], jobs, policy=Policy(max_tasks=3))
    assert where(plan) == {"j1": "a a"}
    assert plan.more
    assert why(plan, "j3") == "1 job was considered before it; its turn comes in a later cycle"


def test_a_gang_larger_than_the_bound_of_a_cycle_is_placed_alone() -> None:
    plan = plan_of([node("a", cpu=8)], [job(1, group(count=5))], policy=Policy(max_tasks=3))
    assert plan.tasks == 5
    assert not plan.more


def test_equal_gangs_that_do_not_fit_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    place = start_now.place
    monkeypatch.setattr(start_now, "place", lambda gang, *rest: tried.append(gang.job_id) or place(gang, *rest))
    jobs = [job(i, group(count=3, cpu=3)) for i in range(1, 100)] + [job(100, group())]
    plan = plan_of([node("a", cpu=4), node("b", cpu=4), node("c", cpu=2)], jobs)
    assert tried == ["j1", "j100"]
    assert len(plan.explanations) == 99
    assert where(plan) == {"j100": "c"}


def test_a_cycle_gives_up_after_its_bound_of_different_misses_without_asking_for_another() -> None:
    jobs = [job(i, group(cpu=4 + i)) for i in range(1, 10)] + [job(10, group())]
    plan = plan_of([node("a", cpu=4)], jobs, policy=Policy(max_misses=5))
    assert where(plan) == {}
    assert plan.explanations["j10"].code == "QUEUED"
    assert not plan.more


def test_the_attempt_of_the_job_is_the_attempt_of_its_placement() -> None:
    assert plan_of([node("a")], [job(1, group(), attempt=3)]).gangs[0].attempt == 3


def test_a_node_that_came_back_smaller_than_its_load_takes_nothing() -> None:
    held = [allocation("x", "a", resources(cpu=8, mem=1))]
    plan = plan_of([node("a", cpu=4)], [job(1, group(cpu=0, mem=1)), job(2, group())], held)
    assert where(plan) == {"j1": "a"}
    assert why(plan, "j2") == "needs 1 CPU in all; 0 are free"


def test_absurd_amounts_neither_wrap_around_nor_take_the_memory() -> None:
    nodes = [node(f"n{i:04}", storage=1 << 22, gpu=(1 << 52) // 1000) for i in range(3000)]  # 4 PiB each
    plan = plan_of(nodes, [job(1, group(storage=1 << 22)), job(2, group(gpu=2000))])
    assert where(plan) == {"j1": "n0000"}
    assert why(plan, "j2") == "asks for 2000 GPUs on one node; the largest has 1024"
