"""Queues and sharing, as tables: types, weights, borrowing, guarantees, orders, limits, quotas, past use."""

from __future__ import annotations

import pytest

from gosched.scheduling import Plan, Policy
from tests.scheduling.support.tables import World, check, sections

FOUR = """
nodes
  a  4cpu
"""

SHARING_CASES = {
    "fair queues take turns": """
queues
  x  fair
  y  fair
jobs
  x1  x : 1cpu
  x2  x : 1cpu
  x3  x : 1cpu
  y1  y : 1cpu
  y2  y : 1cpu
plan
  x1  a
  y1  a
  x2  a
  y2  a
  x3  INSUFFICIENT needs 1 CPU in all; 0 are free
""",
    "a weight of three takes three turns of four": """
queues
  x  fair weight=3
  y  fair
jobs
  x1  x : 1cpu
  x2  x : 1cpu
  x3  x : 1cpu
  x4  x : 1cpu
  y1  y : 1cpu
  y2  y : 1cpu
plan
  x1  a
  x2  a
  x3  a
  y1  a
  x4  INSUFFICIENT
  y2  INSUFFICIENT
""",
    "who holds more waits": """
queues
  x  fair
  y  fair
jobs
  run  x : 2x 1cpu on a a
  x1   x : 1cpu
  y1   y : 1cpu
  y2   y : 1cpu
plan
  y1   a
  y2   a
  x1   INSUFFICIENT
""",
    "the head gang counts: a large one behind its share waits for a small one": """
queues
  x  fair
  y  fair
jobs
  big   x : 3x 1cpu
  y1    y : 1cpu
  y2    y : 1cpu
plan
  y1    a
  y2    a
  big   INSUFFICIENT needs 3 CPUs in all; 2 are free
""",
    "a queue borrows all that others leave": """
queues
  x  capacity 25%
  y  capacity 75%
jobs
  x1  x : 4x 1cpu
plan
  x1  a a a a
""",
    "it borrows up to its max_pct": """
queues
  x  capacity 25% max 50%
  y  capacity 75%
jobs
  x1  x : 2x 1cpu
  x2  x : 1cpu
plan
  x1  a a
  x2  QUEUE_LIMIT queue x: limit of 2 CPUs, 2 used, the job needs 1
""",
    "it borrows up to its limit": """
queues
  x  capacity 25% limit cpu=3
  y  capacity 75%
jobs
  x1  x : 2x 1cpu
  x2  x : 2x 1cpu
  x3  x : 1cpu
plan
  x1  a a
  x3  a
  x2  QUEUE_LIMIT queue x: limit of 3 CPUs, 2 used, the job needs 2
""",
    "elastic tasks stop at the limit too": """
queues
  x  fair limit cpu=3
jobs
  x1  x : 2..4x 1cpu
plan
  x1  a a a
""",
    "guarantees first, then weights": """
queues
  x  capacity 75%
  y  fair weight=100
jobs
  x1  x : 1cpu
  x2  x : 1cpu
  x3  x : 1cpu
  y1  y : 1cpu
  y2  y : 1cpu
plan
  x1  a
  x2  a
  x3  a
  y1  a
  y2  INSUFFICIENT
""",
    "a guarantee may be a vector": """
queues
  x  capacity guaranteed cpu=3
  y  fair weight=100
jobs
  x1  x : 1cpu
  x2  x : 1cpu
  x3  x : 1cpu
  y1  y : 1cpu
  y2  y : 1cpu
plan
  x1  a
  x2  a
  x3  a
  y1  a
  y2  INSUFFICIENT
""",
    "a guarantee that nobody claims is shared": """
queues
  x  capacity 75%
  y  fair
  z  fair
jobs
  y1  y : 1cpu
  y2  y : 1cpu
  z1  z : 1cpu
  z2  z : 1cpu
plan
  y1  a
  z1  a
  y2  a
  z2  a
""",
    "types mixed: a guarantee, and the rest by weight": """
queues
  c  capacity 50%
  f  fair
  o  fifo
jobs
  c1  c : 1cpu
  c2  c : 1cpu
  f1  f : 1cpu
  o1  o : 1cpu
  f2  f : 1cpu
plan
  c1  a
  c2  a
  f1  a
  o1  a
  f2  INSUFFICIENT
""",
    "a tree: a parent's share is its children's together": """
queues
  r      fair
  r.llm  fair
  r.vis  fair
  s      fair
jobs
  l1  r.llm : 1cpu
  l2  r.llm : 1cpu
  v1  r.vis : 1cpu
  s1  s : 1cpu
  s2  s : 1cpu
plan
  l1  a
  s1  a
  v1  a
  s2  a
  l2  INSUFFICIENT
""",
    "a parent's limit holds for its children together": """
queues
  r      fair limit cpu=2
  r.llm  fair
  r.vis  fair
jobs
  run  r.vis : 1cpu on a
  l1   r.llm : 1cpu
  l2   r.llm : 1cpu
plan
  l1   a
  l2   QUEUE_LIMIT queue r: limit of 2 CPUs, 2 used, the job needs 1
""",
    "a child's max_pct is of what its parent may hold": """
queues
  r      fair limit cpu=2
  r.llm  fair max 50%
jobs
  l1   r.llm : 1cpu
  l2   r.llm : 1cpu
plan
  l1   a
  l2   QUEUE_LIMIT queue r.llm: limit of 1 CPU, 1 used, the job needs 1
""",
    "max_running_jobs": """
queues
  x  fair jobs=2
jobs
  run  x : 1cpu on a
  x1   x : 1cpu
  x2   x : 1cpu
plan
  x1   a
  x2   MAX_RUNNING_JOBS queue x may run 2 jobs at once, and does
""",
    "max_running_jobs keeps no elastic task of a running job away": """
queues
  x  fair jobs=1
jobs
  run  x : 1..3x 1cpu on a
  x1   x : 1cpu
plan
  run  a a
  x1   MAX_RUNNING_JOBS queue x may run 1 job at once, and does
""",
    "a quota of a tenant holds in all queues": """
queues
  x  fair
  y  fair
quotas
  nlp  cpu=2
jobs
  run  x tenant=nlp : 1cpu on a
  n1   y tenant=nlp : 1cpu
  n2   y tenant=nlp : 1cpu
  v1   y tenant=vis : 1cpu
plan
  n1   a
  v1   a
  n2   QUOTA quota of tenant nlp: limit of 2 CPUs, 2 used, the job needs 1
""",
    "a quota of running jobs": """
queues
  x  fair
quotas
  nlp  jobs=1
jobs
  n1   x tenant=nlp : 1cpu
  n2   x tenant=nlp : 1cpu
plan
  n1   a
  n2   MAX_RUNNING_JOBS quota of tenant nlp may run 1 job at once, and does
""",
}


@pytest.mark.parametrize("table", SHARING_CASES.values(), ids=SHARING_CASES.keys())
def test_sharing(table: str) -> None:
    check(FOUR + table)


DOMINANT_CASES = {
    "a quota of one GPU model, named or not": """
quotas
  nlp  gpu:h100=1
nodes
  a  8cpu 2gpu:h100
  b  8cpu 2gpu:a100
jobs
  n1  tenant=nlp : 1cpu 1gpu:h100
  n2  tenant=nlp : 1cpu 1gpu:h100
  n3  tenant=nlp : 1cpu 1gpu
  n4  tenant=nlp : 1cpu 2gpu
plan
  n1  a[0]
  n3  b[0]
  n2  QUOTA quota of tenant nlp: limit of 1 h100 GPU, 1 used, the job needs 1
  n4  INSUFFICIENT 1 of a GPU model at its limit
""",
    "a queue's limit on one GPU model": """
queues
  x  fair limit gpu:h100=2
nodes
  a  8cpu 4gpu:h100
  b  8cpu 1gpu:a100
jobs
  x1  x : 1cpu 2gpu
  x2  x : 1cpu 1gpu
  x3  x : 1cpu 1gpu
plan
  x1  a[0,1]
  x2  b[0]
  x3  INSUFFICIENT 1 of a GPU model at its limit
""",
    "elastic tasks take what a limit on a model leaves, then other models": """
queues
  x  fair limit gpu:h100=2
nodes
  a  8cpu 4gpu:h100
  b  8cpu 1gpu:a100
jobs
  j  1..5x 1cpu 1gpu
plan
  j  a b
""",
    "the first promise: 63 of 64 GPUs are free, and nothing is held for a gang of 64": """
nodes
  a  64cpu 32gpu
  b  64cpu 32gpu
jobs
  run    1x 1cpu 1gpu on a[0]
  huge   priority=1000 : 64x 1cpu 1gpu
  small  30x 1cpu 1gpu
  other  33x 1cpu 1gpu
plan
  small  a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a
  other  a b b b b b b b b b b b b b b b b b b b b b b b b b b b b b b b b
  huge   INSUFFICIENT needs 64 GPUs in all; 63 are free
""",
}


@pytest.mark.parametrize("table", DOMINANT_CASES.values(), ids=DOMINANT_CASES.keys())
def test_resources_of_several_kinds(table: str) -> None:
    check(table)


def test_a_head_that_cannot_start_does_not_hold_up_its_queue() -> None:
    check("""
queues
  x  fair
  y  fair
nodes
  a  4cpu
jobs
  huge  x : 1x 64cpu
  x1    x : 1cpu
  x2    x : 1cpu
  y1    y : 1cpu
  y2    y : 1cpu
  y3    y : 1cpu
plan
  x1    a
  y1    a
  x2    a
  y2    a
  huge  NODE_TOO_SMALL
  y3    INSUFFICIENT
""")


ORDER_CASES = {
    "fifo": ("fifo", "j1 j2 j3 j4"),
    "priority, then first come": ("priority", "j2 j1 j3 j4"),
    "deadline, then priority": ("deadline", "j3 j1 j2 j4"),
    "fair: tenants take turns": ("fair", "j2 j4 j1 j3"),
}


@pytest.mark.parametrize(("order", "expected"), ORDER_CASES.values(), ids=ORDER_CASES.keys())
def test_order_of_jobs_in_a_queue(order: str, expected: str) -> None:
    places = "\n".join(f"  {job} a" for job in expected.split())
    check(f"""
queues
  x  order={order}
nodes
  a  4cpu
jobs
  j1  x tenant=t due=2000000 : 1cpu
  j2  x tenant=t priority=5 : 1cpu
  j3  x tenant=t due=1000000 : 1cpu
  j4  x tenant=u : 1cpu
plan
{places}
""")


def test_the_example_of_the_papers_on_dominant_resource_fairness() -> None:
    """Ghodsi et al. (NSDI'11), section 4.1: three tasks of 1 CPU and 4 GB for one, two of 3 CPUs and 1 GB for
    the other. Both want more of everything than their half."""
    jobs = [*(f"  x{i} x : 1cpu 4Gi" for i in range(9)), *(f"  y{i} y : 3cpu 1Gi" for i in range(9))]
    table = ["queues", "  x fair", "  y fair", "nodes", "  a 9cpu 18Gi", "jobs", *jobs]
    world = World()
    world.fill(sections("\n".join(table)))
    plan = world.plan(Policy())
    assert [gang.job_id for gang in plan.gangs] == ["x0", "y0", "x1", "x2", "y1"]
    # The paper's three and two tasks; the memory that is left goes to both alike.
    assert plan.shares == {"x": {"cpu": 3000, "memory": 14 << 30}, "y": {"cpu": 6000, "memory": 4 << 30}}


DAY_MS = 24 * 3_600_000


def after_a_day(queue: str) -> Plan:
    """The tenant `old` held the whole cluster for a day; then it and `new` want it."""
    world = World()
    world.fill(
        sections(f"queues\n  x  order=fair {queue}\nnodes\n  a 4cpu\njobs\n  run tenant=old : 4x 1cpu on a a a a")
    )
    world.end("run", at_ms=DAY_MS)
    for name, tenant in (("o1", "old"), ("o2", "old"), ("n1", "new"), ("n2", "new"), ("n3", "new"), ("n4", "new")):
        world.submit([name, f"tenant={tenant}", ":", "1cpu"])
    return world.plan(Policy())


@pytest.mark.parametrize(
    ("queue", "order"),
    [
        ("", "n1 o1 n2 o2"),
        ("half_life=1h", "n1 n2 n3 n4"),  # it counts with all four CPUs
        ("half_life=24h", "n1 n2 o1 n3"),  # with just under two of them
        ("half_life=240h", "n1 o1 n2 o2"),  # with a quarter of one
    ],
    ids=["without a half-life it is forgotten", "all of its past counts", "half of it", "little of it"],
)
def test_yesterdays_heavy_user_waits_behind_a_newcomer(queue: str, order: str) -> None:
    assert " ".join(gang.job_id for gang in after_a_day(queue).gangs) == order


def test_a_queue_that_used_much_lately_waits_behind_another() -> None:
    world = World()
    world.fill(
        sections(
            "queues\n  x fair half_life=1h\n  y fair half_life=1h\nnodes\n  a 4cpu\njobs\n  run x : 4x 1cpu on a a a a"
        )
    )
    world.end("run", at_ms=DAY_MS)
    for name in ("x1", "x2", "y1", "y2"):
        world.submit([name, name[0], ":", "1cpu"])
    later = DAY_MS + 10 * 3_600_000
    assert [gang.job_id for gang in world.plan(Policy()).gangs] == ["y1", "y2", "x1", "x2"]
    assert [gang.job_id for gang in world.plan(Policy(), now_ms=later).gangs] == ["y1", "x1", "y2", "x2"]
