"""The nodes of a window, and who is in the way there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import grpc
import pytest

from gosched.core.records.allocation import Allocation
from gosched.core.records.job import Job, JobState
from gosched.core.records.node import Node, NodeState
from gosched.core.records.window import Window
from gosched.core.resources import Resources
from gosched.core.spec.policies import Preemption, RetryCause, RetryPolicy
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.errors import ApiError
from gosched.master.planning.windows import chosen_nodes, in_the_way, named_nodes
from tests.master.harness import spec

GPU = 1000
W = Window(name="w", start_ms=1000, end_ms=2000, nodes=())


def node(node_id: str, *, cpus: int = 4, gpus: int = 0, **more: Any) -> Node:
    given: dict[str, Any] = {"id": node_id, "name": f"host-{node_id}", "address": "h:1", "incarnation": "i"}
    capacity = Resources(cpu_millis=cpus * 1000, gpu_millis=gpus * GPU)
    return Node(**(given | more), capacity=capacity, registered_at_ms=0, changed_at_ms=0)


def cluster(*nodes: Node) -> ClusterState:
    state = ClusterState()
    for each in nodes:
        state.put_node(each)
    return state


def run(state: ClusterState, name: str, node_id: str, tasks: int = 1, **more: Any) -> None:
    job = spec(name, **more)
    state.put_job(Job(id=name, spec=job, state=JobState.RUNNING, sequence=1, submitted_at_ms=0, placed_at_ms=500))
    for i in range(tasks):
        held = Resources(cpu_millis=1000)
        state.put_allocation(
            Allocation(id=f"{name}{i}", task_id="t", job_id=name, node_id=node_id, resources=held, placed_at_ms=0)
        )


def test_nodes_are_named_by_id_or_by_name_and_the_unknown_is_refused() -> None:
    state = cluster(node("b"), node("a"), node("c", name="twin"), node("d", name="twin"))
    assert named_nodes(state, ["host-b", "a", "b"]) == ("a", "b")
    with pytest.raises(ApiError, match="there is no node 'x'") as raised:
        named_nodes(state, ["a", "x"])
    assert raised.value.code is grpc.StatusCode.NOT_FOUND
    with pytest.raises(ApiError, match="2 nodes are named twin: give one of the ids c, d"):
        named_nodes(state, ["twin"])


def test_nodes_without_tasks_are_chosen_first_then_those_with_the_fewest_then_by_id() -> None:
    state = cluster(*[node(i) for i in "abcd"])
    run(state, "busy", "a", tasks=2)
    run(state, "less", "b", tasks=1)
    assert chosen_nodes(state, {"cpu": 8000}, W) == ("c", "d")
    assert chosen_nodes(state, {"cpu": 8001}, W) == ("b", "c", "d")
    assert chosen_nodes(state, {"cpu": 16_000}, W) == ("a", "b", "c", "d")


def test_a_node_that_has_nothing_of_what_is_still_missing_is_not_taken() -> None:
    state = cluster(node("a"), node("b"), node("g", gpus=8, gpu_model="h100"))
    assert chosen_nodes(state, {"gpu": 4 * GPU}, W) == ("g",)
    assert chosen_nodes(state, {"gpu:h100": 8 * GPU, "cpu": 4000}, W) == ("a", "g")  # in order of id: greedy, not least


def test_dead_nodes_and_those_of_another_window_meanwhile_are_not_chosen() -> None:
    state = cluster(node("a"), node("b"), node("c", state=NodeState.DEAD), node("d"))
    state.put_window(Window(name="other", start_ms=1999, nodes=("a",)))
    state.put_window(Window(name="before", start_ms=0, end_ms=1000, nodes=("b",)))
    state.put_window(replace(W, nodes=("d",)))  # this very window, as it was
    assert chosen_nodes(state, {"cpu": 8000}, W) == ("b", "d")
    with pytest.raises(ApiError, match=r"have 8 CPUs in total; the window needs 8\.001") as raised:
        chosen_nodes(state, {"cpu": 8001}, W)
    assert raised.value.code is grpc.StatusCode.FAILED_PRECONDITION
    with pytest.raises(ApiError, match="more than 0"):
        chosen_nodes(state, {"cpu": 0}, W)
    with pytest.raises(ApiError, match="have 0 of tpu in total"):
        chosen_nodes(state, {"tpu": 1}, W)


def test_in_the_way_is_what_may_still_run_may_not_stay_and_is_never_evicted() -> None:
    state = cluster(node("a"), node("b"))
    again = RetryPolicy(max_restarts=1, when=(RetryCause.PREEMPTED,))
    keeps = Preemption(preemptible=False)
    run(state, "endless", "a", preemption=keeps)
    run(state, "long", "a", preemption=keeps, timeout_ms=501)
    run(state, "short", "a", preemption=keeps, timeout_ms=500)
    run(state, "guest", "a", preemption=keeps, tenant="nlp")
    run(state, "elsewhere", "b", preemption=keeps)
    run(state, "never-restarted", "a")  # it is not evicted: nothing would start it again
    run(state, "evictable", "a")
    state.put_job(replace(state.jobs["evictable"], spec=replace(state.jobs["evictable"].spec, retry=again)))
    window = replace(W, nodes=("a",), tenants=("nlp",))
    assert in_the_way(state, window) == ["endless", "long", "never-restarted"]
    assert in_the_way(state, replace(window, queues=("default",))) == []
