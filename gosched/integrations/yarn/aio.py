"""The client of YARN's ResourceManagers for asyncio: the same calls by the same steps, each exchange in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from gosched.identity.aside import in_thread
from gosched.integrations.yarn import calls
from gosched.integrations.yarn.client import FAILOVER_S, KILL_S, LOG_BYTES, TIMEOUT_S, Authorize, Line
from gosched.integrations.yarn.records import (
    ClusterInfo,
    ClusterMetrics,
    NewApplication,
    Submission,
    YarnApplication,
    YarnNode,
    YarnScheduler,
)
from gosched.integrations.yarn.steps import Exchange, Managers, Steps
from gosched.wire.http_exchange import Reply, Unreachable

T = TypeVar("T")


class AsyncYarnClient:
    """As YarnClient, whose arguments and methods it has."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        user: str = "",
        authorize: Authorize | None = None,
        ca: str | None = None,
        timeout_s: float = TIMEOUT_S,
        failover_s: float = FAILOVER_S,
    ) -> None:
        self._managers = Managers(urls, user=user, failover_s=failover_s)
        self._line = Line(urls, authorize=authorize, ca=ca, timeout_s=timeout_s)

    async def info(self) -> ClusterInfo:
        """Return what the first ResourceManager that answers says of itself, also if it is on standby."""
        return await self._run(self._managers.ask(calls.info()))

    async def metrics(self) -> ClusterMetrics:
        """Return sums over the cluster."""
        return await self._run(self._managers.ask(calls.metrics()))

    async def nodes(self, *, states: Sequence[str] = ()) -> tuple[YarnNode, ...]:
        """Return the nodes, with `states` those in one of these; without, those that are not gone."""
        return await self._run(self._managers.ask(calls.nodes(states)))

    async def scheduler(self) -> YarnScheduler:
        """Return the tree of queues, with what they hold."""
        return await self._run(self._managers.ask(calls.scheduler()))

    async def apps(
        self,
        *,
        states: Sequence[str] = (),
        user: str = "",
        queue: str = "",
        types: Sequence[str] = (),
        tags: Sequence[str] = (),
        started_after_ms: int = 0,
        limit: int = 0,
    ) -> tuple[YarnApplication, ...]:
        """Return the applications that meet all of these. `limit`: at most so many; 0: all."""
        call = calls.apps(states, user, queue, types, tags, started_after_ms, limit)
        return await self._run(self._managers.ask(call))

    async def app(self, id: str) -> YarnApplication:
        """Return an application. Raises YarnNotFound."""
        return await self._run(self._managers.ask(calls.app(id)))

    async def state(self, id: str) -> str:
        """Return the state of an application. Raises YarnNotFound."""
        return await self._run(self._managers.ask(calls.state(id)))

    async def new_application(self) -> NewApplication:
        """Return an id to submit an application under."""
        return await self._run(self._managers.ask(calls.new_application()))

    async def submit(self, submission: Submission) -> None:
        """Submit an application. The same one once more is no second one."""
        await self._run(self._managers.ask(calls.submit(submission)))

    async def kill(self, id: str, *, timeout_s: float = KILL_S) -> str:
        """End an application, and return the state that it has ended in. Raises YarnNotFound, YarnTimedOut."""
        return await self._run(self._managers.kill(id, timeout_s))

    async def log(self, app: YarnApplication, name: str = "stdout", *, last_bytes: int = LOG_BYTES) -> bytes:
        """Return the end of a file of `<LOG_DIR>` of the ApplicationMaster. Raises YarnNotFound: there is none."""
        return await self._run(self._managers.log(app, name, last_bytes))

    async def _run(self, steps: Steps[T]) -> T:
        """Do what the steps say."""
        try:
            todo = next(steps)
            while True:
                if isinstance(todo, Exchange):
                    todo = steps.send(await self._exchange(todo))
                else:
                    await asyncio.sleep(todo.seconds)
                    todo = next(steps)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _exchange(self, todo: Exchange) -> Reply | Unreachable:
        return await in_thread(lambda: self._line.exchange(todo), "yarn")
