"""One command at random, of any kind that there is, for a life that goes on.

Agents and the planner are honest: reports are of what the state has ordered, plans are the planner's own. People are
not: they scale, suspend, drain and cancel at any moment, most often the jobs to which most has happened already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from gosched.core.commands.access import CreateToken, RevokeToken, SetBindings
from gosched.core.commands.cluster import (
    AnnounceMaster,
    DropWindow,
    Noop,
    OpenEpoch,
    PassTime,
    SetClock,
    SetFeatureLevel,
    SetMembers,
    SetQueues,
    SetQuotas,
    SetWindow,
)
from gosched.core.commands.command import Body
from gosched.core.commands.jobs import (
    Action,
    CancelJob,
    ControlJob,
    DropFinishedJobs,
    NextRun,
    NoteWaitReasons,
    RunSchedule,
    SubmitJob,
    WaitNote,
)
from gosched.core.commands.join import CreateJoinToken, RenewJoinedNode, RevokeJoinToken, UseJoinToken
from gosched.core.commands.nodes import (
    ControlNode,
    LabelNode,
    MarkNodeDead,
    NodeAction,
    RegisterNode,
    RemoveNode,
    ReportTasks,
    TaskReport,
)
from gosched.core.commands.revocation import RevokeCertificate, UnrevokeCertificate
from gosched.core.commands.secrets import DeleteSecret, ResealSecret, SetSecret
from gosched.core.features import FeatureLevel
from gosched.core.records.access import AccessRole, Binding, Token
from gosched.core.records.job import Job
from gosched.core.records.join import JoinToken
from gosched.core.records.master import Configuration, Master, Member
from gosched.core.records.node import ClosedBy, Hardware, Node, NodeState
from gosched.core.records.queue import Queue, QueueOrder, QueueType
from gosched.core.records.revocation import Revocation
from gosched.core.records.task import TaskState
from gosched.core.records.tenant import Quota
from gosched.core.records.usage import NO_USAGE, Usage
from gosched.core.records.window import Window
from gosched.core.resources import MILLI, Resources
from gosched.core.rules.jobs import check_job
from gosched.core.spec.placement_rules import Taint, TaintEffect
from gosched.core.spec.policies import PreemptionPolicy
from gosched.core.state.cluster_state import ClusterState
from gosched.scheduling import Admission
from tests.lives import shapes
from tests.lives.shapes import MINUTE_MS, TENANTS

NODES = tuple([f"n{number}" for number in range(1, 7)])
MAX_LIVE = 24  # jobs: more make commands slow, and meet nothing new
HEX = "0123456789abcdef"


@dataclass(slots=True)
class Hand:
    """What draws look at. `favour`: of some jobs, the one to which most has happened, as often as not."""

    r: Random
    state: ClusterState
    favour: Callable[[Sequence[Job]], Job]
    admit: Callable[[Job], Admission]
    number: int = 0
    #: Jobs whose tasks ignore SIGTERM.
    stubborn: dict[str, None] = field(default_factory=dict)

    def next(self) -> int:
        self.number += 1
        return self.number

    def live(self) -> list[Job]:
        return [job for job in self.state.jobs.values() if not job.state.is_final]

    def nodes(self, *states: NodeState) -> list[Node]:
        return [node for node in self.state.nodes.values() if node.state in states]


# Jobs


def submit(hand: Hand) -> Body:
    r, state = hand.r, hand.state
    if len(hand.live()) >= MAX_LIVE:
        return PassTime()
    spec = shapes.job(r, state, hand.next())
    job_id = f"j{hand.number}"
    if r.random() < 0.3:
        hand.stubborn[job_id] = None
    reservation = ()
    plain = not (spec.is_parent or spec.hold or spec.after)
    if spec.deadline_in_ms and plain and check_job(spec, state.feature_level) is None and spec.queue in state.queues:
        job = Job(id=job_id, spec=spec, sequence=state.next_sequence, submitted_at_ms=state.clock_ms)
        found = hand.admit(job).reservation
        reservation = (found,) if found is not None else ()
    next_run_ms = state.clock_ms + r.randint(1, 10) * MINUTE_MS if spec.cron else 0
    return SubmitJob(job_id=job_id, spec=spec, reservation=reservation, next_run_at_ms=next_run_ms)


def control(hand: Hand, *actions: Action) -> Body:
    live = hand.live()
    if not live:
        return PassTime()
    return ControlJob(job_id=hand.favour(live).id, action=hand.r.choice(actions))


def hold(hand: Hand) -> Body:
    held = [job for job in hand.live() if job.held]
    if held and hand.r.random() < 0.7:
        return ControlJob(job_id=hand.r.choice(held).id, action=Action.RELEASE)
    return control(hand, Action.HOLD)


def suspend(hand: Hand) -> Body:
    return _again(hand) or control(hand, Action.SUSPEND)


def freeze(hand: Hand) -> Body:
    return _again(hand) or control(hand, Action.FREEZE)


def _again(hand: Hand) -> Body | None:
    able = [job for job in hand.live() if job.frozen or job.shown_state.name == "SUSPENDED"]
    return ControlJob(job_id=hand.r.choice(able).id, action=Action.RESUME) if able and hand.r.random() < 0.7 else None


def requeue(hand: Hand) -> Body:
    return control(hand, Action.REQUEUE)


def scale(hand: Hand) -> Body:
    """Of elastic jobs; anything else only now and then, which is refused."""
    elastic = [job for job in hand.live() if job.spec.gang.min_tasks < job.spec.task_count]
    jobs = elastic if elastic and hand.r.random() < 0.95 else hand.live()
    if not jobs:
        return PassTime()
    job = hand.favour(jobs)
    least, most = job.spec.gang.min_tasks, job.spec.task_count
    wanted = hand.r.choice((least, least, most, (least + most) // 2, hand.r.randint(0, most + 1)))
    return ControlJob(job_id=job.id, action=Action.SCALE, tasks=wanted)


def cancel(hand: Hand) -> Body:
    live = hand.live()
    return CancelJob(job_id=hand.r.choice(live).id) if live else CancelJob(job_id="none")


def run_schedule(hand: Hand) -> Body:
    schedules = [job for job in hand.live() if job.spec.cron]
    if not schedules:
        return PassTime()
    job = hand.r.choice(schedules)
    due = job.children.next_run_at_ms
    after = due + hand.r.randint(1, 10) * MINUTE_MS
    return RunSchedule(job_id=job.id, child_id=f"j{hand.next()}", due_at_ms=due, next_run_at_ms=after)


def note(hand: Hand) -> Body:
    notes = [WaitNote(job_id=job_id, code="CAPACITY") for job_id in [*hand.state.pending][:3]]
    return NoteWaitReasons(notes=tuple(notes))


def drop(hand: Hand) -> Body:
    before = hand.r.choice((0, 0, hand.state.clock_ms - 30 * MINUTE_MS))
    return DropFinishedJobs(keep=hand.r.choice((0, 5, 20)), ended_before_ms=max(before, 0))


# Nodes


def register(hand: Hand) -> Body:
    """An agent comes, comes again as a new boot, or has news of its machine."""
    r = hand.r
    node_id = r.choice(NODES)
    known = hand.state.nodes.get(node_id)
    same = known is not None and r.random() < 0.6
    boot = known.incarnation if known is not None and same else f"b{hand.next()}"
    return registration(r, node_id, boot)


def registration(r: Random, node_id: str, boot: str) -> RegisterNode:
    """Return what the agent of a node says; mostly the same of the same node, now and then less."""
    number = NODES.index(node_id)
    gpus = (0, 4, 2, 0, 4, 4)[number]
    ill = r.random() < 0.1
    bad = tuple(sorted(r.sample(range(gpus), r.randint(1, gpus)))) if gpus and ill else ()
    cpus = 8 if r.random() < 0.9 else 4
    return RegisterNode(
        node_id=node_id,
        name=node_id,
        address="127.0.0.1:1",
        incarnation=boot,
        capacity=Resources(
            cpu_millis=cpus * MILLI,
            memory_bytes=8 << 30,
            gpu_millis=gpus * MILLI,
            custom=(("license", 2),) if number % 2 else (),
        ),
        gpu_model=("", "h100", "a100", "", "h100", "h100")[number],
        labels=tuple(sorted({"zone": f"z{number % 2}", "rack": f"r{number % 3}"}.items())),
        taints=(Taint(key="ill", effect=r.choice((*TaintEffect,)[1:])),) if r.random() < 0.1 else (),
        hardware=Hardware(
            numa_cpus=("0-3", "4-7") if cpus == 8 and number % 2 else (),
            gpu_links=(0, 0, 1, 1)[:gpus],
            gpu_memory_bytes=80 << 30 if gpus else 0,
            bad_gpus=bad,
        ),
    )


def lose(hand: Hand) -> Body:
    """A node dies, most often one that holds a task of a job to which much has happened."""
    live = hand.nodes(NodeState.READY, NodeState.CORDONED, NodeState.DRAINING)
    if not live:
        return PassTime()
    active = [job for job in hand.live() if job.active]
    held: list[str] = []
    if active and hand.r.random() < 0.7:
        tasks = hand.state.tasks_of(hand.favour(active))
        held = [task.node_id for task in tasks if task.state.is_active]
    node = hand.state.nodes[hand.r.choice(held)] if held else hand.r.choice(live)
    heard_at_ms = hand.r.choice((0, max(hand.state.clock_ms - hand.r.randrange(30_000), 1)))
    waited_ms = hand.r.choice((0, 1, 1, 10 * MINUTE_MS))
    return MarkNodeDead(
        node_id=node.id,
        incarnation=node.incarnation,
        reason="silent",
        heard_at_ms=heard_at_ms,
        waited_ms=waited_ms,
    )


def close(hand: Hand) -> Body:
    """A node is drained or cordoned, or opened again, by people or by its own agent."""
    r = hand.r
    closed = hand.nodes(NodeState.CORDONED, NodeState.DRAINING)
    by = r.choice((ClosedBy.OPERATOR, ClosedBy.OPERATOR, ClosedBy.AGENT))
    if closed and r.random() < 0.6:
        return ControlNode(node_id=r.choice(closed).id, action=NodeAction.UNCORDON, by=by)
    action = r.choice((NodeAction.CORDON, NodeAction.DRAIN, NodeAction.DRAIN))
    by_ms = hand.state.clock_ms + 2 * MINUTE_MS if action is NodeAction.DRAIN and r.random() < 0.5 else 0
    return ControlNode(node_id=r.choice(NODES), action=action, by=by, drain_by_ms=by_ms)


def label(hand: Hand) -> Body:
    r = hand.r
    node_id = r.choice(NODES)
    if r.random() < 0.5:
        return LabelNode(node_id=node_id, labels=(("pool", r.choice(("a", "b"))),))
    tainted = [node.id for node in hand.state.nodes.values() if node.set_taints]
    if tainted and r.random() < 0.7:
        return LabelNode(node_id=r.choice(tainted), drop_taints=("busy",))
    return LabelNode(node_id=node_id, taints=(Taint(key="busy", effect=r.choice((*TaintEffect,)[1:])),))


def remove(hand: Hand) -> Body:
    dead = hand.nodes(NodeState.DEAD)
    return RemoveNode(node_id=hand.r.choice(dead).id if dead else hand.r.choice(NODES))


def report(hand: Hand) -> Body:
    """An agent says what became of some of its tasks; now and then too late, for a boot that is gone."""
    r, state = hand.r, hand.state
    holding = [node for node, own in state.node_allocations.items() if own]
    if not holding:
        return PassTime()
    node = state.nodes[r.choice(holding)]
    mine = r.sample([*state.node_allocations[node.id]], min(len(state.node_allocations[node.id]), r.choice((1, 2, 4))))
    told = [_seen(hand, allocation) for allocation in mine]
    if r.random() < 0.03:
        told.append(TaskReport(allocation_id="j0/gone/0.1", state=TaskState.KILLED))
    boot = node.incarnation if r.random() < 0.98 else "b0"
    return ReportTasks(node_id=node.id, incarnation=boot, reports=tuple([seen for seen in told if seen]))


def _seen(hand: Hand, allocation_id: str) -> TaskReport | None:
    r, state = hand.r, hand.state
    allocation = state.allocations[allocation_id]
    task, now_ms = state.tasks[allocation.task_id], state.clock_ms
    started_ms = task.started_at_ms or max(now_ms - r.randrange(MINUTE_MS), 1)
    match task.state:
        case TaskState.STOPPING if allocation.job_id in hand.stubborn and r.random() < 0.9:
            return None
        case TaskState.STOPPING:
            after = r.choice((*[TaskState.KILLED] * 4, TaskState.SUCCEEDED, TaskState.FAILED, TaskState.STOPPING))
        case TaskState.RUNNING:
            after = r.choice((*[TaskState.SUCCEEDED] * 2, TaskState.FAILED, *[TaskState.RUNNING] * 11))
        case _:
            after = r.choice((*[TaskState.RUNNING] * 12, TaskState.STARTING, TaskState.FAILED))
    ended = after.is_final
    code = {TaskState.SUCCEEDED: 0, TaskState.FAILED: r.choice((1, 137))}.get(after)
    return TaskReport(
        allocation_id=allocation_id,
        state=after,
        exit_code=code,
        reason="OOM_KILLED" if after is TaskState.FAILED and r.random() < 0.2 else "",
        started_at_ms=started_ms,
        ended_at_ms=max(now_ms - r.randrange(MINUTE_MS), started_ms) if ended else 0,
        checkpoint_at_ms=now_ms if r.random() < 0.2 else 0,
        usage=Usage(cpu_ms=r.randrange(1000), memory_peak_bytes=1 << 20) if ended else NO_USAGE,
        blames_node=after is TaskState.FAILED and r.random() < 0.1,
    )


# The cluster


def window(hand: Hand) -> Body:
    r, now_ms = hand.r, hand.state.clock_ms
    name = r.choice(("w1", "w2"))
    if name in hand.state.windows and r.random() < 0.5:
        return DropWindow(name=name)
    nodes = tuple(sorted(r.sample(NODES, r.choice((1, 2)))))
    return SetWindow(
        window=Window(
            name=name,
            start_ms=now_ms + r.choice((0, 1, 10)) * MINUTE_MS,
            end_ms=r.choice((0, now_ms + 20 * MINUTE_MS)),
            nodes=nodes,
            queues=r.choice(((), ("prod",))),
            tenants=r.choice(((), (), ("x",))),
        )
    )


def queues(hand: Hand) -> Body:
    r = hand.r
    tree = (
        _queue(r, "prod", capacity_pct=r.choice((40, 50, 60))),
        _queue(r, "dev", capacity_pct=r.choice((20, 40))),
        _queue(r, "dev.a", capacity_pct=50),
        _queue(r, "dev.b", capacity_pct=50),
        Queue(path="free", type=r.choice((QueueType.FAIR, QueueType.FIFO)), weight=r.choice((1, 3))),
    )
    return SetQueues(queues=tree)


def _queue(r: Random, path: str, capacity_pct: int) -> Queue:
    return Queue(
        path=path,
        type=QueueType.CAPACITY,
        capacity_pct=capacity_pct,
        max_pct=r.choice((100, 100, 100, 80)),
        order=r.choice([*QueueOrder]),
        max_running_jobs=r.choice((0, 0, 0, 3)),
        limit=r.choice(((), (), (), (("cpu", 12 * MILLI),))),
        half_life_ms=r.choice((0, 60 * MINUTE_MS)),
        preemption=r.choice([*PreemptionPolicy]),
    )


def quotas(hand: Hand) -> Body:
    r = hand.r
    limit = r.choice(((), (("cpu", 16 * MILLI),), (("gpu", 4 * MILLI),), (("gpu:h100", 2 * MILLI),)))
    return SetQuotas(quotas=(Quota(tenant=r.choice(TENANTS), limit=limit, max_running_jobs=r.choice((0, 0, 4))),))


def pass_time(hand: Hand) -> Body:
    return PassTime()


def set_clock(hand: Hand) -> Body:
    """Set back by up to an hour, or forward."""
    now_ms = hand.state.clock_ms
    to_ms = now_ms + hand.r.choice((-60, -20, -5, -1, 1, 120)) * MINUTE_MS
    runs = [NextRun(job_id=job.id, at_ms=to_ms + 5 * MINUTE_MS) for job in hand.live() if job.spec.cron]
    return SetClock(to_ms=to_ms, runs=tuple(runs))


def lead(hand: Hand) -> Body:
    master = Master(id=hand.r.choice(("m1", "m2", "m3")), grpc_address="127.0.0.1:2", http_address="127.0.0.1:3")
    return hand.r.choice((OpenEpoch(leader=master), OpenEpoch(leader=master), AnnounceMaster(master=master), Noop()))


def member(hand: Hand) -> Body:
    if hand.r.random() < 0.3:
        return SetFeatureLevel(level=max(FeatureLevel), cluster_id="c1", task_key="k1")
    known = hand.state.configuration
    version = known.version + 1 if known is not None else 1
    members = tuple([Member(id=f"m{i}", address=f"127.0.0.1:{i}") for i in range(1, hand.r.choice((3, 5)) + 1)])
    return SetMembers(configuration=Configuration(version=version, members=members))


# People, and what they know


def access(hand: Hand) -> Body:
    r, state = hand.r, hand.state
    if r.random() < 0.3:
        role = r.choice((AccessRole.VIEWER, AccessRole.SUBMITTER))
        return SetBindings(bindings=(Binding(name="b", role=role, users=("ann",), tenants=("x",)),))
    if state.tokens and r.random() < 0.4:
        return RevokeToken(id=r.choice([*state.tokens]))
    token = Token(
        id=f"t{hand.next()}",
        name="ci",
        user="ann",
        role=AccessRole.VIEWER,
        digest=_digest(r),
        created_at_ms=state.clock_ms,
        expires_at_ms=state.clock_ms + r.choice((1, 60)) * MINUTE_MS,
        certificate=r.choice(("", "c1")),
    )
    return CreateToken(token=token)


def join(hand: Hand) -> Body:
    r, state = hand.r, hand.state
    ends_ms = state.clock_ms + 60 * MINUTE_MS
    if state.join_tokens and r.random() < 0.4:
        token = state.join_tokens[r.choice([*state.join_tokens])]
        return r.choice((
            RevokeJoinToken(id=token.id),
            UseJoinToken(id=token.id, digest=token.digest, key=_digest(r), node=r.choice(NODES),
                         ends_at_ms=ends_ms, certificate=f"c{hand.next()}"),
        ))  # fmt: skip
    if state.joined_nodes and r.random() < 0.3:
        node = state.joined_nodes[r.choice([*state.joined_nodes])]
        shown = node.certificates[0] if node.certificates else ""
        return RenewJoinedNode(name=node.name, ends_at_ms=ends_ms, certificate=f"c{hand.next()}", shown=shown)
    made = JoinToken(
        id=f"jt{hand.next()}",
        name="rack-1",
        node=r.choice(("", "n*", *NODES)),
        digest=_digest(r),
        created_at_ms=state.clock_ms,
        expires_at_ms=state.clock_ms + r.choice((1, 60)) * MINUTE_MS,
    )
    return CreateJoinToken(token=made)


def revoke(hand: Hand) -> Body:
    r, state = hand.r, hand.state
    if state.revocations and r.random() < 0.4:
        return UnrevokeCertificate(certificate=r.choice([*state.revocations]))
    ends_ms = r.choice((0, state.clock_ms + MINUTE_MS))
    revocation = Revocation(certificate=_digest(r)[:16].lstrip("0"), at_ms=state.clock_ms, ends_at_ms=ends_ms)
    return RevokeCertificate(revocation=revocation)


def secret(hand: Hand) -> Body:
    r, state = hand.r, hand.state
    if state.secrets and r.random() < 0.5:
        known = state.secrets[r.choice([*state.secrets])]
        return r.choice((
            DeleteSecret(tenant=known.tenant, name=known.name),
            ResealSecret(tenant=known.tenant, name=known.name, version=known.version, sealed="YQ==", key_id="k2",
                         cluster_id=state.cluster_id),
        ))  # fmt: skip
    return SetSecret(tenant=r.choice(TENANTS), name="db", sealed="YQ==", key_id="k1", cluster_id=state.cluster_id)


def _digest(r: Random) -> str:
    return "".join(r.choices(HEX, k=64))


#: Besides `cycle` and `replan`, which are the planner's, and `restore`: how often each is drawn.
WEIGHTS: dict[Callable[[Hand], Body], int] = {
    submit: 14,
    report: 34,
    scale: 8,
    suspend: 3,
    freeze: 3,
    requeue: 2,
    hold: 3,
    cancel: 1,
    run_schedule: 1,
    note: 1,
    drop: 1,
    register: 5,
    lose: 4,
    close: 4,
    label: 2,
    remove: 1,
    window: 2,
    queues: 1,
    quotas: 1,
    pass_time: 8,
    set_clock: 1,
    lead: 1,
    member: 1,
    access: 1,
    join: 1,
    revoke: 1,
    secret: 1,
}


def opening(r: Random) -> list[Body]:
    """Return the commands that make a world in which something can happen."""
    tree = [Queue(path=path, type=QueueType.CAPACITY, capacity_pct=pct) for path, pct in
            (("prod", 50), ("dev", 40), ("dev.a", 50), ("dev.b", 50))]  # fmt: skip
    found: list[Body] = [
        SetFeatureLevel(level=max(FeatureLevel), cluster_id="c1", task_key="k1"),
        OpenEpoch(leader=Master(id="m1", grpc_address="127.0.0.1:2", http_address="127.0.0.1:3")),
        SetQueues(queues=(*tree, Queue(path="free", type=QueueType.FAIR))),
    ]
    return [*found, *[replace(registration(r, node, "b1"), taints=()) for node in NODES]]
