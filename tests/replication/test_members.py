"""Members are added and removed while the cluster works: real replicas, on loopback."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gosched.core.commands.cluster import SetFeatureLevel
from gosched.core.commands.command import Command
from gosched.core.features import NEWEST_LEVEL
from gosched.replication.backups.restore import restore
from gosched.replication.interface import ChangeRefused, ReplicaFailed
from gosched.replication.process import ProcessReplication
from gosched.replication.replica_config import ReplicaConfig
from tests.ports import HeldPort

from .conftest import LIMIT_S, Cluster, a_node, cluster, until

NAMED = Command(body=SetFeatureLevel(level=NEWEST_LEVEL, cluster_id="c-1"))


def one_more(c: Cluster, folder: Path, member: str, **changes: object) -> str:
    """Configure another member, whose config lists the first ones; return its address."""
    port = c.ports[member] = HeldPort()
    seeds = {m: config.bind_addr for m, config in list(c.configs.items())[:2]}
    made = ReplicaConfig(member=member, bind_addr=port.address, peers=seeds, data_dir=str(folder / member))
    c.configs[member] = replace(made, **changes)  # type: ignore[arg-type]
    return port.address


async def change(c: Cluster, member: str, address: str = "") -> None:
    """Until the change is committed, whoever leads, and however long the others need to be heard."""
    deadline = asyncio.get_running_loop().time() + LIMIT_S
    while True:
        leader = await c.leader()
        try:
            await leader.change_members(member, address)
            break
        except ChangeRefused:
            if asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(0.05)
    wanted = {member: True} if address else {}
    await until(lambda: {m: v for m, v in voting(c).items() if m == member} == wanted, what=f"{member} is changed")


def voting(c: Cluster) -> dict[str, bool]:
    newest = max((m.state for m in c.members.values()), key=lambda state: state.revision).configuration
    return {m.id: m.voter for m in newest.members} if newest is not None else {}


def test_three_become_five_and_three_again_and_those_removed_stop_by_themselves(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, compact_entries=30) as c:
            await c.commit(NAMED)
            for i in range(50):
                await c.commit(a_node(f"n{i}"))
            for member in ("m4", "m5"):
                address = one_more(c, tmp_path, member)
                await c.start(member)
                await change(c, member, address)
                await c.commit(a_node(f"with-{member}"))
            await c.converged()
            assert voting(c) == dict.fromkeys(["m1", "m2", "m3", "m4", "m5"], True)
            for member in ("m1", "m2"):
                await change(c, member)
                gone = c.members.pop(member)
                await until(lambda gone=gone: gone.failure, what=f"{member} ends")
                assert f"{member} was removed from the cluster" in gone.failure
                await gone.close()
                await c.commit(a_node(f"without-{member}"))
            await c.converged()
            assert len(c.members["m5"].state.nodes) == 54
            # m3's config lists m1 and m2, which are gone, and neither m4 nor m5.
            await asyncio.gather(*(c.kill(m) for m in list(c.members)))
            await c.start("m3", "m4", "m5")
            await c.commit(a_node("again"))
            await c.converged()
            with pytest.raises(ReplicaFailed, match="m1 was removed from the cluster"):
                await ProcessReplication(c.configs["m1"]).start()

    asyncio.run(story())


def test_a_dead_member_is_replaced_with_no_config_edited_and_its_disk_hears_that_it_is_out(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as c:
            await c.commit(NAMED, a_node("n1"))
            await c.converged()
            await c.kill("m2")
            await change(c, "m2")
            address = one_more(c, tmp_path, "m4")
            await c.start("m4")
            await change(c, "m4", address)
            await c.commit(a_node("n2"))
            await c.start("m2")  # it was away
            returned = c.members.pop("m2")
            await until(lambda: returned.failure, what="m2 hears it")
            assert "m2 was removed from the cluster" in returned.failure
            await returned.close()
            shutil.rmtree(tmp_path / "m2")
            await c.start("m2")  # with an empty disk it waits to be added
            await change(c, "m2", c.configs["m2"].bind_addr)
            await c.converged()
            assert voting(c) == dict.fromkeys(["m1", "m2", "m3", "m4"], True)

    asyncio.run(story())


def test_one_that_is_removed_does_not_ask_to_be_added_though_its_config_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, join=True) as c:
            await c.commit(NAMED)
            leader = await c.leader()
            removed = next(m for m in c.members if c.members[m] is not leader)
            await change(c, removed)
            await until(lambda: c.members[removed].failure, what="it is told")
            others = [m for name, m in c.members.items() if name != removed]
            assert not any(m.role.applicants for m in others)

    asyncio.run(story())


def test_the_wish_of_one_that_was_added_is_forgotten_so_that_it_cannot_undo_a_removal(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, join=True) as c:
            await c.commit(NAMED)
            address = one_more(c, tmp_path, "m4", join=True)
            await c.start("m4")
            others = [c.members[m] for m in ("m1", "m2")]  # those that it dials
            await until(lambda: all("m4" in m.role.applicants for m in others), what="they hear its wish")
            adding = asyncio.create_task(change(c, "m4", address))
            await until(lambda: "m4" in voting(c), what="it is a learner")
            await until(lambda: not any(m.role.applicants for m in others), 2.0, what="they forget it at once")
            await adding

    asyncio.run(story())


def test_a_cluster_of_one_grows_and_a_member_that_only_lists_one_seed_finds_all(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, size=1) as c:
            await c.commit(NAMED, a_node("n1"))
            for member in ("m2", "m3"):
                address = one_more(c, tmp_path, member, peers={"m1": c.configs["m1"].bind_addr})
                await c.start(member)
                await change(c, member, address)
            await c.converged()
            await c.kill("m1")
            await c.commit(a_node("n2"))  # m2 and m3 know each other by the log

    asyncio.run(story())


def test_what_cannot_be_done_is_refused_with_what_to_do(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as c:
            leader = await c.leader()
            with pytest.raises(ChangeRefused, match="from feature level 5 on: upgrade all masters"):
                await leader.change_members("m4", "127.0.0.1:1")
            await c.commit(NAMED)
            await until(lambda: voting(c), what="the members are named")
            known = c.configs["m1"].bind_addr
            for member, address, why in (
                ("m1", "127.0.0.1:1", "m1 is a master already, at"),
                ("m4", known, f"{known} is the Raft address of m1"),
            ):
                leader = await c.leader()
                with pytest.raises(ChangeRefused, match=why) as refused:
                    await leader.change_members(member, address)
                assert not refused.value.again
            follower = next(m for m in c.members.values() if m is not leader)
            with pytest.raises(ChangeRefused, match="does not lead"):
                await follower.change_members("m4", "127.0.0.1:1")
            dead, left = [m for m in c.members if c.members[m] is not leader]
            await c.kill(dead)
            await until(lambda: dead not in leader.role.connected, what="it is missed")
            await asyncio.sleep(2)
            with pytest.raises(ChangeRefused, match=f"without {left} the masters had no majority: {dead} is not"):
                await leader.change_members(left, "")
            await change(c, dead)

    asyncio.run(story())


def test_a_cluster_is_restored_from_one_directory_under_other_ids(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path / "old", compact_entries=20) as c:
            await c.commit(NAMED)
            for i in range(30):
                await c.commit(a_node(f"n{i}"))
            await c.converged()
            await asyncio.gather(*(c.kill(m) for m in list(c.members)))
        new = Cluster(tmp_path / "new", size=2)
        for number, member in enumerate(list(new.configs)):  # m1 and m2 again, at other addresses, and no m3
            restore(tmp_path / "old" / f"m{number + 2}", new.configs[member])
        try:
            await new.start()
            await new.commit(a_node("after"))
            await new.converged()
            assert voting(new) == {"m1": True, "m2": True}
            assert len(new.members["m1"].state.nodes) == 31
        finally:
            await new.close()

    asyncio.run(story())
