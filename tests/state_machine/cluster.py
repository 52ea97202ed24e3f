"""A state machine in the hand: short commands, invariants checked after each, events and clock kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gosched.core.commands.cluster import SetQueues
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import CancelJob, SubmitJob
from gosched.core.commands.nodes import MarkNodeDead, RegisterNode, ReportTasks, TaskReport
from gosched.core.commands.plans import CommitPlan, GangPlacement
from gosched.core.events import Event
from gosched.core.invariants.check_state import check
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.job import Job
from gosched.core.records.master import Master
from gosched.core.records.queue import Queue
from gosched.core.records.task import Task, TaskState
from gosched.core.resources import MILLI, Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy, MemberFailure, RetryCause, RetryPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine import apply

MASTER = Master(id="m1", grpc_address="127.0.0.1:9090", http_address="127.0.0.1:8080")
ALL_CAUSES = (RetryCause.NODE_LOST, RetryCause.PREEMPTED, RetryCause.FAILED)


def group(name: str = "worker", count: int = 1, *, cpus: int = 1, gpus: int = 0, **more: object) -> TaskGroup:
    resources = Resources(cpu_millis=cpus * MILLI, gpu_millis=gpus * MILLI)
    return TaskGroup(name=name, count=count, resources=resources, command=("/bin/true",), **more)  # type: ignore[arg-type]


def spec(name: str = "train", *groups: TaskGroup, **more: object) -> JobSpec:
    groups = groups or (group(count=2),)
    more.setdefault("gang", GangPolicy(min_tasks=sum(g.floor for g in groups)))
    return JobSpec(name=name, groups=groups, **{"queue": "default", **more})  # type: ignore[arg-type]


def retrying(name: str = "train", *groups: TaskGroup, restarts: int = 2, backoff_ms: int = 0) -> JobSpec:
    retry = RetryPolicy(max_restarts=restarts, backoff_ms=backoff_ms, when=ALL_CAUSES)
    return spec(name, *groups, retry=retry)


def failing_fast(name: str = "train") -> JobSpec:
    retry = RetryPolicy(max_restarts=5, when=ALL_CAUSES)
    return spec(name, retry=retry, gang=GangPolicy(min_tasks=2, on_member_failure=MemberFailure.FAIL_JOB))


class Cluster:
    """Starts with the queue `default` and no node. Each command comes 1 ms after the one before."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.log: list[Command] = []
        self.events: tuple[Event, ...] = ()
        self.accept(SetQueues(queues=(Queue(path="default"),)))

    def do(self, body: Body, *, client: str = "", request: str = "", epoch: int = 0, at_ms: int = 0) -> Outcome:
        at = at_ms or self.state.clock_ms + 1
        return self.apply(Command(body=body, client_id=client, request_id=request, epoch=epoch, at_ms=at))

    def apply(self, command: Command) -> Outcome:
        self.log.append(command)
        outcome, self.events = apply(self.state, command)
        assert check(self.state) == []
        return outcome

    def accept(self, body: Body, **more: int) -> Accepted:
        outcome = self.do(body, **more)  # type: ignore[arg-type]
        assert isinstance(outcome, Accepted), outcome
        return outcome

    def reject(self, body: Body, code: Code) -> str:
        """The detail; the rejected command changed nothing and said so."""
        before = self.state.freeze()
        outcome = self.do(body)
        assert isinstance(outcome, Rejected), outcome
        assert outcome.code is code, outcome
        assert self.events == ()
        after = self.state.freeze()
        assert after == replace(before, revision=after.revision, clock_ms=after.clock_ms)
        assert "\n" not in outcome.detail
        return outcome.detail

    def node(self, node_id: str = "n1", *, cpus: int = 4, gpus: int = 0, boot: str = "b1", **more: object) -> Accepted:
        return self.accept(registration(node_id, cpus=cpus, gpus=gpus, boot=boot, **more))

    def die(self, node_id: str = "n1", *, boot: str = "b1", heard_at_ms: int = 0) -> Accepted:
        dead = MarkNodeDead(node_id=node_id, incarnation=boot, reason="silent", heard_at_ms=heard_at_ms)
        return self.accept(dead)

    def submit(self, wanted: JobSpec, job_id: str = "") -> str:
        return self.accept(SubmitJob(job_id=job_id or f"id-{wanted.name}", spec=wanted)).subject

    def plan(self, *gangs: GangPlacement) -> tuple[str, ...]:
        """The refusals."""
        return tuple(r.detail for r in self.accept(CommitPlan(revision=self.state.revision, gangs=gangs)).refusals)

    def refused(self, placement: GangPlacement) -> str:
        """The one refusal; nothing else happened."""
        before = self.state.freeze()
        (detail,) = self.plan(placement)
        assert self.events == ()
        assert (self.state.jobs, self.state.tasks, self.state.allocations, self.state.accounts) == (
            before.jobs, before.tasks, before.allocations, before.accounts)  # fmt: skip
        return detail

    def place(self, job_id: str, *nodes: str) -> None:
        """Rank by rank onto the nodes, or all onto the one."""
        assert self.plan(gang(self.job(job_id), *nodes)) == ()

    def report(self, job_id: str, rank: int, state: TaskState, exit_code: int | None = None, **more: object) -> None:
        task = self.tasks(job_id)[rank]
        seen = TaskReport(allocation_id=task.allocation_id, state=state, exit_code=exit_code, **more)  # type: ignore[arg-type]
        boot = self.state.nodes[task.node_id].incarnation
        self.accept(ReportTasks(node_id=task.node_id, incarnation=boot, reports=(seen,)))

    def cancel(self, job: str) -> Accepted:
        return self.accept(CancelJob(job_id=job))

    def run_all(self, job_id: str) -> None:
        for rank in range(len(self.tasks(job_id))):
            self.report(job_id, rank, TaskState.RUNNING, started_at_ms=self.state.clock_ms)

    def succeed_all(self, job_id: str) -> None:
        for rank in range(len(self.tasks(job_id))):
            self.report(job_id, rank, TaskState.SUCCEEDED, 0)

    def job(self, job_id: str) -> Job:
        return self.state.jobs[job_id]

    def tasks(self, job_id: str) -> list[Task]:
        return self.state.tasks_of(self.job(job_id))

    def task_states(self, job_id: str) -> list[TaskState]:
        return [t.state for t in self.tasks(job_id)]


def on_three_nodes(wanted: JobSpec) -> Cluster:
    """The job j of three tasks, which run on n1, n2 and n3."""
    c = Cluster()
    for node in ("n1", "n2", "n3"):
        c.node(node)
    c.submit(wanted, "j")
    c.place("j", "n1", "n2", "n3")
    c.run_all("j")
    return c


def registration(
    node_id: str = "n1", *, cpus: int = 4, gpus: int = 0, boot: str = "b1", **more: object
) -> RegisterNode:
    capacity = Resources(cpu_millis=cpus * MILLI, memory_bytes=1 << 30, gpu_millis=gpus * MILLI)
    fields = {"name": node_id, "address": "127.0.0.1:7070", "incarnation": boot, "capacity": capacity, **more}
    return RegisterNode(node_id=node_id, **fields)  # type: ignore[arg-type]


def gang(
    job: Job, *nodes: str, gpus: tuple[tuple[int, ...], ...] = (), cpus: tuple[str, ...] = (), ranks: Iterable[int] = ()
) -> GangPlacement:
    """Of all ranks, or of these."""
    chosen = tuple(ranks) or tuple(range(job.spec.task_count))
    where = nodes * len(chosen) if len(nodes) == 1 else nodes
    held = gpus or ((),) * len(chosen)
    own = cpus or ("",) * len(chosen)
    tasks = tuple(
        TaskPlacement(rank=r, node_id=n, gpus=g, cpus=c) for r, n, g, c in zip(chosen, where, held, own, strict=True)
    )
    return GangPlacement(job_id=job.id, attempt=job.attempt, tasks=tasks)
