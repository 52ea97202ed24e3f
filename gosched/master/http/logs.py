"""REST of logs: what the tasks of a job wrote, once or as it comes.

An error before the first byte is a problem. One after it breaks the connection off without the end of the body, so that
no client takes a part for the whole. A stream that follows goes on at the next leader where it broke off.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any, Literal

import grpc
import structlog
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from gosched.api.details import JobDetail
from gosched.api.json.values import Json
from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.spec.job_spec import JobSpec
from gosched.master.base.cancel import cancel_all
from gosched.master.base.errors import ApiError
from gosched.master.http.call import Call, HttpCall
from gosched.master.http.job_bodies import NDJSON
from gosched.master.http.log_text import STREAMS, Chunk, LineText, NdJson, PlainText, Writer
from gosched.master.http.protocol import TRANSPORT
from gosched.master.http.routes import JobName, moment_of, rest_router
from gosched.master.jobs.log_targets import MAX_TAIL
from gosched.wire.codec import to_record
from gosched.wire.v1 import scheduler_pb2

TEXT = "text/plain"
LEADER_S = 60.0  # for the next leader, while a stream follows
RETRY_S = 0.3
HEAD_S = 1.0  # that the head of an answer waits for the first line, so that an error may still be a problem

Positions = dict[tuple[str, int], int]  # (allocation, stream) -> bytes that were read

router = rest_router("jobs")
log = structlog.get_logger()

_chunk: Json = {
    "title": "LogChunk",
    "type": "object",
    "properties": {
        "task": {"type": "string"},
        "job": {"type": "string", "description": "Its name, where the logs of a whole array are read."},
        "allocation": {"type": "string"},
        "stream": {"enum": ["stdout", "stderr"]},
        "offset": {"type": "integer", "description": "Of the first byte, since the start of the stream."},
        "text": {"type": "string"},
        "base64": {"type": "string", "description": "Instead of `text`, of bytes that are not UTF-8."},
        "times": {
            "type": "array",
            "description": "With `timestamps`: when the bytes from an offset on were read from the task.",
            "items": {
                "type": "object",
                "properties": {"offset": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}},
            },
        },
        "note": {"type": "string", "description": "For people; without data."},
        "missing": {"type": "boolean", "description": "Nothing more of this log can be had."},
    },
    "required": ["task", "allocation"],
}


@router.get(
    "/jobs/{job}/logs",
    summary="Read what a job's tasks wrote",
    response_class=Response,
    responses={
        200: {
            "description": "The text; of several tasks each line after the name of its task. As NDJSON: LogChunk",
            "content": {TEXT: {"schema": {"type": "string"}}, NDJSON: {"schema": _chunk}},
        }
    },
)
async def read_logs(
    job: JobName,
    call: Call,
    request: Request,
    task: Annotated[
        str, Query(max_length=2 * MAX_NAME_LENGTH, description="Only this task: worker/3; or 3, if there is one group.")
    ] = "",
    stream: Annotated[Literal["stdout", "stderr"] | None, Query(description="Only this stream.")] = None,
    follow: Annotated[bool, Query(description="Until the job has ended and its logs are read.")] = False,
    tail: Annotated[
        int | None, Query(ge=0, le=MAX_TAIL, description="Only the last lines of each stream, then what follows.")
    ] = None,
    attempt: Annotated[int | None, Query(ge=1, le=2**31 - 1, description="Of this attempt.")] = None,
    previous: Annotated[bool, Query(description="Of the attempt before the newest.")] = False,
    since: Annotated[
        str, Query(max_length=100, description="Only lines begun since: RFC 3339, or 10m for ten minutes ago.")
    ] = "",
    timestamps: Annotated[bool, Query(description="When each line was read from its task, in front of it.")] = False,
) -> Response:
    asked = scheduler_pb2.StreamJobLogsRequest(
        task=task,
        follow=follow,
        attempt=attempt or 0,
        previous=previous,
        tail=tail,
        since_ms=moment_of("since", since),
        timestamps=timestamps,
    )
    detail = to_record(await call.ask("GetJob", scheduler_pb2.GetJobRequest(job=job)), JobDetail)
    asked.job = detail.id
    is_json = NDJSON in request.headers.get("accept", "").lower()
    pieces = _pieces(call, asked, stream, NdJson() if is_json else _text(detail.job.spec, asked))
    first = asyncio.ensure_future(anext(pieces, b""))
    try:
        await asyncio.wait([first], timeout=HEAD_S if follow else None)
        if first.done():
            first.result()  # raises what is still a problem of its own
    except BaseException:
        await cancel_all([first])
        await pieces.aclose()
        raise
    kind = NDJSON if is_json else f"{TEXT}; charset=utf-8"
    return _Logs(first, pieces, kind)


def _text(spec: JobSpec, asked: scheduler_pb2.StreamJobLogsRequest) -> Writer:
    named = spec.is_parent or (spec.task_count > 1 and not asked.task)
    if not (named or asked.timestamps):
        return PlainText()
    one_task = sum([group.count for group in spec.groups]) == 1
    return LineText(named=named, timed=asked.timestamps, one_task=one_task)


class _Logs(StreamingResponse):
    """A body that breaks off where its stream fails."""

    def __init__(self, first: asyncio.Future[bytes], pieces: AsyncGenerator[bytes, None], kind: str) -> None:
        super().__init__(self._body(), media_type=kind, headers={"Cache-Control": "no-store"})
        self._first = first
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except ApiError as error:
            log.warning("a log broke off over HTTP", path=scope["path"][:200], why=error.detail)
            scope["state"][TRANSPORT].abort()
        finally:
            await cancel_all([self._first])
            await self._pieces.aclose()

    async def _body(self) -> AsyncIterator[bytes]:
        yield b""  # the head goes out before the first line
        yield await self._first
        async for piece in self._pieces:
            yield piece


async def _pieces(
    call: HttpCall,
    asked: scheduler_pb2.StreamJobLogsRequest,
    stream: str | None,
    writer: Writer,
) -> AsyncGenerator[bytes, None]:
    """Yield the body. Raises ApiError."""
    call.become_stream()
    async with aclosing(_following(call, asked)) as chunks:
        async for chunk in chunks:
            if chunk.data and stream is not None and STREAMS.get(chunk.stream) != stream:
                continue
            if piece := writer.add(chunk):
                yield piece
    if piece := writer.finish():
        yield piece


async def _following(call: HttpCall, asked: scheduler_pb2.StreamJobLogsRequest) -> AsyncGenerator[Chunk, None]:
    """Yield chunks. While it follows, it goes on at the next leader. Raises ApiError."""
    loop = asyncio.get_running_loop()
    read: Positions = {}
    give_up_at = loop.time() + LEADER_S
    while True:
        try:
            answers: Any = call.services.calls.stream("StreamJobLogs", _from(asked, read), call.caller)
            async with aclosing(answers) as found:
                async for chunk in found:
                    give_up_at = loop.time() + LEADER_S
                    if chunk.data or chunk.start:
                        read[chunk.allocation_id, chunk.stream] = chunk.offset + len(chunk.data)
                    yield chunk
            return
        except ApiError as error:
            is_lost = error.code is grpc.StatusCode.UNAVAILABLE and asked.follow
            if not is_lost or loop.time() >= give_up_at:
                raise
        await asyncio.sleep(RETRY_S)


def _from(asked: scheduler_pb2.StreamJobLogsRequest, read: Positions) -> scheduler_pb2.StreamJobLogsRequest:
    request = scheduler_pb2.StreamJobLogsRequest()
    request.CopyFrom(asked)
    if read:
        request.ClearField("tail")  # what has begun since is new
    for (allocation, stream), offset in read.items():
        getattr(request, "from").add(allocation_id=allocation, stream=stream, offset=offset)
    return request
