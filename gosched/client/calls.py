"""What a client asks of the masters, as values: one call, a list that comes in pages, a stream.

Invariant: nothing here sends or waits, so the clients with and without asyncio share all of it. `transport.py` and
`aio/transport.py` carry it out.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from gosched.core.request_ids import request_id_at
from gosched.wire.v1 import access_pb2, cluster_pb2, history_pb2, join_pb2, node_pb2, scheduler_pb2, secret_pb2

T = TypeVar("T")
Metadata = tuple[tuple[str, str], ...]

SCHEDULER = scheduler_pb2.DESCRIPTOR.services_by_name["SchedulerService"]
NODES = node_pb2.DESCRIPTOR.services_by_name["NodeService"]
CLUSTER = cluster_pb2.DESCRIPTOR.services_by_name["ClusterService"]
HISTORY = history_pb2.DESCRIPTOR.services_by_name["HistoryService"]

ACCESS = access_pb2.DESCRIPTOR.services_by_name["AccessService"]
SECRET = secret_pb2.DESCRIPTOR.services_by_name["SecretService"]
JOIN = join_pb2.DESCRIPTOR.services_by_name["JoinService"]

STREAM_S = 60.0  # how long a stream that had begun looks for a master to go on with
PAGE = 1000
_OWN_ID = "own-request-id"


@dataclass(frozen=True, slots=True)
class Rpc:
    """One method of a service, as a channel of either kind calls it."""

    path: str
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]

    def unary(self, channel: Any) -> Any:
        return channel.unary_unary(self.path, request_serializer=self.encode, response_deserializer=self.decode)

    def stream(self, channel: Any) -> Any:
        return channel.unary_stream(self.path, request_serializer=self.encode, response_deserializer=self.decode)

    def both(self, channel: Any) -> Any:
        return channel.stream_stream(self.path, request_serializer=self.encode, response_deserializer=self.decode)


@cache
def rpc(service: ServiceDescriptor, method: str) -> Rpc:
    described = service.methods_by_name[method]
    encode, decode = (GetMessageClass(kind) for kind in (described.input_type, described.output_type))
    return Rpc(f"/{service.full_name}/{method}", encode.SerializeToString, decode.FromString)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request and how its answer is read."""

    rpc: Rpc
    request: Any
    read: Callable[[Any], T]
    #: It changes something, and its request names itself: a repeat gets the first answer.
    is_change: bool = False
    #: `host:port` of the one master that is meant; empty: any.
    address: str = ""
    metadata: Metadata = ()
    #: How much longer than usual it may take, in seconds.
    more_s: float = 0.0

    def named(self, client_id: str, now_ms: int) -> None:
        """Write the client's id, and a request id of now, into a change whose caller chose none."""
        if self.is_change and not self.request.request_id:
            self.request.client_id = client_id
            self.renewed(now_ms)

    def renewed(self, now_ms: int) -> bool:
        """Write another request id, of now, into a change whose caller chose none. Return whether it is such a
        change."""
        if not self.is_change or self.request.client_id == _OWN_ID:
            return False
        self.request.request_id = request_id_at(now_ms, uuid.uuid4().hex[:20])
        return True


def names(request_id: str | None) -> dict[str, Any]:
    """Return the fields under which the answer to a change is remembered; without a request id they are empty until it
    is sent. A caller's own request id means the same from every process."""
    return {"request_id": request_id, "client_id": _OWN_ID} if request_id else {}


class Pages(Generic[T]):
    """A list that comes in pages. `next_call` returns the call for each page, the answer of which goes on."""

    def __init__(
        self,
        method: Rpc,
        request: Any,
        read: Callable[[Any], list[T]],
        *,
        limit: int | None = None,
        sizes: tuple[int, int] = (PAGE, PAGE),
    ) -> None:
        """`limit`: items at most. `sizes`: of the first page, and of those that follow."""
        self._rpc, self._request, self._read = method, request, read
        self._left, self._sizes = limit, sizes
        self._ended = limit is not None and limit <= 0

    def next_call(self) -> Call[list[T]] | None:
        if self._ended:
            return None
        size = self._sizes[bool(self._request.page_token)]
        self._request.page_size = size if self._left is None else min(size, self._left)
        return Call(rpc=self._rpc, request=self._request, read=self._take)

    def count(self, found: list[T]) -> int:
        """Return how many of the limit a page took."""
        return len(found)

    def _take(self, page: Any) -> list[T]:
        found = self._read(page)
        if self._left is not None:
            self._left -= self.count(found)
        self._request.page_token = page.next_page_token
        self._ended = not page.next_page_token or (self._left is not None and self._left <= 0)
        return found


class Stream(Generic[T]):
    """A stream that is opened anew, by `request()`, whenever it breaks."""

    rpc: Rpc
    #: It has ended when a master closes it; otherwise `ended` says it.
    until_closed = False

    def __init__(self, timeout_s: float | None) -> None:
        self.timeout_s = timeout_s
        self.ended = False

    def first(self) -> Call[None] | None:
        """Return a call that goes before the stream, and reads what it needs; None: there is none."""
        return None

    def request(self) -> Message:
        """Return the request as it is now, to go on from here."""
        raise NotImplementedError

    def take(self, message: Any) -> Iterator[T]:
        """Yield what is new in a message."""
        raise NotImplementedError
