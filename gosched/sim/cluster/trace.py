"""What a trace says: nodes, and jobs with the moment they come and the time they take.

Invariant: a reader refuses what it cannot read with one line that names file and line; what it leaves out it counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from gosched.config import ConfigError
from gosched.core.commands.nodes import RegisterNode
from gosched.core.limits import MAX_DURATION_MS
from gosched.core.spec.job_spec import JobSpec

COMMAND = ("true",)  # of tasks that are never run
MAX_TRACE_BYTES = 256 * 1024 * 1024
MAX_SPAN_MS = 10 * MAX_DURATION_MS  # from the first arrival to the last


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """A job of a trace."""

    #: When it is submitted, from the start of the trace.
    at_ms: int
    spec: JobSpec
    #: How long each task runs, on any node; None: it never ends.
    duration_ms: int | None
    #: How long a victim needs to save itself, if its spec has a checkpoint signal.
    checkpoint_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The jobs of a trace, in order of arrival."""

    jobs: tuple[TraceJob, ...]
    #: The cluster that the trace itself describes; empty: it describes none.
    nodes: tuple[RegisterNode, ...] = ()
    #: Why lines were no job, in words, and how many were.
    left_out: tuple[tuple[str, int], ...] = ()


def bad_line(source: str, line: int, problem: str) -> ConfigError:
    return ConfigError(f"{source}:{line}: {problem}")


def in_order(jobs: list[TraceJob]) -> tuple[TraceJob, ...]:
    """Return the jobs by arrival; those that come together keep their order."""
    return tuple(sorted(jobs, key=lambda job: job.at_ms))


def whole_number(text: str, source: str, line: int, what: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise bad_line(source, line, f"expected a whole number for {what}, got {text!a}") from None
    if abs(value) > MAX_SPAN_MS:
        raise bad_line(source, line, f"{value} is too large for {what}")
    return value
