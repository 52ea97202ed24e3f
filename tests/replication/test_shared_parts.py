"""Real replica processes: what equal specs share is on the disk once, and once in the memory of who starts from it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gosched.core.commands.cluster import PassTime, SetFeatureLevel, SetQueues
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import SubmitJob
from gosched.core.features import NEWEST_LEVEL
from gosched.core.outcome import Accepted
from gosched.core.records.queue import Queue
from gosched.core.spec.array import Array
from gosched.core.state.cluster_state import ClusterState
from tests.replication.conftest import Cluster, cluster, until
from tests.state_machine.cluster import group, spec

ENVIRONMENT = tuple((f"V{number:03}", "x" * 1000) for number in range(250))
CHILDREN = 400


def test_an_array_with_a_large_environment_makes_a_small_snapshot_which_others_start_from(tmp_path: Path) -> None:
    """A child had its parent's whole spec: the file had 101 MB, and there were 401 copies after a restart."""
    array = Array(last=CHILDREN - 1, step=1, parallelism=CHILDREN)
    wanted = spec("a", group("w", env=ENVIRONMENT), array=array)

    async def story() -> None:
        async with cluster(tmp_path) as c:
            await _do(
                c, SetFeatureLevel(level=NEWEST_LEVEL, cluster_id="c"), SetQueues(queues=(Queue(path="default"),))
            )
            await _do(c, SubmitJob(job_id="a", spec=wanted), PassTime())
            await c.converged()
            leader = await c.leader()
            await leader.take_snapshot()
            files = [tmp_path / m / "raft/snapshot" for m in c.members]
            await until(lambda: any(file.exists() for file in files), what="the file is there")
            assert all(file.stat().st_size < 1_000_000 for file in files if file.exists())
            jobs, total = leader.state.jobs, leader.state.footprint.total
            assert total < 2_000_000
            await asyncio.gather(*(c.kill(m) for m in list(c.members)))
            await c.start()
            await c.barrier()
            await c.converged()
            for member in c.members.values():
                assert member.state.jobs == jobs
                assert len(jobs) == CHILDREN + 1
                assert _environments(member.state) == 1
                assert member.state.footprint.total == total

    asyncio.run(story())


async def _do(c: Cluster, *bodies: Body) -> None:
    for outcome in await c.commit(*[Command(body=body) for body in bodies]):
        assert isinstance(outcome, Accepted), outcome


def _environments(state: ClusterState) -> int:
    return len({id(group.env) for job in state.jobs.values() for group in job.spec.groups})
