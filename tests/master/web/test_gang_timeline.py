"""The timeline of a job's attempts."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from gosched.api.history import Attempt, TaskAttempt
from gosched.core.records.job import Job, JobState
from gosched.core.records.task import TaskState
from gosched.master.web.gang_timeline import LEFT, MAX_ATTEMPTS, MAX_ROWS, WIDTH, Timeline, draw
from gosched.master.web.rendering import FOLDER
from tests.master.harness import spec

HOUR = 3_600_000


def task(index: int, state: TaskState, **fields: object) -> TaskAttempt:
    known = {"placed_at_ms": HOUR, "started_at_ms": HOUR + 1000, **fields}
    return TaskAttempt(
        task_id=f"j/w/{index}", group="w", index=index, allocation_id=f"a{index}", node_id="n", node_name="n1",
        state=state, **known,  # type: ignore[arg-type]
    )  # fmt: skip


def attempt(number: int, *tasks: TaskAttempt, **fields: object) -> Attempt:
    known = {"state": JobState.FAILED, "placed_at_ms": HOUR, "ended_at_ms": 2 * HOUR, **fields}
    return Attempt(number=number, tasks=tasks, **known)  # type: ignore[arg-type]


def drawn(*attempts: Attempt, now_ms: int = 4 * HOUR) -> Timeline:
    job = Job(id="j", spec=spec("j"), sequence=1, submitted_at_ms=HOUR // 2)
    found = draw(job, attempts, now_ms)
    assert found is not None
    return found


def test_nothing_is_drawn_before_something_was_placed() -> None:
    assert draw(Job(id="j", spec=spec("j"), sequence=1, submitted_at_ms=1), [], 10) is None


def test_a_task_waits_is_placed_and_runs_to_its_end_and_its_end_is_marked() -> None:
    found = drawn(attempt(1, task(0, TaskState.FAILED, ended_at_ms=2 * HOUR, exit_code=3)))
    assert [bar.kind for bar in found.bars] == ["waits", "placed", "failed"]
    waits, placed, failed = found.bars
    assert waits.x == LEFT
    assert waits.x < placed.x < failed.x
    assert [mark.kind for mark in found.marks] == ["failed"]
    assert "exit code 3" in failed.title
    assert "Attempt 1: failed" in found.summary


def test_an_eviction_is_told_from_a_failure_and_a_running_task_reaches_until_now() -> None:
    evicted = task(0, TaskState.KILLED, ended_at_ms=2 * HOUR, reason="PREEMPTED")
    found = drawn(
        attempt(1, evicted, reason="PREEMPTED"),
        attempt(2, task(0, TaskState.RUNNING, placed_at_ms=3 * HOUR, started_at_ms=3 * HOUR), ended_at_ms=0),
    )
    assert [mark.kind for mark in found.marks] == ["evicted"]
    runs = found.bars[-1]
    assert runs.kind == "runs"
    assert runs.x + runs.width == found.right


def test_a_large_gang_is_drawn_by_what_failed_and_a_sample() -> None:
    tasks = [task(i, TaskState.FAILED if i in (77, 9_000) else TaskState.RUNNING) for i in range(10_000)]
    found = drawn(attempt(1, *tasks))
    titles = " ".join([bar.title for bar in found.bars])
    assert "w/77 " in titles
    assert "w/9000 " in titles
    assert len(found.bars) <= 2 * MAX_ROWS + 1
    assert f"{10_000 - MAX_ROWS:,} tasks" in found.left_out


def test_only_the_newest_attempts_are_drawn() -> None:
    found = drawn(*[attempt(i + 1, task(0, TaskState.LOST)) for i in range(20)])
    assert len(found.heads) == MAX_ATTEMPTS
    assert "12 earlier attempts" in found.left_out


def test_everything_lies_within_the_drawing_whatever_the_moments_are() -> None:
    odd = [
        task(0, TaskState.RUNNING, started_at_ms=HOUR // 4),
        task(1, TaskState.FAILED, started_at_ms=9 * HOUR, ended_at_ms=HOUR),
        task(2, TaskState.PLACED, started_at_ms=0),
    ]
    found = drawn(attempt(1, *odd, ended_at_ms=0), now_ms=HOUR)
    assert all(LEFT <= bar.x <= WIDTH and 0 < bar.width <= WIDTH - LEFT for bar in found.bars)
    assert 2 <= len(found.ticks) <= 10


def test_its_template_makes_svg_and_escapes_names() -> None:
    from jinja2 import Environment, FileSystemLoader

    made = task(0, TaskState.RUNNING)
    found = drawn(attempt(1, made, reason="<script>"))
    jinja = Environment(loader=FileSystemLoader(FOLDER), autoescape=True)
    text = jinja.from_string("{% from 'timeline.html' import timeline %}{{ timeline(drawn) }}").render(drawn=found)
    assert "<script>" not in text
    assert not re.search(r"\sstyle=", text), "the policy of pages forbids it"
    ElementTree.fromstring(f"<div>{text}</div>")
