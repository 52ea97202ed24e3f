"""Dynamic allocation on the masters: what an application wants is what its job gets, within its bounds."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gosched.core.commands.jobs import Action, ControlJob
from gosched.core.records.task import TaskState
from gosched.core.spec.policies import GangPolicy
from gosched.core.spec.task_group import SPARK_DRIVER, SPARK_WORKER
from gosched.master.agents.spark_scaling import scale_applications
from gosched.wire.v1 import node_pb2
from tests.state_machine.cluster import Cluster, gang, group, spec

DRIVER = "j1/driver/0.1"


def application(initial_tasks: int = 2) -> Cluster:
    """Job j1: a driver and 1 to 4 executors; the driver and one executor run on n1."""
    cluster = Cluster()
    cluster.node("n1", cpus=8)
    cluster.node("n2")
    groups = (group("driver"), group("executor", 4, min_count=1))
    words = ((SPARK_DRIVER, "app.py"), (SPARK_WORKER, "15"))
    with_words = [replace(one, command=command) for one, command in zip(groups, words, strict=True)]
    policy = GangPolicy(min_tasks=2, ends_with="driver", initial_tasks=initial_tasks)
    cluster.submit(spec("app", *with_words, gang=policy), "j1")
    assert cluster.plan(gang(cluster.job("j1"), "n1", ranks=(0, 1))) == ()
    return cluster


def says(cluster: Cluster, executors: int | None, *, allocation: str = DRIVER, node: str = "n1") -> list[ControlJob]:
    """Apply what is proposed, and return it."""
    proposed: list[ControlJob] = []

    class Proposals:
        async def propose(self, body: ControlJob, *, epoch: int) -> object:
            proposed.append(body)
            return cluster.do(body)

    progress = node_pb2.SparkProgress(application="app-1")
    if executors is not None:
        progress.executors = executors
    told: Any = Proposals()
    asyncio.run(scale_applications(told, cluster.state, node, {allocation: progress}, epoch=1))
    return proposed


def test_it_gets_as_many_executors_as_it_has_work_for_up_to_all() -> None:
    c = application()
    assert says(c, 3) == [ControlJob(job_id="j1", action=Action.SCALE, tasks=4)]
    assert says(c, 3) == []
    says(c, 100)
    assert c.job("j1").wanted == 5


def test_none_that_runs_is_stopped_because_there_is_less_work() -> None:
    c = application()
    says(c, 3)
    assert c.plan(gang(c.job("j1"), "n1", ranks=(2,))) == ()
    says(c, 0)
    assert c.job("j1").wanted == 3
    assert TaskState.STOPPING not in c.task_states("j1")


def test_it_never_wants_less_than_its_minimum() -> None:
    c = application(initial_tasks=4)
    says(c, 0)
    assert c.job("j1").wanted == 2


@pytest.mark.parametrize(
    ("executors", "allocation", "node"),
    [(None, DRIVER, "n1"), (3, "j9/driver/0.1", "n1"), (3, DRIVER, "n2")],
)
def test_what_says_nothing_is_not_known_or_runs_elsewhere_changes_nothing(
    executors: int | None, allocation: str, node: str
) -> None:
    assert says(application(), executors, allocation=allocation, node=node) == []


def test_an_executor_that_has_ended_for_good_is_replaced() -> None:
    c = application()
    c.report("j1", 1, TaskState.SUCCEEDED)
    says(c, 1)
    assert (c.job("j1").wanted, c.job("j1").may_join) == (2, 1)


def test_a_job_of_a_fixed_size_keeps_it() -> None:
    assert says(application(initial_tasks=0), 3) == []


def test_one_that_is_cancelled_is_not_scaled() -> None:
    c = application()
    c.cancel("j1")
    assert says(c, 3) == []
