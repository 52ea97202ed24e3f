"""What pages read: this master's copy of the state, and of the leader what it alone knows.

Invariant: a page waits for the leader ANSWER_S at most, and is shown without what it did not tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gosched.core.state.cluster_state import ClusterState
from gosched.identity.code_flow import CodeFlow
from gosched.master.api.leader_calls import LeaderCalls
from gosched.master.api.status import StatusReader
from gosched.master.base.access import Access
from gosched.master.base.callers import Caller
from gosched.master.base.clock import Clock
from gosched.master.base.errors import ApiError
from gosched.master.history.recorder import NotedReason
from gosched.master.web.job_list import JobLists
from gosched.master.web.recent import Recent
from gosched.master.web.trends import Trends
from gosched.replication.interface import Replication

ANSWER_S = 2.0
TOLD_S = 2.0
MAX_TOLD = 256

V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where pages get their facts."""

    replication: Replication
    status: StatusReader
    calls: LeaderCalls
    access: Access
    clock: Clock
    trends: Trends
    #: Labels that name the levels of the topology, the widest first.
    topology: tuple[str, ...]
    #: What the leader said a moment ago.
    told: Recent[Any]
    #: Why pending jobs wait, by id, as the log says.
    reasons: Callable[[], Mapping[str, NotedReason]]
    #: Logins at an issuer; None: there are none.
    code_flow: CodeFlow | None
    #: Orders of jobs that were made a moment ago.
    job_lists: JobLists = field(default_factory=JobLists)

    @property
    def state(self) -> ClusterState:
        """Return this master's own copy: read it without awaiting in between."""
        return self.replication.state

    def now_ms(self) -> int:
        return self.clock.now_ms()

    async def ask(self, method: str, request: Any, caller: Caller) -> Any | None:
        """Return the leader's answer to a call, TOLD_S old at most; None: there is no leader, or it does not answer in
        time."""

        async def call() -> Any:
            return await self.calls.call(method, request, caller, timeout_s=ANSWER_S)

        key = (method, request.SerializeToString(deterministic=True), self.access.viewer(caller))
        return await self.share(key, call)

    async def share(self, key: Hashable, make: Callable[[], Awaitable[V]]) -> V | None:
        """Return what `make` returned a moment ago, or returns now; None: the leader does not answer in time."""
        if not self.replication.role.leader:
            return None
        try:
            async with asyncio.timeout(ANSWER_S):
                answer: V = await self.told.get(key, make)
                return answer
        except (ApiError, TimeoutError):
            return None

    def http_addresses(self) -> Mapping[str, str]:
        """Return where the other masters serve HTTP, by their ids."""
        me = self.replication.member_id
        return {master.id: master.http_address for master in self.state.masters.values() if master.id != me}
