"""Jobs as people write them, read by a master: the reader of job files takes a program longer to import than a master
takes to answer.

Invariant: what a master has read is submitted as it came, also fields that this release does not know.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gosched.client.answers import NotSubmitted, Submitted
from gosched.client.calls import SCHEDULER, Call, rpc
from gosched.client.errors import Misused
from gosched.client.requests.jobs import submit_message, submit_messages
from gosched.client.tracing import submit_span
from gosched.client.transport import Transport
from gosched.config.errors import ConfigError
from gosched.config.jobs.draft import JobDraft, Override
from gosched.wire.codec import to_message
from gosched.wire.v1 import scheduler_pb2, types_pb2

if TYPE_CHECKING:  # slow to import
    from gosched.core.spec.job_spec import JobSpec

MAX_BYTES = 256 * 1024  # of a request, as the proto says
PART_JOBS, PART_BYTES = 100, 8 * 1024 * 1024  # of a batch: more deadlines, and more bytes, are refused


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadJob:
    """A job that a master has read."""

    name: str
    #: Empty: it is no schedule.
    cron: str
    #: An array or a schedule: its children run, not it.
    is_parent: bool
    #: Of a parent 0.
    task_count: int
    #: types_pb2.JobSpec.
    spec: bytes = field(repr=False)


def read_jobs(client: Transport, draft: JobDraft) -> list[ReadJob]:
    """Return the jobs of a draft, at least one. Raises ConfigError for what is wrong with it, Misused for a draft that
    no master reads, and GoSchedError."""
    request = _request(draft)
    if request.ByteSize() > MAX_BYTES:
        raise Misused(f"{request.ByteSize()} bytes of a job file and flags; a master reads {MAX_BYTES}")
    answer = client._do(Call(rpc=rpc(SCHEDULER, "ReadJobs"), request=request, read=lambda answer: answer))
    if answer.problem:
        raise ConfigError(answer.problem)
    return [_read(spec) for spec in answer.specs]


def submit_read(client: Transport, job: ReadJob, request_id: str | None = None) -> Submitted:
    """Submit a job that a master has read, as `client.submit` does. Raises GoSchedError."""
    with submit_span([job.name]) as span:
        spec = types_pb2.JobSpec.FromString(job.spec)
        answer = client._do(submit_message(spec, request_id, span.metadata))
        span.took(answer.job_id)
    return answer


def submit_all(
    client: Transport, jobs: Sequence[ReadJob | JobSpec], request_id: str | None = None
) -> Iterator[Submitted | NotSubmitted]:
    """Submit jobs by few requests, and yield what became of each. Raises GoSchedError."""
    with submit_span([job.name for job in jobs]) as span:
        for number, part in enumerate(_parts(jobs)):
            own_id = f"{request_id}.{number}" if request_id else None
            yield from client._do(submit_messages(part, False, own_id, span.metadata))


def _parts(jobs: Sequence[ReadJob | JobSpec]) -> Iterator[list[types_pb2.JobSpec]]:
    """Yield the jobs in parts that a master takes at once, whatever their deadlines and sizes are, and in a moment."""
    part: list[types_pb2.JobSpec] = []
    size = 0
    for job in jobs:
        spec = (
            types_pb2.JobSpec.FromString(job.spec) if isinstance(job, ReadJob) else to_message(job, types_pb2.JobSpec)
        )
        size += spec.ByteSize()
        if part and (len(part) >= PART_JOBS or size > PART_BYTES):
            yield part
            part, size = [], spec.ByteSize()
        part.append(spec)
    if part:
        yield part


def _request(draft: JobDraft) -> scheduler_pb2.ReadJobsRequest:
    source = draft.source.encode(errors="replace").decode()  # names of files may be any bytes
    return scheduler_pb2.ReadJobsRequest(
        text=draft.text, source=source, overrides=map(_override, draft.overrides), sets=draft.sets
    )


def _override(override: Override) -> scheduler_pb2.JobOverride:
    return scheduler_pb2.JobOverride(
        path=[str(part) for part in override.path],
        value=json.dumps(override.value, ensure_ascii=False),
        origin=override.origin,
        adds=override.adds,
        of_group=override.of_group,
    )


def _read(spec: types_pb2.JobSpec) -> ReadJob:
    is_parent = bool(spec.cron or spec.array.step or spec.array.matrix)
    return ReadJob(
        name=spec.name,
        cron=spec.cron,
        is_parent=is_parent,
        task_count=0 if is_parent else sum(group.count for group in spec.groups),
        spec=spec.SerializeToString(),
    )
