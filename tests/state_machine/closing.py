"""Commands at random as in `chaos`, with nodes that are closed and opened, GPUs that turn bad, jobs that are frozen or
end with one group, and usage. Each draws from `chaos` first and changes what it got."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import Action, ControlJob, SubmitJob
from gosched.core.commands.nodes import ControlNode, NodeAction, RegisterNode, ReportTasks
from gosched.core.commands.plans import CommitPlan
from gosched.core.records.node import ClosedBy, NodeState
from gosched.core.records.task import TaskState
from gosched.core.records.usage import NO_USAGE, Usage
from gosched.core.resources import MILLI
from gosched.core.state.cluster_state import ClusterState
from tests.state_machine import chaos

HUGE = 1 << 62


def submit(r: Random, state: ClusterState) -> Body:
    body = chaos.submit(r, state)
    assert isinstance(body, SubmitJob)
    groups = body.spec.groups
    if len(groups) == 1 or r.random() < 0.3:
        return body
    ends_with = r.choice(groups).name
    return replace(body, spec=replace(body.spec, gang=replace(body.spec.gang, ends_with=ends_with)))


def plan(r: Random, state: ClusterState) -> Body:
    """Now and then onto a node that takes no work, or with a bad GPU."""
    body = chaos.plan(r, state)
    assert isinstance(body, CommitPlan)
    if r.random() < 0.7:
        return body
    closed = [node.id for node in state.nodes.values() if node.state is not NodeState.READY] or ["n1"]
    node = r.choice(closed)
    gangs = []
    for gang in body.gangs:
        tasks = [replace(t, node_id=node) if r.random() < 0.5 else t for t in gang.tasks]
        tasks = [replace(t, gpus=_others(r, state, t.node_id, len(t.gpus))) if t.gpus else t for t in tasks]
        gangs.append(replace(gang, tasks=tuple(tasks)))
    return replace(body, gangs=tuple(gangs))


def _others(r: Random, state: ClusterState, node_id: str, count: int) -> tuple[int, ...]:
    there = state.nodes[node_id].capacity.gpu_millis // MILLI if node_id in state.nodes else 4
    return tuple(sorted(r.sample(range(max(there, count)), count)))


def report(r: Random, state: ClusterState) -> Body:
    """With usage, blame, and a clock of the node's own."""
    body = chaos.report(r, state)
    assert isinstance(body, ReportTasks)
    told = [
        replace(
            seen,
            state=TaskState.FAILED if r.random() < 0.2 else seen.state,
            ended_at_ms=r.choice((0, 1, state.clock_ms + r.randrange(-20, 5), HUGE)),
            usage=r.choice((NO_USAGE, Usage(cpu_ms=r.choice((-5, 7, HUGE)), memory_peak_bytes=9))),
            blames_node=r.random() < 0.8,
        )
        for seen in body.reports
    ]
    return replace(body, reports=tuple(told))


def register(r: Random, state: ClusterState) -> Body:
    body = chaos.register(r, state)
    assert isinstance(body, RegisterNode)
    bad = [gpu for gpu in range(body.capacity.gpu_millis // MILLI) if r.random() < 0.3]
    return replace(body, hardware=replace(body.hardware, bad_gpus=tuple(bad)))


def close(r: Random, state: ClusterState) -> Body:
    """Opens as often as it closes, or nothing would run."""
    closed = [n.id for n in state.nodes.values() if n.state in (NodeState.CORDONED, NodeState.DRAINING)]
    by = r.choice((*[ClosedBy.OPERATOR, ClosedBy.AGENT] * 4, ClosedBy.FAILURES))
    if closed and r.random() < 0.6:
        return ControlNode(node_id=r.choice(closed), action=NodeAction.UNCORDON, by=by)
    action = r.choice((NodeAction.CORDON, NodeAction.DRAIN, r.choice([*NodeAction])))
    return ControlNode(
        node_id=r.choice(chaos.NODES[:3]),
        action=action,
        by=by,
        reason=r.choice(("", "disk")),
        drain_by_ms=r.choice((0, state.clock_ms + 15)) if action is NodeAction.DRAIN else 0,
    )


def freeze(r: Random, state: ClusterState) -> Body:
    live = [job for job in state.jobs.values() if job.active]
    if not live:
        return chaos.control(r, state)
    job = r.choice(live)
    return ControlJob(job_id=job.id, action=Action.RESUME if job.frozen else Action.FREEZE)


KINDS: dict[str, Callable[[Random, ClusterState], Body]] = {
    **chaos.KINDS,
    **{f.__name__: f for f in (submit, plan, report, register, close, freeze)},
}
WEIGHTS = {**chaos.WEIGHTS, "close": 4, "freeze": 4, "force": 8, "register": 4, "mark_dead": 2}


def commands(r: Random, state: ClusterState, count: int) -> Iterator[Command]:
    """Lazily, since each looks at the state that the ones before have left."""
    for kind in r.choices([*WEIGHTS], [*WEIGHTS.values()], k=count):
        yield chaos.wrap(r, state, KINDS[kind](r, state))
