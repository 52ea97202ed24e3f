"""Backups taken from a master: bounded in number, of the revision that was asked for, and read by any client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from gosched.client import GoSchedClient
from gosched.master.backups import backup_source
from gosched.master.backups.backup_source import BackupSource
from gosched.master.base.clock import StateClock, SystemClock
from gosched.master.base.errors import ApiError
from gosched.replication.backups.backup import state_in
from gosched.wire.v1 import cluster_pb2
from gosched.wire.v1.cluster_pb2 import BackupPart
from tests.master.harness import one_master, spec, two_masters, until


def test_a_follower_gives_a_backup_of_all_that_was_acknowledged() -> None:
    async def story() -> None:
        async with two_masters() as (_, first, second):
            job = (await first.submit(spec("acknowledged"))).job_id

            def take() -> bytes:
                with GoSchedClient(second.server.record.grpc_address) as client:
                    info, chunks = client.take_backup()
                    assert info.master == "m2"
                    return b"".join(chunks)

            assert job in state_in(await asyncio.to_thread(take)).jobs

    asyncio.run(story())


def test_no_more_than_a_few_are_open_at_once() -> None:
    async def story() -> None:
        async with one_master() as front:
            source = BackupSource(front.replication, StateClock(SystemClock(), masters=1, bound_ms=1000))
            open_ones: list[AsyncIterator[BackupPart]] = [source.parts(0) for _ in range(backup_source.MAX_AT_ONCE)]
            for one in open_ones:
                await anext(one)
            with pytest.raises(ApiError, match="2 backups are being taken from this master") as raised:
                await anext(source.parts(0))
            assert raised.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
            for one in open_ones:
                async for _ in one:
                    pass
            assert (await anext(source.parts(0))).info.master == "m1"

    asyncio.run(story())


def test_a_master_that_is_behind_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        monkeypatch.setattr(backup_source, "CATCH_UP_S", 0.2)
        async with two_masters() as (cluster, first, second):
            await until(lambda: second.state.revision == first.state.revision)
            cluster.members["m2"].cut_off = True
            wanted = cluster_pb2.TakeBackupRequest(min_revision=first.state.revision + 5)
            with pytest.raises(grpc.aio.AioRpcError, match="this master is behind, at revision"):
                await second.cluster.TakeBackup(wanted).read()

    asyncio.run(story())
