"""ReadJobs: job files and the flags over them, read for a client that would take longer to import the reader.

Invariant: what is read is bounded: the bytes and the flags of a request, the jobs of a file, the bytes of the answer.
"""

from __future__ import annotations

from gosched.config.errors import ConfigError
from gosched.config.jobs.draft import JobDraft, Override
from gosched.config.jobs.jobfile import read_draft
from gosched.config.json_text import read_json
from gosched.config.tree import MAX_DEPTH
from gosched.master.base.errors import invalid
from gosched.master.base.parsing import parse_aside
from gosched.wire.codec import to_message
from gosched.wire.v1 import scheduler_pb2, types_pb2

MAX_REQUEST_BYTES = 256 * 1024  # as the proto says; a client reads more itself
MAX_FLAGS = 200
MAX_ANSWER_BYTES = 16 * 1024 * 1024  # flags are of each job of the file


async def read_jobs(request: scheduler_pb2.ReadJobsRequest) -> scheduler_pb2.ReadJobsResponse:
    """Return the jobs, or what is wrong with them. Raises ApiError for more than a master reads."""
    if request.ByteSize() > MAX_REQUEST_BYTES:
        raise invalid(f"{request.ByteSize()} bytes of a job file and flags; a master reads {MAX_REQUEST_BYTES}")
    if len(request.overrides) + len(request.sets) > MAX_FLAGS:
        raise invalid(f"{len(request.overrides) + len(request.sets)} flags; a master reads {MAX_FLAGS}")
    return await parse_aside(lambda: _read(request))


def _read(request: scheduler_pb2.ReadJobsRequest) -> scheduler_pb2.ReadJobsResponse:
    try:
        specs = read_draft(_draft(request))
    except ConfigError as error:
        return scheduler_pb2.ReadJobsResponse(problem=str(error))
    answer, size = scheduler_pb2.ReadJobsResponse(), 0
    for spec in specs:
        message = to_message(spec, types_pb2.JobSpec)
        size += message.ByteSize()
        if size > MAX_ANSWER_BYTES:
            raise invalid(f"the jobs take more than {MAX_ANSWER_BYTES} bytes together: read them in parts")
        answer.specs.append(message)
    return answer


def _draft(request: scheduler_pb2.ReadJobsRequest) -> JobDraft:
    """Raises ApiError, ConfigError."""
    return JobDraft(
        text=request.text if request.HasField("text") else None,
        source=request.source,
        overrides=tuple(map(_override, request.overrides)),
        sets=tuple(request.sets),
    )


def _override(given: scheduler_pb2.JobOverride) -> Override:
    value = read_json(given.value.encode(), given.origin)
    if not 0 < len(given.path) <= MAX_DEPTH or (given.adds and not isinstance(value, dict | list)):
        raise invalid(f"{given.origin[:100]!a} is an override that no flag makes")
    return Override(path=tuple(given.path), value=value, origin=given.origin, adds=given.adds, of_group=given.of_group)
