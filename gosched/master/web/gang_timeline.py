"""A job's attempts over time, as shapes: when each task was placed, ran and ended.

Invariant: a drawing is bounded: of a large gang those tasks are drawn that ended badly, and an even sample of the
others; it says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gosched.api.history import Attempt, TaskAttempt
from gosched.core.records.job import Job
from gosched.core.records.task import TaskState

MAX_ROWS = 48  # of one attempt
MAX_ATTEMPTS = 8  # the newest

WIDTH = 1000
LEFT = 150  # for the names of tasks
_RIGHT = 16
_TOP = 26  # for the scale
_HEAD = 22  # of an attempt
_ROW = 14
_THIN_ROW = 7  # where there are many
_GAP = 10
_MANY = 16
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)
_TICKS = 8

_EVICTED = frozenset({"PREEMPTED", "RECLAIMED", "BACKFILL_OVER", "WINDOW_BEGINS", "DRAINED", "TAINTED"})
_STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A span of a row. `kind` is its class: waits, placed, runs, succeeded, failed, evicted, lost or stopped."""

    kind: str
    x: float
    width: float
    y: int
    height: int
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A sign at an end. `kind` as of a bar."""

    kind: str
    x: float
    y: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    text: str
    y: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    x: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A drawing. `summary`: what it shows, for those who cannot see it."""

    width: int
    height: int
    #: Where the first task's name ends, and where the scale does.
    left: int
    right: int
    ticks: tuple[Tick, ...]
    heads: tuple[Label, ...]
    labels: tuple[Label, ...]
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    summary: str
    #: What is left out; empty: nothing.
    left_out: str


class _Scale:
    """From moments to x."""

    def __init__(self, begin_ms: int, end_ms: int) -> None:
        self.begin_ms = begin_ms
        self.end_ms = max(end_ms, begin_ms + 1000)
        self._factor = (WIDTH - LEFT - _RIGHT) / (self.end_ms - begin_ms)

    def x(self, at_ms: int) -> float:
        inside = min(max(at_ms, self.begin_ms), self.end_ms)
        return round(LEFT + (inside - self.begin_ms) * self._factor, 1)

    def ticks(self) -> tuple[Tick, ...]:
        span_s = (self.end_ms - self.begin_ms) / 1000
        days = int(span_s / _TICKS / 86_400) + 1
        step = next((step for step in _STEPS_S if span_s / step <= _TICKS), 86_400 * days)
        count = int(span_s / step)
        return tuple([Tick(x=self.x(self.begin_ms + i * step * 1000), text=span(i * step)) for i in range(count + 1)])


def draw(job: Job, attempts: Sequence[Attempt], now_ms: int) -> Timeline | None:
    """Return the drawing; None: nothing was placed yet."""
    shown = [attempt for attempt in attempts if attempt.tasks][-MAX_ATTEMPTS:]
    if not shown:
        return None
    first = job.submitted_at_ms if shown[0].number == 1 else shown[0].placed_at_ms
    last = max([_end(task, attempt, now_ms) for attempt in shown for task in attempt.tasks])
    scale = _Scale(first, last)
    pen = _Pen(scale, now_ms)
    before_ms = first
    for attempt in shown:
        pen.draw(attempt, before_ms)
        before_ms = attempt.ended_at_ms or before_ms
    return Timeline(
        width=WIDTH,
        height=pen.y,
        left=LEFT,
        right=WIDTH - _RIGHT,
        ticks=scale.ticks(),
        heads=tuple(pen.heads),
        labels=tuple(pen.labels),
        bars=tuple(pen.bars),
        marks=tuple(pen.marks),
        summary="; ".join([_head(attempt) for attempt in shown]),
        left_out=_left_out(len(attempts) - len(shown), pen.hidden),
    )


class _Pen:
    """Draws one attempt below the other. `y`: where the next one begins; `hidden`: tasks that were left out."""

    def __init__(self, scale: _Scale, now_ms: int) -> None:
        self.heads: list[Label] = []
        self.labels: list[Label] = []
        self.bars: list[Bar] = []
        self.marks: list[Mark] = []
        self.y = _TOP
        self.hidden = 0
        self._scale = scale
        self._now_ms = now_ms

    def draw(self, attempt: Attempt, before_ms: int) -> None:
        """Draw an attempt, and that the job waited for it since a moment."""
        tasks = chosen(attempt.tasks)
        self.hidden += len(attempt.tasks) - len(tasks)
        row = _ROW if len(tasks) <= _MANY else _THIN_ROW
        self.heads.append(Label(text=_head(attempt), y=self.y + 15))
        self.y += _HEAD
        if attempt.placed_at_ms > before_ms:
            waited = _bar(self._scale, "waits", before_ms, attempt.placed_at_ms, self.y - 4, 3, "it waited")
            self.bars.append(waited)
        for place, task in enumerate(tasks):
            if row == _ROW or place % 2 == 0:
                self.labels.append(Label(text=_short(f"{task.group}/{task.index}"), y=self.y + row - 3))
            self.bars.extend(_bars_of(self._scale, task, attempt, self._now_ms, self.y, row))
            self.marks.extend(_marks_of(self._scale, task, attempt, self.y + row / 2))
            self.y += row
        self.y += _GAP


def chosen(tasks: Sequence[TaskAttempt]) -> list[TaskAttempt]:
    """Return the tasks that are drawn, in their order: all of them, or those that ended badly and a sample."""
    if len(tasks) <= MAX_ROWS:
        return list(tasks)
    bad = [place for place, task in enumerate(tasks) if kind_of(task) in ("failed", "lost", "evicted")]
    places = set(bad[: MAX_ROWS // 2])
    step = len(tasks) / (MAX_ROWS - len(places))
    places.update([int(i * step) for i in range(MAX_ROWS - len(places))])
    return [tasks[place] for place in sorted(places)]


def kind_of(task: TaskAttempt) -> str:
    """Return how a task ended, or that it has not."""
    if task.state is TaskState.SUCCEEDED:
        return "succeeded"
    if task.reason in _EVICTED:
        return "evicted"
    if task.state is TaskState.FAILED:
        return "failed"
    if task.state is TaskState.LOST:
        return "lost"
    if task.state is TaskState.KILLED:
        return _STOPPED
    return "runs" if task.started_at_ms else "placed"


def span(seconds: float) -> str:
    """Return a span of time in its two largest units."""
    whole = int(seconds)
    parts = [(whole // 86_400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "m"), (whole % 60, "s")]
    while len(parts) > 1 and not parts[0][0]:
        parts.pop(0)
    return " ".join([f"{number} {unit}" for number, unit in parts[:2] if number]) or "0"


def _bars_of(scale: _Scale, task: TaskAttempt, attempt: Attempt, now_ms: int, y: int, row: int) -> list[Bar]:
    if not task.placed_at_ms:
        return []
    end_ms, title, height = _end(task, attempt, now_ms), _title(task), row - 2
    if not task.started_at_ms:
        return [_bar(scale, "placed", task.placed_at_ms, end_ms, y, height, title)]
    kind = kind_of(task)
    return [
        _bar(scale, "placed", task.placed_at_ms, task.started_at_ms, y, height, title),
        _bar(scale, kind, task.started_at_ms, end_ms, y, height, title),
    ]


def _marks_of(scale: _Scale, task: TaskAttempt, attempt: Attempt, y: float) -> list[Mark]:
    kind, end_ms = kind_of(task), task.ended_at_ms or attempt.ended_at_ms
    if kind not in ("failed", "lost", "evicted") or not end_ms:
        return []
    return [Mark(kind=kind, x=scale.x(end_ms), y=y - 1, title=_title(task))]


def _bar(scale: _Scale, kind: str, begin_ms: int, end_ms: int, y: int, height: int, title: str) -> Bar:
    x = scale.x(begin_ms)
    return Bar(kind=kind, x=x, width=max(1.0, round(scale.x(end_ms) - x, 1)), y=y, height=height, title=title)


def _end(task: TaskAttempt, attempt: Attempt, now_ms: int) -> int:
    return task.ended_at_ms or attempt.ended_at_ms or now_ms


def _head(attempt: Attempt) -> str:
    ended = attempt.reason or (f"exit code {attempt.exit_code}" if attempt.exit_code else "")
    tasks = "1 task" if len(attempt.tasks) == 1 else f"{len(attempt.tasks):,} tasks"
    return f"Attempt {attempt.number}: {attempt.state.name.lower()}{f' ({ended})' if ended else ''}, {tasks}"


def _title(task: TaskAttempt) -> str:
    words = [f"{task.group}/{task.index} on {task.node_name or task.node_id}: {task.state.name.lower()}"]
    if task.reason:
        words.append(task.reason)
    if task.exit_code is not None:
        words.append(f"exit code {task.exit_code}")
    if task.started_at_ms and task.ended_at_ms:
        words.append(f"ran {span((task.ended_at_ms - task.started_at_ms) / 1000)}")
    return ", ".join(words)


def _short(name: str) -> str:
    return name if len(name) <= 22 else f"{name[:10]}…{name[-11:]}"


def _left_out(attempts: int, tasks: int) -> str:
    words = []
    if attempts:
        words.append(f"{attempts:,} earlier attempt{'s' if attempts > 1 else ''}")
    if tasks:
        words.append(f"{tasks:,} tasks: drawn are those that ended badly, and a sample")
    return " and ".join(words)
