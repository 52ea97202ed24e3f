"""The parts of job specs that can be large, and that equal specs share: task groups, labels, arrays, dependencies.

Equal parts are one record in memory and in snapshots, however many jobs have them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeVar

from gosched.core.primitives import StringMap
from gosched.core.records.job import Job
from gosched.core.replace import replace
from gosched.core.spec.array import NO_ARRAY, Array
from gosched.core.spec.dependency import Dependency
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.task_group import TaskGroup

PartValue = TaskGroup | StringMap | Array | tuple[Dependency, ...]
P = TypeVar("P", bound=PartValue)


class Canonical(Protocol):
    """A function that returns the one record which is kept for all that are equal to a part."""

    def __call__(self, value: P, /) -> P: ...


def parts_of(spec: JobSpec) -> Iterator[PartValue]:
    """Yield the parts that equal specs share."""
    yield from spec.groups
    if spec.labels:
        yield spec.labels
    if spec.array != NO_ARRAY:
        yield spec.array
    if spec.after:
        yield spec.after


def without_parts(job: Job) -> Job:
    """Return the job with nothing in its spec that equal specs share."""
    return replace(job, spec=replace(job.spec, groups=(), labels=(), array=NO_ARRAY, after=()))


def with_parts(spec: JobSpec, canonical: Canonical) -> JobSpec:
    """Return an equal spec of the parts that `canonical` gives for its own; itself, if they are the same."""
    groups = spec.groups
    for group in spec.groups:
        if canonical(group) is not group:  # seldom: parts are shared where they are decoded, too
            groups = tuple([canonical(group) for group in spec.groups])
            break
    labels = canonical(spec.labels) if spec.labels else spec.labels
    array = canonical(spec.array) if spec.array != NO_ARRAY else spec.array
    after = canonical(spec.after) if spec.after else spec.after
    if groups is spec.groups and labels is spec.labels and array is spec.array and after is spec.after:
        return spec
    return replace(spec, groups=groups, labels=labels, array=array, after=after)


class PartPool:
    """Parts of specs by their content, for records that are read and not yet part of a state."""

    def __init__(self) -> None:
        self._parts: dict[PartValue, PartValue] = {}

    def shared(self, spec: JobSpec) -> JobSpec:
        """Return an equal spec whose parts are those of the specs before it."""
        return with_parts(spec, self._canonical)

    def _canonical(self, value: P) -> P:
        return self._parts.setdefault(value, value)  # type: ignore[return-value] # what is equal is of one type
