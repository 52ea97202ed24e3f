"""What a master's health port says of its replica."""

from __future__ import annotations

import asyncio

import pytest

from gosched.health import ask
from gosched.master.server import MAX_SILENCE_S
from gosched.replication.memory import MemoryReplication
from tests.master.harness import one_master
from tests.ports import HeldPort


def test_a_master_whose_replica_stands_still_does_not_live(monkeypatch: pytest.MonkeyPatch) -> None:
    silent_s = 0.0
    monkeypatch.setattr(MemoryReplication, "silent_s", property(lambda self: silent_s))
    port = HeldPort()
    server = {"grpc_addr": "127.0.0.1:0", "http_addr": "127.0.0.1:0", "health_addr": port.address}

    async def story() -> None:
        nonlocal silent_s
        async with one_master(server=server):
            assert await asyncio.to_thread(ask, port.address, "") == ""
            silent_s = MAX_SILENCE_S + 1
            assert await asyncio.to_thread(ask, port.address, "") == "this process is NOT_SERVING"

    asyncio.run(story())
