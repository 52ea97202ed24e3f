"""The picture of single nodes over time: a bar for each job, at its GPUs, or as high as its part of the CPUs.

Invariant: a bar that ends by an estimate never looks like one that ends by a limit.
"""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.records.window import Window
from gosched.core.resources import MILLI
from gosched.master.web.holdings import Holding, NodeHoldings, Promise
from gosched.master.web.text import moment, plural
from gosched.master.web.timeline import Axis

LANE = 4.0  # pixels of a GPU
CPU_STRIP = 12.0  # of all CPUs of a node that has GPUs
CPU_ONLY = 36.0  # of one that has none
LEAST = 2.0
TEXT_FROM = 9.0  # bars that are lower have no name in them
TEXT_FROM_X = 4.0  # and those that are shorter, in percent


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBar:
    """A bar: places are in percent of the width, heights in pixels."""

    job_id: str
    kind: str
    x: float
    width: float
    y: float
    height: float
    #: To where it may last; 0: the bar says it.
    until_x: float
    #: In the bar; empty: it is too small.
    text: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A window."""

    x: float
    width: float
    title: str


def row_height(held: NodeHoldings) -> float:
    gpus = held.node.capacity.gpu_millis // MILLI
    return gpus * LANE + CPU_STRIP + 2 if gpus else CPU_ONLY


def job_bars(held: NodeHoldings, axis: Axis) -> list[JobBar]:
    """Return the bars of a node."""
    gpus = held.node.capacity.gpu_millis // MILLI
    cpus = held.node.capacity.cpu_millis or 1
    strip, top = (CPU_STRIP, gpus * LANE + 2) if gpus else (CPU_ONLY, 0.0)
    bars, y = [], top
    for holding in held.holdings:
        if holding.gpus:
            bars += [_bar(holding, axis, first * LANE, length * LANE) for first, length in _runs(holding.gpus)]
        else:
            height = max(LEAST, strip * holding.cpu_millis / cpus)
            bars.append(_bar(holding, axis, min(y, top + strip - LEAST), min(height, max(LEAST, top + strip - y))))
            y += height
    return bars


def promise_bars(held: NodeHoldings, axis: Axis) -> list[JobBar]:
    """Return the bars of what is promised. Which GPUs a reserved start gets is not known: it stands at the bottom."""
    gpus = held.node.capacity.gpu_millis // MILLI
    height = row_height(held)
    bars = []
    for promise in held.promises:
        if promise.start_ms >= axis.end_ms:
            continue
        if promise.gpus:
            runs = _runs(promise.gpus)
            bars += [_promised(promise, axis, first * LANE, length * LANE) for first, length in runs]
        elif gpus and promise.gpu_millis:
            high = min(gpus * LANE, max(LANE, promise.gpu_millis / MILLI * LANE))
            bars.append(_promised(promise, axis, gpus * LANE - high, high))
        else:
            part = min(1.0, promise.cpu_millis / (held.node.capacity.cpu_millis or 1))
            high = max(LEAST * 2, part * (CPU_STRIP if gpus else CPU_ONLY))
            bars.append(_promised(promise, axis, height - high, high))
    return bars


def bands(windows: list[Window], node_id: str, axis: Axis) -> list[Band]:
    """Return the windows of a node that the axis shows."""
    return [
        _band(window, axis)
        for window in windows
        if node_id in window.nodes and window.start_ms < axis.end_ms and (window.end_ms or axis.end_ms) > axis.start_ms
    ]


def _band(window: Window, axis: Axis) -> Band:
    x, end_x = axis.x(window.start_ms), axis.x(window.end_ms or axis.end_ms)
    users = ", ".join((*window.queues, *window.tenants)) or "maintenance"
    end = f" to {moment(window.end_ms)}" if window.end_ms else ""
    return Band(
        x=x, width=round(end_x - x, 2), title=f"Window {window.name}, {users}: from {moment(window.start_ms)}{end}"
    )


def _bar(holding: Holding, axis: Axis, y: float, height: float) -> JobBar:
    end = holding.end
    end_ms = end.expected_ms or end.limit_ms or axis.end_ms
    x, end_x = axis.x(holding.since_ms), axis.x(end_ms)
    width = max(0.15, round(end_x - x, 2))
    return JobBar(
        job_id=holding.job_id,
        kind="leaving" if holding.gives_way else holding.kind,
        x=x,
        width=width,
        y=round(y, 1),
        height=round(height, 1),
        until_x=axis.x(end.limit_ms) if end.expected_ms and end.limit_ms > end.expected_ms else 0.0,
        text=holding.job_name if height >= TEXT_FROM and width >= TEXT_FROM_X else "",
        title=_holding_title(holding),
    )


def _holding_title(holding: Holding) -> str:
    end = holding.end
    parts = [f"{holding.job_name}: {plural(holding.tasks, 'task')} since {moment(holding.since_ms)}"]
    if end.expected_ms:
        parts.append(f"estimated to end at {moment(end.expected_ms)}")
    if end.limit_ms:
        parts.append(f"stopped at {moment(end.limit_ms)} at the latest")
    if not (end.expected_ms or end.limit_ms):
        parts.append("when it ends is not known")
    if holding.gives_way:
        parts.append("it gives way to another job")
    return ", ".join(parts)


def _promised(promise: Promise, axis: Axis, y: float, height: float) -> JobBar:
    kind = "fence" if promise.is_fence else "promised"
    x = axis.x(max(promise.start_ms, axis.now_ms))
    end_x = axis.x(promise.end_ms or axis.end_ms)
    begins = "starts once its victims have ended, by" if promise.is_fence else "start reserved for"
    ends = f", to {moment(promise.end_ms)} by its estimate or limit" if promise.end_ms else ""
    width = max(0.3, round(end_x - x, 2))
    return JobBar(
        job_id=promise.job_id,
        kind=kind,
        x=x,
        width=width,
        y=round(y, 1),
        height=round(height, 1),
        until_x=0.0,
        text=promise.job_name if height >= TEXT_FROM and width >= TEXT_FROM_X else "",
        title=f"{promise.job_name}: {plural(promise.tasks, 'task')}, {begins} {moment(promise.start_ms)}{ends}",
    )


def _runs(gpus: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return neighbouring GPUs together: the first one, and how many."""
    runs: list[tuple[int, int]] = []
    for gpu in gpus:
        if runs and gpu == runs[-1][0] + runs[-1][1]:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((gpu, 1))
    return runs
