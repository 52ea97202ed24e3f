"""What a master does all day leaves nothing of ours for the garbage collector, which it lets run seldom."""

from __future__ import annotations

import asyncio
from random import Random

from gosched.core.features import FeatureLevel
from gosched.core.state.cluster_state import ClusterState
from gosched.observe.counts import ClusterCounts
from gosched.replication.applier import Applier
from gosched.replication.snapshots.snapshot import Snapshot, decode, encode, restored
from gosched.scheduling import ViewBuilder
from gosched.wire.batch import encode_batch, encode_command
from gosched.wire.v1 import scheduler_pb2
from tests.garbage import no_cycles
from tests.master.harness import LIMIT_S, RUNNING, SUCCEEDED, FakeAgent, Front, agent, one_master, spec, until
from tests.state_machine import chaos


def test_applying_commands_keeping_views_and_taking_snapshots_leaves_no_garbage() -> None:
    applier, follower, counts, builder = Applier(), Applier(), ClusterCounts(), ViewBuilder()
    r = Random(5)

    def take(state: ClusterState, number: int, entry: bytes) -> None:
        _, applied = applier.apply(entry)
        follower.apply(entry)
        events = [event for command in applied for event in command.events]
        counts.take(state, events)
        builder.apply(state, events)
        if number % 20 == 0:
            builder.view(state)

    with no_cycles():
        for number, command in enumerate(chaos.opening()):
            take(applier.state, number, encode_batch("p", number, [encode_command(command)], level=FeatureLevel.FIRST))
        for number, command in enumerate(chaos.commands(r, applier.state, 3000)):
            take(applier.state, number, encode_batch("p", number, [encode_command(command)], level=FeatureLevel.FIRST))
        data = b"".join(encode(Snapshot(applier.state.freeze(), (b"p", 1, 1), (b"l", 2, 1))))
        assert restored(decode(data)).digest() == applier.state.digest() == follower.state.digest()
        del command, data


def test_jobs_heartbeats_and_questions_leave_no_garbage_in_a_front() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master, "n1", cpus=100) as node:
            await _work(master, node, "warm")
            with no_cycles():
                for number in range(5):
                    await _work(master, node, f"j{number}")

    asyncio.run(story())


async def _work(master: Front, node: FakeAgent, name: str) -> None:
    jobs = [(await master.submit(spec(f"{name}.{number}", count=2))).job_id for number in range(5)]
    await master.submit(spec(f"{name}.great", cpus=1000))
    await until(lambda: len(node.orders) >= 10)
    node.see_all(RUNNING, started_at_ms=1)
    for _ in range(20):
        await node.beat(master)
    for job in jobs:
        await master.job(job)
    await master.scheduler.GetClusterStatus(scheduler_pb2.GetClusterStatusRequest(), timeout=LIMIT_S)
    node.see_all(SUCCEEDED, exit_code=0, ended_at_ms=2)
    await node.beat(master)
    node.orders.clear()
    assert not master.state.allocations
