"""What a task is told about itself and its gang."""

from __future__ import annotations

from gosched.core.cluster import Allocation, Node
from gosched.core.job import Framework, GangPolicy, Job, JobSpec, JobState, Task, TaskGroup, TaskState, allocation_id
from gosched.core.resources import Resources
from gosched.core.state import ClusterState
from gosched.master.orders import Orders

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


def place(state: ClusterState, rank: int, at_ms: int, *, attempt: int = 2, cpus: str = "") -> None:
    task = f"j/w/{rank}"
    allocation = Allocation(
        id=allocation_id(task, attempt),
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


def test_cpus_reach_the_order_and_the_environment_only_when_they_are_named() -> None:
    state = elastic_job()
    assert "GOSCHED_CPUS" not in environment(state, 0)
    place(state, 2, LATER_MS, cpus="0-3,8")
    order = Orders().start(state, state.allocations["j/w/2.2"])
    assert order.cpus == order.env["GOSCHED_CPUS"] == "0-3,8"
