"""Jobs in the bodies of requests: JSON, YAML or NDJSON into specs.

Invariant: bodies of some size are parsed in threads beside the event loop, and of batches one at a time; what is kept
of a batch until it is submitted is no larger than its body, which counts for its caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request

from gosched.api.json.values import Json
from gosched.config import ConfigError
from gosched.config.jobs.jobfile import job_of
from gosched.config.json_text import read_json
from gosched.config.tree import MAX_FILE_BYTES, Document, Path, read_documents
from gosched.core.spec.job_spec import JobSpec
from gosched.master.base.errors import invalid
from gosched.master.base.parsing import parse_aside
from gosched.master.http.call import MAX_BODY_BYTES, read_body
from gosched.master.jobs.batches import MAX_BATCH
from gosched.wire.codec import to_message
from gosched.wire.v1 import types_pb2

R = TypeVar("R")
D = TypeVar("D")

MAX_BATCH_BYTES = 15 * 1024 * 1024  # gRPC takes 16
#: What the OpenAPI document has once, and makes when it is asked for: it is slow to make. Where no type stands FastAPI
#: adds one.
JOB_FILE: Json = {"type": "object", "$ref": "#/components/schemas/JobFile"}
JSON, YAML, NDJSON = "application/json", "application/yaml", "application/x-ndjson"
_NAMES = {JSON: JSON, YAML: YAML, "application/x-yaml": YAML, "text/yaml": YAML, "text/x-yaml": YAML, NDJSON: NDJSON}
_SMALL_BYTES = 4096  # of a body that is parsed at once
_SOURCE = "body"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """A document of a batch that is no job."""

    problem: str


Parsed = types_pb2.JobSpec | Bad


def job_body() -> dict[str, Any]:
    """Return the `openapi_extra` of a route whose body is one job."""
    return _body({JSON: JOB_FILE, YAML: JOB_FILE})


def jobs_body(most: int) -> dict[str, Any]:
    """Return the `openapi_extra` of a route whose body is a list of jobs."""
    many = {"type": "array", "items": JOB_FILE, "minItems": 1, "maxItems": most}
    return _body({JSON: many, YAML: many})


async def read_job(request: Request) -> JobSpec:
    """Return the one job of a body. Raises ApiError."""
    kind = _kind(request, (JSON, YAML))
    raw = await read_body(request, MAX_BODY_BYTES)

    def parse() -> JobSpec:
        documents = [*islice(_documents(raw, kind), 2)]
        if len(documents) != 1:
            count = "several jobs" if documents else "no job"
            raise ConfigError(f"{_SOURCE}: {count} in it: give one here, or up to {MAX_BATCH} to /api/v1/jobs:batch")
        return job_of(documents[0])

    return await _parsed(parse, len(raw))


async def read_jobs(request: Request, most: int) -> list[JobSpec]:
    """Return the jobs of a body: one, or a list; in YAML also documents. Raises ApiError for the first wrong one."""
    kind = _kind(request, (JSON, YAML))
    raw = await read_body(request, MAX_BODY_BYTES)

    def parse() -> list[JobSpec]:
        return [job_of(document) for document in _counted(_many(raw, kind), most)]

    return await _parsed(parse, len(raw))


async def read_batch(request: Request) -> list[Parsed]:
    """Return the jobs of a batch, each by itself. Raises ApiError where the body has no jobs to tell apart."""
    kind = _kind(request, (JSON, YAML, NDJSON))
    raw = await read_body(request, MAX_FILE_BYTES if kind == YAML else MAX_BATCH_BYTES)

    def parse() -> list[Parsed]:
        documents: Iterator[Document | Bad] = _lines(raw) if kind == NDJSON else _many(raw, kind)
        return [_job_or_bad(document) for document in _counted(documents, MAX_BATCH)]

    return await _parsed(parse, len(raw), is_batch=True)


def _body(shapes: dict[str, Json]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {kind: {"schema": shape} for kind, shape in shapes.items()}}}


def _kind(request: Request, kinds: Sequence[str]) -> str:
    """Return the media type of the body. Raises HTTPException."""
    given = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    kind = _NAMES.get(given, "")
    if kind not in kinds:
        raise HTTPException(415, f"the body is {given[:80]!a}: send {' or '.join(kinds)}")
    return kind


async def _parsed(parse: Callable[[], R], size: int, *, is_batch: bool = False) -> R:
    """Return what is parsed, in a thread where it is not small. Raises ApiError."""
    try:
        if size <= _SMALL_BYTES:
            return parse()
        return await parse_aside(parse, is_batch=is_batch)
    except ConfigError as error:
        raise invalid(str(error)) from error


def _counted(documents: Iterator[D], most: int) -> Iterator[D]:
    """Yield the documents. Raise ConfigError for none and for too many."""
    place = -1
    for place, document in enumerate(documents):
        if place >= most:
            raise ConfigError(f"{_SOURCE}: more than {most} jobs: send fewer at once")
        yield document
    if place < 0:
        raise ConfigError(f"{_SOURCE}: no job in it: write at least name and run")


def _documents(raw: bytes, kind: str) -> Iterator[Document]:
    """Yield the documents of a body. Raise ConfigError."""
    if kind == YAML:
        yield from read_documents(raw, _SOURCE)
    else:
        yield Document(value=read_json(raw, _SOURCE), source=_SOURCE)


def _many(raw: bytes, kind: str) -> Iterator[Document]:
    """Yield the jobs of a body: documents, or the items of a list. Raise ConfigError."""
    for document in _documents(raw, kind):
        if isinstance(document.value, list):
            yield from _items(document)
        else:
            yield document


def _items(document: Document) -> Iterator[Document]:
    """Yield the items of a list, each with the lines of its keys."""
    origins: dict[str | int, dict[Path, str]] = {}
    for path, where in document.origins.items():
        if path:
            origins.setdefault(path[0], {})[path[1:]] = where
    for place, item in enumerate(document.value):
        source = document.source if place in origins else f"{document.source}[{place}]"
        yield Document(value=item, source=source, origins=origins.get(place, {}))


def _lines(raw: bytes) -> Iterator[Document | Bad]:
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if line.strip():
            try:
                yield Document(value=read_json(line, _SOURCE, number), source=f"{_SOURCE}:{number}")
            except ConfigError as error:
                yield Bad(problem=str(error))


def _job_or_bad(document: Document | Bad) -> Parsed:
    if isinstance(document, Bad):
        return document
    try:
        return to_message(job_of(document), types_pb2.JobSpec)
    except ConfigError as error:
        return Bad(problem=str(error))
