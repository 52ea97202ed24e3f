"""What holds for every plan, checked on small clusters with every feature on; and that each check can fail.

Each example is a cluster that lives through three cycles: jobs come, the state machine takes the plan whole, some jobs
end. A mutation breaks the planner on purpose; the property that should notice it must.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from gosched.core.commands.cluster import SetQueues, SetQuotas
from gosched.core.commands.jobs import SubmitJob
from gosched.core.commands.plans import GangPlacement
from gosched.core.records.job import Job
from gosched.scheduling import Plan, Policy, ViewBuilder, schedule
from gosched.scheduling.fairness import drf_order, queue_limits, queue_order
from gosched.scheduling.placement import free_capacity, free_devices, gang_placement
from gosched.scheduling.plugins import filters
from gosched.scheduling.policy import ALGORITHMS
from tests.scheduling.support import notation, tables
from tests.scheduling.support.checker import LEVELS, Ledger
from tests.scheduling.support.checks import shuffled
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
UNSHRUNK = settings(SETTINGS, max_examples=400, phases=[Phase.generate])  # some mutations show in one life of forty

T = TypeVar("T")


@dataclass(frozen=True)
class Scenario:
    """In the tables' notation. `rounds`: the jobs that come before each cycle, `ends`: those that end after it."""

    algorithm: str
    queues: tuple[str, ...]
    quotas: tuple[str, ...]
    nodes: tuple[str, ...]
    rounds: tuple[tuple[str, ...], ...]
    ends: tuple[frozenset[int], ...] = field(default=())

    @property
    def policy(self) -> Policy:
        return Policy.of(self.algorithm, topology=LEVELS)

    def __repr__(self) -> str:
        jobs = [f"  # cycle {i + 1}\n" + "\n".join(f"  {job}" for job in jobs) for i, jobs in enumerate(self.rounds)]
        parts = [("queues", self.queues), ("quotas", self.quotas), ("nodes", self.nodes)]
        head = "\n".join("\n".join([name, *(f"  {line}" for line in lines)]) for name, lines in parts)
        return f"\n{self.algorithm}\n{head}\njobs\n" + "\n".join(jobs) + f"\nends {self.ends}\n"


def words(*choices: str) -> Callable[[random.Random], str]:
    """Draws one of each of the choices, which are separated by `|`; `6 * x` stands for x six times."""
    tables_of = [[text.strip() for part in choice.split("|") for text in _times(part.strip())] for choice in choices]
    return lambda draw: " ".join(filter(None, [draw.choice(table) for table in tables_of]))


def _times(part: str) -> list[str]:
    found = re.fullmatch(r"(\d+) \*(.*)", part)
    return [found[2].strip()] * int(found[1]) if found else [part]


NODE = words(
    "2cpu | 3cpu | 4cpu numa:0-1/2-3 gpu_numa | 6cpu numa:0-2/3-5 gpu_numa | 8cpu",
    "4Gi | 8Gi | 8Gi",
    "2 *  | 1gpu:a100 | 2gpu:h100 gpu_mem:80Gi links:0,1 | 2gpu:h100 links:0,0"
    "| 3gpu:a100 links:0,0,1 | 2gpu:h100 bad:1",
    "zone=z1 | zone=z1 | zone=z2 | zone=z2 | ",
    "rack=r1 | rack=r1 | rack=r2 | ",
    "3 *  | disk=ssd | gen=3 | gen=old | disk=hdd",
    "8 *  | !gpu:no_schedule | !old:prefer_no_schedule | !ml=yes:no_execute",
    "2 *  | 1*license | 3*license",
)
SIZE = "3 * 1x | 3 * 2x | 3x | 4x | 1..2x | 1..4x | 2..3x"
FILTER = words(
    "12 *  | zone=z1 | disk=ssd",
    "20 *  | ?disk:in:ssd | ?disk:not_in:hdd | ?gen:gt:1 | ?rack:exists | ?zone:not_exists | ?disk:exists*9",
    "8 *  | ~ | ~gpu | ~ml=yes | ~gpu:no_execute",
    "3 *  | @binpack | @spread | @fragmentation",
)
AMOUNTS = words(SIZE, "0.5cpu | 3 * 1cpu | 2cpu", "2 *  | 1Gi | 2Gi", "9 *  | 1*license")
GPUS = words(
    "9 *  | 2 * 0.3gpu | 2 * 0.5gpu | 2 * 1gpu | 2gpu"
    "| 1gpu:h100 | 2gpu in:gpu_link | 1gpu in:numa | 0.5gpu gpu_mem:40Gi"
)
STANDS = words("6 *  | in:zone | in:rack | in:node | near:rack | in:zone near:rack | near:zone")
LOOKS = words(
    "9 *  | apart:node | apart:rack | apart:zone"
    "| over:node | over:zone | over:rack:2 | maybe-over:zone | over:zone over:node"
)
QUEUE = words("12 *  | limit cpu=3 | limit gpu=1 | limit license=1 | jobs=1 | jobs=2")
MODEL_LIMIT = words("4 *  | limit gpu:h100=1")
QUOTA = words("cpu=2 | gpu=1 | jobs=1 | memory=4Gi")
HEAD = words("x | y.a | y.b", "3 *  | tenant=t", "4 *  | priority=5 | due=1000")


def scenario(seed: int, group: Callable[[random.Random], list[str]], *, models: bool = False) -> Scenario:
    """`group`: the groups of one job. `models`: limits on single GPU models too."""
    draw = random.Random(seed)
    nodes = [f"n{i} {_with_numa(NODE(draw))}" for i in range(draw.randint(1, 4))]
    queues = (
        f"x {draw.choice(['fair', 'fair weight=3', 'capacity 50%'])} {QUEUE(draw)}",
        f"y {draw.choice(['fifo', 'fair order=fair'])} {MODEL_LIMIT(draw) if models else ''}",
        f"y.a fair {QUEUE(draw)}",
        f"y.b capacity 20% max {draw.choice([60, 100])}% order={draw.choice(['fair', 'fifo', 'priority', 'deadline'])}",
    )
    rounds: list[tuple[str, ...]] = []
    number = 0
    for _ in range(3):
        jobs = []
        for _ in range(draw.randint(1, 4)):
            number += 1
            groups = group(draw)
            if number > 1 and draw.random() < 0.1:
                groups[0] += f" apart:node:j{draw.randint(1, number - 1)}"
            jobs.append(f"j{number} {HEAD(draw)} : {' | '.join(groups)}")
        rounds.append(tuple(jobs))
    ends = tuple([frozenset(draw.sample(range(12), 3)) for _ in rounds])
    quotas = (f"t {QUOTA(draw)}",) if draw.random() < 0.5 else ()
    return Scenario(draw.choice(ALGORITHMS), queues, quotas, tuple(nodes), tuple(rounds), ends)


def _with_numa(node: str) -> str:
    gpus = next((int(word[0]) for word in node.split() if "gpu:" in word and word[0].isdigit()), 0)
    return node.replace("gpu_numa", f"gpu_numa:{','.join('001'[:gpus])}" if gpus else "")


def any_groups(draw: random.Random) -> list[str]:
    first = " ".join([AMOUNTS(draw), GPUS(draw), FILTER(draw), STANDS(draw), LOOKS(draw)])
    return [first, *(_plain(draw) for _ in range(draw.choice([0, 0, 0, 0, 1, 2])))]


def _plain(draw: random.Random) -> str:
    return " ".join([AMOUNTS(draw), FILTER(draw), STANDS(draw), LOOKS(draw)])


def note(made: Scenario) -> Scenario:
    """Shown when the example fails."""
    hypothesis.note(repr(made))
    return made


def lives(scenario: Scenario) -> Iterator[tuple[World, Plan]]:
    """The world before each commit, and the plan."""
    world = World()
    world.do(SetQueues(queues=tuple([notation.queue(words.split()) for words in scenario.queues])))
    if scenario.quotas:
        world.do(SetQuotas(quotas=tuple([notation.quota(words.split()) for words in scenario.quotas])))
    for words in scenario.nodes:
        world.do(notation.node(words.split()))
    for jobs, ends in zip(scenario.rounds, scenario.ends, strict=True):
        for words in jobs:
            spec = notation.job(words.split())
            world.do(SubmitJob(job_id=spec.name, spec=spec))
        plan = world.plan(scenario.policy)
        yield world, plan
        world.commit(plan)
        for job_id in sorted(world.state.jobs):
            if int(job_id[1:]) % 10 in ends:
                world.end(job_id)


def check_every_rule(rules: settings = SETTINGS) -> None:
    seen: Counter[str] = Counter()

    @rules
    @given(SEEDS)
    def check(seed: int) -> None:
        for world, plan in lives(note(scenario(seed, any_groups, models=True))):
            ledger = Ledger(world.state)
            for gang in plan.gangs:
                ledger.take(gang)
            assert ledger.broken == []
            placed = [gang.job_id for gang in plan.gangs]
            assert len(set(placed)) == len(placed), "once"
            assert {*placed, *plan.explanations} == set(world.state.pending), "all"
            assert not {*placed} & {*plan.explanations}, "all"
            seen["placed"] += len(placed)
            seen["refused"] += len(plan.explanations)
            seen["joined"] += len([job_id for job_id in placed if world.state.jobs[job_id].active])

    check()
    assert min(seen["placed"], seen["refused"]) > 200, seen
    assert seen["joined"] > 3, seen


def check_only_what_has_no_place_waits(rules: settings = SETTINGS) -> None:
    """Whoever waits could not start in what the whole plan left, however its tasks were put."""
    seen: Counter[str] = Counter()

    @rules
    @given(SEEDS)
    def check(seed: int) -> None:
        for world, plan in lives(note(scenario(seed, any_groups))):
            ledger = Ledger(world.state)
            for gang in plan.gangs:
                ledger.take(gang)
            for job_id, why in plan.explanations.items():
                job = world.state.jobs[job_id]
                assert not ledger.could_take(job), f"missed: {job_id} {why.message}"
                assert len(job.spec.groups) > 1 or "task groups" not in why.message, f"reason: {job_id}"
                seen.update(kinds(job))

    check()
    assert min(seen[kind] for kind in ("one group", "several groups", "topology", "spread", "apart", "joins")) > 10, (
        seen
    )


def kinds(job: Job) -> Iterator[str]:
    groups = job.spec.groups
    yield "several groups" if len(groups) > 1 else "one group"
    yield from ["topology"] * any(group.topology for group in groups)
    yield from ["spread"] * any(group.spread for group in groups)
    yield from ["apart"] * any(group.anti_affinity for group in groups)
    yield from ["joins"] * bool(job.active)


def check_packing_misses_little(examples: int = 400) -> None:
    """Several groups on few nodes are bin packing, which is tried a few times, not solved: of 961 gangs that fit, out
    of 2000 drawn, two were missed when this was written."""
    missed = fit = 0
    for seed in range(examples):
        world = World()
        world.fill(tables.sections(packing(random.Random(seed))))
        if Ledger(world.state).could_take(world.state.jobs["j"]):
            fit += 1
            missed += not world.plan(Policy()).gangs
    assert fit > examples // 3
    assert missed * 100 <= fit, f"packing: {missed} of {fit} were missed"


def packing(draw: random.Random) -> str:
    nodes = [f"  n{i} {draw.randint(2, 7)}cpu {draw.randint(2, 7)}Gi" for i in range(draw.randint(2, 4))]
    groups = [
        f"{draw.randint(1, 2)}x {draw.randint(1, 4)}cpu {draw.randint(0, 4)}Gi" for _ in range(draw.randint(2, 4))
    ]
    return "\n".join(["nodes", *nodes, "jobs", "  j : " + " | ".join(groups)])


def check_elastic_tasks_fill_what_is_there(rules: settings = SETTINGS) -> None:
    """After a plan no task of a gang that it placed would still fit, unless a rule bound it to a domain."""
    seen: Counter[str] = Counter()

    @rules
    @given(SEEDS)
    def check(seed: int) -> None:
        made = note(scenario(seed, elastic_groups))
        for world, plan in lives(made):
            if made.algorithm == "gang":  # keeps a gang in one rack, though some of its tasks wait for the next cycle
                break
            world.commit(plan)
            ledger = Ledger(world.state)
            for job_id in world.state.pending:
                job = world.state.jobs[job_id]
                seen["short"] += bool(job.active)
                assert not job.active or not ledger.could_take(job), f"elastic: {job_id}"
            break

    check()
    assert seen["short"] > 20, seen


def elastic_groups(draw: random.Random) -> list[str]:
    return [" ".join([ELASTIC(draw), GPUS(draw), FILTER(draw)])]


ELASTIC = words("1..9x | 2..9x", "0.5cpu | 1cpu | 2cpu", " | 1Gi", " | 1*license")


def check_order_of_input_does_not_matter(rules: settings = SETTINGS) -> None:
    @rules
    @given(SEEDS, SEEDS)
    def check(seed: int, order: int) -> None:
        made = note(scenario(seed, any_groups, models=True))
        for world, plan in lives(made):
            state = shuffled(world.state, random.Random(order))
            builder = ViewBuilder()
            builder.reset(state)
            again = schedule(builder.view(state), made.policy, state.clock_ms, tables.SEED)
            assert again == plan, "order"

    check()


def test_every_plan_keeps_every_rule_and_the_state_machine_takes_it_whole() -> None:
    check_every_rule()


def test_a_job_waits_only_if_brute_force_finds_no_place_for_it_either() -> None:
    check_only_what_has_no_place_waits()


def test_of_a_hundred_gangs_of_several_groups_that_fit_at_most_one_is_missed() -> None:
    check_packing_misses_little()


def test_elastic_tasks_fill_what_is_there() -> None:
    check_elastic_tasks_fill_what_is_there()


def test_the_plan_does_not_depend_on_the_order_of_nodes_jobs_queues_and_accounts() -> None:
    check_order_of_input_does_not_matter()


# Mutations: what is broken, the check that notices it, and the property that the check names.

Mutation = Callable[[pytest.MonkeyPatch], None]


def one_slot_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = free_capacity.FreeCapacity.slots
    monkeypatch.setattr(
        free_capacity.FreeCapacity,
        "slots",
        lambda self, request, allowed: slots(self, request, allowed) + (allowed & (not request.constraints.wants_gpu)),
    )


def one_slot_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = free_capacity.FreeCapacity.slots
    monkeypatch.setattr(free_capacity.FreeCapacity, "slots", lambda *args: slots(*args).clip(1) - 1)


def the_first_gpus_for_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_devices, "choose_whole_gpus", lambda free, links, count, among=None: list(range(count)))


def the_first_gpu_for_all_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_devices, "choose_shared_gpu", lambda free, share: 0)


def the_first_cpus_for_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    choose = free_devices.choose_cpus
    monkeypatch.setattr(free_devices, "choose_cpus", lambda cpus, owned, count, near: choose(cpus, 0, count, near))


def gpus_from_all_islands(monkeypatch: pytest.MonkeyPatch) -> None:
    def scattered(
        free: Sequence[int], links: Sequence[int], count: int, among: Sequence[int] | None = None
    ) -> list[int]:
        there = [gpu for gpu, left in enumerate(free) if left == 1000 and (among is None or gpu in among)]
        firsts = [gpu for gpu in there if links[gpu] not in [links[other] for other in there if other < gpu]]
        return sorted([*firsts, *(gpu for gpu in there if gpu not in firsts)][:count])

    monkeypatch.setattr(free_devices, "choose_whole_gpus", scattered)


def cpus_far_away(monkeypatch: pytest.MonkeyPatch) -> None:
    choose = free_devices.choose_cpus
    monkeypatch.setattr(
        free_devices, "choose_cpus", lambda cpus, owned, count, near: choose(cpus[::-1], owned, count, [])
    )


def half_a_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    _with_tasks(monkeypatch, lambda tasks: tasks[: (len(tasks) + 1) // 2])


def a_rank_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    _with_tasks(monkeypatch, lambda tasks: tuple([replace(task, rank=tasks[0].rank) for task in tasks]))


def _with_tasks(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], Any]) -> None:
    named = gang_placement._with_ranks

    def mutated(*args: Any) -> GangPlacement:
        whole = named(*args)
        return GangPlacement(job_id=whole.job_id, attempt=whole.attempt, tasks=change(whole.tasks))

    monkeypatch.setattr(gang_placement, "_with_ranks", mutated)


def the_next_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    named = gang_placement._with_ranks
    monkeypatch.setattr(
        gang_placement, "_with_ranks", lambda *args: replace(whole := named(*args), attempt=whole.attempt + 1)
    )


def the_rest_of_a_line_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def passed(self: drf_order.DrfOrder[Any]) -> None:
        self._leaf.gang = None
        self._end_line()

    monkeypatch.setattr(drf_order.DrfOrder, "passed", passed)


def only_readiness_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "filters", lambda nodes, rules: [(filters.NOT_READY, nodes.ready)])


def anywhere_is_a_ground(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_placement, "domain_masks", lambda gang, *rest: iter([[None] * len(gang.requests)]))


def only_the_first_ground(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_placement, "MAX_DOMAINS", 1)


def only_the_first_order_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_placement, "TRIES", 1)


def uneven_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    def uneven(
        self: gang_placement._Try,
        request: Any,
        index: int,
        slots: Any,
        least: int,
        wanted: int,
        split: Callable[[Any, int], Any],
    ) -> Any:
        return split(slots, max(least, 1)) if slots.sum() >= max(least, 1) else None

    monkeypatch.setattr(gang_placement._Try, "_spread", uneven)


def togetherness_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_placement, "keep_apart", lambda gang, rules, slots, *rest: slots)


def others_come_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_placement._Try, "_without_domains_of_others", lambda self, group, slots: slots)


def limits_hold_nobody_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_limits.QueueLimits, "why_not", lambda self, gang: None)


def elastic_tasks_know_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        queue_limits.QueueLimits,
        "_most",
        lambda self, gang, rules, models: tuple([request.count for request in gang.requests]),
    )


def models_have_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_limits.QueueLimits, "_beyond_floor", lambda self, gang, rules, model: False)


def limits_forget_what_was_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_limits.QueueLimits, "take", lambda self, gang, placement, nodes: None)


def elastic_tasks_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        queue_limits.QueueLimits,
        "allowance",
        lambda self, gang: queue_limits.Allowance(tuple([a.floor for a in gang.requests]), ()),
    )


def first_found_first_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_order, "_sorted", lambda gangs, *rest: list(gangs))


@pytest.mark.parametrize(
    ("mutation", "check", "named"),
    [
        (one_slot_too_many, check_every_rule, "capacity"),
        (the_first_gpus_for_everybody, check_every_rule, "GPUs"),
        (the_first_gpu_for_all_shares, check_every_rule, "GPUs"),
        (the_first_cpus_for_everybody, check_every_rule, "CPUs"),
        (gpus_from_all_islands, check_every_rule, "islands"),
        (cpus_far_away, check_every_rule, "NUMA"),
        (the_next_attempt, check_every_rule, "the state machine refuses"),
        (the_rest_of_a_line_is_forgotten, check_every_rule, "all"),
        (half_a_gang, check_every_rule, "whole"),
        (a_rank_twice, check_every_rule, "ranks"),
        (only_readiness_counts, check_every_rule, "suits"),
        (anywhere_is_a_ground, check_every_rule, "topology"),
        (uneven_is_fine, check_every_rule, "spread"),
        (togetherness_is_fine, check_every_rule, "apart"),
        (others_come_near, check_every_rule, "apart"),
        (limits_hold_nobody_back, check_every_rule, "limits"),
        (elastic_tasks_know_no_limit, check_every_rule, "limits"),
        (models_have_no_limit, check_every_rule, "limits"),
        (limits_forget_what_was_placed, check_every_rule, "limits"),
        (one_slot_too_few, check_only_what_has_no_place_waits, "missed"),
        (only_the_first_ground, check_only_what_has_no_place_waits, "missed"),
        (only_the_first_order_of_groups, lambda _: check_packing_misses_little(), "packing"),
        (elastic_tasks_stay_out, check_elastic_tasks_fill_what_is_there, "elastic"),
        (first_found_first_looked_at, check_order_of_input_does_not_matter, "order"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__.replace("<lambda>", "packing"),
)
def test_a_broken_planner_is_noticed(
    monkeypatch: pytest.MonkeyPatch, mutation: Mutation, check: Callable[[settings], None], named: str
) -> None:
    mutation(monkeypatch)
    with pytest.raises(AssertionError, match=rf"^(assert \[.)?{named}"):
        check(UNSHRUNK)
