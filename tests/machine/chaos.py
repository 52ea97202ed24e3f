"""Commands at random over a small world, sensible and nonsensical ones, all from one source of randomness."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from gosched.core.cluster import Master, NodeState, Queue
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
    SubmitJob,
    TaskPlacement,
    TaskReport,
)
from gosched.core.job import GangPolicy, JobSpec, MemberFailure, RetryCause, RetryPolicy, TaskGroup, TaskState
from gosched.core.resources import GPU, Resources
from gosched.core.state import ClusterState

NODES = ("n1", "n2", "n3", "n9")
BOOTS = ("b1", "b2")
QUEUES = ("default", "prod")
NAMES = (*"abcdefgh", "bad name")


def submit(r: Random, state: ClusterState) -> Body:
    counts = [r.choice((1, 1, 2, 3, 0)) for _ in range(r.choice((1, 1, 2)))]
    groups = tuple(
        TaskGroup(
            name=f"g{i}",
            count=count,
            command=("true",),
            resources=Resources(cpu_millis=r.choice((0, 500, 1000)), gpu_millis=r.choice((0, 0, GPU, 2 * GPU, 1))),
            node_selector=r.choice(((), (), (("zone", "a"),))),
        )
        for i, count in enumerate(counts)
    )
    retry = RetryPolicy(
        max_restarts=r.choice((0, 1, 5)),
        backoff_ms=r.choice((0, 0, 5)),
        when=r.choice(((), (RetryCause.FAILED, RetryCause.NODE_LOST), (RetryCause.NODE_LOST,))),
    )
    failure = r.choice((MemberFailure.RESTART_GANG, MemberFailure.RESTART_GANG, MemberFailure.FAIL_JOB))
    gang = GangPolicy(min_tasks=sum(counts), on_member_failure=failure)
    spec = JobSpec(name=r.choice(NAMES), queue=r.choice((*QUEUES, "nope")), gang=gang, groups=groups, retry=retry)
    return SubmitJob(job_id=f"j{r.randrange(1000)}", spec=spec)


def plan(r: Random, state: ClusterState) -> Body:
    """Mostly honest first-fit placements of pending jobs, some of them spoilt."""
    gangs = []
    jobs = [*state.pending] or [*state.jobs]
    for job_id in r.sample(jobs, min(len(jobs), 3)):
        job = state.jobs[job_id]
        used: dict[str, int] = {}
        tasks = []
        for rank, group in enumerate(g for g in job.spec.groups for _ in range(g.count)):
            node = r.choice([n.id for n in state.nodes.values() if n.state is NodeState.READY] or ["n9"])
            count = group.resources.gpu_millis // GPU
            free = [g for g in range(4) if g not in state.node_gpus_held(node)][used.get(node, 0) :]
            used[node] = used.get(node, 0) + count
            tasks.append(TaskPlacement(rank=rank, node_id=node, gpus=tuple(free[:count])))
        if r.random() < 0.2:
            tasks[r.randrange(len(tasks))] = TaskPlacement(rank=r.randrange(-1, 3), node_id=r.choice(NODES), gpus=(0,))
        gangs.append(GangPlacement(job_id=job_id, attempt=job.attempt + (r.random() < 0.1), tasks=tuple(tasks)))
    gangs += [gangs[0]] if gangs and r.random() < 0.1 else []
    return CommitPlan(revision=state.revision, gangs=tuple(gangs))


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
    capacity = Resources(cpu_millis=r.choice((1000, 2000, 4000, -1)), gpu_millis=r.choice((0, 2 * GPU, 4 * GPU)))
    labels = r.choice(((), (("zone", "a"),)))
    return RegisterNode(
        node_id=node, name=node, address="a:1", incarnation=r.choice(BOOTS), capacity=capacity, labels=labels
    )


def mark_dead(r: Random, state: ClusterState) -> Body:
    return MarkNodeDead(node_id=r.choice(NODES), incarnation=r.choice(BOOTS), reason="silent")


def administer(r: Random, state: ClusterState) -> Body:
    master = Master(id=r.choice(("m1", "m2", "")), grpc_address="a:1", http_address="a:2")
    queues = tuple(Queue(path=p, capacity_pct=r.choice((0, 50, 101))) for p in r.choice((QUEUES, ("default",), ())))
    return r.choice((OpenEpoch(leader=master), AnnounceMaster(master=master), SetQueues(queues=queues), Noop()))


def drop(r: Random, state: ClusterState) -> Body:
    return DropFinishedJobs(keep=r.randrange(-1, 4), ended_before_ms=r.choice((0, state.clock_ms - 50)))


KINDS: dict[str, Callable[[Random, ClusterState], Body]] = {
    f.__name__: f for f in (submit, plan, report, cancel, register, mark_dead, administer, drop)
}
WEIGHTS = {"submit": 6, "plan": 8, "report": 14, "cancel": 1, "register": 3, "mark_dead": 1, "administer": 1, "drop": 1}


def commands(r: Random, state: ClusterState, count: int) -> Iterator[Command]:
    """Lazily, since each looks at the state that the ones before have left."""
    for kind in r.choices([*WEIGHTS], [*WEIGHTS.values()], k=count):
        yield _wrap(r, state, KINDS[kind](r, state))


def _wrap(r: Random, state: ClusterState, body: Body) -> Command:
    """Sometimes with a request id, often a repeated one, sometimes with an epoch; time stands still now and then."""
    client, request = (f"c{r.randrange(5)}", f"r{r.randrange(8)}") if r.random() < 0.2 else ("", "")
    epoch = r.choice((0, state.epoch, state.epoch, state.epoch + 1)) if r.random() < 0.2 else 0
    at_ms = state.clock_ms + r.choice((-5, 0, 0, 1, 10))
    return Command(body=body, client_id=client, request_id=request, epoch=epoch, at_ms=max(at_ms, 1))


def opening() -> list[Command]:
    """A world in which something can happen."""
    nodes = [
        RegisterNode(
            node_id=n,
            name=n,
            address="a:1",
            incarnation="b1",
            capacity=Resources(cpu_millis=3000, gpu_millis=4 * GPU),
            labels=(("zone", "a"),),
        )
        for n in NODES[:2]
    ]
    bodies: list[Body] = [SetQueues(queues=tuple(Queue(path=p) for p in QUEUES)), *nodes]
    return [Command(body=b, at_ms=1) for b in bodies]
