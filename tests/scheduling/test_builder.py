"""The columns after events equal the columns built anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gosched.core.cluster import NodeState, Queue
from gosched.core.command import (
    Command,
    CommitPlan,
    MarkNodeDead,
    RegisterNode,
    ReportTasks,
    SetQueues,
    SubmitJob,
    TaskReport,
)
from gosched.core.job import TaskState
from gosched.core.outcome import JobChanged, NodeChanged, TaskChanged
from gosched.core.state import ClusterState
from gosched.machine.apply import apply
from gosched.scheduling import Policy, View, ViewBuilder, schedule
from gosched.scheduling.view import NodeColumns
from tests.scheduling.cluster import allocation, group, job, node, resources, state_of


def assert_equal(one: NodeColumns, other: NodeColumns) -> None:
    assert one.ids == other.ids
    for name in ("capacity", "free", "ready"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for row in range(len(one)):  # widths may differ: the widest node may have shrunk
        assert np.flatnonzero(~one.gpu_busy[row]).tolist() == np.flatnonzero(~other.gpu_busy[row]).tolist()
    for pair in (("zone", "x"), ("zone", "y"), ("disk", "ssd")):
        np.testing.assert_array_equal(one.having_labels((pair,)), other.having_labels((pair,)))
    for model in ("a100", "h100"):
        np.testing.assert_array_equal(one.having_model(model), other.having_model(model))


def anew(state: ClusterState) -> View:
    builder = ViewBuilder()
    builder.reset(state)
    return builder.view(state)


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


def test_what_a_task_holds_shows_after_its_event_and_not_before() -> None:
    state = state_of([node("a", cpu=4, gpu=2)])
    builder = ViewBuilder()
    builder.reset(state)
    state.put_allocation(allocation("x", "a", resources(cpu=1, gpu=1), gpus=(0,)))
    assert builder.view(state).nodes.free[0].tolist()[0] == 4000
    placed = TaskChanged(
        job_id="j", task_id="x", allocation_id="x", node_id="a", before=TaskState.PENDING, after=TaskState.PLACED
    )
    builder.apply(state, [placed])
    assert builder.view(state).nodes.free[0].tolist()[0] == 3000
    assert builder.view(state).nodes.gpu_busy[0].tolist() == [True, False]


SETTINGS = settings(max_examples=100, deadline=None, derandomize=True, database=None, report_multiple_bugs=False)
UNSHRUNK = settings(SETTINGS, phases=[Phase.generate])

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(0, 5), st.integers(0, 3), st.sampled_from(["x", "y"])),
        st.tuples(st.just("submit"), st.integers(1, 3), st.integers(0, 2)),
        st.tuples(st.just("schedule")),
        st.tuples(st.just("end"), st.integers(0, 20), st.sampled_from([TaskState.SUCCEEDED, TaskState.FAILED])),
        st.tuples(st.just("die"), st.integers(0, 5)),
    ),
    max_size=25,
)


class World:
    """The real state machine, a builder that follows it, and the planner."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.builder = ViewBuilder()
        self.now = 1
        self.jobs = 0
        self.do(SetQueues(queues=(Queue(path="default"),)))

    def do(self, body: object) -> None:
        self.now += 1
        command = Command(body=body, epoch=0, at_ms=self.now)  # type: ignore[arg-type]
        _, events = apply(self.state, command)
        self.builder.apply(self.state, events)

    def step(self, kind: str, *args: object) -> None:
        getattr(self, kind)(*args)

    def join(self, which: int, gpus: int, zone: str) -> None:
        n = node(f"n{which}", gpu=gpus, model="h100" if gpus else "", labels=(("zone", zone),))
        self.do(
            RegisterNode(
                node_id=n.id,
                name=n.name,
                address=n.address,
                incarnation=f"boot-{self.now}",
                capacity=n.capacity,
                gpu_model=n.gpu_model,
                labels=n.labels,
            )
        )

    def submit(self, count: int, gpus: int) -> None:
        self.jobs += 1
        self.do(SubmitJob(job_id=f"j{self.jobs}", spec=job(self.jobs, group(count=count, gpu=gpus)).spec))

    def schedule(self) -> None:
        for command in schedule(self.builder.view(self.state), Policy(), self.now, 1).commands(0, self.now):
            assert isinstance(command.body, CommitPlan)
            self.do(command.body)

    def end(self, which: int, state: TaskState) -> None:
        if not self.state.allocations:
            return
        held = list(self.state.allocations.values())[which % len(self.state.allocations)]
        report = TaskReport(
            allocation_id=held.id, state=state, exit_code=int(state is TaskState.FAILED), ended_at_ms=self.now
        )
        incarnation = self.state.nodes[held.node_id].incarnation
        self.do(ReportTasks(node_id=held.node_id, incarnation=incarnation, reports=(report,)))

    def die(self, which: int) -> None:
        if machine := self.state.nodes.get(f"n{which}"):
            self.do(MarkNodeDead(node_id=machine.id, incarnation=machine.incarnation))


def check_followed_columns_equal_new_ones(rules: settings = SETTINGS) -> None:
    placed = 0

    @rules
    @given(STEPS)
    def check(steps: list[tuple[object, ...]]) -> None:
        nonlocal placed
        world = World()
        for kind, *args in steps:
            world.step(str(kind), *args)
            placed += len(world.state.allocations)
            view, fresh = world.builder.view(world.state), anew(world.state)
            assert_equal(view.nodes, fresh.nodes)
            assert sorted(view.pending, key=lambda g: g.sequence) == sorted(fresh.pending, key=lambda g: g.sequence)

    check()
    assert placed > 20


def test_columns_that_followed_the_machines_events_equal_new_ones() -> None:
    check_followed_columns_equal_new_ones()


@pytest.mark.parametrize("forgotten", [TaskChanged, NodeChanged, JobChanged])
def test_a_builder_that_misses_a_kind_of_event_is_noticed(monkeypatch: pytest.MonkeyPatch, forgotten: type) -> None:
    follow = ViewBuilder.apply
    monkeypatch.setattr(
        ViewBuilder,
        "apply",
        lambda self, state, events: follow(self, state, [e for e in events if not isinstance(e, forgotten)]),
    )
    with pytest.raises(AssertionError):
        check_followed_columns_equal_new_ones(UNSHRUNK)
