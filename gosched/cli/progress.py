"""The progress of a job: a live line on a terminal, plain lines when piped. On stderr, because it is not data."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from gosched.cli.output import escaped, has_colour, say
from gosched.client import JobDetail
from gosched.core.records.job import Job, JobState
from gosched.core.records.task import TaskState


class Display(Protocol):
    def show(self, line: str) -> None: ...


def phase(detail: JobDetail) -> str:
    """Return `queued: needs 8 CPUs; 4 are free`, `placed 8/8`, `starting 8/8`, `running 3/8`, `succeeded`..."""
    job, states = detail.job, [task.state for task in detail.tasks]
    if job.state.is_final:
        return ending(detail)
    if job.spec.is_parent and not job.waits_for and not job.held:
        return _of_parent(job)
    total = len(states)
    if job.state is JobState.PENDING and job.active == 0:
        why = detail.waiting_for[1] if detail.waiting_for else job.detail or job.reason
        again = f"attempt {job.attempt}, " if job.attempt > 1 else ""
        return f"{again}queued: {why}" if why else f"{again}queued"
    if job.shown_state is JobState.SUSPENDED:
        return f"suspended: {detail.waiting_for[1]}" if detail.waiting_for else "suspended"
    stopping = states.count(TaskState.STOPPING)
    if stopping:
        return f"stopping {stopping}/{total}"
    ended = sum(state.is_final for state in states)
    running = states.count(TaskState.RUNNING)
    if running or ended:
        return f"running {running}/{total}" + (f", {ended} ended" if ended else "")
    starting = states.count(TaskState.STARTING)
    return f"starting {starting}/{total}" if starting else f"placed {states.count(TaskState.PLACED)}/{total}"


def _of_parent(job: Job) -> str:
    """Return `37 of 1000 done, 2 failed, 4 live`; of a schedule, which has no end, `3 runs, 1 live`."""
    children = job.children
    ended = children.made - children.live
    size = job.spec.array.size
    parts = [f"{children.made} runs" if job.spec.cron else f"{ended} of {size} done"]
    parts += [f"{children.failed} failed"] if children.failed else []
    parts += [f"{children.live} live"] if children.live else []
    return ", ".join(parts)


def ending(detail: JobDetail) -> str:
    """Return `failed: EXIT_CODE (worker/3 ended with code 7)`."""
    job = detail.job
    text = job.state.name.lower()
    if job.reason and job.reason != job.state.name:
        text += f": {job.reason}"
    return f"{text} ({job.detail})" if job.detail else text


def follow(details: Iterable[JobDetail]) -> Iterator[JobDetail]:
    """Pass the details on, and show each change of phase."""
    with _display() as display:
        last = ""
        for detail in details:
            line = f"{detail.job.spec.name}: {phase(detail)}"
            if line != last and not detail.state.is_final:
                display.show(line)
            last = line
            yield detail


class _Lines:
    def show(self, line: str) -> None:
        say(line)


@contextmanager
def _display() -> Iterator[Display]:
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True, no_color=not has_colour(sys.stderr))
    with console.status("") as spinner:

        class Live:
            def show(self, line: str) -> None:
                spinner.update(escape(escaped(line)))

        yield Live()
