"""One HTTP call: who makes it, its place in a lane, its body, and what it asks of this master's services.

Invariant: an HTTP call has one place at a time, and leaves it when its answer is sent.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Header
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from gosched.config import ConfigError
from gosched.config.requests import M, read_request
from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.state.cluster_state import ClusterState
from gosched.core.trace_context import HEADER, TraceContext
from gosched.master.api.lanes import Lane, Lanes, Place
from gosched.master.api.leader_calls import CALL_TIMEOUT_S, METHODS, LeaderCalls
from gosched.master.api.status import StatusReader
from gosched.master.base.access import Access
from gosched.master.base.callers import Caller
from gosched.master.base.errors import invalid
from gosched.master.base.leadership import Leadership
from gosched.master.base.proposals import reads_without_barrier
from gosched.master.base.turns import sliced
from gosched.master.history.service import HistoryService
from gosched.replication.interface import Replication

MAX_BODY_BYTES = 1024 * 1024

CALL = "gosched.call"  # in an ASGI scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What handlers use of this master."""

    calls: LeaderCalls
    access: Access
    leadership: Leadership
    replication: Replication
    status: StatusReader
    lanes: Lanes
    #: The state's clock.
    now_ms: Callable[[], int]
    history: HistoryService


class HttpCall:
    """`revision`: of the state that the answer is made from, as far as it is known. `traced`: the trace that its client
    is in; None: none is known."""

    def __init__(self, services: Services, caller: Caller, place: Place, traced: TraceContext | None = None) -> None:
        self.services = services
        self.caller = caller
        self._metadata = ((HEADER, traced.traceparent),) if traced is not None else ()
        self.revision = 0
        #: Why it was refused, for the audit log, where its caller is not to know.
        self.why = ""
        self._place = place

    @property
    def state(self) -> ClusterState:
        """Return this master's own copy of the state, which may be behind the leader's."""
        return self.services.replication.state

    def check(self, method: str) -> None:
        """Raise ApiError where the caller may not make this call, for an answer that this master gives by itself."""
        self.services.access.check_method(self.caller, METHODS[method].name)

    async def ask(self, method: str, request: Any, *, timeout_s: float = CALL_TIMEOUT_S, stale: bool = False) -> Any:
        """Return the answer of a service of the leader; with `stale`, of this master's own. Raises ApiError."""
        calls = self.services.calls
        if stale:
            with reads_without_barrier():
                answer = await calls.here(method, request, self.caller, self._metadata)
        else:
            answer = await calls.call(
                method, request, self.caller, self._metadata, timeout_s=timeout_s, told=self._told
            )
        self.revision = max(self.revision, getattr(answer, "revision", 0))
        return answer

    def _told(self, revision: int) -> None:
        self.revision = max(self.revision, revision)

    async def here(self, method: str, request: Any) -> Any:
        """Return the answer of a service of this master, whether it leads or not. Raises ApiError."""
        return await self.services.calls.here(method, request, self.caller)

    def stream(self, method: str, request: Any) -> AsyncIterator[Any]:
        """Yield the answers of a stream of the leader; it ends with an ApiError when another master leads. It takes a
        place among the streams. Raises ApiError."""
        self.become_stream()
        return self.services.calls.stream(method, request, self.caller)

    def become_stream(self) -> None:
        """Move to a place among the streams. Raises ApiError when all are taken."""
        place = self.services.lanes.uses[Lane.STREAMS].take(self.caller)
        self.leave()
        self._place = place

    def hold(self, size: int) -> None:
        """Count bytes that this call keeps in memory. Raises ApiError when too many are kept already."""
        self._place.hold(size)

    def leave(self) -> None:
        """Leave the place."""
        self._place.leave()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeNames:
    """What names a change, so that a repeat of it changes nothing: fields of every request that changes something."""

    client_id: str
    request_id: str


async def change_names(
    request: Request,
    key: Annotated[
        str,
        Header(
            alias="Idempotency-Key",
            max_length=MAX_NAME_LENGTH,
            description="Names the change: a repeat with the same key changes nothing and has the first answer, for 16 "
            "minutes. A key such as at1764307216123-9f0c2a (ms since 1970) is refused when it is older than 15.",
        ),
    ] = "",
) -> ChangeNames:
    """Return the names of the change that a handler makes."""
    call: HttpCall = request.scope[CALL]
    return ChangeNames(client_id=f"http {call.caller.name}"[:MAX_NAME_LENGTH], request_id=key or uuid.uuid4().hex)


async def http_call(request: Request) -> HttpCall:
    """Return the call that a handler serves."""
    call: HttpCall = request.scope[CALL]
    return call


#: The types of a handler's parameters `call: Call` and `names: Names`.
Call = Annotated[HttpCall, Depends(http_call)]
Names = Annotated[ChangeNames, Depends(change_names)]


async def read_body(request: Request, limit: int = MAX_BODY_BYTES) -> bytes:
    """Return the body. Raises HTTPException for one of more than `limit` bytes, ApiError where too many are held."""
    call: HttpCall = request.scope[CALL]
    too_large = HTTPException(413, f"the body has more than {limit} bytes")
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise too_large
        call.hold(len(chunk))
    return bytes(body)


async def read_json(request: Request, limit: int = MAX_BODY_BYTES) -> Any:
    """Return the JSON value of the body. Raises ApiError, HTTPException."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, f"the body is {kind[:80]!a}: send application/json")
    return parse_json(await read_body(request, limit))


async def read_model(request: Request, model: type[M], *, optional: bool = False) -> M:
    """Return what the body says; `optional`: none says as much as an empty object. Raises ApiError, HTTPException."""
    announced = request.headers.get("content-length", "") or request.headers.get("transfer-encoding", "")
    with valid():
        return read_request(model, {} if optional and announced in ("", "0") else await read_json(request))


@contextmanager
def valid() -> Iterator[None]:
    """Turn the error of a body into one of the API."""
    try:
        yield
    except ConfigError as error:
        raise invalid(str(error)) from error


def parse_json(text: bytes) -> Any:
    """Return the value. Raises ApiError, also for what JSON leaves open: a key given twice, numbers that are none, and
    characters that are half of one."""
    try:
        value = json.loads(text.decode(), object_pairs_hook=_distinct, parse_constant=_no_number)
        if b"\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise invalid(f"the body is not JSON: {str(error)[:200]}") from error
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice[:80]!a} is given twice")
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


class JsonResponse(Response):
    """An answer in JSON, in ASCII alone."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else json.dumps(content).encode()


async def json_array(items: Iterable[Any]) -> bytes:
    """Return the JSON of a long list, made in slices between which the event loop turns, as what `items` does for each
    is."""
    return b"[%b]" % b", ".join([json.dumps(item).encode() async for item in sliced(items)])
