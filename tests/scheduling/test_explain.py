"""Each reason to wait, in the words that users read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gosched.core.events import NodeChanged
from gosched.core.records.allocation import Allocation
from gosched.core.records.node import Node, NodeState
from gosched.core.spec.placement_rules import Affinity, LabelOp
from gosched.core.spec.task_group import TaskGroup
from gosched.scheduling import Policy, ViewBuilder, warnings
from gosched.scheduling.explain import explainer
from tests.scheduling.support.cluster import allocation, group, job, node, plan_of, resources, state_of, view_of
from tests.scheduling.support.tables import World, sections

Case = tuple[list[Node], list[Allocation], list[TaskGroup], str, str]

BUSY = [allocation("x", "a", resources(cpu=3)), allocation("y", "b", resources(cpu=3))]

CASES: dict[str, Case] = {
    "no node at all": ([], [], [group()], "NO_NODE", "no node has joined yet"),
    "none ready": ([node("a", state=NodeState.DEAD)], [], [group()], "NO_NODE", "no node is ready (1 registered)"),
    "all closed, or dead": (
        [node("a", state=NodeState.CORDONED), node("b", state=NodeState.DRAINING), node("c", state=NodeState.DEAD)],
        [],
        [group()],
        "NO_NODE",
        "no node is ready (3 registered, 2 cordoned or draining)",
    ),
    "a label that no ready node has": (
        [node("a"), node("b", labels=(("gosched.io/runtime.docker", "true"),), state=NodeState.CORDONED)],
        [],
        [replace(group(), affinity=(Affinity(label="gosched.io/runtime.docker", op=LabelOp.EXISTS),))],
        "CONSTRAINTS",
        "no ready node has the label gosched.io/runtime.docker",
    ),
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
        "1 of 2 tasks fit; of 4 nodes 1 is not ready, 2 are short of CPU",
    ),
    "fragments of one group": (
        [node("a"), node("b")],
        BUSY,
        [group(count=1, cpu=0, name="small"), group(count=1, cpu=2, name="big")],
        "FRAGMENTED",
        "0 of 1 task of group big fit; of 2 nodes 2 are short of CPU",
    ),
    "groups that do not fit together": (
        [node("a", cpu=3)],
        [],
        [group(cpu=2, name="x"), group(cpu=0, mem=16, name="y"), group(cpu=0, mem=1, name="z")],
        "INSUFFICIENT",
        "needs 17Gi of memory in all; 16Gi are on ready nodes",
    ),
}


@pytest.mark.parametrize(("nodes", "held", "groups", "code", "message"), CASES.values(), ids=CASES.keys())
def test_reason(nodes: list[Node], held: list[Allocation], groups: list[TaskGroup], code: str, message: str) -> None:
    found = plan_of(nodes, [job(1, *groups)], held).explanations["j1"]
    assert (found.code, found.message) == (code, message)


MIXED = """
nodes
  a  4cpu 8Gi 8gpu:a100 zone=z1 rack=r7
  b  4cpu 8Gi 6gpu:h100 zone=z1 rack=r7 gpu_mem:80Gi
  c  4cpu 8Gi 4gpu:h100 zone=z1 rack=r8 !spot:no_schedule
  d  4cpu 8Gi 4gpu:h100 zone=z2 disk=hdd gpu_mem:40Gi
  e  4cpu 8Gi zone=z2 rack=r9 cordoned
jobs
  run  1x 2cpu 2gpu on d[0,1]
"""

# A job; code, message (or a part of it), refused, nearest, limit.
STORIES: dict[str, tuple[str, str, str, str, str, str]] = {
    "each node is counted once, at the first filter that it fails": (
        "j : 9x 1cpu 1gpu:h100 ?zone:in:z1",
        "INSUFFICIENT",
        "needs 9 CPUs in all; 4 are free on nodes that it may use",
        "1 cordoned or draining, 1 against the affinity, 1 tainted, 1 of another GPU model",
        "",
        "",
    ),
    "what is short comes last": (
        "j : 2x 1cpu 4gpu:h100",
        "FRAGMENTED",
        "1 of 2 tasks fit; of 5 nodes 1 is cordoned or draining, 1 is tainted, 1 is of another GPU model, "
        "1 is short of whole GPUs",
        "1 cordoned or draining, 1 tainted, 1 of another GPU model, 1 short of whole GPUs",
        "",
        "",
    ),
    "what no node has, however empty": (
        "j : 1x 1cpu 5gpu zone=z2 ~",
        "NODE_TOO_SMALL",
        "asks for 5 GPUs on one node; the largest has 4",
        "",
        "",
        "",
    ),
    "too little on the nodes that it may use": (
        "j : 1x 3cpu 4gpu zone=z2",
        "INSUFFICIENT",
        "needs 3 CPUs in all; 2 are free on nodes that it may use",
        "1 cordoned or draining, 3 without the labels, 1 short of CPU",
        "",
        "",
    ),
    "the nearest miss of a rack": (
        "j : 16x 0.5cpu 1gpu in:rack ~",
        "TOPOLOGY",
        "needs 16 GPUs on one rack; best is r7 with 14",
        "1 cordoned or draining, 1 without a rack",
        "needs 16 GPUs on one rack; best is r7 with 14",
        "",
    ),
    "the memory of a GPU": (
        "j : 1x 1cpu 1gpu gpu_mem:60Gi disk=hdd",
        "CONSTRAINTS",
        "every ready node that fits otherwise is short of GPU memory",
        "1 cordoned or draining, 3 without the labels, 1 short of GPU memory",
        "",
        "",
    ),
    "a queue's limit": (
        "j tenant=t : 9x 1cpu",
        "QUOTA",
        "quota of tenant t: the job needs 9 CPUs, its limit is 3: waiting does not help",
        "",
        "",
        "quota of tenant t: the job needs 9 CPUs, its limit is 3: waiting does not help",
    ),
    "rules on where others stand": (
        "j : 4x 1cpu apart:zone",
        "CONSTRAINTS",
        "no node meets its spread and anti-affinity rules (by zone)",
        "1 cordoned or draining, 1 tainted",
        "needs 4 tasks; its rules allow 2",
        "",
    ),
    "rules on where others stand, where nodes are merely full": (
        "j : 3x 1cpu 3gpu:h100 apart:node ~",
        "CONSTRAINTS",
        "too few nodes that have room meet its spread and anti-affinity rules (by node): 1 short of whole GPUs",
        "1 cordoned or draining, 1 of another GPU model, 1 short of whole GPUs",
        "needs 3 tasks; its rules allow 2",
        "",
    ),
}


@pytest.mark.parametrize(
    ("words", "code", "message", "refused", "nearest", "limit"), STORIES.values(), ids=STORIES.keys()
)
def test_story(words: str, code: str, message: str, refused: str, nearest: str, limit: str) -> None:
    world = World()
    world.fill(sections(f"quotas\n  t cpu=3\n{MIXED.strip()}\n  {words}"))
    found = world.plan(Policy(topology=("zone", "rack"))).explanations["j"]
    counts = ", ".join(f"{count} {name}" for name, count in found.refused)
    assert (found.code, found.message, counts, found.nearest, found.limit) == (code, message, refused, nearest, limit)


def test_the_counts_of_refusals_and_of_what_is_left_make_all_nodes() -> None:
    world = World()
    world.fill(sections(f"{MIXED.strip()}\n  j : 3x 3cpu 4gpu:h100 ~"))
    found = world.plan(Policy()).explanations["j"]
    assert found.refused == (("cordoned or draining", 1), ("of another GPU model", 1), ("short of CPU", 1))


@pytest.mark.parametrize(
    ("table", "nearest"),
    [
        (
            "nodes\n a 4cpu\n b 4cpu\njobs\n run 3x 1cpu on a a b\n j 1x 4cpu",
            "needs 4 CPUs on one node; best is b with 3",
        ),
        ("nodes\n a 9cpu 4Gi\n b 9cpu 8Gi\njobs\n run 2x 1cpu 4Gi on a b\n j 1x 1cpu 6Gi", ""),
        (
            "nodes\n a 9cpu 8Gi\n b 9cpu 8Gi\njobs\n run 2x 1cpu 4Gi on a b\n j 1x 1cpu 6Gi",
            "needs 6Gi of memory on one node; best is a with 4Gi",
        ),
        (
            "nodes\n a 9cpu 2gpu\n b 9cpu 2gpu\njobs\n run 2x 1cpu 1gpu on a[0] b[0]\n j 1x 1cpu 2gpu",
            "needs 2 GPUs on one node; best is a with 1",
        ),
        (
            "nodes\n a 9cpu 3*fpga\n b 9cpu 3*fpga\njobs\n run 3x 1cpu 1*fpga on a b b\n j 1x 1cpu 3*fpga",
            "needs 3 of fpga on one node; best is a with 2",
        ),
        (
            "nodes\n a 4cpu\n b 4cpu\njobs\n run 3x 1cpu on a a b\n j 2x 3cpu",
            "",
        ),  # one node has room, and one is too few
    ],
    ids=["CPUs", "too little in all", "memory", "GPUs", "the cluster's own", "not all nodes miss"],
)
def test_the_nearest_miss_on_one_node(table: str, nearest: str) -> None:
    world = World()
    world.fill(sections(table))
    assert world.plan(Policy()).explanations["j"].nearest == nearest


def test_jobs_of_one_shape_get_one_explanation() -> None:
    world = World()
    world.fill(sections(f"{MIXED.strip()}\n  j : 9x 4cpu\n  k : 9x 4cpu\n  l : 9x 3cpu"))
    plan = world.plan(Policy())
    assert plan.explanations["j"] is plan.explanations["k"]
    assert plan.explanations["l"] is not plan.explanations["k"]


def test_beyond_the_bound_a_job_gets_the_line_that_its_amounts_justify(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explainer, "MAX_EXPLAINED", 1)
    world = World()
    world.fill(sections(f"{MIXED.strip()}\n  j : 9x 4cpu\n  k : 99x 4cpu\n  l : 1x 1cpu 8gpu disk=ssd"))
    plan = world.plan(Policy())
    assert plan.explanations["k"].message == "needs 396 CPUs in all; 14 are free"
    assert plan.explanations["l"].message.startswith(
        "no node has enough free capacity after the jobs ahead of it; run `goschedctl"
    )


# At submission: what even an empty cluster could not hold.
@pytest.mark.parametrize(
    ("nodes", "groups", "expected"),
    [
        ([node("a", gpu=8)], [group(gpu=9)], ["asks for 9 GPUs on one node; the largest has 8"]),
        ([node("a")], [group(count=8)], ["needs 8 CPUs in all; 4 are on ready nodes"]),
        (
            [node("a", cpu=3), node("b", cpu=3)],
            [group(count=3, cpu=2)],
            ["2 of 3 tasks would fit if the cluster were empty"],
        ),
        (
            [node("a")],
            [group(count=3, name="x"), group(count=3, name="y")],
            ["needs 6 CPUs in all; 4 are on ready nodes"],
        ),
        ([node("a")], [group(selector=(("disk", "ssd"),))], ["no ready node has the labels disk=ssd"]),
        ([], [group()], ["no node has joined yet"]),
        ([node("a")], [group(count=4)], []),
    ],
)
def test_warning(nodes: list[Node], groups: list[TaskGroup], expected: list[str]) -> None:
    held = [allocation("x", n.id, n.capacity) for n in nodes]  # what runs now is no reason to warn
    assert list(warnings(view_of(nodes, held=held).nodes, job(1, *groups).spec)) == expected


def test_what_jobs_are_warned_of_is_found_out_once_until_a_node_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explainer, "MAX_REMEMBERED", 2)
    looks = 0

    def count(*given: object) -> bool:
        nonlocal looks
        looks += 1
        return holds(*given)  # type: ignore[arg-type]

    holds = explainer._one_node_holds
    monkeypatch.setattr(explainer, "_one_node_holds", count)
    state = state_of([node("a", cpu=1)], [])
    builder = ViewBuilder()
    builder.reset(state)

    def warned(cpu: int) -> list[str]:
        return list(warnings(builder.shared_nodes(), job(1, group(cpu=cpu)).spec))

    assert warned(2) == warned(2) == ["asks for 2 CPUs on one node; the largest has 1"]
    assert warned(1) == warned(1) == []
    assert looks == 2, "equal groups of other jobs are known"
    state.put_node(node("b", cpu=2))
    builder.apply(state, [NodeChanged(node_id="b", before=NodeState.UNSPECIFIED, after=NodeState.READY)])
    assert warned(2) == []
    assert [warned(3), warned(4), warned(5), warned(3)][-1] == ["asks for 3 CPUs on one node; the largest has 2"]
    assert looks == 7, "what is remembered is bounded"
