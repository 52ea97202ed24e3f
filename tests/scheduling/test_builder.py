"""The columns after events equal the columns built anew."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gosched.core.commands.cluster import PassTime, SetQueues
from gosched.core.commands.command import Command
from gosched.core.commands.jobs import CancelJob, SubmitJob
from gosched.core.commands.nodes import MarkNodeDead, ReportTasks, TaskReport
from gosched.core.commands.plans import CommitPlan
from gosched.core.events import FenceChanged, JobChanged, JobUpdated, NodeChanged, TaskChanged
from gosched.core.records.job import JobState
from gosched.core.records.node import NodeState
from gosched.core.records.queue import Queue
from gosched.core.records.task import TaskState
from gosched.core.state.cluster_state import ClusterState
from gosched.scheduling import Policy, View, ViewBuilder, schedule
from gosched.scheduling.snapshot import view as view_module
from gosched.scheduling.snapshot.columns import Column
from gosched.scheduling.snapshot.view import NO_VALUE, NodeColumns
from gosched.state_machine.apply import apply
from tests.scheduling.support import notation
from tests.scheduling.support.cluster import allocation, group, job, node, resources, state_of


def assert_equal(one: NodeColumns, other: NodeColumns) -> None:
    """Widths and codes may differ: they depend on what was there before."""
    assert one.ids == other.ids
    for name in ("ready", "gpu_memory"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert (one.cpus, one.cpus_owned) == (other.cpus, other.cpus_owned)
    for name in ("capacity", "free"):
        assert amounts(one, name) == amounts(other, name)
    for name, nothing in (("gpu_free", 0), ("gpu_link", -1), ("gpu_numa", -1)):
        width = max(one.gpu_free.shape[1], other.gpu_free.shape[1])
        np.testing.assert_array_equal(widened(one, name, width, nothing), widened(other, name, width, nothing))
    for row in range(len(one)):
        assert one.taint_sets[one.taints[row]] == other.taint_sets[other.taints[row]]
        assert labels(one, row) == labels(other, row)


def amounts(nodes: NodeColumns, name: str) -> list[tuple[list[int], dict[str, int]]]:
    """For each node, the fixed columns and the cluster's own resources by name, without zeros."""
    rows = getattr(nodes, name).tolist()
    return [(row[: Column.CUSTOM], {n: row[c] for n, c in nodes.custom.items() if row[c]}) for row in rows]


def widened(nodes: NodeColumns, name: str, width: int, nothing: int) -> np.ndarray:
    column = getattr(nodes, name)
    return np.pad(column, ((0, 0), (0, width - column.shape[1])), constant_values=nothing)


def labels(nodes: NodeColumns, row: int) -> dict[str, str]:
    found = {key: int(column[row]) for key, column in nodes.labels.columns.items()}
    return {key: nodes.labels.value(code) for key, code in found.items() if code != NO_VALUE}


def assert_same(one: View, other: View) -> None:
    assert_equal(one.nodes, other.nodes)
    assert sorted(one.pending, key=lambda g: g.sequence) == sorted(other.pending, key=lambda g: g.sequence)
    assert wanted(one) == wanted(other)
    assert (one.workload, one.avoided) == (other.workload, other.avoided)
    for name in ("queues", "quotas", "accounts", "total", "charges", "running"):
        assert getattr(one, name) == getattr(other, name)
    assert one.holders == other.holders
    for name in ("repairs", "windows"):
        assert sorted(getattr(one, name), key=repr) == sorted(getattr(other, name), key=repr)
    assert (one.reservations, one.freed_soon) == (other.reservations, other.freed_soon)


def wanted(view: View) -> dict[str, dict[str, int]]:
    """The demand without zeros."""
    found = {queue: {name: n for name, n in amounts.items() if n} for queue, amounts in view.demand.items()}
    return {queue: amounts for queue, amounts in found.items() if amounts}


def anew(state: ClusterState) -> View:
    builder = ViewBuilder()
    builder.reset(state)
    return builder.view(state)


def test_a_reset_says_now_and_then_that_it_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader with 100,000 pending jobs was taken for one that stands still, and gave up the lead again and again."""
    monkeypatch.setattr("gosched.scheduling.snapshot.builder.JOBS_AT_ONCE", 2)
    state = state_of([node("a")], [job(number, group()) for number in range(1, 6)])
    said: list[int] = []
    builder = ViewBuilder()
    builder.reset(state, at_work=lambda: said.append(len(builder.view(state).pending)))
    assert said == [2, 4, 5]
    assert_same(builder.view(state), anew(state))


def test_a_view_does_not_change_when_the_state_goes_on() -> None:
    state = state_of([node("a"), node("c")], [job(1, group())])
    builder = ViewBuilder()
    builder.reset(state)
    view = builder.view(state)
    state.put_node(node("b", cpu=8, gpu=2, labels=(("zone", "x"),)))
    state.put_node(replace(state.nodes["a"], state=NodeState.DEAD))
    state.put_job(job(2, group()))
    ready, dead = NodeState.READY, NodeState.DEAD
    events = [
        NodeChanged(node_id="b", before=NodeState.UNSPECIFIED, after=ready),
        NodeChanged(node_id="a", before=ready, after=dead),
        JobChanged(job_id="j2", queue="default", before=job(2).state, after=job(2).state),
    ]
    builder.apply(state, events)
    assert (view.nodes.ids, view.nodes.ready.tolist(), len(view.pending)) == (["a", "c"], [True, True], 1)
    later = builder.view(state)
    assert (later.nodes.ids, later.nodes.ready.tolist(), len(later.pending)) == (
        ["a", "b", "c"],
        [False, True, True],
        2,
    )
    assert_equal(later.nodes, anew(state).nodes)


def test_views_share_the_columns_of_nodes_that_did_not_change_and_cannot_write_them() -> None:
    state = state_of([node("a"), node("b")])
    builder = ViewBuilder()
    builder.reset(state)
    one, same = builder.view(state).nodes, builder.view(state).nodes
    assert one.capacity is same.capacity
    assert one.free is not same.free
    with pytest.raises(ValueError, match="read-only"):
        one.capacity[0, 0] = 1
    one.free[0, 0] = 1  # its own
    state.put_node(replace(state.nodes["b"], state=NodeState.CORDONED))
    builder.apply(state, [NodeChanged(node_id="b", before=NodeState.READY, after=NodeState.CORDONED)])
    assert (one.ready.tolist(), builder.view(state).nodes.ready.tolist()) == ([True, True], [True, False])


def test_what_is_derived_of_nodes_is_made_once_until_a_record_changes() -> None:
    state = state_of([node("a"), node("b")])
    builder = ViewBuilder()
    builder.reset(state)
    made: list[int] = []

    def ready() -> int:
        nodes = builder.view(state).nodes

        def make() -> int:
            made.append(len(made))
            return int(nodes.ready.sum())

        return nodes.derive("ready", make)

    assert (ready(), ready(), len(made)) == (2, 2, 1)
    state.put_node(replace(state.nodes["b"], state=NodeState.CORDONED))
    builder.apply(state, [NodeChanged(node_id="b", before=NodeState.READY, after=NodeState.CORDONED)])
    assert (ready(), ready(), len(made)) == (1, 1, 2)


def test_few_things_are_kept_of_what_is_derived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "MAX_DERIVED", 2)
    nodes = anew(state_of([node("a")])).nodes
    assert [nodes.derive(key, partial(str, key)) for key in (1, 2, 3, 1)] == ["1", "2", "3", "1"]
    assert len(nodes._derived) == 2


def test_what_a_task_holds_shows_after_its_event_and_not_before() -> None:
    state = state_of([node("a", cpu=4, gpu=2)])
    builder = ViewBuilder()
    builder.reset(state)
    state.put_job(replace(job(1, group()), id="other", state=JobState.RUNNING))
    state.put_allocation(allocation("x", "a", resources(cpu=1, gpu=1), gpus=(0,)))
    assert builder.view(state).nodes.free[0].tolist()[0] == 4000
    placed = TaskChanged(
        job_id="other", task_id="x", allocation_id="x", node_id="a", before=TaskState.PENDING, after=TaskState.PLACED
    )
    builder.apply(state, [placed])
    assert builder.view(state).nodes.free[0].tolist()[0] == 3000
    assert builder.view(state).nodes.gpu_free[0].tolist() == [0, 1000]


SETTINGS = settings(max_examples=100, deadline=None, derandomize=True, database=None, report_multiple_bugs=False)
UNSHRUNK = settings(SETTINGS, phases=[Phase.generate])

NODES = {
    "plain": "4cpu 16Gi zone=x",
    "small": "2cpu 4Gi zone=y disk=ssd",
    "gpus": "4cpu 16Gi 2gpu:h100 zone=x gpu_mem:80Gi links:0,0",
    "many gpus": "8cpu 16Gi 4gpu:a100 zone=y numa:0-3/4-7 gpu_numa:0,0,1,1 links:0,0,1,1",
    "tainted": "4cpu 16Gi zone=x !dedicated=ml:no_execute !slow:prefer_no_schedule",
    "licensed": "4cpu 16Gi 3*license",
    "licensed too": "4cpu 16Gi 1*fpga 2*license",
}

GROUPS = {
    "one": "1cpu",
    "gang": "3x 1cpu 1Gi",
    "wide": "4x 2cpu",
    "wider": "2..6x 2cpu",
    "elastic": "1..9x 2cpu",
    "on GPUs": "2x 1cpu 1gpu",
    "with a share": "2x 0.5cpu 0.4gpu",
    "of one model": "1gpu:h100 2cpu",
    "with affinity": "1cpu ?zone:in:x ?disk:exists*5",
    "apart from j1": "2x 1cpu apart:node:j1",
    "apart from j2": "1cpu apart:zone:j2 apart:node",
    "licensed": "1cpu 1*license ~",
    "two groups": "1cpu | 2x 1cpu 1gpu",
}

HEADS = ("yields", "yields", "yields priority=5", "priority=9 timeout=2s", "priority=9", "yields timeout=3s")

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(0, 5), st.sampled_from(sorted(NODES))),
        st.tuples(st.just("submit"), st.sampled_from(sorted(GROUPS)), st.integers(0, 1), st.sampled_from(HEADS)),
        st.tuples(st.just("schedule")),
        st.tuples(st.just("schedule")),
        st.tuples(st.just("end"), st.integers(0, 20), st.sampled_from([TaskState.SUCCEEDED, TaskState.FAILED])),
        st.tuples(st.just("die"), st.integers(0, 5)),
        st.tuples(st.just("cancel"), st.integers(1, 10)),
        st.tuples(st.just("passed"), st.integers(1, 10)),
        st.tuples(st.just("saved"), st.integers(0, 20)),
    ),
    min_size=10,
    max_size=25,
)


class World:
    """The real state machine, a builder that follows it, and the planner."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.builder = ViewBuilder()
        self.now = 1
        self.jobs = 0
        self.do(SetQueues(queues=(Queue(path="default"), Queue(path="other"))))
        self.join(0, "plain")
        self.join(1, "many gpus")

    def do(self, body: object) -> None:
        self.now += 1
        command = Command(body=body, epoch=0, at_ms=self.now)  # type: ignore[arg-type]
        _, events = apply(self.state, command)
        self.builder.apply(self.state, events)

    def step(self, kind: str, *args: object) -> None:
        getattr(self, kind)(*args)

    def join(self, which: int, kind: str) -> None:
        body = notation.node([f"n{which}", *NODES[kind].split()])
        self.do(replace(body, incarnation=f"boot-{self.now}"))

    def submit(self, kind: str, queue: int, head: str) -> None:
        self.jobs += 1
        words = [f"j{self.jobs}", ["default", "other"][queue], *head.split(), ":", *GROUPS[kind].split()]
        self.do(SubmitJob(job_id=f"j{self.jobs}", spec=notation.job(words)))

    def schedule(self) -> None:
        for command in schedule(self.builder.view(self.state), Policy(), self.now, 1).commands(0, self.now):
            assert isinstance(command.body, CommitPlan)
            self.do(command.body)

    def passed(self, seconds: int) -> None:
        self.now += seconds * 1000
        self.do(PassTime())

    def saved(self, which: int) -> None:
        self.report(which, TaskState.RUNNING, checkpoint_at_ms=self.now)

    def end(self, which: int, state: TaskState) -> None:
        self.report(which, state, exit_code=int(state is TaskState.FAILED), ended_at_ms=self.now)

    def report(self, which: int, state: TaskState, **fields: int) -> None:
        if not self.state.allocations:
            return
        held = list(self.state.allocations.values())[which % len(self.state.allocations)]
        report = TaskReport(allocation_id=held.id, state=state, **fields)
        incarnation = self.state.nodes[held.node_id].incarnation
        self.do(ReportTasks(node_id=held.node_id, incarnation=incarnation, reports=(report,)))

    def cancel(self, which: int) -> None:
        self.do(CancelJob(job_id=f"j{which}"))

    def die(self, which: int) -> None:
        if machine := self.state.nodes.get(f"n{which}"):
            self.do(MarkNodeDead(node_id=machine.id, incarnation=machine.incarnation))


def check_followed_columns_equal_new_ones(rules: settings = SETTINGS) -> None:
    seen: Counter[str] = Counter()

    @rules
    @given(STEPS)
    def check(steps: list[tuple[object, ...]]) -> None:
        world = World()
        for kind, *args in steps:
            world.step(str(kind), *args)
            view = world.builder.view(world.state)
            assert_same(view, anew(world.state))
            seen["placed"] += len(world.state.allocations)
            seen["avoided"] += len([node for nodes in view.avoided.values() for node in nodes])
            seen["joining"] += len([gang for gang in view.pending if gang.joins])
            seen["CPUs"] += any(view.nodes.cpus_owned)
            seen["fences"] += len(view.freed_soon)
            seen["repairs"] += len(view.repairs)
            seen["saved"] += any(job.checkpoint_at_ms for job in world.state.jobs.values())
            seen["leaving"] += any(holder.is_stopping for holder in view.holders.values())

    check()
    kinds = ("placed", "avoided", "joining", "CPUs", "fences", "repairs", "saved", "leaving")
    assert min(seen[kind] for kind in kinds) > 8, seen


def test_columns_that_followed_the_machines_events_equal_new_ones() -> None:
    check_followed_columns_equal_new_ones()


@pytest.mark.parametrize("forgotten", [TaskChanged, NodeChanged, JobChanged, JobUpdated, FenceChanged])
def test_a_builder_that_misses_a_kind_of_event_is_noticed(monkeypatch: pytest.MonkeyPatch, forgotten: type) -> None:
    follow = ViewBuilder.apply
    monkeypatch.setattr(
        ViewBuilder,
        "apply",
        lambda self, state, events: follow(self, state, [e for e in events if not isinstance(e, forgotten)]),
    )
    with pytest.raises(AssertionError):
        check_followed_columns_equal_new_ones(UNSHRUNK)


def test_a_builder_that_keeps_what_gone_gangs_asked_for_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ViewBuilder, "_remove_gang", lambda self, job_id: self._gangs.pop(job_id, None) and None)
    with pytest.raises(AssertionError):
        check_followed_columns_equal_new_ones(UNSHRUNK)


def test_a_builder_that_counts_ended_jobs_as_workload_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    count = ViewBuilder._count_workload
    monkeypatch.setattr(
        ViewBuilder,
        "_count_workload",
        lambda self, job, job_id: job and not job.state.is_final and count(self, job, job_id),
    )
    with pytest.raises(AssertionError):
        check_followed_columns_equal_new_ones(UNSHRUNK)


def test_a_node_that_is_forgotten_leaves_the_columns() -> None:
    state = state_of([node("a"), node("b", cpu=8, gpu=2, labels=(("zone", "x"),)), node("c")], [job(1, group())])
    builder = ViewBuilder()
    builder.reset(state)
    state.put_node(node("came-and-went"))
    state.drop_node("came-and-went")
    state.drop_node("b")
    dead = NodeState.DEAD
    gone = [NodeChanged(node_id=n, before=dead, after=NodeState.UNSPECIFIED) for n in ("b", "came-and-went")]
    builder.apply(state, gone)
    fresh = ViewBuilder()
    fresh.reset(state)
    assert_same(builder.view(state), fresh.view(state))
    assert builder.nodes.ids == ["a", "c"]
