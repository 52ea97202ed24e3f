"""One call to whichever master answers, and what makes a change safe to repeat."""

from __future__ import annotations

import uuid
from typing import Any

from gosched.client.errors import Unavailable
from gosched.client.masters import Masters
from gosched.wire.v1.cluster_pb2_grpc import ClusterServiceStub
from gosched.wire.v1.node_pb2_grpc import NodeServiceStub
from gosched.wire.v1.scheduler_pb2_grpc import SchedulerServiceStub

Service = type[SchedulerServiceStub] | type[NodeServiceStub] | type[ClusterServiceStub]


class Calls:
    """What the calls of all services share."""

    def __init__(self, masters: Masters, timeout_s: float) -> None:
        self._masters = masters
        self._timeout_s = timeout_s
        self._client_id = uuid.uuid4().hex

    def _call(self, service: Service, method: str, request: Any) -> Any:
        return self._masters.call(
            lambda channel, timeout: getattr(service(channel), method)(request, timeout=timeout),
            timeout_s=self._timeout_s,
        )

    def _change(self, service: Service, method: str, request: Any) -> Any:
        """A leader that lost its majority may have logged what it could not commit; the next one may commit it."""
        try:
            return self._call(service, method, request)
        except Unavailable as error:
            raise Unavailable(f"{error}. It may still take effect: look before you repeat it") from error

    def _identity(self, request_id: str | None) -> dict[str, Any]:
        """Return the fields under which the answer to a change is remembered. A caller's own request id means the same
        from every process."""
        client_id = "own-request-id" if request_id else self._client_id
        return {"request_id": request_id or uuid.uuid4().hex, "client_id": client_id}
