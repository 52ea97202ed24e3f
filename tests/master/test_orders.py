"""What a task is told about itself and its gang."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gosched.core.reasons import Reason
from gosched.core.records.allocation import Allocation
from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.records.node import Node
from gosched.core.records.task import Task, TaskState, allocation_id
from gosched.core.resources import Resources
from gosched.core.spec.array import Array, Axis
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy, Preemption
from gosched.core.spec.task_group import Framework, TaskGroup
from gosched.core.state.cluster_state import ClusterState
from gosched.master.agents.orders import Orders, stop_order

FIRST_MS, LATER_MS = 1000, 5000


def elastic_job(*, gpu_millis: int = 2000) -> ClusterState:
    """A running job of four tasks of which two must start together; tasks 0 and 1 hold places, on n0 and n1."""
    asked = Resources(gpu_millis=gpu_millis)
    group = TaskGroup(name="w", count=4, min_count=2, command=("x",), resources=asked, framework=Framework.TORCH)
    spec = JobSpec(name="n", queue="default", gang=GangPolicy(min_tasks=2), groups=(group,))
    state = ClusterState()
    state.put_job(Job(id="j", spec=spec, state=JobState.RUNNING, sequence=1, attempt=2, submitted_at_ms=1))
    for rank in range(4):
        node = Node(
            id=f"n{rank}",
            name=f"n{rank}",
            address=f"host-{rank}:7",
            capacity=Resources(cpu_millis=8000, gpu_millis=4000),
            incarnation="i",
            registered_at_ms=1,
            changed_at_ms=1,
        )
        state.put_node(node)
        state.put_task(Task(id=f"j/w/{rank}", job_id="j", group="w", index=rank, rank=rank, attempt=2))
    for rank in (0, 1):
        place(state, rank, FIRST_MS)
    return state


def place(state: ClusterState, rank: int, at_ms: int, *, attempt: int = 2, cpus: str = "", moves: int = 0) -> None:
    task = f"j/w/{rank}"
    allocation = Allocation(
        id=allocation_id(task, attempt, moves),
        task_id=task,
        job_id="j",
        node_id=f"n{rank}",
        resources=state.jobs["j"].spec.groups[0].resources,
        gpus=(3,),
        cpus=cpus,
        placed_at_ms=at_ms,
    )
    placed = Task(
        id=task,
        job_id="j",
        group="w",
        index=rank,
        rank=rank,
        state=TaskState.PLACED,
        attempt=attempt,
        allocation_id=allocation.id,
        node_id=allocation.node_id,
        gpus=allocation.gpus,
        cpus=cpus,
        placed_at_ms=at_ms,
        moves=moves,
    )
    state.put_allocation(allocation)
    state.put_task(placed)


def environment(state: ClusterState, rank: int, orders: Orders | None = None) -> dict[str, str]:
    return dict((orders or Orders()).start(state, state.allocations[f"j/w/{rank}.2"]).env)


def test_hosts_are_those_that_had_a_place_when_the_task_got_its_own() -> None:
    state = elastic_job()
    assert environment(state, 0)["GOSCHED_HOSTS"] == "host-0,host-1,,"
    assert environment(state, 0)["GOSCHED_TASK_COUNT"] == "4"


def test_a_member_that_joins_later_changes_no_order_that_was_made() -> None:
    state, orders = elastic_job(), Orders()
    before = orders.start(state, state.allocations["j/w/1.2"])
    place(state, 3, LATER_MS)
    assert environment(state, 3, orders)["GOSCHED_HOSTS"] == "host-0,host-1,,host-3"
    assert orders.start(state, state.allocations["j/w/1.2"]) == before
    assert Orders().start(state, state.allocations["j/w/1.2"]) == before


def test_what_a_job_asks_for_anew_is_in_the_next_order() -> None:
    state, orders = elastic_job(), Orders()
    assert orders.start(state, state.allocations["j/w/0.2"]).stop_grace_ms != 7
    job = state.jobs["j"]
    state.put_job(replace(job, spec=replace(job.spec, stop_grace_ms=7)))
    assert orders.start(state, state.allocations["j/w/0.2"]).stop_grace_ms == 7


def test_hosts_of_an_earlier_attempt_are_not_named() -> None:
    state = elastic_job()
    place(state, 2, FIRST_MS - 1, attempt=1)
    assert environment(state, 0)["GOSCHED_HOSTS"] == "host-0,host-1,,"


def test_torchrun_is_told_that_the_gang_is_elastic() -> None:
    env = environment(elastic_job(), 1)
    assert (env["PET_NNODES"], env["PET_RDZV_BACKEND"], env["PET_NODE_RANK"]) == ("2:4", "c10d", "1")
    assert env["PET_RDZV_ENDPOINT"] == f"host-0:{env['MASTER_PORT']}"


def test_a_task_on_a_share_of_a_gpu_sees_that_gpu_and_runs_one_process() -> None:
    env = environment(elastic_job(gpu_millis=500), 0)
    assert (env["CUDA_VISIBLE_DEVICES"], env["PET_NPROC_PER_NODE"]) == ("3", "1")
    assert env["GOSCHED_GPUS"] == "3"


def test_cpus_reach_the_order_and_the_environment_only_when_they_are_named() -> None:
    state = elastic_job()
    assert "GOSCHED_CPUS" not in environment(state, 0)
    place(state, 2, LATER_MS, cpus="0-3,8")
    order = Orders().start(state, state.allocations["j/w/2.2"])
    assert order.cpus == dict(order.env)["GOSCHED_CPUS"] == "0-3,8"


def test_a_member_that_moved_within_the_attempt_is_named_where_it_is() -> None:
    state = elastic_job()
    place(state, 2, FIRST_MS, moves=1)
    assert environment(state, 0)["GOSCHED_HOSTS"] == "host-0,host-1,host-2,"


def of_array(array: Array, element: int) -> ClusterState:
    state = elastic_job()
    job = state.jobs["j"]
    group = replace(job.spec.groups[0], env=(("LR", "mine"), ("OWN", "kept")))
    state.put_job(replace(job, parent="p", element=element, spec=replace(job.spec, groups=(group,))))
    state.put_job(replace(job, id="p", spec=replace(job.spec, name="p", array=array)))
    return state


def test_an_element_of_an_array_is_told_its_index_and_the_values_of_the_matrix() -> None:
    matrix = (Axis(name="LR", values=("0.1", "0.2")), Axis(name="SEED", values=("1", "2", "3")))
    env = environment(of_array(Array(matrix=matrix), 4), 0)
    assert (env["GOSCHED_ARRAY_INDEX"], env["LR"], env["SEED"], env["OWN"]) == ("4", "0.2", "2", "kept")
    env = environment(of_array(Array(first=3, last=9, step=3), 6), 0)
    assert (env["GOSCHED_ARRAY_INDEX"], env["LR"]) == ("6", "mine")


def test_a_job_that_is_no_element_is_told_no_index() -> None:
    assert "GOSCHED_ARRAY_INDEX" not in environment(elastic_job(), 0)
    assert "GOSCHED_ARRAY_INDEX" not in environment(of_array(Array(), 1_700_000_000), 0)


SAVES = Preemption(checkpoint_signal=10, grace_ms=60_000)


def stopping(intent: JobIntent, reason: str, preemption: Preemption = SAVES) -> tuple[int, int, int, str]:
    """Of the stop order: signal, time for the checkpoint, grace, reason."""
    state = elastic_job()
    job = state.jobs["j"]
    state.put_job(replace(job, intent=intent, reason=reason, spec=replace(job.spec, preemption=preemption)))
    task = state.tasks["j/w/0"]
    state.put_task(replace(task, state=TaskState.STOPPING, reason="PREEMPTED" if reason == "CANCELLED" else reason))
    order = stop_order(state, state.allocations["j/w/0.2"])
    return order.checkpoint_signal, order.checkpoint_ms, order.grace_ms, order.reason


@pytest.mark.parametrize(
    ("intent", "reason"),
    [
        (JobIntent.RESTART, "PREEMPTED"),
        (JobIntent.RESTART, "REQUEUED"),
        (JobIntent.SUSPEND, "SUSPENDED"),
        (JobIntent.RUN, "PREEMPTED"),  # an elastic task leaves
    ],
)
def test_a_task_that_has_to_leave_may_save_itself(intent: JobIntent, reason: str) -> None:
    assert stopping(intent, reason) == (10, 60_000, 10_000, reason)


@pytest.mark.parametrize(
    ("intent", "reason"),
    [
        (JobIntent.CANCEL, "CANCELLED"),  # after it was told to leave
        (JobIntent.FAIL, "TIMEOUT"),
        (JobIntent.RESTART, Reason.GANG_MEMBER_FAILED),
        (JobIntent.FAIL, Reason.GANG_MEMBER_FAILED),
    ],
)
def test_the_task_of_a_job_that_is_cancelled_or_failed_has_the_usual_grace(intent: JobIntent, reason: str) -> None:
    assert stopping(intent, reason) == (0, 0, 10_000, reason)


def test_without_a_signal_the_grace_of_an_eviction_is_that_after_sigterm() -> None:
    assert stopping(JobIntent.RESTART, "PREEMPTED", Preemption(grace_ms=90_000)) == (0, 0, 90_000, "PREEMPTED")
    assert stopping(JobIntent.RESTART, "PREEMPTED", Preemption()) == (0, 0, 10_000, "PREEMPTED")


def of_two_groups() -> ClusterState:
    """The same job with a second group of two, whose first task runs on n2."""
    state = elastic_job()
    job = state.jobs["j"]
    own = replace(job.spec.groups[0], count=2, min_count=0)
    groups = (own, replace(own, name="data-loader"))
    state.put_job(replace(job, port=20_123, spec=replace(job.spec, groups=groups)))
    for rank in (2, 3):
        task = Task(id=f"j/data-loader/{rank - 2}", job_id="j", group="data-loader", index=rank - 2, rank=rank)
        state.put_task(replace(task, attempt=2))
    state.task_key = "k" * 32
    return state


def test_a_task_is_told_its_group_and_where_those_of_each_group_are() -> None:
    state = of_two_groups()
    env = environment(state, 1)
    assert [env[f"GOSCHED_GROUP{rest}"] for rest in ("", "_INDEX", "_COUNT")] == ["w", "1", "2"]
    assert (env["GOSCHED_HOSTS_W"], env["GOSCHED_COUNT_W"]) == ("host-0,host-1", "2")
    assert (env["GOSCHED_HOSTS_DATA_LOADER"], env["GOSCHED_COUNT_DATA_LOADER"]) == (",", "2")


def test_a_job_of_one_group_is_not_told_its_hosts_twice() -> None:
    assert not [name for name in environment(elastic_job(), 0) if name.startswith(("GOSCHED_HOSTS_", "GOSCHED_COUNT_"))]


def test_the_tasks_of_an_attempt_share_a_port_and_a_secret_that_no_other_attempt_has() -> None:
    state = of_two_groups()
    first, second = environment(state, 0), environment(state, 1)
    assert first["GOSCHED_PORT"] == second["GOSCHED_PORT"] == first["MASTER_PORT"] == "20123"
    assert first["GOSCHED_SECRET"] == second["GOSCHED_SECRET"]
    place(state, 0, LATER_MS, attempt=3)
    later = dict(Orders().start(state, state.allocations["j/w/0.3"]).env)
    assert later["GOSCHED_SECRET"] not in ("", first["GOSCHED_SECRET"], state.task_key)


def test_the_order_of_the_first_task_alone_names_the_port_that_must_be_free() -> None:
    state = of_two_groups()
    assert [Orders().start(state, state.allocations[f"j/w/{rank}.2"]).port for rank in (0, 1)] == [20_123, 0]


def test_a_gang_that_was_placed_at_a_level_without_ports_still_meets_somewhere() -> None:
    env = environment(elastic_job(), 0)
    assert "GOSCHED_PORT" not in env
    assert "GOSCHED_SECRET" not in env
    assert 20_000 <= int(env["MASTER_PORT"]) < 30_000
