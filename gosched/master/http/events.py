"""REST of events: pages as JSON, or a stream as server-sent events.

A stream is served by this master from its own history, so a change of leaders does not end it. All events of one
revision are written together, and the last of them has the revision as its `id`: a client that goes on elsewhere with
the last id it saw misses nothing.

Invariant: what many listeners want is encoded once, and nothing is queued for a listener: one that does not read is
given up by the server (http/entrance.py).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from typing import Annotated

from fastapi import Header, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from gosched.api.history import EventPage, HistoryEvent
from gosched.api.json.history import event_json, event_page_json
from gosched.master.base.errors import ApiError, invalid
from gosched.master.history.service import MAX_PAGE, Batch
from gosched.master.http.call import Call, HttpCall, JsonResponse
from gosched.master.http.problems import problem_of
from gosched.master.http.routes import Stale, answers, moment_of, rest_router
from gosched.wire.codec import to_record
from gosched.wire.v1 import history_pb2

STREAM = "text/event-stream"
FIRST_LINES = b"retry: 1000\n\n"

router = rest_router("events")

_STREAM_DOC = {
    "description": "A page of events, or with Accept: text/event-stream a stream that begins after `after`.",
    "content": {STREAM: {"schema": {"type": "string"}}},
}
_shown = answers("EventPage", event_page_json.schema())
_shown["responses"][200]["content"].update(_STREAM_DOC["content"])
_shown["responses"][200]["description"] = _STREAM_DOC["description"]


@router.get("/events", summary="List events, or watch them", **_shown)
async def list_events(
    request: Request,
    call: Call,
    after: Annotated[int, Query(ge=0, le=(1 << 63) - 1, description="Only what came after this revision.")] = 0,
    since: Annotated[
        str, Query(description="Only what happened then or later: RFC 3339, or 2h for two hours ago.")
    ] = "",
    job: Annotated[str, Query(max_length=600, description="Of one job, by id, name or TENANT/NAME.")] = "",
    node: Annotated[str, Query(max_length=300, description="On one node, by id or name.")] = "",
    kind: Annotated[list[str], Query(description="Of these kinds, such as job_failed.")] = [],  # noqa: B006 - FastAPI copies it
    queue: Annotated[str, Query(max_length=300, description="Of the jobs of a queue.")] = "",
    tenant: Annotated[str, Query(max_length=300, description="Of the jobs of a tenant.")] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="Events in the page, about.")] = 1000,
    stale: Stale = False,
    last_event_id: Annotated[str, Header(alias="Last-Event-ID", description="Of a stream: as `after`.")] = "",
) -> Response:
    wanted = history_pb2.ListEventsRequest(
        after=after,
        since_ms=moment_of("since", since),
        job=job,
        node=node,
        kinds=kind,
        queue=queue,
        tenant=tenant,
        page_size=limit,
    )
    if STREAM in request.headers.get("accept", ""):
        wanted.after = _last_seen(last_event_id) or after
        return await _stream(call, wanted)
    page = await call.ask("ListEvents", wanted, stale=stale)
    return JsonResponse(event_page_json(to_record(page, EventPage)))


async def _stream(call: HttpCall, wanted: history_pb2.ListEventsRequest) -> Response:
    call.check("WatchEvents")
    history = call.services.history
    batches = history.watch_for(call.caller, wanted)
    history.check_kept(wanted.after)  # the answer's status is still open: 410
    call.become_stream()
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(_lines(batches), media_type=STREAM, headers=headers)


async def _lines(batches: AsyncIterator[Batch]) -> AsyncIterator[bytes]:
    """Yield the text of a stream. One that cannot go on ends with an event `error`, a problem; its client comes
    again."""
    yield FIRST_LINES
    try:
        async for batch in batches:
            yield _text(batch)
    except ApiError as error:
        yield f"event: error\ndata: {bytes(problem_of(error).body).decode()}\n\n".encode()


def _text(batch: Batch) -> bytes:
    """Return the events of a revision as server-sent events; none: a comment, which keeps the connection."""
    if not batch.events:
        return f": revision {batch.revision}\n\n".encode()
    shared = batch.shared
    if shared is None:
        return encoded(batch.events, batch.revision)
    if not shared.encoded:
        shared.encoded = encoded(shared.events, shared.revision)
    return shared.encoded


def encoded(events: Iterable[HistoryEvent], revision: int) -> bytes:
    texts = [f"event: {event.kind}\ndata: {json.dumps(event_json(event))}\n" for event in events]
    texts[-1] = f"id: {revision}\n{texts[-1]}"
    return ("\n".join(texts) + "\n").encode()


def _last_seen(last_event_id: str) -> int:
    if not last_event_id:
        return 0
    if not last_event_id.isascii() or not last_event_id.isdecimal() or int(last_event_id[:20]) >= 1 << 63:
        raise invalid("Last-Event-ID is not one that this cluster gave: leave it out")
    return int(last_event_id)
