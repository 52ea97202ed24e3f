"""The lease of gosched-kube with an API server in memory; tests/kubernetes has the real one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gosched.integrations.kubernetes import lease as lease_module
from gosched.integrations.kubernetes.api import CannotConnect, KubeError, KubeUnreachable
from gosched.integrations.kubernetes.lease import LEASE_S, Lease, LeaseLost

LIMIT_S = 20.0

Json = dict[str, Any]


class Server:
    """Holds one lease. `refuses`: with what error it answers all."""

    def __init__(self) -> None:
        self.lease: Json | None = None
        self.refuses: KubeError | None = None
        self.writes = 0
        self.conflicts = 0

    async def get(self, path: str) -> Json:
        self._answer()
        found = self.lease
        await asyncio.sleep(0)  # others ask meanwhile
        if found is None:
            raise KubeError(404, "not found")
        return found

    async def post(self, path: str, body: Json) -> Json:
        self._answer()
        if self.lease is not None:
            self.conflicts += 1
            raise KubeError(409, "exists")
        return self._written(body)

    async def put(self, path: str, body: Json) -> Json:
        self._answer()
        if self.lease is None or body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            self.conflicts += 1
            raise KubeError(409, "changed")
        return self._written(body)

    @property
    def spec(self) -> Json:
        assert self.lease is not None
        found: Json = self.lease["spec"]
        return found

    def _answer(self) -> None:
        if self.refuses is not None:
            raise self.refuses

    def _written(self, body: Json) -> Json:
        self.writes += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.writes)}}
        return self.lease


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(lease_module, "time", clock)
    monkeypatch.setattr(lease_module, "RENEW_S", 0.01)
    return clock


def run(story: Callable[[Server], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(LIMIT_S):
            await story(Server())

    asyncio.run(bounded())


def lease(server: Server, holder: str) -> Lease:
    return Lease(server, "gosched-kube-gosched", holder)  # type: ignore[arg-type]


async def is_waiting(work: asyncio.Task[Any]) -> bool:
    await asyncio.sleep(0.1)
    return not work.done()


def test_another_one_has_it_once_it_has_not_changed_for_its_duration(clock: Clock) -> None:
    async def story(server: Server) -> None:
        first, second = lease(server, "a"), lease(server, "b")
        await first.acquire()
        waits = asyncio.create_task(second.acquire())
        assert await is_waiting(waits)
        for _ in range(3):  # renewed in time: it stays the first one's for good
            clock.now += LEASE_S - 1
            keeps = asyncio.create_task(first.keep())
            assert await is_waiting(waits)
            keeps.cancel()
        assert await is_waiting(waits)
        clock.now += LEASE_S + 1
        await waits
        assert (server.spec["holderIdentity"], server.spec["leaseTransitions"]) == ("b", 2)
        with pytest.raises(LeaseLost, match=r"b serves this cluster now \(lease kube-system/gosched-kube-gosched\)"):
            await first.keep()
        await first.release()
        assert server.spec["holderIdentity"] == "b", "what is lost is not released"

    run(story)


def test_one_that_ends_lets_the_next_one_in_at_once(clock: Clock) -> None:
    async def story(server: Server) -> None:
        first = lease(server, "a")
        await first.acquire()
        await first.release()
        await lease(server, "b").acquire()
        assert server.spec["holderIdentity"] == "b"

    run(story)


def test_the_same_holder_that_starts_again_need_not_wait(clock: Clock) -> None:
    async def story(server: Server) -> None:
        await lease(server, "a").acquire()
        await lease(server, "a").acquire()
        assert server.spec["leaseTransitions"] == 1

    run(story)


def test_a_server_that_was_away_costs_nobody_the_lease(clock: Clock) -> None:
    async def story(server: Server) -> None:
        first = lease(server, "a")
        await first.acquire()
        keeps = asyncio.create_task(first.keep())
        waits = asyncio.create_task(lease(server, "b").acquire())
        assert await is_waiting(waits)
        assert first.holds()
        server.refuses = KubeUnreachable("away")
        await asyncio.sleep(0.1)
        clock.now += 10 * LEASE_S
        assert not keeps.done()
        assert not first.holds(), "somebody else may have it by now"
        server.refuses = None
        assert await is_waiting(waits)
        assert first.holds()
        assert server.spec["holderIdentity"] == "a"
        for work in (keeps, waits):
            work.cancel()

    run(story)


def test_who_may_hold_no_lease_is_told_what_to_apply(clock: Clock) -> None:
    async def story(server: Server) -> None:
        server.refuses = KubeError(403, "leases is forbidden")
        with pytest.raises(CannotConnect, match=r"leases is forbidden: apply deploy/kubernetes/scheduler-rbac\.yaml"):
            await lease(server, "a").acquire()

    run(story)


def test_of_two_that_are_as_fast_one_has_it(clock: Clock) -> None:
    async def story(server: Server) -> None:
        works = [asyncio.create_task(lease(server, name).acquire()) for name in "abc"]
        done, left = await asyncio.wait(works, timeout=0.2)
        assert (len(done), len(left), server.spec["leaseTransitions"]) == (1, 2, 1)
        assert server.conflicts == 2
        for work in left:
            work.cancel()

    run(story)
