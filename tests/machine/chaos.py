"""Commands at random over a small world, sensible and nonsensical ones, all from one source of randomness."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from gosched.core.cluster import Hardware, Master, NodeState, Queue, QueueType, Quota, TaskPlacement
from gosched.core.command import (
    AnnounceMaster,
    Body,
    CancelJob,
    Command,
    CommitPlan,
    DropFinishedJobs,
    GangPlacement,
    MarkNodeDead,
    Noop,
    OpenEpoch,
    RegisterNode,
    ReportTasks,
    SetQueues,
    SetQuotas,
    SubmitJob,
    TaskReport,
)
from gosched.core.cpulist import format_cpulist
from gosched.core.job import (
    Affinity,
    GangPolicy,
    Job,
    JobSpec,
    JobState,
    LabelOp,
    MemberFailure,
    RetryCause,
    RetryPolicy,
    Taint,
    TaintEffect,
    TaskGroup,
    TaskState,
    Toleration,
)
from gosched.core.resources import GPU, AmountMap, Resources
from gosched.core.state import ClusterState

NODES = ("n1", "n2", "n3", "n9")
BOOTS = ("b1", "b2")
QUEUES = ("default", "prod", "prod.a", "prod.b")
TENANTS = ("x", "y")
FPGAS = (("fpga", 2),)
CPU = 1000
NAMES = (*"abcdefgh", "bad name")


def submit(r: Random, state: ClusterState) -> Body:
    groups = tuple(_group(r, f"g{i}") for i in range(r.choice((1, 1, 2))))
    retry = RetryPolicy(
        max_restarts=r.choice((0, 1, 5)),
        backoff_ms=r.choice((0, 0, 5)),
        when=r.choice(((), (RetryCause.FAILED, RetryCause.NODE_LOST), (RetryCause.NODE_LOST, RetryCause.PREEMPTED))),
    )
    failure = r.choice((MemberFailure.RESTART_GANG, MemberFailure.RESTART_GANG, MemberFailure.FAIL_JOB))
    gang = GangPolicy(min_tasks=sum(g.floor for g in groups), on_member_failure=failure)
    spec = JobSpec(
        name=r.choice(NAMES),
        queue=r.choice((*QUEUES, "default", "default", "prod.a", "nope")),
        tenant=r.choice(TENANTS),
        gang=gang,
        groups=groups,
        retry=retry,
    )
    return SubmitJob(job_id=f"j{r.randrange(1000)}", spec=spec)


def _group(r: Random, name: str) -> TaskGroup:
    count = r.choice((1, 1, 2, 2, 3, 3, 3, 0))
    gpus = r.choice((0, 0, 0, 0, GPU, 2 * GPU, 300, 500, 500, 1500))
    custom = r.choice(((), (), (), (("fpga", 1),)))
    return TaskGroup(
        name=name,
        count=count,
        min_count=r.choice((0, 0, 1, 1, 1, 2)),
        command=("true",),
        resources=Resources(cpu_millis=r.choice((0, 500, 1000)), gpu_millis=gpus, custom=custom),
        node_selector=r.choice(((), (), (("zone", "a"),))),
        affinity=r.choice(((), (), (Affinity(label="zone", op=LabelOp.NOT_IN, values=("b",)),))),
        tolerations=r.choice(((), (), (Toleration(key="broken"),))),
    )


def plan(r: Random, state: ClusterState) -> Body:
    """Mostly honest first-fit placements of jobs that want one, some of them spoilt."""
    gangs = []
    jobs = [*state.pending] or [*state.jobs]
    for job_id in r.sample(jobs, min(len(jobs), 3)):
        job = state.jobs[job_id]
        tasks = _first_fit(r, state, job)
        if tasks and r.random() < 0.2:
            tasks[r.randrange(len(tasks))] = TaskPlacement(
                rank=r.randrange(-1, 3),
                node_id=r.choice(NODES),
                gpus=r.choice(((), (0,))),
                cpus=r.choice(("", "0", "x")),
            )
        if len(tasks) > 1 and r.random() < 0.1:
            tasks.pop()
        gangs.append(GangPlacement(job_id=job_id, attempt=job.attempt + (r.random() < 0.1), tasks=tuple(tasks)))
    gangs += [gangs[0]] if gangs and r.random() < 0.1 else []
    return CommitPlan(revision=state.revision, gangs=tuple(gangs))


def _first_fit(r: Random, state: ClusterState, job: Job) -> list[TaskPlacement]:
    """Each task on any node, with the first GPUs and, half of the time, the first CPUs that are free there."""
    ready = [n.id for n in state.nodes.values() if n.state is NodeState.READY] or ["n9"]
    gpus = {n: state.node_gpus_held(n) for n in ready}
    cpus = {n: state.node_cpus_held(n) for n in ready}
    placements = []
    for task in state.tasks_of(job):
        group = next(g for g in job.spec.groups if g.name == task.group)
        elastic = task.index >= group.floor
        settled = job.state is JobState.RUNNING and task.state is not TaskState.PENDING
        if settled or (elastic and r.random() < 0.6):
            continue
        node = r.choice(ready)
        millis = group.resources.gpu_millis
        free = [g for g in range(4) if gpus[node].get(g, 0) + min(millis, GPU) <= GPU][: -(-millis // GPU)]
        for gpu in free:
            gpus[node][gpu] = gpus[node].get(gpu, 0) + min(millis, GPU)
        own = ""
        if group.resources.cpu_millis == CPU and r.random() < 0.5:
            cpu = next(i for i in range(99) if not cpus[node] >> i & 1)
            cpus[node] |= 1 << cpu
            own = format_cpulist(1 << cpu)
        placements.append(TaskPlacement(rank=task.rank, node_id=node, gpus=tuple(free), cpus=own))
    return placements


def report(r: Random, state: ClusterState) -> Body:
    held = [n for n, own in state.node_allocations.items() if own]
    node = r.choice(held) if held and r.random() < 0.9 else r.choice(NODES)
    known = state.nodes.get(node)
    boot = known.incarnation if known and r.random() < 0.9 else r.choice(BOOTS)
    mine = [*state.node_allocations.get(node, ()), "j1/g0/0.1"]
    reports = tuple(
        TaskReport(
            allocation_id=r.choice(mine),
            state=r.choice((*TaskState, TaskState.RUNNING, TaskState.SUCCEEDED, TaskState.SUCCEEDED, TaskState.FAILED)),
            exit_code=r.choice((None, 0, 1, 137)),
            reason=r.choice(("", "OOM_KILLED")),
            started_at_ms=r.randrange(100),
        )
        for _ in range(r.randrange(4))
    )
    return ReportTasks(node_id=node, incarnation=boot, reports=reports)


def cancel(r: Random, state: ClusterState) -> Body:
    return CancelJob(job_id=r.choice([*NAMES, *state.jobs]), reason=r.choice(("", "OBSOLETE")))


def register(r: Random, state: ClusterState) -> Body:
    node = r.choice(NODES[:3])
    cpus = r.choice((1000, 2000, 4000, 4000, -1))
    capacity = Resources(
        cpu_millis=cpus, gpu_millis=r.choice((0, 2 * GPU, 4 * GPU)), custom=r.choice(((), FPGAS, FPGAS))
    )
    return RegisterNode(
        node_id=node,
        name=node,
        address="a:1",
        incarnation=r.choice(BOOTS),
        capacity=capacity,
        gpu_model=r.choice(("h100", "h100", "h100", "a100")),
        labels=r.choice(((), (("zone", "a"),))),
        taints=r.choice(((), (), (), (Taint(key="broken", effect=TaintEffect.NO_EXECUTE),))),
        hardware=Hardware(numa_cpus=r.choice(((), ("0-1", "2-3"), ("0-3",), ("0-3",)))),
    )


def mark_dead(r: Random, state: ClusterState) -> Body:
    return MarkNodeDead(node_id=r.choice(NODES), incarnation=r.choice(BOOTS), reason="silent")


def administer(r: Random, state: ClusterState) -> Body:
    master = Master(id=r.choice(("m1", "m2", "")), grpc_address="a:1", http_address="a:2")
    return r.choice((OpenEpoch(leader=master), AnnounceMaster(master=master), Noop()))


def share(r: Random, state: ClusterState) -> Body:
    if r.random() < 0.4:
        quotas = tuple(Quota(tenant=t, limit=_limit(r), max_running_jobs=r.choice((0, 0, 2))) for t in TENANTS)
        return SetQuotas(quotas=r.choice((quotas, quotas[:1])), replace=r.random() < 0.3)
    paths = r.choice((QUEUES, QUEUES, QUEUES, ("default",), ("default", "prod.a"), ()))
    queues = tuple(
        Queue(
            path=path,
            type=QueueType.CAPACITY,
            capacity_pct=r.choice((0, 50, 50, 101) if path == "default" else (0, 50)),
            max_pct=r.choice((100, 100, 60)),
            limit=_limit(r),
            max_running_jobs=r.choice((0, 0, 2)),
            tenants=r.choice(((), (), (), ("x",))),
            half_life_ms=r.choice((0, 60_000, 120_000)),
        )
        for path in paths
    )
    return SetQueues(queues=queues)


def _limit(r: Random) -> AmountMap:
    return r.choice(((), (), (("cpu", 3000),), (("gpu", 2 * GPU), ("gpu:h100", 1500)), (("cpu", -1),)))


def drop(r: Random, state: ClusterState) -> Body:
    return DropFinishedJobs(keep=r.randrange(-1, 4), ended_before_ms=r.choice((0, state.clock_ms - 50)))


KINDS: dict[str, Callable[[Random, ClusterState], Body]] = {
    f.__name__: f for f in (submit, plan, report, cancel, register, mark_dead, administer, share, drop)
}
WEIGHTS = {
    "submit": 8,
    "plan": 10,
    "report": 14,
    "cancel": 1,
    "register": 3,
    "mark_dead": 1,
    "administer": 1,
    "share": 1,
    "drop": 1,
}


def commands(r: Random, state: ClusterState, count: int) -> Iterator[Command]:
    """Lazily, since each looks at the state that the ones before have left."""
    for kind in r.choices([*WEIGHTS], [*WEIGHTS.values()], k=count):
        yield _wrap(r, state, KINDS[kind](r, state))


def _wrap(r: Random, state: ClusterState, body: Body) -> Command:
    """Sometimes with a request id, often a repeated one, sometimes with an epoch; time stands still now and then."""
    client, request = (f"c{r.randrange(5)}", f"r{r.randrange(8)}") if r.random() < 0.2 else ("", "")
    epoch = r.choice((0, state.epoch, state.epoch, state.epoch + 1)) if r.random() < 0.2 else 0
    at_ms = state.clock_ms + r.choice((-5, 0, 0, 1, 10)) + 50_000 * (r.random() < 0.02)
    return Command(body=body, client_id=client, request_id=request, epoch=epoch, at_ms=max(at_ms, 1))


def opening() -> list[Command]:
    """A world in which something can happen."""
    nodes = [
        RegisterNode(
            node_id=n,
            name=n,
            address="a:1",
            incarnation="b1",
            capacity=Resources(cpu_millis=4000, gpu_millis=4 * GPU, custom=FPGAS),
            gpu_model="h100",
            hardware=Hardware(numa_cpus=("0-1", "2-3")),
            labels=(("zone", "a"),),
        )
        for n in NODES[:2]
    ]
    bodies: list[Body] = [SetQueues(queues=tuple(Queue(path=p, half_life_ms=60_000) for p in QUEUES)), *nodes]
    return [Command(body=b, at_ms=1) for b in bodies]
