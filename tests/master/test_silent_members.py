"""A leader waits for a silent node with a member that may live on: closed, and no longer than the job says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from gosched.core.records.node import NodeState
from gosched.core.records.task import TaskState
from gosched.core.resources import Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy, MemberFailure, RetryCause, RetryPolicy
from gosched.core.spec.task_group import TaskGroup
from tests.master.harness import LIMIT_S, RUNNING, FakeAgent, Front, agent, one_master, until

FAST = {"lease": {"node_timeout": "600ms", "first_lease": "800ms"}}
FOR_EVER_MS = 3_600_000


def elastic(replace_after_ms: int) -> JobSpec:
    group = TaskGroup(name="main", count=2, min_count=1, resources=Resources(cpu_millis=2000), command=("/bin/true",))
    return JobSpec(
        name="elastic",
        queue="default",
        groups=(group,),
        retry=RetryPolicy(max_restarts=3, when=(RetryCause.NODE_LOST,)),
        gang=GangPolicy(min_tasks=1, on_member_failure=MemberFailure.CONTINUE, replace_after_ms=replace_after_ms),
    )


async def beat_for(master: Front, agents: Sequence[FakeAgent], seconds: float) -> None:
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        for one in agents:
            for allocation, seen in [*one.observed.items()]:
                if seen.state != RUNNING:
                    one.see(allocation, RUNNING)
            await one.beat(master)
        await asyncio.sleep(0.1)


def states(master: Front, job_id: str) -> list[TaskState]:
    return [task.state for task in master.state.tasks_of(master.state.jobs[job_id])]


def test_a_silent_node_with_a_member_is_closed_and_open_again_when_it_is_back() -> None:
    async def story() -> None:
        async with one_master(**FAST) as master, agent(master, "n1", cpus=2) as n1:
            job_id = (await master.submit(elastic(FOR_EVER_MS))).job_id
            await beat_for(master, [n1], 0.5)
            async with agent(master, "n2", cpus=4) as n2:
                await beat_for(master, [n1, n2], 0.7)
                await beat_for(master, [n1], 2.0)
                assert master.state.nodes["n2"].state is NodeState.CORDONED
                assert states(master, job_id) == [TaskState.RUNNING] * 2
                await beat_for(master, [n1, n2], 0.5)
                assert master.state.nodes["n2"].state is NodeState.READY
                await beat_for(master, [n1], 2.0)  # and its lease is as long as any
                assert master.state.nodes["n2"].state is NodeState.CORDONED
                assert states(master, job_id) == [TaskState.RUNNING] * 2

    asyncio.run(story())


def test_a_member_is_replaced_once_it_has_been_waited_for_also_where_its_agent_only_registered_meanwhile() -> None:
    async def story() -> None:
        async with one_master(**FAST) as master, agent(master, "n1", cpus=4) as n1:
            job_id = (await master.submit(elastic(1_000))).job_id
            await beat_for(master, [n1], 0.5)
            async with agent(master, "n2", cpus=2) as n2:
                await beat_for(master, [n1, n2], 0.7)
                await beat_for(master, [n1], 1.0)
                await n2.register(master)

                async with asyncio.timeout(LIMIT_S):
                    while master.state.nodes["n2"].state is not NodeState.DEAD:
                        await beat_for(master, [n1], 0.1)
                await until(lambda: states(master, job_id)[0].is_active)

    asyncio.run(story())
