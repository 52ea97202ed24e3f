"""What releases have written, this one loads: data directories that were kept, of each release."""

from __future__ import annotations

import asyncio
import json
import tarfile
from pathlib import Path

import pytest

from gosched.core.commands.cluster import Noop
from gosched.core.commands.command import Command
from gosched.core.invariants.check_state import check
from gosched.replication.backups.offline import past_of_log
from gosched.replication.interface import Part
from gosched.replication.process import ProcessReplication
from gosched.replication.replica_config import ReplicaConfig
from tests.replication.conftest import until

ARCHIVES = sorted((Path(__file__).parent / "data").glob("*.tar.xz"))


def test_there_are_some_of_the_release_before_and_of_this_one() -> None:
    assert [archive.name for archive in ARCHIVES] == ["48dd9c3.tar.xz", "level-5.tar.xz"]


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: archive.name)
def test_a_log_and_a_snapshot_that_a_release_left_are_loaded_to_the_state_that_it_had(
    archive: Path, tmp_path: Path
) -> None:
    """By a real replica, which writes to them afterwards."""

    async def story() -> None:
        with tarfile.open(archive) as kept:
            kept.extractall(tmp_path, filter="data")
        folder = tmp_path / "m1"
        assert (folder / "raft" / "snapshot").exists(), "a log that was compacted once"
        seen = json.loads((folder / "seen.json").read_text())
        past = past_of_log(folder, seen["revision"]).state
        assert (past.digest(), len(past.jobs)) == (seen["digest"], seen["jobs"])
        for _ in range(2):
            member = ProcessReplication(ReplicaConfig(member="m1", data_dir=str(folder)))
            await member.start()
            try:
                await until(lambda m=member: m.role.part is Part.LEADER, what="it leads")
                await member.barrier()
                state = member.state
                assert (state.jobs, state.allocations, check(state)) == (past.jobs, past.allocations, [])
                assert state.revision == seen["revision"] + 1, "and the barrier"
                await member.propose([Command(body=Noop())])
                seen["revision"] += 2
            finally:
                await member.close()

    asyncio.run(story())
