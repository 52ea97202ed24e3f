"""A cluster is founded once: empty directories, strangers and other clusters, on real replica processes."""

from __future__ import annotations

import asyncio
import shutil
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from gosched.core.commands.cluster import SetFeatureLevel
from gosched.core.commands.command import Command
from gosched.core.features import NEWEST_LEVEL
from gosched.replication.backups.restore import restore
from gosched.replication.interface import Part, ReplicaFailed
from gosched.replication.process import ProcessReplication
from gosched.replication.replica_config import split_address
from gosched.wire.v1 import raft_pb2

from .conftest import LIMIT_S, Cluster, a_node, cluster, until
from .test_transport import framed

WATCHED_S = 6.0  # longer than an election, and than a member that joins keeps quiet


def name_the_cluster(cluster_id: str) -> Command:
    return Command(body=SetFeatureLevel(level=NEWEST_LEVEL, cluster_id=cluster_id))


async def no_leader(c: Cluster) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + WATCHED_S
    while loop.time() < end:
        assert all(m.role.part is not Part.LEADER for m in c.members.values())
        assert not any(m.failure for m in c.members.values())
        await asyncio.sleep(0.05)


async def stop_all(c: Cluster) -> None:
    await asyncio.gather(*(c.kill(m) for m in list(c.members)))


def test_two_wiped_masters_of_three_found_nothing_and_one_directory_restores_the_cluster(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, compact_entries=30) as c:
            await c.commit(name_the_cluster("c-1"))
            for i in range(50):
                await c.commit(a_node(f"n{i}"))
            await c.converged()
            await stop_all(c)
            for m in ("m1", "m2"):
                shutil.rmtree(tmp_path / m)
            await c.start("m1", "m2")
            await no_leader(c)
            await c.start("m3")
            await no_leader(c)  # m3 alone holds the log, and alone it may not go on
            assert c.members["m3"].state.nodes, "what it knows to be committed is there"
            await stop_all(c)
            for m in ("m1", "m2"):
                shutil.rmtree(tmp_path / m)
                restore(tmp_path / "m3", c.configs[m])
            await c.start()
            await c.commit(a_node("after"))
            await c.converged()
            assert len(c.members["m1"].state.nodes) == 51

    asyncio.run(story())


def test_a_new_cluster_waits_for_all_of_its_members_and_says_for_which(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def story() -> None:
        c = Cluster(tmp_path)
        try:
            await c.start("m1", "m2")
            await no_leader(c)
            assert '"missing": ["m3"]' in capfd.readouterr().err
            await c.start("m3")
            await c.commit(a_node("n1"))
            await c.converged()
        finally:
            await c.close()

    asyncio.run(story())


def test_a_master_of_another_cluster_is_kept_out_and_nobody_stops(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def story() -> None:
        async with cluster(tmp_path / "x") as c:
            await c.commit(name_the_cluster("c-x"), a_node("x"))
            await c.converged()
            await c.kill("m3")
            async with cluster(tmp_path / "y") as other:
                await other.commit(name_the_cluster("c-y"), a_node("y"))
                await other.converged()
                await asyncio.sleep(0.1)  # a tick: the id is in its identity
            stranger = replace(c.configs["m3"], data_dir=str(tmp_path / "y" / "m3"))
            c.members["m3"] = ProcessReplication(stranger)
            await c.members["m3"].start()
            said = ""

            def both_said_it() -> bool:
                nonlocal said
                said += capfd.readouterr().err
                return "m3 belongs to cluster c-y" in said and "m1 belongs to cluster c-x" in said

            await until(both_said_it, what="both sides log it")
            assert "keep both data directories" in said
            await c.commit(a_node("x2"))
            assert not any(m.failure for m in c.members.values())
            assert set(c.members["m3"].state.nodes) == {"y"}

    asyncio.run(story())


def test_forged_introductions_lock_nobody_out_and_stop_nobody(tmp_path: Path) -> None:
    """Without TLS: a hello alone leaves no trace, and a refusal counts only from an address that was dialled."""

    async def story() -> None:
        async with cluster(tmp_path) as c:
            await c.commit(name_the_cluster("c-1"))
            await c.converged()
            common = {"cluster": c.configs["m1"].cluster, "protocol": 1}
            forged = [
                {"disk": "forged", "boot": 1 << 60, "run": "r", "joining": True},
                {"disk": "forged", "boot": 1 << 60, "run": "r", "empty": True},
                {"disk": "forged", "refusal": "go away"},
                {"disk": "forged", "cluster_id": "c-2"},
            ]
            for target in c.configs:
                for member in c.configs:
                    for fields in forged:
                        if member == target:
                            continue
                        hello = raft_pb2.PeerHello(member=member, **common, **fields)  # type: ignore[arg-type]
                        address = split_address(c.configs[target].bind_addr)
                        with socket.create_connection(address, timeout=LIMIT_S) as sock:
                            sock.sendall(framed(raft_pb2.PeerFrame(hello=hello).SerializeToString()))
                            sock.recv(1)
            await c.commit(a_node("n1"))
            assert not any(m.failure for m in c.members.values())
            assert not any("forged" in file.read_text() for file in tmp_path.glob("*/raft/peers.json"))
            for m in list(c.members):
                await c.kill(m)
                await c.start(m)
                await c.commit(a_node(f"after {m}"))
            await c.converged()

    asyncio.run(story())


def test_a_second_master_on_one_data_directory_is_refused_and_named(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, size=1) as c:
            await c.commit(a_node("n1"))
            pid = c.members["m1"].pid
            with pytest.raises(ReplicaFailed, match=f"in use by process {pid}: two masters must not share") as refused:
                await ProcessReplication(c.configs["m1"]).start()
            assert "\n" not in str(refused.value)
            await c.commit(a_node("n2"))

    asyncio.run(story())


def test_a_restore_refuses_a_directory_in_use_and_one_that_is_not_empty(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, size=1) as c:
            await c.commit(a_node("n1"))
            target = replace(c.configs["m1"], data_dir=str(tmp_path / "m2"))
            with pytest.raises(Exception, match="in use by process"):
                await asyncio.to_thread(restore, tmp_path / "m1", target)
            await c.kill("m1")
            with pytest.raises(Exception, match="not empty"):
                restore(tmp_path / "m1", c.configs["m1"])
            restore(tmp_path / "m1", target)
            with pytest.raises(Exception, match="has no raft"):
                restore(tmp_path, replace(target, data_dir=str(tmp_path / "m3")))

    asyncio.run(story())
