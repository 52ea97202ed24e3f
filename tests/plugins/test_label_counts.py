"""What the view keeps for plugins, by events, equals what a look at the whole state gives."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from gosched.core.events import NodeChanged, TaskChanged
from gosched.core.records.job import JobState
from gosched.core.records.node import NodeState
from gosched.core.records.task import TaskState
from gosched.core.state.cluster_state import ClusterState
from gosched.scheduling import ViewBuilder
from gosched.scheduling.snapshot.label_counts import LabelCounts
from tests.plugins.cluster import labelled, stand, view_of
from tests.scheduling.support.cluster import node, state_of

NODES = [node(f"n{i}") for i in range(4)]
LABELS = [{"app": "web"}, {"app": "db", "tier": "1"}, {"app": "web", "tier": "1"}, {"other": "x"}, {}]
ACTIVE, IDLE = (TaskState.PLACED, TaskState.RUNNING, TaskState.STOPPING), (TaskState.PENDING, TaskState.SUCCEEDED)


def test_only_tracked_labels_count_and_only_where_they_hold_a_place() -> None:
    standing = [(LABELS[0], "n1 n1 n2"), (LABELS[1], "n3"), (LABELS[2], "n1"), (LABELS[3], "n0")]
    found = view_of(NODES, standing=standing, tracked=["app"]).label_counts
    assert found == {("app", "web"): {"n1": 3, "n2": 1}, ("app", "db"): {"n3": 1}}
    assert view_of(NODES, standing=standing).label_counts == {}


@pytest.mark.parametrize("seed", range(20))
def test_counts_by_events_equal_counts_anew(seed: int) -> None:
    draw = random.Random(seed)
    state = state_of(NODES)
    followed, anew = LabelCounts(["app", "tier"]), LabelCounts(["app", "tier"])
    followed.reset(state)
    batch: list[TaskChanged] = []
    for step in range(300):
        batch += _step(draw, state, step)
        if draw.random() < 0.4:  # events are taken in batches, with the state after the last one
            for event in batch:
                followed.apply(state, event)
            batch = []
            anew.reset(state)
            assert followed.copy() == anew.copy()
    assert anew.copy()


def _step(draw: random.Random, state: ClusterState, step: int) -> list[TaskChanged]:
    """A new job, one that ends and is dropped, or a task that moves on; with its events."""
    choice = draw.random()
    if choice < 0.2 or not state.tasks:
        stand(state, step, draw.choice(LABELS), *draw.choices([n.id for n in NODES], k=3))
        tasks = [t for t in state.tasks.values() if t.job_id == f"j{step}"]
        return [_event(t.id, t.job_id, t.node_id, TaskState.PENDING, t.state) for t in tasks]
    if choice < 0.3:
        running = draw.choice([j for j in state.jobs.values() if j.state is JobState.RUNNING])
        active = [t for t in state.tasks_of(running) if t.state.is_active]
        state.put_job(replace(running, state=JobState.SUCCEEDED))
        state.drop_job(running.id)
        return [_event(t.id, t.job_id, t.node_id, t.state, TaskState.SUCCEEDED) for t in active]
    task = draw.choice(list(state.tasks.values()))
    after = draw.choice([*ACTIVE, *IDLE])
    node_id = task.node_id if task.state.is_active else draw.choice(NODES).id
    state.put_task(replace(task, state=after, node_id=node_id))
    return [_event(task.id, task.job_id, node_id, task.state, after)]


def _event(task_id: str, job_id: str, node_id: str, before: TaskState, after: TaskState) -> TaskChanged:
    return TaskChanged(task_id=task_id, job_id=job_id, allocation_id="", node_id=node_id, before=before, after=after)


def test_a_builder_follows_the_tasks_of_labelled_jobs() -> None:
    view = view_of(NODES, [labelled(1, {"app": "web"})], [({"app": "web"}, "n2")], tracked=["app"])
    assert view.label_counts == {("app", "web"): {"n2": 1}}


def test_host_names_stay_with_their_nodes_when_others_come_between() -> None:
    state, builder = ClusterState(), ViewBuilder()
    for node_id in ("c", "a", "b"):
        state.put_node(replace(node(node_id), name=f"host-{node_id}"))
        builder.apply(state, [NodeChanged(node_id=node_id, before=NodeState.UNSPECIFIED, after=NodeState.READY)])
    assert builder.view(state).nodes.names == ["host-a", "host-b", "host-c"]
