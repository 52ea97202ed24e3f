"""Three real replica processes: commit, failover, restart, pauses, snapshots, wiped disks, TLS."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from gosched.core.outcome import Accepted, Code, Rejected
from gosched.replication.interface import Part, ProposalFailed, ReplicaFailed
from gosched.replication.process import ProcessReplication
from gosched.replication.replica_config import ReplicaConfig
from tests.ports import HeldPort

from .conftest import Cluster, a_node, cluster, until


def test_a_committed_command_is_applied_by_all_with_the_same_digest(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as c:
            outcomes = await c.commit(a_node("n1"), a_node("n2"))
            assert all(isinstance(o, Accepted) for o in outcomes)
            await c.converged()
            for member in c.members.values():
                assert set(member.state.nodes) == {"n1", "n2"}

    asyncio.run(story())


def test_a_cluster_of_one_commits_and_is_back_after_kill_9(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, size=1) as c:
            await c.commit(a_node("n1"))
            digest = c.members["m1"].state.digest()
            await c.kill("m1")
            await c.start("m1")
            await until(lambda: c.members["m1"].state.revision == 1, what="the log is back")
            assert c.members["m1"].state.digest() == digest

    asyncio.run(story())


def test_no_acknowledged_command_is_lost_when_leaders_are_killed_under_load(tmp_path: Path) -> None:
    async def story() -> None:
        acknowledged: list[str] = []
        async with cluster(tmp_path) as c:
            stop = asyncio.Event()

            async def client(k: int) -> None:
                i = 0
                while not stop.is_set():
                    name = f"n{k}-{i}"
                    i += 1
                    outcome = (await c.commit(a_node(name, request_id=name)))[0]
                    assert isinstance(outcome, Accepted)
                    acknowledged.append(name)

            clients = [asyncio.create_task(client(k)) for k in range(4)]
            for _ in range(4):
                seen = len(acknowledged)
                await until(lambda seen=seen: len(acknowledged) > seen + 20, what="progress")
                killed = (await c.leader()).member_id
                await c.kill(killed)
                seen = len(acknowledged)
                await until(lambda seen=seen: len(acknowledged) > seen + 20, what="progress after failover")
                await c.start(killed)
            stop.set()
            await asyncio.gather(*clients)
            await c.converged()
            nodes = (await c.leader()).state.nodes
            assert [n for n in acknowledged if n not in nodes] == []
            assert len(acknowledged) > 160

    asyncio.run(story())


def test_a_restart_of_all_at_once_brings_back_the_same_state(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as c:
            for i in range(50):
                await c.commit(a_node(f"n{i}"))
            await c.converged()
            await asyncio.gather(*(c.kill(m) for m in list(c.members)))
            await c.start()
            await c.barrier()
            await c.converged()
            leader = await c.leader()
            assert {n.id for n in leader.state.nodes.values()} == {f"n{i}" for i in range(50)}
            # The barrier is a command too, and what failed for want of a leader may have been committed all the same.
            assert 51 <= leader.state.revision <= c.tries

    asyncio.run(story())


def test_a_stopped_leader_is_replaced_and_its_proposals_change_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as c:
            await c.commit(a_node("before"))
            old = await c.leader()
            os.kill(old.pid, signal.SIGSTOP)
            stale = asyncio.create_task(old.propose([a_node("stale")], timeout_s=3))
            others = [m for m in c.members.values() if m is not old]
            await until(lambda: any(m.role.part is Part.LEADER for m in others), what="a new leader")
            await c.commit(a_node("after", request_id="after"))
            os.kill(old.pid, signal.SIGCONT)
            with pytest.raises(ProposalFailed):
                await stale
            await until(lambda: old.role.part is not Part.LEADER, what="the old leader steps down")
            await c.converged()
            assert set(old.state.nodes) == {"before", "after"}

    asyncio.run(story())


def test_without_a_majority_nothing_is_acknowledged(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as c:
            await c.commit(a_node("n1"))
            leader = await c.leader()
            for m in [m for m in c.members if m != leader.member_id]:
                await c.kill(m)
            with pytest.raises(ProposalFailed):
                await leader.propose([a_node("n2")], timeout_s=3)
            await until(lambda: leader.role.part is not Part.LEADER, what="it steps down")
            with pytest.raises(ProposalFailed) as refused:
                await leader.propose([a_node("n3")], timeout_s=3)
            assert refused.value.definite

    asyncio.run(story())


def test_a_member_far_behind_gets_a_snapshot_and_its_front_follows(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, compact_entries=40) as c:
            await c.commit(a_node("first"))
            lagging = next(m for m in c.members if m != c.members[m].role.leader)
            await c.kill(lagging)
            for i in range(200):
                await c.commit(a_node(f"n{i}", at_ms=i))
            leader = await c.leader()
            await c.start(lagging)
            await c.converged()
            assert len(c.members[lagging].state.nodes) == 201
            assert c.members[lagging].state.digest() == leader.state.digest()
            await asyncio.gather(*(c.kill(m) for m in list(c.members)))
            await c.start()
            await c.commit(a_node("last"))
            await c.converged()
            assert all(len(m.state.nodes) == 202 for m in c.members.values())

    asyncio.run(story())


def test_a_wiped_master_joins_without_a_vote_whatever_its_config_says(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as c:
            await c.commit(a_node("n1"))
            await c.converged()
            for bootstrap in (True, False):
                victim = next(m for m in c.members if m != c.members[m].role.leader)
                await c.kill(victim)
                shutil.rmtree(tmp_path / victim)
                c.configs[victim] = replace(c.configs[victim], bootstrap=bootstrap)
                await c.start(victim)
                await c.commit(a_node(f"n2 {bootstrap}"))
                await c.converged()
                assert "n1" in c.members[victim].state.nodes
                identity = (tmp_path / victim / "raft/identity.json").read_text()
                assert '"joining": true' in identity or '"joined": true' in identity

    asyncio.run(story())


def test_a_wiped_master_stays_connected_while_it_is_silent_on_purpose(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as c:
            await c.commit(a_node("n1"))
            await c.converged()
            leader = await c.leader()
            victim = next(m for m in c.members if c.members[m] is not leader)
            await c.kill(victim)
            shutil.rmtree(tmp_path / victim)
            await c.start(victim)
            await until(lambda: victim in leader.role.connected, what=f"{victim} is connected")
            seen: list[bool] = []
            leader.watch_role(lambda role: seen.append(victim in role.connected))
            identity = tmp_path / victim / "raft/identity.json"
            await until(lambda: '"joined": true' in identity.read_text(), what=f"{victim} votes")
            assert leader.role.part is Part.LEADER
            assert all(seen), "its connection was closed"

    asyncio.run(story())


def test_a_damaged_log_and_a_taken_port_each_stop_the_start_with_one_line(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, size=1) as c:
            for i in range(20):
                await c.commit(a_node(f"n{i}"))
        file = tmp_path / "m1" / "raft" / "raft.journal"
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
        with pytest.raises(ReplicaFailed, match=r"damaged at byte \d+") as damaged:
            await c.start()
        assert "\n" not in str(damaged.value)
        port = HeldPort()
        taken = ReplicaConfig(
            member="a", bind_addr=port.address, peers={"b": "127.0.0.1:1"}, data_dir=str(tmp_path / "a")
        )
        first = ProcessReplication(taken)
        await first.start()
        try:
            with pytest.raises(ReplicaFailed, match=f"cannot listen on .*{port.number}"):
                await ProcessReplication(replace(taken, data_dir=str(tmp_path / "b"))).start()
        finally:
            await first.close()

    asyncio.run(story())


def test_a_repeated_request_gets_the_first_answer_after_a_failover(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as c:
            first = await c.commit(a_node("n1", request_id="r1"))
            await c.kill((await c.leader()).member_id)
            revision = await _repeat(c)
            assert first[0] == revision

    async def _repeat(c: Cluster) -> object:
        outcome = (await c.commit(a_node("other", request_id="r1")))[0]
        assert "other" not in (await c.leader()).state.nodes
        return outcome

    asyncio.run(story())


def test_a_snapshot_is_taken_on_request(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, size=1) as c:
            await c.commit(a_node("n1"))
            await c.members["m1"].take_snapshot()
            await until((tmp_path / "m1/raft/snapshot").exists, what="the file is there")
            await c.kill("m1")
            await c.start("m1")
            await until(lambda: "n1" in c.members["m1"].state.nodes, what="the state is back from it")

    asyncio.run(story())


def test_leadership_moves_on_request(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as c:
            await c.commit(a_node("n1"))
            await c.converged()
            old = await c.leader()
            await old.transfer_leadership()
            await until(lambda: old.role.part is not Part.LEADER, what="it gave leadership up")
            others = [m for m in c.members.values() if m is not old]
            await until(lambda: any(m.role.part is Part.LEADER for m in others), what="another one leads")

    asyncio.run(story())


def test_an_entry_that_is_too_large_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as c:
            leader = await c.leader()
            with pytest.raises(ProposalFailed, match="more than fit") as refused:
                await leader.propose([a_node("x" * 600_000)])
            assert refused.value.definite
            outcome = (await c.commit(a_node("n1")))[0]
            assert not isinstance(outcome, Rejected) or outcome.code is not Code.INVALID

    asyncio.run(story())
