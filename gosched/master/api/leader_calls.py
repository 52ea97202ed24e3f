"""What this master itself asks of its services, for callers over HTTP and for its own work: here while it leads, of the
leader otherwise.

Invariant: the answer and the errors are the same, whichever master leads; and a stream ends when another one does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import grpc

from gosched.core.records.master import Master
from gosched.master.api.leader_routing import FIND_LEADER_S, REVISION, TRANSFER
from gosched.master.base.access import Access
from gosched.master.base.audited import Audit, Audited
from gosched.master.base.callers import ITSELF, Caller, ServedCall, check_allowed
from gosched.master.base.channels import STREAMS, Channels
from gosched.master.base.errors import ApiError
from gosched.master.base.leadership import Leadership
from gosched.wire.refusals import refusal_reason
from gosched.wire.v1 import (
    access_pb2,
    access_pb2_grpc,
    cluster_pb2,
    cluster_pb2_grpc,
    history_pb2,
    history_pb2_grpc,
    node_pb2,
    node_pb2_grpc,
    scheduler_pb2,
    scheduler_pb2_grpc,
    secret_pb2,
    secret_pb2_grpc,
)

CALL_TIMEOUT_S = 15.0  # more than a proposal takes

Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Method:
    """Where a method is found."""

    #: Its full name, as of a call: /gosched.v1.NodeService/ListNodes.
    name: str
    service: str
    stub: Callable[[Any], Any]


def _methods() -> dict[str, _Method]:
    found = {}
    for file, module, service in (
        (scheduler_pb2, scheduler_pb2_grpc, "SchedulerService"),
        (node_pb2, node_pb2_grpc, "NodeService"),
        (history_pb2, history_pb2_grpc, "HistoryService"),
        (cluster_pb2, cluster_pb2_grpc, "ClusterService"),
        (access_pb2, access_pb2_grpc, "AccessService"),
        (secret_pb2, secret_pb2_grpc, "SecretService"),
    ):
        described = file.DESCRIPTOR.services_by_name[service]
        for method in described.methods:
            full = f"/{described.full_name}/{method.name}"
            found[method.name] = _Method(name=full, service=service, stub=getattr(module, f"{service}Stub"))
    return found


#: By the method's own name, which no two services share.
METHODS = _methods()


class LeaderCalls:
    """`services`: this master's own, by name (`NodeService`). `cluster_id` returns an empty text while the id is not
    known."""

    def __init__(
        self,
        leadership: Leadership,
        masters: Channels,
        services: Mapping[str, Any],
        access: Access,
        cluster_id: Callable[[], str],
        audit: Audit,
    ) -> None:
        self._leadership = leadership
        self._masters = masters
        self._services = services
        self._access = access
        self._cluster_id = cluster_id
        self._audit = audit

    async def call(
        self,
        method: str,
        request: Any,
        caller: Caller = ITSELF,
        metadata: Metadata = (),
        *,
        timeout_s: float = CALL_TIMEOUT_S,
        told: Callable[[int], None] | None = None,
    ) -> Any:
        """Make a call that has one answer, for a caller; `told` is told the revision of the leader's state that it is
        from, where another master leads. Raises ApiError."""
        try:
            with self._audit.watch(METHODS[method].name, caller) as audited:
                audited.request = request
                check_allowed(caller, METHODS[method].name, self._cluster_id())
                leader = await self._leadership.find(FIND_LEADER_S)
                if leader is None:
                    return await self._here(audited, method, request, caller, metadata)
                audited.passed_on = True
                stub = METHODS[method].stub(self._masters.to(leader.grpc_address))
                sent = getattr(stub, method)(request, timeout=timeout_s, metadata=(*caller.header, *metadata))
                answer = await (sent if method == TRANSFER else self._leadership.while_leading(leader, sent))
                if told is not None:
                    told(_revision(await sent.trailing_metadata()))
                return answer
        except grpc.aio.AioRpcError as error:
            raise _api_error(error) from error

    async def here(self, method: str, request: Any, caller: Caller = ITSELF, metadata: Metadata = ()) -> Any:
        """Make a call of this master's own service, whether it leads or not. Raises ApiError."""
        with self._audit.watch(METHODS[method].name, caller) as audited:
            audited.request = request
            check_allowed(caller, METHODS[method].name, self._cluster_id())
            return await self._here(audited, method, request, caller, metadata)

    async def _here(self, audited: Audited, method: str, request: Any, caller: Caller, metadata: Metadata) -> Any:
        self._access.keep_answers_apart(caller, request)
        self._access.check_method(caller, METHODS[method].name, request)
        service = self._services.get(METHODS[method].service)
        if service is None:
            raise ApiError(grpc.StatusCode.UNIMPLEMENTED, f"this master does not serve {method}")
        audited.answer = await getattr(service, method)(request, ServedCall(caller=caller, metadata=metadata))
        return audited.answer

    async def stream(
        self, method: str, request: Any, caller: Caller = ITSELF, metadata: Metadata = ()
    ) -> AsyncIterator[Any]:
        """Yield the answers of a stream, for a caller. It ends with an ApiError when another master leads: ask again.
        Raises ApiError."""
        with self._audit.watch(METHODS[method].name, caller) as audited:
            audited.request = request
            check_allowed(caller, METHODS[method].name, self._cluster_id())
            leader = await self._leadership.find(FIND_LEADER_S)
            audited.passed_on = leader is not None
            if leader is None:
                self._access.check_method(caller, METHODS[method].name)
                service = self._services[METHODS[method].service]
                own = getattr(service, method)(request, ServedCall(caller=caller, metadata=metadata))
                async with aclosing(own) as answers:
                    async for answer in answers:
                        audited.begun(answer)
                        yield answer
                return
        stub = METHODS[method].stub(self._masters.to(leader.grpc_address, STREAMS))
        sent = getattr(stub, method)(request, metadata=(*caller.header, *metadata))
        try:
            async for answer in self._access.while_valid(caller, self._read(leader, sent)):
                yield answer
        except grpc.aio.AioRpcError as error:
            raise _api_error(error) from error
        finally:
            sent.cancel()

    async def _read(self, leader: Master, sent: Any) -> AsyncIterator[Any]:
        while (answer := await self._leadership.while_leading(leader, sent.read())) is not grpc.aio.EOF:
            yield answer


def _revision(trailer: Any) -> int:
    """Return the revision that came with an answer; 0: none did, the leader is of an older release."""
    found = next((str(value) for key, value in trailer or () if key == REVISION), "")
    return int(found) if found.isdigit() else 0


def _api_error(error: grpc.aio.AioRpcError) -> ApiError:
    return ApiError(error.code(), error.details() or error.code().name, reason=refusal_reason(error))
