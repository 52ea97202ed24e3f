"""What the pictures are drawn from: ends of jobs, areas and bars over time, cells of nodes, queues."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from gosched.api.status import QueueStatus
from gosched.core.records.allocation import Allocation
from gosched.core.records.job import Job, JobState
from gosched.core.records.node import Hardware, Node, NodeState
from gosched.core.records.queue import Queue, QueueType
from gosched.core.records.task import Task, TaskState
from gosched.core.resources import Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.core.state.cluster_state import ClusterState
from gosched.master.web.bars import WIDTH
from gosched.master.web.capacity import capacity_rows
from gosched.master.web.heatmap import cell_title, gpu_runs, heat_sections
from gosched.master.web.holdings import NodeHoldings, Promise, read_holdings
from gosched.master.web.job_ends import job_end
from gosched.master.web.node_cells import read_cells
from gosched.master.web.queues import _row
from gosched.master.web.release_area import HEIGHT, STEPS, add_up, paths
from gosched.master.web.schedule import NODE_ROWS, Schedule
from gosched.master.web.schedule_bars import job_bars, promise_bars, row_height
from gosched.master.web.timeline import HOUR_MS, axis
from gosched.master.web.usage import NodeUse

NOW_MS = 1_800_000_000_000
MINUTE_MS = 60_000
SIX_HOURS = axis(NOW_MS, "6h", past=1 / 12)


def node(name: str, *, gpus: int = 8, **more: object) -> Node:
    capacity = Resources(cpu_millis=64_000, memory_bytes=1 << 36, gpu_millis=gpus * 1000)
    given = {"address": "a:1", "incarnation": "1", "registered_at_ms": 1, "changed_at_ms": 1, "capacity": capacity}
    return Node(**{"id": name, "name": name, **given, **more})  # type: ignore[arg-type]


def running(
    state: ClusterState, name: str, on: str, *, gpus: tuple[int, ...] = (), cpus: int = 8, **more: object
) -> Job:
    """Add a job of one task that holds a place."""
    group = TaskGroup(name="main", count=1, resources=Resources(cpu_millis=cpus * 1000, gpu_millis=len(gpus) * 1000))
    until_ms = more.pop("until_ms", 0)
    spec = JobSpec(name=name, queue="q", gang=GangPolicy(min_tasks=1), groups=(group,), **more)  # type: ignore[arg-type]
    began_ms = NOW_MS - 10 * MINUTE_MS
    job = Job(
        id=name,
        spec=spec,
        sequence=len(state.jobs) + 1,
        state=JobState.RUNNING,
        submitted_at_ms=began_ms,
        placed_at_ms=began_ms,
        until_ms=until_ms,  # type: ignore[arg-type]
    )
    state.put_job(job)
    task_id = f"{name}/main/0"
    state.put_task(Task(id=task_id, job_id=name, group="main", index=0, rank=0, state=TaskState.RUNNING, node_id=on))
    state.put_allocation(
        Allocation(
            id=f"{task_id}.1",
            task_id=task_id,
            job_id=name,
            node_id=on,
            resources=group.resources,
            gpus=gpus,
            placed_at_ms=began_ms,
        )
    )
    return job


def held(state: ClusterState) -> list[NodeHoldings]:
    return asyncio.run(read_holdings(state, state.nodes.values(), NOW_MS))


@pytest.mark.parametrize(
    ("spec", "limit", "expected"),
    [
        ({}, 0, 0),
        ({"timeout_ms": HOUR_MS}, 50, 0),
        ({"estimate_ms": HOUR_MS}, 0, 50),
        ({"estimate_ms": 2 * HOUR_MS, "timeout_ms": HOUR_MS}, 50, 50),
        ({"estimate_ms": 4 * MINUTE_MS}, 0, 6),  # overrun by 6 minutes: as long again
        ({"timeout_ms": HOUR_MS, "until_ms": NOW_MS + 20 * MINUTE_MS}, 20, 0),
    ],
)
def test_a_job_ends_by_its_limit_or_its_estimate_as_the_planner_counts(
    spec: dict[str, int], limit: int, expected: int
) -> None:
    state = ClusterState()
    state.put_node(node("n"))
    end = job_end(running(state, "job", "n", **spec), NOW_MS)
    assert [(at_ms - NOW_MS) // MINUTE_MS if at_ms else 0 for at_ms in (end.limit_ms, end.expected_ms)] == [
        limit,
        expected,
    ]


def test_an_area_shows_what_is_held_by_how_its_end_is_known_and_never_more_than_there_is() -> None:
    state = ClusterState()
    state.put_node(node("n"))
    running(state, "limited", "n", gpus=(0, 1), timeout_ms=HOUR_MS)
    running(state, "estimated", "n", gpus=(2,), estimate_ms=2 * HOUR_MS)
    running(state, "forever", "n", gpus=(3,))
    layers = add_up(held(state), SIX_HOURS, gpus=True)
    at = {"now": STEPS // 13 + 1, "hour": STEPS // 13 + STEPS // 6, "end": STEPS - 1}
    assert {
        kind: [layers.levels(kind)[step] // 1000 for step in at.values()] for kind in ("limit", "estimate", "unknown")
    } == {
        "limit": [2, 0, 0],
        "estimate": [1, 1, 0],
        "unknown": [1, 1, 1],
    }
    assert [kind for kind, _ in paths(layers)] == ["unknown", "limit", "estimate"]
    layers.changes["promised"][100] = 99_000
    heights = [int(y) for _, path in paths(layers) for part in path.split("V")[1:] for y in [part.split("H")[0]]]
    assert min(heights) >= 0
    assert max(heights) <= HEIGHT


def test_an_area_of_many_jobs_has_a_bounded_size() -> None:
    state, draws = ClusterState(), random.Random(3)
    state.put_node(node("n"))
    for i in range(2000):
        running(state, f"job-{i}", "n", cpus=1, timeout_ms=draws.randrange(11 * MINUTE_MS, 8 * HOUR_MS))
    [(_, path)] = paths(add_up(held(state), SIX_HOURS, gpus=False))
    assert len(path) < 4_000


def test_a_bar_ends_where_its_job_ends_and_says_how_that_is_known() -> None:
    state = ClusterState()
    state.put_node(node("n"))
    running(state, "both", "n", gpus=(0, 1, 5), estimate_ms=HOUR_MS, timeout_ms=3 * HOUR_MS)
    running(state, "cpus", "n", cpus=32)
    [one] = held(state)
    bars = {(bar.job_id, bar.y): bar for bar in job_bars(one, SIX_HOURS)}
    assert [(name, bar.height) for (name, _), bar in bars.items()] == [("both", 8.0), ("both", 4.0), ("cpus", 6.0)]
    first = bars["both", 0.0]
    assert (first.kind, first.x + first.width) == ("estimate", SIX_HOURS.x(NOW_MS + 50 * MINUTE_MS))
    assert first.until_x == SIX_HOURS.x(NOW_MS + 170 * MINUTE_MS)
    assert "estimated to end at" in first.title
    assert "at the latest" in first.title
    assert "when it ends is not known" in next(bar.title for bar in bars.values() if bar.kind == "unknown")
    assert all(bar.y >= 0 and bar.y + bar.height <= row_height(one) for bar in bars.values())
    promise = Promise(
        job_id="p",
        job_name="p",
        is_fence=False,
        start_ms=NOW_MS + HOUR_MS,
        end_ms=0,
        gpu_millis=8000,
        cpu_millis=1,
        tasks=1,
    )
    [bar] = promise_bars(replace(one, promises=(promise,)), SIX_HOURS)
    assert (bar.kind, bar.x, bar.height) == ("promised", SIX_HOURS.x(NOW_MS + HOUR_MS), 32.0)
    assert promise_bars(replace(one, promises=(replace(promise, start_ms=NOW_MS + 7 * HOUR_MS),)), SIX_HOURS) == []


def test_many_nodes_are_shown_by_domain_and_few_by_themselves() -> None:
    def schedule(count: int, domain: tuple[str, ...] = ()) -> Schedule:
        nodes = tuple(
            [
                (("z", f"r{i // 10:03}"), NodeHoldings(node=node(f"n{i:04}"), holdings=(), promises=()))
                for i in range(count)
            ]
        )
        return Schedule(
            axis=SIX_HOURS,
            span="6h",
            levels=("zone", "rack"),
            domain=domain,
            nodes=nodes,
            windows=(),
            listed=(),
            page=9,
        )

    assert (schedule(NODE_ROWS).depth, len(schedule(NODE_ROWS).rows())) == (0, NODE_ROWS)
    assert (schedule(200).depth, [row.domain for row in schedule(200).areas()][:2]) == (2, ["z/r000", "z/r001"])
    assert (schedule(5000).depth, schedule(5000).areas()[0].nodes) == (1, 5000)  # 500 racks are too many
    flat = schedule(200, ("z", "r000"))
    assert (flat.depth, flat.last_page, len(flat.rows())) == (0, 4, 200 % NODE_ROWS)
    assert schedule(0).totals() == []


def test_the_picture_of_nodes_has_each_gpu_by_what_it_holds() -> None:
    state = ClusterState()
    labels = (("rack", "r1"), ("zone", "z"))
    state.put_node(node("b", labels=labels, hardware=Hardware(bad_gpus=(7,))))
    state.put_node(node("a", gpus=0, labels=labels, state=NodeState.DEAD))
    state.put_node(node("c", gpus=2))
    running(state, "job", "b", gpus=(0, 1, 2))
    use = NodeUse(cpu_millis=4000, memory_bytes=1, gpu_busy=((0, 500), (1, 250)), age_ms=1, version="")
    cells = asyncio.run(read_cells(state, ("zone", "rack"), {"b": use}))
    assert [(cell.name, cell.place) for cell in cells] == [("a", ("z", "r1")), ("b", ("z", "r1")), ("c", ("–", "–"))]
    assert gpu_runs(cells[1]) == [("gpu-held", 0, 3), ("gpu-free", 3, 4), ("gpu-bad", 7, 1)]
    assert cell_title(cells[1]) == "b: READY; 3 of 8 GPUs held, 0.8 used; 8 of 64 CPUs held, 4 used"
    sections = heat_sections(cells)
    assert [(section.place, [box.name for box in section.boxes]) for section in sections] == [
        (("z",), ["r1"]),
        (("–",), ["–"]),
    ]
    box = sections[0].boxes[0]
    assert (box.nodes, box.ready, box.gpus, box.gpus_held) == (2, 1, 8, 3)
    assert [cell.kind for cell in box.cells] == ["dead", ""]
    assert max(cell.x + cell.width for cell in box.cells) <= box.width


def test_capacity_counts_what_is_held_promised_wanted_and_really_used() -> None:
    state = ClusterState()
    state.put_node(node("n"))
    running(state, "job", "n", gpus=(0, 1), cpus=16)
    use = NodeUse(cpu_millis=4000, memory_bytes=1 << 30, gpu_busy=((0, 500),), age_ms=1, version="")
    rows = {row.name: row for row in capacity_rows(state, {"gpu": 4000}, {"n": use})}
    assert [*rows] == ["gpu", "cpu", "memory"]
    assert (rows["gpu"].total, rows["gpu"].held, rows["gpu"].wanted, rows["gpu"].busy) == (8000, 2000, 4000, 500)
    assert [(s.kind, s.width) for s in rows["cpu"].drawing.segments if s.kind != "promised"] == [
        ("held", 250),
        ("busy", 62),
    ]
    assert capacity_rows(ClusterState(), {}, None) == ()


def test_bars_of_queues_have_one_scale_and_marks_for_guarantee_share_and_limit() -> None:
    queue = QueueStatus(
        path="research.llm",
        type="capacity",
        pending=1,
        running=2,
        used=(("gpu", 2000),),
        demand=(("gpu", 90_000),),
        fair_share=(("gpu", 4000),),
        ceiling=(("gpu", 6000),),
        rules=Queue(path="research.llm", type=QueueType.CAPACITY, weight=3),
    )
    row = _row(queue, ("gpu",), {"gpu": 8000}, {"gpu": 3000})
    use = row.uses["gpu"]
    assert (row.name, row.depth, row.weight) == ("llm", 1, 3)
    assert (use.guaranteed, use.fair_share, use.limit) == (3000, 4000, 6000)
    assert [(s.kind, s.width) for s in use.drawing.segments] == [("wanted", WIDTH), ("held", WIDTH // 4)]
    assert [(mark.kind, mark.x) for mark in use.drawing.marks] == [("guarantee", 375), ("share", 500), ("limit", 750)]
