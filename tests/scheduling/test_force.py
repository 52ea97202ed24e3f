"""What holds for evictions, fences and reservations in every life of a small cluster; and that each check can fail.

The lives are those of `support/driver.py`, through the real state machine; `support/checks.py` looks at all of them. A
mutation breaks the planner on purpose, and the property that should notice it must.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from gosched.core.commands.cluster import SetQueues
from gosched.core.commands.plans import GangPlacement
from gosched.core.state.cluster_state import ClusterState
from gosched.scheduling import Plan, Policy, View, ViewBuilder, reservations
from gosched.scheduling.actions.start_reserved import StartReserved
from gosched.scheduling.backfill.capacity_timeline import CapacityTimeline
from gosched.scheduling.backfill.capacity_views import CapacityViews
from gosched.scheduling.backfill.reserved_starts import ReservedStart, ReservedStarts
from gosched.scheduling.fairness.queue_limits import Allowance
from gosched.scheduling.preemption import victim_search
from gosched.scheduling.preemption.eviction_rules import EvictionBudget
from gosched.scheduling.preemption.victim_search import VictimSearch
from gosched.scheduling.snapshot.task_requests import PendingGang
from tests.scheduling.support import notation
from tests.scheduling.support.checks import Checks, check_order
from tests.scheduling.support.driver import Driver, life
from tests.scheduling.support.seeds import SEEDS
from tests.scheduling.support.tables import World

SETTINGS = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow],
)
UNSHRUNK = settings(SETTINGS, phases=[Phase.generate])
LEAST = {
    "PREEMPT": 20,
    "RECLAIM": 5,
    "BACKFILL": 5,
    "WINDOW": 2,
    "surplus": 5,
    "fenced": 20,
    "kept": 20,
    "guessed": 20,
    "before a window": 5,
    "in a window": 2,
    "waits": 300,
    "no loan": 30,
}


def check_every_life(rules: settings = SETTINGS) -> None:
    seen: Counter[str] = Counter()

    @rules
    @given(SEEDS)
    def check(seed: int) -> None:
        lived = life(seed)
        hypothesis.note(repr(lived))
        checks = Checks(seen)
        Driver(lived, checks.before, checks.after).run()

    check()
    assert all(seen[kind] >= number for kind, number in LEAST.items()), seen


def check_lives_in_which_nodes_die(rules: settings = SETTINGS) -> None:
    """Fences and promises may be lost with a node; everything else holds, and gangs are repaired."""
    seen: Counter[str] = Counter()

    @rules
    @given(SEEDS)
    def check(seed: int) -> None:
        lived = life(seed, deaths=True)
        hypothesis.note(repr(lived))
        checks = Checks(seen, steady=False)
        Driver(lived, checks.before, checks.after).run()

    check()
    assert min(seen["REPAIR"], seen["PREEMPT"]) > 5, seen


def check_order_of_input_does_not_matter(rules: settings = SETTINGS) -> None:
    seen: Counter[str] = Counter()

    def before(driver: Driver, plan: Plan) -> None:
        evictions = [eviction for gang in plan.gangs for eviction in gang.evictions]
        if plan.reservations or plan.withdrawn or evictions or driver.state.fences:
            check_order(driver, plan)
            seen["promises"] += len(driver.state.reservations) > 1
            seen["evictions"] += bool(evictions)
            seen["fences"] += bool(driver.state.fences)

    @rules
    @given(SEEDS)
    def check(seed: int) -> None:
        lived = life(seed)
        hypothesis.note(repr(lived))
        Driver(lived, before, lambda *_: None).run()

    check()
    assert min(seen["promises"], seen["evictions"], seen["fences"]) > 5, seen


def check_nobody_evicts_in_a_loop(rules: settings = SETTINGS) -> None:
    """Two queues, nothing comes and nothing ends: after a few cycles nobody is evicted any more, and nobody was by one
    whom he evicted."""
    seen: Counter[str] = Counter()

    @rules
    @given(SEEDS)
    def check(seed: int) -> None:
        world = two_queues(random.Random(seed))
        hypothesis.note("\n".join(spec.name for spec in world.jobs.values()))
        went: set[tuple[str, str]] = set()
        for number in range(40):
            plan = world.plan(Policy(reservations=1))
            for gang in plan.gangs:
                for eviction in gang.evictions:
                    seen[eviction.cause.name] += 1
                    went.add((eviction.job_id, gang.job_id))
                    assert (gang.job_id, eviction.job_id) not in went, f"loop: {gang.job_id} and {eviction.job_id}"
            if not plan.gangs:
                break
            world.commit(plan)
            world.stop()
            assert number < 39, "loop: it never becomes quiet"

    check()
    assert min(seen["RECLAIM"], seen["PREEMPT"]) > 5, seen


def two_queues(draw: random.Random) -> World:
    """A cluster that was filled by whoever came first, and then others came; or whose queues were given other shares
    than those by which it was filled."""
    world = World(careful=False)
    nodes = [f"n{i} {draw.choice([2, 4, 6, 8])}cpu" for i in range(draw.randint(1, 3))]
    first, other = (
        draw.choice([(50, 50), (75, 25), (25, 75), (100, 0), (0, 100)]),
        draw.choice([(50, 50), (40, 60), (25, 25), (10, 40)]),
    )
    world.fill(tables_of(_shares(first), nodes))
    for number in range(draw.randint(4, 14)):
        kind = draw.choice(["yields", "yields", "yields", "stays", "yields never"])
        size = draw.choice(["1x", "2x", "3x", "1..3x", "1..4x"])
        words = (
            f"j{number} {draw.choice('xy')} {kind} priority={draw.choice([0, 0, 5])} : {size} {draw.randint(1, 4)}cpu"
        )
        world.submit(words.split())
        if draw.random() < 0.4:
            world.commit(world.plan(Policy(reservations=1)))
            world.stop()
    world.do(SetQueues(queues=tuple([notation.queue(words.split()) for words in _shares(other)])))
    return world


def _shares(percent: tuple[int, int]) -> list[str]:
    kinds = [f"capacity {each}%" if each else "fair" for each in percent]
    return [f"{name} {kind}" for name, kind in zip("xy", kinds, strict=True)]


def tables_of(queues: Iterable[str], nodes: Iterable[str]) -> dict[str, list[list[str]]]:
    rows = {"queues": queues, "nodes": nodes, "quotas": (), "jobs": (), "windows": (), "reservations": ()}
    return {name: [line.split() for line in lines] for name, lines in rows.items()}


def test_evictions_fences_and_promises_keep_their_rules_in_every_life() -> None:
    check_every_life()


def test_when_nodes_die_plans_are_taken_whole_and_nobody_goes_without_need() -> None:
    check_lives_in_which_nodes_die(settings(SETTINGS, max_examples=50))


def test_the_plan_does_not_depend_on_the_order_of_holders_reservations_fences_and_windows() -> None:
    check_order_of_input_does_not_matter(settings(SETTINGS, max_examples=50))


def test_no_state_of_two_queues_evicts_in_a_loop() -> None:
    check_nobody_evicts_in_a_loop()


# Mutations: what is broken, the check that notices it, and the property that the check names.

Mutation = Callable[[pytest.MonkeyPatch], None]


def everybody_outranks_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    rescue = VictimSearch.find
    monkeypatch.setattr(EvictionBudget, "may_find_victims", lambda self, gang: gang.may_evict)

    def mutated(self: VictimSearch, gang: PendingGang, *rest: Any) -> Any:
        return rescue(self, replace(gang, priority=gang.priority + 100), *rest)

    monkeypatch.setattr(VictimSearch, "find", mutated)


def nobody_has_a_least_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EvictionBudget, "is_evictable", EvictionBudget.is_evictable_on_schedule)


def nobody_keeps_his_guarantee(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EvictionBudget, "keeps_guarantees", lambda *args: True)


def victims_go_before_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    start = StartReserved.start

    def mutated(self: StartReserved, reserved: ReservedStart, allowance: Allowance) -> bool:
        if start(self, reserved, allowance):
            return True
        self._reserver.remove(reserved)
        if self._start_after_evictions.start_overdue(reserved.gang, reserved.start_ms + 300_000, allowance):
            return True
        self._reserver.add(reserved)
        return False

    monkeypatch.setattr(StartReserved, "start", mutated)
    monkeypatch.setattr(victim_search.VictimSearch, "_is_time", lambda self, victims: True)


def whoever_was_to_go_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VictimSearch, "overdue", lambda *args: None)


def victims_go_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    add = Plan.add

    def mutated(self: Plan, gang: GangPlacement) -> None:
        if gang.evictions and gang.job_id:
            add(self, GangPlacement(job_id="", attempt=0, tasks=(), evictions=gang.evictions))
        else:
            add(self, gang)

    monkeypatch.setattr(Plan, "add", mutated)


def a_new_fence_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CapacityTimeline, "fence", lambda *args: None)


def old_fences_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    refresh = ViewBuilder._refresh_load

    class Unfenced:
        def __init__(self, state: ClusterState) -> None:
            self._state = state

        def __getattr__(self, name: str) -> Any:
            return getattr(self._state, name)

        def held(self, node_id: str) -> Any:
            return self._state.held(node_id)[:1]

    monkeypatch.setattr(
        ViewBuilder,
        "_refresh_load",
        lambda self, state, node_ids: refresh(self, Unfenced(state), node_ids),  # type: ignore[arg-type]
    )


def claims_bind_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReservedStarts, "binding", lambda self, gang, before_ms: ())


def promises_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservations.ReservationKeeper, "keep", lambda self: {})


def claims_bind_those_who_end_before(monkeypatch: pytest.MonkeyPatch) -> None:
    binding = ReservedStarts.binding
    monkeypatch.setattr(ReservedStarts, "binding", lambda self, gang, before_ms: binding(self, gang, 1 << 62))


def nobody_borrows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CapacityViews, "backfill_view", lambda self, gang: None)


def promises_are_kept_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    current = reservations.current_reservations

    def mutated(view: View, policy: Policy, plan: Plan) -> tuple[list[ReservedStart], list[ReservedStart]]:
        order = list(view.reservations)
        timed, standing = current(view, policy, plan)
        return sorted(timed, key=lambda reserved: order.index(reserved.gang.job_id)), standing

    monkeypatch.setattr(reservations, "current_reservations", mutated)


def windows_close_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReservedStarts, "windows_of", lambda *args: ())


def a_queue_takes_more_than_its_guarantee(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EvictionBudget, "_stays_within_guarantee", lambda *args: True)
    monkeypatch.setattr(EvictionBudget, "evictors", lambda *args: ())


@pytest.mark.parametrize(
    ("mutation", "check", "named"),
    [
        (everybody_outranks_everybody, check_every_life, "priority"),
        (nobody_has_a_least_time, check_every_life, "priority"),
        (victims_go_before_their_time, check_every_life, "priority"),
        (nobody_keeps_his_guarantee, check_every_life, "guarantee"),
        (a_queue_takes_more_than_its_guarantee, check_every_life, "saturation"),
        (nobody_borrows, check_every_life, "idle"),
        (victims_go_for_nobody, check_every_life, "start"),
        (a_new_fence_is_forgotten, check_every_life, "the state machine refuses"),
        (old_fences_are_forgotten, check_every_life, "the state machine refuses|promise"),
        (whoever_was_to_go_stays, check_every_life, "promise"),
        (claims_bind_nobody, check_every_life, "promise"),
        (promises_are_forgotten, check_every_life, "promise"),
        (claims_bind_those_who_end_before, check_every_life, "idle"),
        (windows_close_nothing, check_every_life, "window"),
        (promises_are_kept_as_they_come, check_order_of_input_does_not_matter, "order"),
        (a_queue_takes_more_than_its_guarantee, check_nobody_evicts_in_a_loop, "loop"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_broken_planner_is_noticed(
    monkeypatch: pytest.MonkeyPatch, mutation: Mutation, check: Callable[[settings], None], named: str
) -> None:
    mutation(monkeypatch)
    with pytest.raises(AssertionError, match=rf"^{named}"):
        check(UNSHRUNK)
