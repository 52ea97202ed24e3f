"""Each reason to wait, in the words that users read."""

from __future__ import annotations

import pytest

from gosched.core.cluster import Allocation, Node, NodeState
from gosched.core.job import TaskGroup
from gosched.scheduling import warnings
from tests.scheduling.cluster import allocation, group, job, node, plan_of, resources, view_of

Case = tuple[list[Node], list[Allocation], list[TaskGroup], str, str]

BUSY = [allocation("x", "a", resources(cpu=3)), allocation("y", "b", resources(cpu=3))]

CASES: dict[str, Case] = {
    "no node at all": ([], [], [group()], "NO_NODE", "no node has joined yet"),
    "none ready": ([node("a", state=NodeState.DEAD)], [], [group()], "NO_NODE", "no node is ready (1 registered)"),
    "too many GPUs for one node": (
        [node("a", gpu=4), node("b", gpu=8)],
        [],
        [group(gpu=9)],
        "NODE_TOO_SMALL",
        "asks for 9 GPUs on one node; the largest has 8",
    ),
    "too much memory for one node": (
        [node("a", mem=16)],
        [],
        [group(mem=2048)],
        "NODE_TOO_SMALL",
        "asks for 2Ti of memory on one node; the largest has 16Gi",
    ),
    "no node has both": (
        [node("a", cpu=8, mem=4), node("b", cpu=1, mem=64)],
        [],
        [group(cpu=4, mem=32)],
        "NODE_TOO_SMALL",
        "no node has all of 4 CPUs, 32Gi of memory",
    ),
    "too little in all": (
        [node("a"), node("b")],
        BUSY,
        [group(count=6, cpu=0.5)],
        "INSUFFICIENT",
        "needs 3 CPUs in all; 2 are free",
    ),
    "one is free": ([node("a")], BUSY[:1], [group(cpu=2)], "INSUFFICIENT", "needs 2 CPUs in all; 1 is free"),
    "too little on the nodes that match": (
        [node("a", labels=(("zone", "x"),)), node("b")],
        [],
        [group(count=8, cpu=1, selector=(("zone", "x"),))],
        "INSUFFICIENT",
        "needs 8 CPUs in all; 4 are free on nodes that it may use",
    ),
    "fragments": (
        [node("a", labels=(("zone", "x"),)), node("b"), node("c", state=NodeState.DEAD), node("d", mem=1)],
        BUSY,
        [group(count=2, cpu=2, mem=1)],
        "FRAGMENTED",
        "room for 1 of 2 tasks; of 4 nodes 1 is not ready, 2 are short of CPU",
    ),
    "fragments of one group": (
        [node("a"), node("b")],
        BUSY,
        [group(count=1, cpu=0, name="small"), group(count=1, cpu=2, name="big")],
        "FRAGMENTED",
        "room for 0 of 1 task of group big; of 2 nodes 2 are short of CPU",
    ),
    "groups that do not fit together": (
        [node("a", cpu=3)],
        [],
        [group(cpu=2, name="x"), group(cpu=0, mem=16, name="y"), group(cpu=0, mem=1, name="z")],
        "INSUFFICIENT",
        "needs 17Gi of memory in all; 16Gi are free",
    ),
}


@pytest.mark.parametrize(("nodes", "held", "groups", "code", "message"), CASES.values(), ids=CASES.keys())
def test_reason(nodes: list[Node], held: list[Allocation], groups: list[TaskGroup], code: str, message: str) -> None:
    found = plan_of(nodes, [job(1, *groups)], held).explanations["j1"]
    assert (found.code, found.message) == (code, message)


# At submission: what even an empty cluster could not hold.
@pytest.mark.parametrize(
    ("nodes", "groups", "expected"),
    [
        ([node("a", gpu=8)], [group(gpu=9)], ["asks for 9 GPUs on one node; the largest has 8"]),
        ([node("a")], [group(count=8)], ["needs 8 CPUs in all; 4 are in the cluster"]),
        (
            [node("a", cpu=3), node("b", cpu=3)],
            [group(count=3, cpu=2)],
            ["the empty cluster has room for 2 of 3 tasks"],
        ),
        (
            [node("a")],
            [group(count=3, name="x"), group(count=3, name="y")],
            ["needs 6 CPUs in all; 4 are in the cluster"],
        ),
        ([node("a")], [group(selector=(("disk", "ssd"),))], ["no ready node has the labels disk=ssd"]),
        ([], [group()], ["no node has joined yet"]),
        ([node("a")], [group(count=4)], []),
    ],
)
def test_warning(nodes: list[Node], groups: list[TaskGroup], expected: list[str]) -> None:
    held = [allocation("x", n.id, n.capacity) for n in nodes]  # what runs now is no reason to warn
    assert warnings(view_of(nodes, held=held).nodes, job(1, *groups).spec) == expected
