"""What agents are told of revoked certificates: the serial numbers of those that are, or may be, of masters.

Invariant: an agent that knows them is told their etag alone.
"""

from __future__ import annotations

import hashlib

from gosched.core.limits import MAX_REVOCATIONS_TOLD
from gosched.core.state.cluster_state import ClusterState
from gosched.wire.v1 import node_pb2


class RevocationNews:
    """The serial numbers of one version of one state, and their etag."""

    def __init__(self) -> None:
        self._of: tuple[ClusterState, int] | None = None
        self._serials: tuple[str, ...] = ()
        self._etag = ""

    def tell(self, answer: node_pb2.HeartbeatResponse, state: ClusterState, known: str) -> None:
        """Write what an agent has to know that knows those of this etag."""
        version = (state, state.access_changes)
        if self._of != version:
            of_masters = [one for one in state.revocations.values() if one.role in ("master", "")]
            newest = sorted(of_masters, key=lambda one: (-one.at_ms, one.certificate))[:MAX_REVOCATIONS_TOLD]
            self._serials = tuple(sorted([one.certificate for one in newest]))
            self._etag = hashlib.sha256("\n".join(self._serials).encode()).hexdigest()[:16]
            self._of = version
        answer.revoked_etag = self._etag
        if known != self._etag:
            answer.revoked.extend(self._serials)
