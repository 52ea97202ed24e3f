"""Disks that fail: each is noticed, told in one line with the way out, and nothing is loaded or lost silently."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from gosched.replication.interface import ProposalFailed, ReplicaFailed
from gosched.wire.v1 import log_pb2, raft_pb2

from .conftest import a_node, cluster, until


async def committed_and_snapshotted(folder: Path) -> None:
    async with cluster(folder, size=1, compact_entries=20) as c:
        for i in range(50):
            await c.commit(a_node(f"n{i}"))
        await until((folder / "m1/raft/snapshot").exists, what="a snapshot")


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda raft: flip(raft / "snapshot"), "snapshot cannot be used: its checksum is wrong"),
        (lambda raft: (raft / "snapshot").unlink(), "snapshot is gone"),
        (lambda raft: (raft / "raft.journal").unlink(), "raft.journal is gone"),
        (lambda raft: (raft / "identity.json").unlink(), "identity.json is gone"),
        (lambda raft: (raft / "identity.json").write_text("{"), "identity.json is damaged"),
        (lambda raft: (raft / "peers.json").write_text("{"), "peers.json is damaged"),
    ],
)
def test_harm_to_a_file_stops_the_start_with_one_line(
    tmp_path: Path, harm: Callable[[Path], object], message: str
) -> None:
    async def story() -> None:
        if "peers" in message:
            async with cluster(tmp_path, size=3) as c:
                await c.commit(a_node("n1"))
        else:
            await committed_and_snapshotted(tmp_path)
        harm(tmp_path / "m1/raft")
        with pytest.raises(ReplicaFailed, match=message) as stopped:
            async with cluster(tmp_path, size=3 if "peers" in message else 1):
                pass
        assert "\n" not in str(stopped.value)

    asyncio.run(story())


def test_a_full_disk_stops_the_master_with_its_reason_and_loses_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        acknowledged = []
        async with cluster(tmp_path, size=1) as c:
            leader = await c.leader()
            journal = tmp_path / "m1/raft/raft.journal"
            limit = journal.stat().st_size + 20_000
            resource.prlimit(leader.pid, resource.RLIMIT_FSIZE, (limit, limit))
            with contextlib.suppress(ProposalFailed):
                for i in range(1000):
                    await leader.propose([a_node(f"n{i}")])
                    acknowledged.append(f"n{i}")
            await until(lambda: leader.failure, what="the replica ends")
            assert "Check the disk and the room on it" in leader.failure
            await leader.close()
            c.members.clear()
            await c.start()
            await c.barrier()
            again = await c.leader()
            assert [n for n in acknowledged if n not in again.state.nodes] == []
            assert 10 < len(acknowledged) < 1000

    asyncio.run(story())


def test_an_entry_of_a_newer_version_stops_the_replica_before_it_changes_anything(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, size=1) as c:
            leader = await c.leader()
            newer = log_pb2.CommandBatch(schema=99).SerializeToString()
            leader._send(raft_pb2.ReplicaFrame(propose=raft_pb2.Propose(proposal=1, batch=newer)))
            await until(lambda: leader.failure, what="the replica ends")
            assert "schema 99" in leader.failure
            assert "upgrade" in leader.failure

    asyncio.run(story())


def test_a_snapshot_that_cannot_be_put_in_place_ends_the_replica_and_loses_nothing(tmp_path: Path) -> None:
    """Hazard 5: here the file cannot be renamed into place, because a folder stands there."""

    async def story() -> None:
        async with cluster(tmp_path, size=1, compact_entries=20) as c:
            leader = await c.leader()
            (tmp_path / "m1/raft/snapshot").mkdir()
            acknowledged = []
            with contextlib.suppress(ProposalFailed):
                for i in range(1000):
                    await leader.propose([a_node(f"n{i}")])
                    acknowledged.append(f"n{i}")
            await until(lambda: leader.failure, what="the replica ends")
            assert "cannot rename" in leader.failure
            await leader.close()
            c.members.clear()
            (tmp_path / "m1/raft/snapshot").rmdir()
            await c.start()
            await c.barrier()
            again = await c.leader()
            assert [n for n in acknowledged if n not in again.state.nodes] == []

    asyncio.run(story())
