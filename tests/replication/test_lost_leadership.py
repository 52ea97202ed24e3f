"""When leadership is lost, what waits for a commit fails, and what nobody waits for any more leaves no complaint."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from gosched.core.commands.command import Command
from gosched.replication import group_commit
from gosched.replication.interface import Part, ProposalFailed, Role
from gosched.replication.process import ProcessReplication
from gosched.replication.replica_config import ReplicaConfig
from gosched.replication.snapshots.snapshot import FILE as SNAPSHOT
from gosched.wire.v1 import raft_pb2

from .conftest import LIMIT_S, a_node, cluster, until


def test_callers_that_end_before_or_as_leadership_is_lost_leave_no_error_that_nobody_retrieves(tmp_path: Path) -> None:
    async def story() -> None:
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with cluster(tmp_path) as c:
            await c.commit(a_node("n0"))
            leader = await c.leader()
            others = [member.pid for member in c.members.values() if member is not leader]
            for pid in others:
                os.kill(pid, signal.SIGSTOP)
            try:
                await _lose_leadership(leader)
            finally:
                for pid in others:
                    os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(0)
        gc.collect()
        await asyncio.sleep(0)
        assert not [c["message"] for c in complaints]

    asyncio.run(story())


async def _lose_leadership(leader: ProcessReplication) -> None:
    """With callers that are cancelled before that, callers that are cancelled in its very turn, and others."""
    before: list[asyncio.Task[Any]] = []
    meanwhile: list[asyncio.Task[Any]] = []
    stay: list[asyncio.Task[Any]] = []
    for i in range(10):
        for tasks in (before, meanwhile, stay):  # in turns of their own: callers of one turn share a barrier
            tasks.append(asyncio.ensure_future(leader.barrier(timeout_s=LIMIT_S)))
            tasks.append(asyncio.ensure_future(leader.propose([a_node(f"x{i}")], timeout_s=LIMIT_S)))
            await asyncio.sleep(0.01)
        for task in before:
            task.cancel()

    def on_role(role: Role) -> None:
        if role.part is not Part.LEADER:
            for task in meanwhile:
                task.cancel()

    leader.watch_role(on_role)  # as the leader's loops do
    await until(lambda: leader.role.part is not Part.LEADER, what="it has noticed")
    await until(lambda: all(task.done() for task in (*before, *meanwhile, *stay)), what="all have ended")
    assert all(isinstance(task.exception(), ProposalFailed) for task in stay)
    assert all(task.cancelled() for task in meanwhile)
    meanwhile.clear()  # the listener stays


def test_waiting_commands_are_bounded_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted until they are on their way, or given up."""

    async def story() -> None:
        replication = ProcessReplication(ReplicaConfig(member="m1", data_dir=str(tmp_path)))
        await replication.start()
        try:
            await until(lambda: replication.role.part is Part.LEADER, what="it leads")
            monkeypatch.setattr(group_commit, "MAX_WAITING_BYTES", 100_000)

            def large(i: int) -> Command:
                return a_node("n" * 200, request_id=f"{i:0200d}")

            results = await asyncio.gather(
                *(replication.propose([large(i)] * 10) for i in range(100)), return_exceptions=True
            )
            refused = [r for r in results if isinstance(r, ProposalFailed)]
            assert 0 < len(refused) < 100
            assert {str(r) for r in refused} == {"too many bytes of commands wait to be committed; try again"}
            assert all(r.definite for r in refused)
            assert replication._proposals.queued_bytes == 0
            await replication.propose([large(1)] * 10)
        finally:
            await replication.close()

    asyncio.run(story())


def test_an_entry_whose_end_a_snapshot_hides_keeps_no_other_waiting(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, size=1) as c:
            await c.commit(a_node("n1"))
            leader = await c.leader()
            await leader.take_snapshot()
            snapshot = tmp_path / "m1" / "raft" / SNAPSHOT
            await until(snapshot.exists, what="the file is there")
            os.kill(leader.pid, signal.SIGSTOP)
            try:
                sent = asyncio.create_task(leader.propose([a_node("n2")], timeout_s=LIMIT_S))
                await asyncio.sleep(0.1)
                waiting = asyncio.create_task(leader.propose([a_node("n3")], timeout_s=LIMIT_S))
                await asyncio.sleep(0.1)
                slow = tmp_path / "slow"  # whoever reads it waits until it is written
                os.mkfifo(slow)
                ready = raft_pb2.SnapshotReady(path=str(slow), index=leader.role.applied_index)
                loading = asyncio.create_task(leader._take(raft_pb2.ReplicaFrame(snapshot=ready)))
                try:
                    with pytest.raises(ProposalFailed, match="snapshot") as failed:
                        await sent
                    assert not failed.value.definite
                    assert not loading.done()
                finally:
                    slow.write_bytes(snapshot.read_bytes())
                await loading
            finally:
                os.kill(leader.pid, signal.SIGCONT)
            await waiting
            assert {"n1", "n2", "n3"} <= leader.state.nodes.keys()

    asyncio.run(story())
