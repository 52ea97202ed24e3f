"""Work in resource-time: what was useful, and what evictions undid.

Invariant: useful, lost and unfinished work together are all that tasks have held.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gosched.core.resources import Resources


@dataclass(frozen=True, slots=True)
class ResourceTime:
    """Amounts times the time they were held, in thousandths of a CPU or GPU times milliseconds."""

    cpu: int = 0
    gpu: int = 0

    def __add__(self, other: ResourceTime) -> ResourceTime:
        return ResourceTime(self.cpu + other.cpu, self.gpu + other.gpu)


@dataclass(slots=True)
class _Held:
    """A placement of a task that holds its resources."""

    resources: Resources
    since_ms: int
    #: When it was evicted; None: it was not.
    evicted_ms: int | None = None
    #: What it did before it was evicted is in a checkpoint.
    saved: bool = False


class Work:
    """The work of all placements up to now."""

    def __init__(self) -> None:
        #: Of tasks that succeeded, or saved themselves in a checkpoint before they were evicted.
        self.useful = ResourceTime()
        #: Of tasks that were evicted: since their start, or since their checkpoint was asked for.
        self.lost = ResourceTime()
        self._ended = ResourceTime()  # of tasks that ended in another way
        self._held: dict[str, _Held] = {}  # by allocation

    def begin(self, allocation_id: str, resources: Resources, now_ms: int) -> None:
        self._held[allocation_id] = _Held(resources, now_ms)

    def evict(self, allocations: Iterable[str], now_ms: int, saved: bool) -> None:
        """Note that these were ordered to stop; they hold their resources until they end. `saved`: no work is lost."""
        for allocation_id in allocations:
            held = self._held[allocation_id]
            held.evicted_ms, held.saved = now_ms, saved

    def end(self, allocation_id: str, now_ms: int, succeeded: bool) -> None:
        held = self._held.pop(allocation_id)
        whole = _resource_time(held.resources, now_ms - held.since_ms)
        if succeeded:
            self.useful += whole
        elif held.evicted_ms is None:
            self._ended += whole
        elif held.saved:
            self.useful += _resource_time(held.resources, held.evicted_ms - held.since_ms)
            self.lost += _resource_time(held.resources, now_ms - held.evicted_ms)
        else:
            self.lost += whole

    def unfinished(self, now_ms: int) -> ResourceTime:
        """Return the work of tasks that still run, and of those that ended without success though nobody evicted them,
        as by a timeout."""
        running = [_resource_time(held.resources, now_ms - held.since_ms) for held in self._held.values()]
        return sum(running, self._ended)


def _resource_time(resources: Resources, held_ms: int) -> ResourceTime:
    return ResourceTime(resources.cpu_millis * held_ms, resources.gpu_millis * held_ms)
