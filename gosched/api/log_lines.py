"""Lines of logs, put together from the pieces in which they come.

Invariant: of each stream at most one unfinished line is kept, and no more than MAX_LINE_BYTES of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)

MAX_LINE_BYTES = 64 * 1024  # what is longer is cut


class TimedOffset(Protocol):
    """When the output from an offset on was read from its task."""

    @property
    def offset(self) -> int: ...

    @property
    def at_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line without its end."""

    data: bytes
    #: When its first byte was read; 0: not known.
    at_ms: int = 0


class LogLines(Generic[K]):
    """The lines of many streams, each under a key of the caller's."""

    def __init__(self) -> None:
        self._unfinished: dict[K, LogLine] = {}

    def add(self, key: K, data: bytes, offset: int = 0, times: Sequence[TimedOffset] = ()) -> list[LogLine]:
        """Return the lines that end in `data`, the piece of the stream at `offset`."""
        *lines, rest = _split(data, offset, times)
        begun = self._unfinished.pop(key, None)
        if begun is not None and begun.data and lines:
            lines[0] = LogLine(begun.data + lines[0].data, begun.at_ms)
        elif begun is not None and begun.data:
            rest = LogLine(begun.data + rest.data, begun.at_ms)
        if len(rest.data) > MAX_LINE_BYTES:
            return [*lines, rest]
        if rest.data:
            self._unfinished[key] = rest
        return lines

    def finish(self) -> list[tuple[K, LogLine]]:
        """Return the lines that have not ended, under their keys."""
        return list(self._unfinished.items())


def task_label(job_name: str, task_id: str, *, one_task: bool) -> str:
    """Return what a line stands after: `worker/3`, of an array `sweep.7 worker/3`; of one whose jobs have one task
    `sweep.7`."""
    return job_name if job_name and one_task else f"{job_name} {short_name(task_id)}".strip()


def short_name(task_id: str) -> str:
    """Return `worker/3` of `JOB/worker/3`."""
    return task_id.partition("/")[2]


def _split(data: bytes, offset: int, times: Sequence[TimedOffset]) -> Iterator[LogLine]:
    """Yield the lines, with what follows the last end of a line."""
    passed, at_ms = 0, 0
    for line in data.split(b"\n"):
        while passed < len(times) and times[passed].offset <= offset:
            at_ms = times[passed].at_ms
            passed += 1
        yield LogLine(line, at_ms)
        offset += len(line) + 1
