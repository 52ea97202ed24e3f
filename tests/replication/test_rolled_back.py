"""A disk that is an older copy of itself, or fails: no acknowledged entry is lost without a word. Real processes."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gosched.core.commands.cluster import SetFeatureLevel
from gosched.core.commands.command import Command
from gosched.core.features import NEWEST_LEVEL
from gosched.replication.backups.restore import restore
from gosched.replication.interface import ProposalFailed
from gosched.replication.peer_messages import REGULAR
from gosched.replication.raft.raft_rules import LogsDiverged
from tests.chaos.faults import DiskFault, Faults, environment, set_faults

from .certificates import Authority
from .conftest import Cluster, a_node, cluster, until
from .test_hazards_rules import bench


def a_follower(c: Cluster) -> str:
    leader = next(m.role.leader for m in c.members.values() if m.role.leader)
    return next(m for m in c.members if m != leader)


@contextlib.asynccontextmanager
async def cluster_with_certificates(folder: Path) -> AsyncIterator[Cluster]:
    """Only with certificates, or from the side that dials, is a member believed that another one is to stop."""
    authority = Authority(folder / "ca")
    c = Cluster(folder)
    c.configs = {m: replace(config, tls=authority.files(m)) for m, config in c.configs.items()}
    try:
        await c.start()
        yield c
    finally:
        await c.close()


def copy(folder: Path, copy_to: Path) -> None:
    shutil.rmtree(copy_to, ignore_errors=True)
    shutil.copytree(folder, copy_to)


@pytest.mark.parametrize(
    ("again_before_the_copy_is_used", "said"),
    [(True, "comes with an older copy of its data directory"), (False, "acknowledged entries up to")],
)
def test_a_follower_that_comes_back_with_an_older_copy_is_refused_and_told(
    tmp_path: Path, again_before_the_copy_is_used: bool, said: str
) -> None:
    async def story() -> None:
        async with cluster_with_certificates(tmp_path) as c:
            await c.commit(a_node("n0"))
            await c.converged()
            follower = a_follower(c)
            if again_before_the_copy_is_used:
                await c.kill(follower)
            copy(tmp_path / follower, tmp_path / "copy")
            if again_before_the_copy_is_used:
                await c.start(follower)
            for i in range(30):
                await c.commit(a_node(f"n{i}"))
            await c.converged()
            await c.kill(follower)
            copy(tmp_path / "copy", tmp_path / follower)
            await c.start(follower)
            await until(lambda: c.members[follower].failure, what="it is told, and stops")
            stopped = c.members.pop(follower)
            assert said in stopped.failure
            assert "Never restore the copy of one master (docs/operations/masters.md)" in stopped.failure
            await stopped.close()
            shutil.rmtree(tmp_path / follower)
            await c.start(follower)
            await c.commit(a_node("last"))
            await c.converged()
            assert len(c.members[follower].state.nodes) == 31

    asyncio.run(story())


def test_a_majority_that_was_rolled_back_stops_and_the_member_that_holds_its_entries_restores_the_cluster(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as c:
            await c.commit(Command(body=SetFeatureLevel(level=NEWEST_LEVEL, cluster_id="c-1")))
            await c.converged()
            kept = (await c.leader()).member_id
            others = [m for m in c.members if m != kept]
            for m in others:
                copy(tmp_path / m, tmp_path / f"copy of {m}")
            for i in range(28):
                await c.commit(a_node(f"n{i}"))
            await c.converged()
            await asyncio.gather(*(c.kill(m) for m in list(c.members)))
            for m in others:
                copy(tmp_path / f"copy of {m}", tmp_path / m)
            await c.start(*others)
            await c.commit(a_node("by the rolled-back majority"))
            await c.start(kept)
            await until(lambda: c.members[kept].failure, what="the member that holds them stops")
            stopped = c.members.pop(kept)
            assert "this master holds entries that were committed up to" in stopped.failure
            assert "Keep its data directory and do not wipe it" in stopped.failure
            await stopped.close()
            await asyncio.gather(*(c.kill(m) for m in others))
            for m in others:
                shutil.rmtree(tmp_path / m)
                restore(tmp_path / kept, c.configs[m])
            await c.start()
            await c.commit(a_node("after"))
            await c.converged()
            assert {f"n{i}" for i in range(28)} <= set(c.members[kept].state.nodes)

    asyncio.run(story())


@pytest.mark.parametrize("contradiction", ["in an entry", "in what the leader takes for common", "by a commit on disk"])
def test_a_leader_that_lacks_a_committed_entry_is_not_followed(contradiction: str) -> None:
    with bench() as it:
        it.follow(prevLogIdx=1, prevLogTerm=0, entries=[(REGULAR + b"x", index, 1) for index in range(2, 9)])
        it.follow(prevLogIdx=8, prevLogTerm=1, entries=[], commit_index=6)
        it.tick()
        if contradiction == "by a commit on disk":
            it.node._SyncObj__raftLastApplied = 1  # as after a start, before the log is applied
        message = {"prevLogIdx": 4, "prevLogTerm": 1, "entries": [(REGULAR + b"y", 5, 4)]}
        if contradiction == "in what the leader takes for common":
            message = {"prevLogIdx": 5, "prevLogTerm": 4, "entries": []}
        with pytest.raises(LogsDiverged, match="committed up to 6; b leads without them"):
            it.follow(term=5, **message)
        assert it.journal.last_index == 8, "nothing is cut"


@pytest.mark.parametrize(
    ("where", "call", "act"),
    [
        ("vote", "fdatasync", "leader killed"),
        ("raft.journal", "fdatasync", "commit"),
        ("raft.journal", "write", "commit"),
    ],
)
def test_a_disk_that_fails_once_on_two_followers_ends_both_and_nothing_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, call: str, act: str
) -> None:
    """48dd9c3 took the error for one of the peer's connection, lived on, and elected a leader."""
    control = tmp_path / "faults.json"
    for name, value in environment(control).items():
        monkeypatch.setenv(name, value)

    async def story() -> None:
        async with cluster(tmp_path) as c:
            acknowledged = []
            for i in range(5):
                await c.commit(a_node(f"n{i}"))
                acknowledged.append(f"n{i}")
            await c.converged()
            leader = (await c.leader()).member_id
            others = [m for m in c.members if m != leader]
            faults = tuple(DiskFault(match=f"/{m}/raft/{where}", error="EIO", times=1) for m in others)
            set_faults(control, Faults(calls={call: faults}))
            await asyncio.sleep(0.1)  # until it holds
            if act == "commit":
                with pytest.raises(ProposalFailed):
                    await c.members[leader].propose([a_node("lost?")], timeout_s=1)
            else:
                await c.kill(leader)
                await until(lambda: any(c.members[m].failure for m in others), what="its own vote ends one")
                await c.start(leader)  # asks the other one for its vote
            for m in others:
                await until(lambda m=m: c.members[m].failure, what=f"{m} ends")  # type: ignore[misc]
                assert "Input/output error" in c.members[m].failure
                assert "Check the disk and the room on it" in c.members[m].failure
                await c.members.pop(m).close()
            set_faults(control, Faults())
            await c.start(*others)
            await c.commit(a_node("after"))
            assert set(acknowledged) <= set((await c.leader()).state.nodes)

    asyncio.run(story())
