"""Commands at random over a small world, sensible and nonsensical ones, all from one source of randomness."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random

from gosched.core.commands.cluster import (
    AnnounceMaster,
    DropWindow,
    Noop,
    OpenEpoch,
    PassTime,
    SetQueues,
    SetQuotas,
    SetWindow,
)
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import Action, CancelJob, ControlJob, DropFinishedJobs, SubmitJob
from gosched.core.commands.nodes import MarkNodeDead, RegisterNode, ReportTasks, TaskReport
from gosched.core.commands.plans import Cause, CommitPlan, Eviction, GangPlacement
from gosched.core.cpulist import format_cpulist
from gosched.core.preemption_rules import may_restart
from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.records.master import Master
from gosched.core.records.node import Hardware, NodeState
from gosched.core.records.queue import Queue, QueueType
from gosched.core.records.reservation import Reservation, Share
from gosched.core.records.task import Task, TaskState
from gosched.core.records.tenant import Quota
from gosched.core.records.window import Window
from gosched.core.resources import MILLI, AmountMap, Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.placement_rules import Affinity, LabelOp, Taint, TaintEffect, Toleration
from gosched.core.spec.policies import GangPolicy, MemberFailure, Preemption, PreemptionPolicy, RetryCause, RetryPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine import gang_fit
from gosched.state_machine.gang_fit import HeldByEach

NODES = ("n1", "n2", "n3", "n9")
BOOTS = ("b1", "b2")
QUEUES = ("default", "prod", "prod.a", "prod.b")
TENANTS = ("x", "y")
FPGAS = (("fpga", 2),)
ACTIONS = [a for a in Action if a not in (Action.FREEZE, Action.SCALE)]  # see `closing` and `scaling`
NAMES = (*"abcdefghijklm", "bad name")


def submit(r: Random, state: ClusterState) -> Body:
    groups = tuple(_group(r, f"g{i}") for i in range(r.choice((1, 1, 2))))
    retry = RetryPolicy(
        max_restarts=r.choice((0, 1, 5, 5)),
        backoff_ms=r.choice((0, 0, 5)),
        when=r.choice(
            ((), (RetryCause.FAILED, RetryCause.NODE_LOST), *[(RetryCause.NODE_LOST, RetryCause.PREEMPTED)] * 3)
        ),
    )
    again = MemberFailure.RESTART_GANG
    failure = r.choice((again, again, again, MemberFailure.CONTINUE, MemberFailure.FAIL_JOB))
    gang = GangPolicy(min_tasks=sum(g.floor for g in groups), on_member_failure=failure)
    spec = JobSpec(
        name=r.choice(NAMES),
        queue=r.choice((*QUEUES, *["default"] * 4, "prod.a", "prod.b", "nope")),
        tenant=r.choice(TENANTS),
        gang=gang,
        groups=groups,
        retry=retry,
        priority=r.choice((0, 0, 5, 9)),
        preemption=Preemption(preemptible=r.random() < 0.9, min_runtime_ms=r.choice((0, 0, 0, 20))),
        hold=r.random() < 0.05,
    )
    return SubmitJob(job_id=f"j{r.randrange(1000)}", spec=spec)


def _group(r: Random, name: str) -> TaskGroup:
    count = r.choice((1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 0))
    gpus = r.choice((0, 0, 0, 0, MILLI, 2 * MILLI, 300, 500, 500, 1500))
    custom = r.choice(((), (), (), (("fpga", 1),)))
    return TaskGroup(
        name=name,
        count=count,
        min_count=r.choice((0, 0, 1, 1, 1, 1, 2)),
        command=("true",),
        resources=Resources(cpu_millis=r.choice((0, 500, 1000)), gpu_millis=gpus, custom=custom),
        node_selector=r.choice(((), (), (), (("zone", "a"),))),
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
        gangs.append(
            GangPlacement(
                job_id=job_id,
                attempt=job.attempt + (r.random() < 0.1),
                tasks=tuple(tasks),
                until_ms=r.choice((0, state.clock_ms + 20)),
            )
        )
    gangs += [gangs[0]] if gangs and r.random() < 0.1 else []
    reservations = [_reservation(r, state, job_id) for job_id in r.sample(jobs, min(len(jobs), 1))]
    return CommitPlan(
        revision=state.revision,
        gangs=tuple(gangs),
        reservations=tuple(reservations),
        withdrawn=tuple(r.sample([*state.reservations], min(len(state.reservations), r.choice((0, 0, 1))))),
    )


def _reservation(r: Random, state: ClusterState, job_id: str) -> Reservation:
    job = state.jobs[job_id]
    return Reservation(
        job_id=job_id,
        attempt=job.attempt,
        start_ms=state.clock_ms + r.choice((-9, 50, 500)),
        shares=tuple(Share(group=g.name, node_id=r.choice(NODES[:3]), count=g.floor) for g in job.spec.groups),
        for_deadline=r.random() < 0.2,
        made_at_ms=state.clock_ms,
    )


def force(r: Random, state: ClusterState) -> Body:
    """Placements that make others go: where these stand, with their devices, or anywhere."""
    gangs = [_repair(r, state, job) for job in state.jobs.values() if job.reason == "NODE_LOST" and job.active]
    waiting = [state.jobs[job_id] for job_id in r.sample([*state.pending], min(len(state.pending), 3))]
    gangs += [_forced(r, state, job) for job in waiting]
    if not gangs or r.random() < 0.2:
        gangs.append(GangPlacement(job_id="", attempt=0, tasks=(), evictions=_evictions(r, state, "")))
    return CommitPlan(revision=state.revision, gangs=tuple(r.sample(gangs, len(gangs))))


def _forced(r: Random, state: ClusterState, job: Job) -> GangPlacement:
    evictions = _evictions(r, state, job.id)
    leaving = [t for e in evictions for t in state.tasks_of(state.jobs[e.job_id]) if t.rank in e.ranks or not e.ranks]
    gone = [t.allocation_id for t in leaving if t.state.is_active]
    tasks = _first_fit(r, state, job, gone)
    return GangPlacement(job_id=job.id, attempt=job.attempt, tasks=tuple(tasks), evictions=evictions)


def _evictions(r: Random, state: ClusterState, for_job: str) -> tuple[Eviction, ...]:
    """Mostly of gangs that have to accept it; often only of what they can do without."""
    live = [job for job in state.jobs.values() if job.active]
    able = [(job, cause) for job in live for cause in _causes(state, for_job, job)]
    if r.random() < 0.5:
        able = [(job, cause) for job, cause in able if job.active > job.spec.gang.min_tasks] or able
    chosen = r.sample(able, min(len(able), r.choice((1, 1, 2))))
    if live and r.random() < 0.1:
        chosen.append((r.choice(live), r.choice([*Cause])))
    evictions = []
    for victim, cause in chosen:
        tasks = [t for t in state.tasks_of(victim) if t.state.is_active and t.state is not TaskState.STOPPING]
        some = r.random() < 0.1
        surplus = [t.rank for t in tasks if some or t.index >= _group_of(victim, t).floor]
        evictions.append(
            Eviction(
                job_id=victim.id,
                attempt=victim.attempt + (r.random() < 0.03),
                ranks=tuple(surplus) if r.random() < 0.6 else (),
                cause=cause,
            )
        )
    return tuple(evictions)


def _causes(state: ClusterState, for_job: str, victim: Job) -> list[Cause]:
    may_go = victim.spec.preemption.preemptible and victim.intent is JobIntent.RUN
    if not may_go or not may_restart(victim, RetryCause.PREEMPTED):
        return []
    if not for_job:
        return [Cause.WINDOW]
    wanted, causes = state.jobs[for_job].spec, [Cause.BACKFILL] * bool(victim.until_ms)
    if wanted.queue != victim.spec.queue:
        return [*causes, Cause.RECLAIM]
    return [*causes, *[Cause.PREEMPT] * (victim.spec.priority < wanted.priority)]


def _repair(r: Random, state: ClusterState, job: Job) -> GangPlacement:
    own = [task.allocation_id for task in state.tasks_of(job) if task.state.is_active]
    return GangPlacement(
        job_id=job.id,
        attempt=job.attempt + 1,
        tasks=tuple(_first_fit(r, state, replace(job, state=JobState.PENDING), own)),
        evictions=(Eviction(job_id=job.id, attempt=job.attempt, cause=Cause.REPAIR),),
    )


def _first_fit(r: Random, state: ClusterState, job: Job, gone: Sequence[str] = ()) -> list[TaskPlacement]:
    """Each task on any node, with the first GPUs and, half of the time, the first CPUs that are free there, at the
    latest when these allocations are gone."""
    ready = [n.id for n in state.nodes.values() if n.state is NodeState.READY] or ["n9"]
    freed = [state.allocations[a].node_id for a in gone if state.allocations[a].node_id in ready]
    ready = freed if freed and r.random() < 0.7 else ready
    held = HeldByEach(state, lambda a: a.id not in gone, fences=True) if gone else state
    gpus = {n: dict(held.node_gpus_held(n)) if n != "n9" else {} for n in ready}
    cpus = {n: held.node_cpus_held(n) if n != "n9" else 0 for n in ready}
    placements = []
    for task in state.tasks_of(job):
        group = _group_of(job, task)
        elastic = task.index >= group.floor
        settled = job.state is JobState.RUNNING and task.state is not TaskState.PENDING
        if settled or (elastic and r.random() < 0.6):
            continue
        able = [n for n in ready if n in state.nodes and not gang_fit._node_problem(state.nodes[n], group)]
        node = r.choice(able if able and r.random() < 0.9 else ready)
        millis = group.resources.gpu_millis
        there = state.nodes[node].capacity.gpu_millis // MILLI if node in state.nodes else 4
        free = [g for g in range(there) if gpus[node].get(g, 0) + min(millis, MILLI) <= MILLI][: -(-millis // MILLI)]
        for gpu in free:
            gpus[node][gpu] = gpus[node].get(gpu, 0) + min(millis, MILLI)
        own = ""
        if group.resources.cpu_millis == MILLI and r.random() < 0.5:
            cpu = next(i for i in range(99) if not cpus[node] >> i & 1)
            cpus[node] |= 1 << cpu
            own = format_cpulist(1 << cpu)
        placements.append(TaskPlacement(rank=task.rank, node_id=node, gpus=tuple(free), cpus=own))
    return placements


def _group_of(job: Job, task: Task) -> TaskGroup:
    return next(group for group in job.spec.groups if group.name == task.group)


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
            checkpoint_at_ms=r.choice((0, 0, 0, state.clock_ms + r.randrange(-20, 5))),
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
        cpu_millis=cpus, gpu_millis=r.choice((0, 2 * MILLI, 4 * MILLI)), custom=r.choice(((), FPGAS, FPGAS))
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


def control(r: Random, state: ClusterState) -> Body:
    return ControlJob(job_id=r.choice([*state.jobs, "nope"]), action=r.choice(ACTIONS))


def keep(r: Random, state: ClusterState) -> Body:
    now = state.clock_ms
    window = Window(
        name=r.choice(("w1", "w2")),
        start_ms=max(1, now + r.choice((-50, 0, 100))),
        end_ms=r.choice((0, now + 200)),
        nodes=(r.choice(NODES[:2]),),
        queues=r.choice(((), ("default",))),
    )
    return r.choice((SetWindow(window=window), SetWindow(window=window), DropWindow(name="w1"), PassTime()))


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
            preemption=r.choice(
                (PreemptionPolicy.UNSPECIFIED, PreemptionPolicy.LOWER_PRIORITY, PreemptionPolicy.NEVER)
            ),
        )
        for path in paths
    )
    return SetQueues(queues=queues)


def _limit(r: Random) -> AmountMap:
    return r.choice(((), (), (("cpu", 3000),), (("gpu", 2 * MILLI), ("gpu:h100", 1500)), (("cpu", -1),)))


def drop(r: Random, state: ClusterState) -> Body:
    return DropFinishedJobs(keep=r.randrange(-1, 4), ended_before_ms=r.choice((0, state.clock_ms - 50)))


KINDS: dict[str, Callable[[Random, ClusterState], Body]] = {
    f.__name__: f
    for f in (submit, plan, force, report, cancel, control, keep, register, mark_dead, administer, share, drop)
}
WEIGHTS = {
    "submit": 14,
    "plan": 10,
    "force": 16,
    "report": 18,
    "cancel": 1,
    "control": 3,
    "keep": 2,
    "register": 3,
    "mark_dead": 1,
    "administer": 1,
    "share": 1,
    "drop": 1,
}


def commands(r: Random, state: ClusterState, count: int) -> Iterator[Command]:
    """Lazily, since each looks at the state that the ones before have left."""
    for kind in r.choices([*WEIGHTS], [*WEIGHTS.values()], k=count):
        yield wrap(r, state, KINDS[kind](r, state))


def wrap(r: Random, state: ClusterState, body: Body) -> Command:
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
            capacity=Resources(cpu_millis=4000, gpu_millis=4 * MILLI, custom=FPGAS),
            gpu_model="h100",
            hardware=Hardware(numa_cpus=("0-1", "2-3")),
            labels=(("zone", "a"),),
        )
        for n in NODES[:2]
    ]
    half = [Queue(path=p, type=QueueType.CAPACITY, capacity_pct=50, half_life_ms=60_000) for p in QUEUES]
    bodies: list[Body] = [SetQueues(queues=tuple(half)), *nodes]
    return [Command(body=b, at_ms=1) for b in bodies]
