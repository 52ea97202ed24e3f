"""Random commands: invariants after each, the digest against a recomputation, a restored twin that goes on alike."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from random import Random
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from gosched.core import lifecycle
from gosched.core.commands.command import Command
from gosched.core.commands.nodes import ControlNode
from gosched.core.commands.plans import Cause, CommitPlan
from gosched.core.events import (
    CommandFailed,
    Event,
    FenceChanged,
    JobChanged,
    JobEvicted,
    JobFrozen,
    NodeChanged,
    ReservationChanged,
    TaskChanged,
)
from gosched.core.invariants.check_state import check
from gosched.core.outcome import Accepted, Outcome, Rejected
from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.fence import Fence
from gosched.core.records.job import Job, JobState
from gosched.core.records.node import ClosedBy, NodeState
from gosched.core.records.task import TaskState
from gosched.core.resources import MILLI, Resources
from gosched.core.sharing import add_to, as_map, ceilings, charge_of, guarantees, lineage
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.footprint import Footprint
from gosched.core.state.restore import restore
from gosched.core.state.state_digest import StateDigest
from gosched.core.state.tables import Contents, FrozenState
from gosched.replication.applier import Applier
from gosched.state_machine import (
    MachineBug,
    answers,
    apply,
    evictions,
    fences,
    gang_fit,
    gang_start,
    gangs,
    job_control,
    node_control,
    plans,
    queues,
    reservations,
    run_times,
    tasks,
)
from gosched.state_machine.gang_fit import GangFit
from gosched.state_machine.headroom import Headroom, fenced_charge
from gosched.wire.batch import encode_batch, encode_command
from tests.state_machine import chaos, closing, scaling

PROFILE = settings(
    derandomize=True,
    max_examples=90,
    stateful_step_count=20,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TELLING = (8, 51, 52, 64)  # seeds that found the faults that hide best: they come first
Commands = Callable[[Random, ClusterState, int], Iterator[Command]]
RANDOM = st.randoms(use_true_random=True)  # from a drawn seed: even odds, and the same again in each run


class Machine(RuleBasedStateMachine):
    seen: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.state = ClusterState()
        self.twin = ClusterState()
        for command in chaos.opening():
            self.apply(command)

    @rule(r=RANDOM, count=st.integers(1, 20))
    def commands(self, r: Random, count: int) -> None:
        for command in chaos.commands(r, self.state, count):
            self.apply(command)
            self.check()

    @rule()
    def restore_the_twin(self) -> None:
        self.twin = restored(self.state.freeze())
        assert indexes(self.twin) == indexes(self.state)

    def check(self) -> None:
        assert check(self.state) == []
        digest = self.state.digest()
        assert self.twin.digest() == digest
        assert restore(self.state.freeze()).digest() == digest

    def apply(self, command: Command) -> None:
        before = self.state.freeze()
        outcome, events = apply(self.state, command)
        assert apply(self.twin, command) == (outcome, events)
        count(self.seen, outcome, events)
        if isinstance(command.body, CommitPlan):
            assert over_limits(self.state, events) == []
            assert wrong_victims(self.state, before, events) == []
            assert taken_below_a_guarantee(before, self.state, events) == []
        assert broken_fences(before, self.state, events) == []
        assert given_what_takes_no_work(before, self.state, events) == []
        assert wrongly_opened(before, self.state, command) == []
        assert self.state.revision == before.revision + 1
        assert self.state.clock_ms == max(before.clock_ms, command.at_ms)
        if isinstance(outcome, Rejected):
            assert (events, self.state.jobs, self.state.tasks) == ((), before.jobs, before.tasks)
            assert (self.state.nodes, self.state.allocations) == (before.nodes, before.allocations)
        for event in events:
            assert_legal(event)


class Closing(Machine):
    """Nodes are closed and opened, jobs frozen, too."""

    seen: ClassVar[Counter[str]] = Counter()


class Scaling(Machine):
    """The tasks of jobs come and go."""

    seen: ClassVar[Counter[str]] = Counter()


def live(kind: type[Machine], commands: Commands, seeds: Iterable[int]) -> None:
    """From plain seeds: the same lives, whatever else changes. The digests are compared now and then."""
    for seed in seeds:
        machine = kind()
        for number, command in enumerate(commands(Random(seed), machine.state, 150)):
            machine.apply(command)
            assert check(machine.state) == []
            if number % 10 == 0:
                machine.check()
            if number % 30 == 0:
                machine.restore_the_twin()


restored = restore  # a seeded fault takes its place


def assert_legal(event: Event) -> None:
    assert not isinstance(event, CommandFailed), event.trace
    if isinstance(event, TaskChanged):
        assert event.after in lifecycle.TASK_STEPS[event.before]
    if isinstance(event, JobChanged) and JobState.UNSPECIFIED not in (event.before, event.after):
        assert event.after in lifecycle.JOB_STEPS[event.before]


def _stays(fence: Fence, after: Fence | None) -> bool:
    return after is not None and replace(after, not_before_ms=fence.not_before_ms) == fence


def broken_fences(before: FrozenState, state: ClusterState, events: tuple[Event, ...]) -> list[str]:
    """Fences that went without a word why, and without a start on exactly their places."""
    why = {e.job_id: e.why for e in events if isinstance(e, FenceChanged) and not e.made}
    gone = [fence for job_id, fence in before.fences.items() if not _stays(fence, state.fences.get(job_id))]
    broken = [f.job_id for f in gone if f.job_id not in why]
    for fence in gone:
        tasks = {t.rank: t for t in state.tasks_of(state.jobs[fence.job_id])} if not why.get(fence.job_id) else {}
        started = [tasks[p.rank] for p in fence.tasks if tasks]
        places = [TaskPlacement(rank=t.rank, node_id=t.node_id, gpus=t.gpus, cpus=t.cpus) for t in started]
        broken += [fence.job_id] if tasks and (*places,) != fence.tasks else []
    return broken


def given_what_takes_no_work(before: FrozenState, state: ClusterState, events: tuple[Event, ...]) -> list[str]:
    """Tasks placed on nodes that are closed, on bad GPUs, or into jobs that were frozen."""
    placed = [e for e in events if isinstance(e, TaskChanged) and e.after is TaskState.PLACED]
    wrong = []
    for event in placed:
        node = before.nodes[event.node_id]
        bad = any(gpu in node.hardware.bad_gpus for gpu in state.allocations[event.allocation_id].gpus)
        frozen = event.job_id in before.jobs and before.jobs[event.job_id].frozen
        wrong += [event.task_id] if bad or frozen or node.state is not NodeState.READY else []
    return wrong


def wrongly_opened(before: FrozenState, state: ClusterState, command: Command) -> list[str]:
    """Nodes that an agent opened though somebody else had closed them."""
    by_operator = isinstance(command.body, ControlNode) and command.body.by is ClosedBy.OPERATOR
    closed = [n for n in before.nodes.values() if n.closed_by in (ClosedBy.OPERATOR, ClosedBy.FAILURES)]
    there = [(n, state.nodes[n.id]) for n in closed if n.id in state.nodes]  # the others were removed
    return [n.id for n, after in there if after.closed_by is not n.closed_by and not by_operator]


def wrong_victims(state: ClusterState, before: FrozenState, events: tuple[Event, ...]) -> list[str]:
    """Victims of a preemption that their preemptor may not evict."""
    wrong = []
    for event in events:
        if isinstance(event, JobEvicted) and event.cause is Cause.PREEMPT:
            victim, preemptor = before.jobs[event.job_id], before.jobs[event.for_job].spec
            due = 0 < victim.until_ms <= state.clock_ms + victim.spec.eviction_ms
            lower = victim.spec.priority < preemptor.priority or due
            wrong += [] if lower and victim.spec.queue == preemptor.queue else [event.job_id]
    return wrong


def taken_below_a_guarantee(before: FrozenState, state: ClusterState, events: tuple[Event, ...]) -> list[str]:
    """Queues, below the lowest ancestor of who gives and who gets, that a plan has taken below their guarantee. Only of
    plans in which that was the one cause, and which did not take from a queue and from one above it: each is checked
    for itself."""
    evicted = [event for event in events if isinstance(event, JobEvicted)]
    if not evicted or any(event.cause is not Cause.RECLAIM for event in evicted):
        return []
    givers = dict.fromkeys(
        next(q for q in lineage(event.queue) if q not in lineage(state.jobs[event.for_job].spec.queue))
        for event in evicted
    )
    if any(above != path and above in lineage(path) for above in givers for path in givers):
        return []
    old, guaranteed = restore(before), guarantees(state.queues, state.total)
    return [
        f"{path}: {name}"
        for path in givers
        for name, floor in guaranteed[path].items()
        if to_hold(old, path).get(name, 0) >= floor > to_hold(state, path).get(name, 0)
    ]


def to_hold(state: ClusterState, path: str) -> dict[str, int]:
    """What a queue holds for good, and what fences will hold for it."""
    held: dict[str, int] = {}
    for a in state.allocations.values():
        if path in lineage(state.jobs[a.job_id].spec.queue) and not a.evicted_for_fence:
            add_to(held, charge_of(a.resources, a.gpu_model))
    for fence in state.fences.values():
        if path in lineage(state.jobs[fence.job_id].spec.queue):
            add_to(held, fenced_charge(state, fence))
    return held


def over_limits(state: ClusterState, events: tuple[Event, ...]) -> list[str]:
    """Queues and tenants that were given something by these events and have more than they may, from the tables."""
    fired = [e.job_id for e in events if isinstance(e, FenceChanged) and not e.made]  # looked at when they were made
    placed = [e for e in events if isinstance(e, TaskChanged) and e.after is TaskState.PLACED]
    given = [state.allocations[e.allocation_id] for e in placed if e.job_id not in fired]
    jobs = {a.job_id: state.jobs[a.job_id].spec for a in state.allocations.values()}
    most = ceilings(state.queues, state.total)
    over = []
    for queue, tenant in {(jobs[a.job_id].queue, jobs[a.job_id].tenant): None for a in given}:
        limits = [(path, most[path], state.queues[path].max_running_jobs) for path in lineage(queue)]
        quota = state.quotas.get(tenant)
        limits += [(tenant, dict(quota.limit), quota.max_running_jobs)] if quota else []
        for name, ceiling, max_jobs in limits:
            held: dict[str, int] = {}
            new: dict[str, int] = {}
            for a in state.allocations.values():
                if name in (*lineage(jobs[a.job_id].queue), jobs[a.job_id].tenant):
                    add_to(held, charge_of(a.resources, a.gpu_model))
                    add_to(new, charge_of(a.resources, a.gpu_model) if a in given else {})
            over += [f"{name}: {r}" for r, amount in ceiling.items() if new.get(r) and held[r] > amount]
            running = [j for j in state.jobs.values() if j.state is JobState.RUNNING and not j.spec.is_parent
                       and name in (*lineage(j.spec.queue), j.spec.tenant)]  # fmt: skip
            changed = [e.job_id for e in events if isinstance(e, JobChanged) and e.job_id not in fired]
            started = any(job.id in changed for job in running)
            over += [f"{name}: jobs"] if started and max_jobs and len(running) > max_jobs else []
    return over


_NOTED = ("NOT_NEEDED", "SCALED_DOWN", "TAINTED", "DRAINED", "GANG_ENDED")  # reasons of tasks


def count(seen: Counter[str], outcome: Outcome, events: tuple[Event, ...]) -> None:
    if isinstance(outcome, Accepted):
        seen["refused gang"] += len(outcome.refusals)
    else:
        seen[outcome.code.name] += 1
    for event in events:
        if isinstance(event, JobChanged):
            seen[f"{event.before.name}>{event.after.name}"] += 1
        elif isinstance(event, TaskChanged) and event.after is TaskState.LOST:
            seen["lost"] += 1
        elif isinstance(event, FenceChanged):
            seen["fence " + ("made" if event.made else "dropped" if event.why else "fired")] += 1
        elif isinstance(event, JobEvicted):
            seen[f"evicted for {event.cause.name}" if event.whole else "evicted in part"] += 1
        elif isinstance(event, ReservationChanged):
            seen["reservation " + ("broken" if event.broken else "changed" if event.start_ms else "gone")] += 1
        elif isinstance(event, TaskChanged) and (event.before, event.after) == (TaskState.KILLED, TaskState.PENDING):
            seen["killed task waits"] += 1
        elif isinstance(event, NodeChanged):
            seen[f"node {event.before.name}>{event.after.name}"] += 1
            seen["node failed"] += "jobs failed here in a row" in event.reason
        elif isinstance(event, JobFrozen):
            seen["frozen" if event.frozen else "thawed"] += 1
        elif isinstance(event, TaskChanged) and event.reason in _NOTED:
            seen[event.reason] += 1
        elif isinstance(event, TaskChanged) and (event.before, event.after) == (TaskState.SUCCEEDED, TaskState.PENDING):
            seen["given back"] += not any(isinstance(e, JobChanged) and e.job_id == event.job_id for e in events)
    if isinstance(outcome, Accepted):
        for refusal in outcome.refusals:
            seen["limit"] += "limit of" in refusal.detail or "max_running_jobs" in refusal.detail
            seen["device"] += "is taken" in refusal.detail or "are taken" in refusal.detail
        placed = {e.job_id for e in events if isinstance(e, TaskChanged) and e.after is TaskState.PLACED}
        seen["joined"] += len(placed - {e.job_id for e in events if isinstance(e, JobChanged)})


def indexes(state: ClusterState) -> tuple[object, ...]:
    oldest_first = [job.id for job in state.finished_oldest_first()]
    return (
        *(state.usage, state.node_allocations, state.pending, oldest_first, [*state.answered], state.names.newest),
        [*state.run_histories],
        *(state.charges, state.counts.running, as_map(state.total)),
        *(state.fenced.placements, state.fenced.resources, state.fenced.evicting, state.fenced.awaited),
        *(state.relatives.dependents, state.relatives.children),
    )


@pytest.fixture
def _little_is_kept(monkeypatch):
    monkeypatch.setattr(answers, "ANSWERS_KEPT_MS", 3)
    monkeypatch.setattr(run_times, "MAX_RUN_HISTORIES", 10)


@pytest.mark.usefixtures("_little_is_kept")
def test_any_commands_leave_a_sound_state_that_a_restored_twin_shares():
    Machine.seen.clear()
    run_state_machine_as_test(Machine, settings=PROFILE)
    expected = [
        *("UNSPECIFIED>PENDING", "PENDING>RUNNING", "PENDING>CANCELLED", "CANCELLED>UNSPECIFIED"),
        *("RUNNING>PENDING", "RUNNING>SUCCEEDED", "RUNNING>FAILED", "RUNNING>CANCELLED"),
        *("refused gang", "lost", "INVALID", "NOT_FOUND", "ALREADY_EXISTS", "CONFLICT"),
        *("STALE_EPOCH", "STALE_INCARNATION"),
        *("NOT_NEEDED", "TAINTED", "limit", "device", "joined"),
        *("fence made", "fence fired", "fence dropped", "evicted for PREEMPT", "evicted for RECLAIM"),
        *("evicted for WINDOW", "evicted in part", "reservation changed", "reservation gone"),
        *("reservation broken", "killed task waits", "PENDING>SUSPENDED"),
    ]
    missing = [e for e in expected if not Machine.seen[e]]
    assert missing == [], Machine.seen


@pytest.mark.usefixtures("_little_is_kept")
def test_so_do_any_commands_for_jobs_whose_tasks_come_and_go():
    Scaling.seen.clear()
    live(Scaling, scaling.commands, range(24))
    expected = ["SCALED_DOWN", "given back", "joined", "lost", "GANG_ENDED", "RUNNING>SUCCEEDED", "RUNNING>PENDING"]
    assert [e for e in expected if not Scaling.seen[e]] == [], Scaling.seen


@pytest.mark.usefixtures("_little_is_kept")
def test_so_do_any_commands_that_close_nodes_and_freeze_jobs():
    Closing.seen.clear()
    live(Closing, closing.commands, range(16))
    expected = [
        *("frozen", "thawed", "GANG_ENDED", "DRAINED", "joined", "fence dropped", "node failed"),
        *("node READY>CORDONED", "node READY>DRAINING", "node DRAINING>CORDONED", "node DEAD>CORDONED"),
    ]
    missing = [e for e in expected if not Closing.seen[e]]
    assert missing == [], Closing.seen


def _everything_fits(monkeypatch):
    monkeypatch.setattr(Resources, "fits_in", lambda self, room: True)


def _any_gpu_will_do(monkeypatch):
    monkeypatch.setattr(GangFit, "_gpu_problem", lambda *_: "")


def _any_cpu_will_do(monkeypatch):
    monkeypatch.setattr(ClusterState, "node_cpus_held", lambda *_: 0)


def _parts_of_a_gpu_are_not_added_up(monkeypatch):
    held = ClusterState.node_gpus_held
    monkeypatch.setattr(
        ClusterState, "node_gpus_held", lambda self, node: {g: m for g, m in held(self, node).items() if m == MILLI}
    )


def _limits_are_not_looked_at(monkeypatch):
    monkeypatch.setattr(Headroom, "problem", lambda *_: "")


def _fences_do_not_count(monkeypatch):
    monkeypatch.setattr(ClusterState, "held", lambda self, node: (self.usage[node],))


def _fenced_gpus_are_given_away(monkeypatch):
    monkeypatch.setattr(ClusterState, "node_gpus_after", lambda *_: {})


def _a_fence_takes_what_victims_still_hold(monkeypatch):
    monkeypatch.setattr(ClusterState, "set_evicted_for_fence", lambda *_: None)
    monkeypatch.setattr(fences, "_problem", lambda *_, **__: "")


def _anybody_is_preempted(monkeypatch):
    monkeypatch.setattr(evictions, "_preempt_problem", lambda *_: "")


def _guarantees_are_not_looked_at(monkeypatch):
    monkeypatch.setattr(evictions, "reclaim_problem", lambda *_: "")


def _promises_outlive_the_wait(monkeypatch):
    monkeypatch.setattr(reservations, "forget", lambda *_: None)
    monkeypatch.setattr(gang_start, "forget", lambda *_: None)


def _what_gangs_of_a_plan_take_is_not_counted(monkeypatch):
    monkeypatch.setattr(Headroom, "take", lambda *_: None)


def _less_than_the_minimum_starts(monkeypatch):
    monkeypatch.setattr(plans, "_start_problem", lambda *_: "")


def _closed_nodes_take_work(monkeypatch):
    problem = gang_fit._node_problem
    monkeypatch.setattr(gang_fit, "_node_problem", lambda n, g: problem(replace(n, state=NodeState.READY), g))


def _fences_stay_on_closed_nodes(monkeypatch):
    monkeypatch.setattr(fences, "drop_on", lambda *_: None)


def _a_drained_node_stays_draining(monkeypatch):
    monkeypatch.setattr(node_control, "after_ends", lambda *_: None)


def _agents_open_what_they_like(monkeypatch):
    monkeypatch.setattr(node_control, "_is_closed_by_another", lambda *_: False)


def _bad_gpus_are_as_good_as_any(monkeypatch):
    monkeypatch.setattr(gang_fit, "_is_bad", lambda *_: False)


def _tenants_pay_nothing(monkeypatch):
    monkeypatch.setattr(ClusterState, "put_tenant", lambda self, tenant: self.tenants.setdefault(tenant.name, tenant))


def _what_is_frozen_stays_so(monkeypatch):
    def stop_all(state: ClusterState, events: list[Event], job: Job, reason: str) -> None:
        real(state, events, job, reason)
        state.put_job(replace(state.jobs[job.id], frozen=job.frozen))

    real = gangs.stop_all
    for module in (gangs, evictions, job_control):
        monkeypatch.setattr(module, "stop_all", stop_all)


def _a_task_joins_twice(monkeypatch):
    monkeypatch.setattr(plans, "_join_problem", lambda *_: "")


def _a_new_half_life_opens_no_accounts(monkeypatch):
    monkeypatch.setattr(queues, "change_half_lives", lambda *_: None)


def _placed_jobs_are_placed_again(monkeypatch):
    monkeypatch.setattr(plans, "wants_placement", lambda job: True)


def _nobody_stops_the_others(monkeypatch):
    for module in (gangs, evictions):
        monkeypatch.setattr(module, "stop_all", lambda state, events, job, reason: state.put_job(job))


def _ends_are_not_counted(monkeypatch):
    monkeypatch.setattr(tasks, "count_change", lambda *_: None)


def _usage_is_not_given_back(monkeypatch):
    def drop(self: ClusterState, allocation: str) -> None:
        del self.node_allocations[self.allocations.pop(allocation).node_id][allocation]

    monkeypatch.setattr(ClusterState, "drop_allocation", drop)


def _a_change_escapes_the_digest(monkeypatch):
    touch = StateDigest.touch

    def forgetful(self: StateDigest, contents: Contents, footprint: Footprint, table: str, key: str) -> None:
        if table != "tasks" or key not in contents.tasks or contents.tasks[key].state is not TaskState.RUNNING:
            touch(self, contents, footprint, table, key)

    monkeypatch.setattr(StateDigest, "touch", forgetful)


def _restoring_forgets_the_order_of_answers(monkeypatch):
    def shuffled(frozen: FrozenState) -> ClusterState:
        return restore(replace(frozen, answered=dict(reversed([*frozen.answered.items()]))))

    monkeypatch.setattr(sys.modules[__name__], "restored", shuffled)


def _restoring_forgets_the_order_of_histories(monkeypatch):
    def sorted_by_key(frozen: FrozenState) -> ClusterState:
        return restore(replace(frozen, run_histories=dict(sorted(frozen.run_histories.items()))))

    monkeypatch.setattr(sys.modules[__name__], "restored", sorted_by_key)


def _what_teaches_depends_on_what_was_asked_before(monkeypatch):
    asked: list[str] = []
    real = run_times._teaches

    def _teaches(job: Job) -> bool:
        asked.append(job.id)
        return real(job) or len(asked) % 2 == 0

    monkeypatch.setattr(run_times, "_teaches", _teaches)


@pytest.mark.parametrize(
    "fault",
    [
        _everything_fits,
        _any_gpu_will_do,
        _any_cpu_will_do,
        _parts_of_a_gpu_are_not_added_up,
        _fences_do_not_count,
        _fenced_gpus_are_given_away,
        _a_fence_takes_what_victims_still_hold,
        _anybody_is_preempted,
        _guarantees_are_not_looked_at,
        _promises_outlive_the_wait,
        _limits_are_not_looked_at,
        _what_gangs_of_a_plan_take_is_not_counted,
        _less_than_the_minimum_starts,
        _a_task_joins_twice,
        _a_new_half_life_opens_no_accounts,
        _placed_jobs_are_placed_again,
        _nobody_stops_the_others,
        _ends_are_not_counted,
        _usage_is_not_given_back,
        _a_change_escapes_the_digest,
        _restoring_forgets_the_order_of_answers,
        _restoring_forgets_the_order_of_histories,
        _what_teaches_depends_on_what_was_asked_before,
    ],
)
@pytest.mark.usefixtures("_little_is_kept")
def test_the_property_finds_a_seeded_fault(monkeypatch, fault):
    fault(monkeypatch)
    with pytest.raises((AssertionError, MachineBug)):  # an invariant fails, or a handler trips over the fault
        live(Machine, chaos.commands, [*TELLING, *range(150)])


@pytest.mark.parametrize(
    "fault",
    [
        _closed_nodes_take_work,
        _fences_stay_on_closed_nodes,
        _a_drained_node_stays_draining,
        _agents_open_what_they_like,
        _bad_gpus_are_as_good_as_any,
        _tenants_pay_nothing,
        _what_is_frozen_stays_so,
    ],
)
@pytest.mark.usefixtures("_little_is_kept")
def test_a_fault_in_what_is_closed_or_frozen_is_found(monkeypatch, fault):
    fault(monkeypatch)
    with pytest.raises((AssertionError, MachineBug)):
        live(Closing, closing.commands, range(40))


REPLAY = """
import sys
from hashlib import blake2b
from pathlib import Path
from gosched.replication.applier import Applier
applier, seen = Applier(), blake2b()
data = Path(sys.argv[1]).read_bytes()
while data:
    length = int.from_bytes(data[:4], "big")
    _, applied = applier.apply(data[4 : 4 + length])
    seen.update(f"{applier.state.digest()} {[(a.outcome, a.events) for a in applied]}".encode())
    data = data[4 + length :]
print(applier.state.revision, applier.state.digest(), seen.hexdigest(), hash("a"))
"""


def test_a_log_replayed_under_two_hash_seeds_gives_the_same_digests_outcomes_and_events(tmp_path):
    state, log, seen = Applier().state, bytearray(), Counter[str]()
    for command in chain(chaos.opening(), chaos.commands(Random(20261121), state, 3000)):
        count(seen, *apply(state, command))
        entry = encode_batch("p", 1, [encode_command(command)])
        log += len(entry).to_bytes(4, "big") + entry
    path = tmp_path / "log"
    path.write_bytes(log)
    lines = [
        subprocess.run(
            [sys.executable, "-c", REPLAY, str(path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout.split()
        for seed in ("1", "2")
    ]
    assert lines[0][:3] == lines[1][:3]
    assert lines[0][3] != lines[1][3]  # the seeds were really different
    assert lines[0][:2] == [str(state.revision), state.digest()]
    expected = ("PENDING>RUNNING", "RUNNING>PENDING", "RUNNING>SUCCEEDED", "lost", "joined", "limit", "NOT_NEEDED")
    assert min(seen[change] for change in expected) > 5
