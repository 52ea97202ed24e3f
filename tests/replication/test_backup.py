"""A state that goes into a backup and begins a new cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from gosched.core.commands.cluster import SetFeatureLevel
from gosched.core.commands.command import Command
from gosched.core.features import NEWEST_LEVEL, FeatureLevel
from gosched.core.invariants.check_state import check
from gosched.core.records.node import NodeState
from gosched.core.state.cluster_state import ClusterState
from gosched.replication.backups.backup import RunningTasks, content, continued, found_from_backup, new_id, state_in
from gosched.replication.backups.restore import CannotRestore
from gosched.replication.disk.disk import PosixDisk
from gosched.replication.disk.journal_format import FILE as JOURNAL
from gosched.replication.replica_config import ReplicaConfig
from gosched.replication.snapshots.snapshot import FILE as SNAPSHOT
from gosched.state_machine import apply
from tests.replication.conftest import Cluster, a_node
from tests.state_machine import chaos


def busy_state(level: int = NEWEST_LEVEL) -> ClusterState:
    state = ClusterState(feature_level=FeatureLevel.FIRST)
    if level > FeatureLevel.FIRST:
        apply(state, Command(body=SetFeatureLevel(level=level, cluster_id="first"), at_ms=1))
    r = Random(7)
    for command in chaos.opening():
        apply(state, command)
    for command in chaos.commands(r, state, 600):
        apply(state, command)
    assert state.allocations
    return state


def backup(state: ClusterState) -> bytes:
    return b"".join(content(state))


@pytest.mark.parametrize("level", [FeatureLevel.FIRST, NEWEST_LEVEL])
def test_a_continued_state_keeps_all_but_its_name(level: int) -> None:
    state = busy_state(level)
    data = backup(state)
    assert state_in(data).digest() == state.digest()
    new = continued(state_in(data), RunningTasks.ADOPT, "second")
    assert (new.cluster_id, new.feature_level) == ("second", NEWEST_LEVEL)
    assert (dict(new.masters), new.leader) == ({}, ""), "nobody is sent to the masters before"
    assert new.lineage == (("first",) if state.cluster_id else ())
    assert (new.jobs, new.allocations, new.revision) == (state.jobs, state.allocations, state.revision)
    assert check(new) == []
    again = continued(state_in(backup(new)), RunningTasks.ADOPT, "third")
    assert again.lineage[-1] == "second"


def test_tasks_declared_lost_leave_no_allocation_and_no_living_node() -> None:
    new = continued(busy_state(), RunningTasks.LOST, "second")
    assert not new.allocations
    assert {node.state for node in new.nodes.values()} == {NodeState.DEAD}
    assert check(new) == []


def test_masters_that_begin_with_another_backup_or_choice_get_another_id() -> None:
    one, other = backup(busy_state()), backup(busy_state(FeatureLevel.FIRST))
    ids = {new_id("name", data, tasks) for data in (one, other) for tasks in RunningTasks}
    assert len(ids) == 4
    assert new_id("name", one, RunningTasks.ADOPT) in ids


def test_all_masters_get_the_same_log_and_only_into_an_empty_directory(tmp_path: Path) -> None:
    state = continued(busy_state(), RunningTasks.ADOPT, "second")
    configs = [ReplicaConfig(member=m, data_dir=str(tmp_path / m)) for m in ("a", "b")]
    for config in configs:
        found_from_backup(config, state)
    disks = [PosixDisk(config.folder) for config in configs]
    assert len({disk.read(SNAPSHOT) for disk in disks}) == 1
    assert len({disk.read(JOURNAL) for disk in disks}) == 1
    with pytest.raises(CannotRestore, match="is not empty, and a backup makes a new cluster"):
        found_from_backup(configs[0], state)


@pytest.mark.parametrize("empty", [0, 1])
def test_members_begin_with_the_restored_state_and_an_empty_one_joins_them(tmp_path: Path, empty: int) -> None:
    """Real replicas."""

    async def story() -> None:
        c = Cluster(tmp_path)
        state = continued(busy_state(), RunningTasks.ADOPT, "second")
        for member in list(c.configs)[empty:]:
            found_from_backup(c.configs[member], state)
        await c.start()
        try:
            await c.commit(a_node("newer"))
            await c.converged()
            for member in c.members.values():
                assert (member.state.cluster_id, member.state.lineage) == ("second", ("first",))
                assert member.state.jobs.keys() == state.jobs.keys()
                assert "newer" in member.state.nodes
        finally:
            await c.close()

    asyncio.run(story())
