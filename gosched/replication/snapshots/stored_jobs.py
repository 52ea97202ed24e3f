"""Jobs in snapshots of FeatureLevel.BOUNDED: the large parts of their specs are written once, and named by numbers.

Invariant: a part stands before the first job that names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from gosched.core.primitives import StringMap
from gosched.core.records.job import Job
from gosched.core.replace import replace
from gosched.core.spec.array import NO_ARRAY, Array
from gosched.core.spec.dependency import Dependency
from gosched.core.spec.task_group import TaskGroup
from gosched.core.state.spec_parts import PartPool, PartValue, parts_of, without_parts
from gosched.wire.codec import fill, map_pairs, to_record
from gosched.wire.v1 import log_pb2, types_pb2

_put = object.__setattr__  # into a record that is not finished yet


class JobWriter:
    """The jobs of one snapshot on their way out."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}  # by the part's identity: a state has each part once
        self._parts: list[PartValue] = []  # so that the identities stay theirs

    def records(self, job: Job) -> Iterator[log_pb2.SnapshotRecord]:
        """Yield the parts that were not written yet, then the job."""
        spec = job.spec
        for part in parts_of(spec):
            if id(part) not in self._numbers:
                self._parts.append(part)
                self._numbers[id(part)] = len(self._parts)
                yield _part_record(part)
        record = log_pb2.SnapshotRecord()
        stored = record.stored_job
        fill(without_parts(job), stored.job)
        stored.groups.extend([self._numbers[id(group)] for group in spec.groups])
        stored.labels = self._numbers[id(spec.labels)] if spec.labels else 0
        stored.array = self._numbers[id(spec.array)] if spec.array != NO_ARRAY else 0
        stored.after = self._numbers[id(spec.after)] if spec.after else 0
        yield record


class JobReader:
    """The jobs of one snapshot, of either format, on their way in."""

    def __init__(self) -> None:
        self._parts: list[PartValue] = []
        self._pool = PartPool()

    def take_part(self, message: log_pb2.SpecPart) -> None:
        """Keep a part for the jobs that follow."""
        part: PartValue
        if message.HasField("group"):
            part = to_record(message.group, TaskGroup)
        elif message.HasField("array"):
            part = to_record(message.array, Array)
        elif message.after:
            part = tuple([to_record(dependency, Dependency) for dependency in message.after])
        else:
            part = cast("StringMap", map_pairs(message.labels))
        self._parts.append(part)

    def whole(self, message: types_pb2.Job) -> Job:
        """Return a job that was written with all of its spec, as those of FeatureLevel.FIRST are."""
        job = to_record(message, Job)
        spec = self._pool.shared(job.spec)
        return job if spec is job.spec else replace(job, spec=spec)

    def stored(self, message: log_pb2.StoredJob) -> Job:
        """Return a job that names the parts of its spec. Raises ValueError if one of them is missing."""
        job = to_record(message.job, Job)
        # Nothing has seen this record, and its spec is its own: a copy of each would cost as much as to decode them.
        _put(job.spec, "groups", tuple([self._part(number) for number in message.groups]))
        _put(job.spec, "labels", self._part(message.labels) if message.labels else ())
        _put(job.spec, "array", self._part(message.array) if message.array else NO_ARRAY)
        _put(job.spec, "after", self._part(message.after) if message.after else ())
        return job

    def _part(self, number: int) -> PartValue:
        if not 0 < number <= len(self._parts):
            raise ValueError(f"a job names part {number} of its spec, which is missing")
        return self._parts[number - 1]


def _part_record(part: PartValue) -> log_pb2.SnapshotRecord:
    record = log_pb2.SnapshotRecord()
    message = record.spec_part
    if isinstance(part, TaskGroup):
        fill(part, message.group)
    elif isinstance(part, Array):
        fill(part, message.array)
    else:
        for item in part:
            if isinstance(item, Dependency):
                fill(item, message.after.add())
            else:
                message.labels[item[0]] = item[1]
    return record
