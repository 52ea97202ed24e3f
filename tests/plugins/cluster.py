"""Small clusters for tests of plugins: jobs with labels, tasks of other jobs that stand, and cycles with plugins on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gosched.core.records.job import Job, JobState
from gosched.core.records.node import Node
from gosched.core.records.task import Task, TaskState
from gosched.core.state.cluster_state import ClusterState
from gosched.plugins import Nodes, Plugin, Request
from gosched.scheduling import Plan, Policy, View, ViewBuilder, schedule
from gosched.scheduling.plugins.calls import Plugins
from gosched.scheduling.plugins.interface import Runner, unbounded
from tests.scheduling.support.cluster import group, job, state_of


def labelled(sequence: int, labels: Mapping[str, str], count: int = 1, cpu: float = 1, mem: int = 0) -> Job:
    made = job(sequence, group(count, cpu=cpu, mem=mem))
    return replace(made, spec=replace(made.spec, labels=tuple(sorted(labels.items()))))


def stand(state: ClusterState, sequence: int, labels: Mapping[str, str], *node_ids: str) -> None:
    """A running job with a task on each of the nodes. It holds no resources, which plugins do not mind."""
    running = replace(labelled(sequence, labels, count=len(node_ids)), state=JobState.RUNNING)
    state.put_job(running)
    for rank, (task_id, node_id) in enumerate(zip(running.task_ids(), node_ids, strict=True)):
        state.put_task(
            Task(
                id=task_id,
                job_id=running.id,
                group="worker",
                index=rank,
                rank=rank,
                state=TaskState.RUNNING,
                node_id=node_id,
            )
        )


def view_of(
    nodes: Iterable[Node],
    jobs: Iterable[Job] = (),
    standing: Sequence[tuple[Mapping[str, str], str]] = (),
    tracked: Sequence[str] = (),
) -> View:
    """`standing`: labels of a running job, and the ids of the nodes where its tasks are, separated by blanks."""
    state = state_of(nodes, jobs)
    for i, (labels, node_ids) in enumerate(standing):
        stand(state, 1000 + i, labels, *node_ids.split())
    builder = ViewBuilder(tracked)
    builder.reset(state)
    return builder.view(state)


def plan_with(
    plugins: Sequence[Plugin],
    nodes: Iterable[Node],
    jobs: Iterable[Job],
    standing: Sequence[tuple[Mapping[str, str], str]] = (),
    runner: Runner = unbounded,
) -> Plan:
    tracked = [label for plugin in plugins for label in plugin.tracked_labels]
    policy = Policy(plugins=tuple(plugins), runner=runner)
    return schedule(view_of(nodes, jobs, standing, tracked), policy, 0, 7)


def asked(
    plugin: Plugin, nodes: Iterable[Node], one: Job, standing: Sequence[tuple[Mapping[str, str], str]] = ()
) -> tuple[dict[str, list[str]], list[int] | None]:
    """What the plugin says about the job: by name of a mask the nodes that it refuses, and its scores."""
    view = view_of(nodes, [one], standing, plugin.tracked_labels)
    (gang,) = view.pending
    plugins = Plugins(view, [plugin], unbounded)
    masks, scores = plugins.columns(gang, gang.requests[0])
    assert plugins.faults == []
    ids = view.nodes.ids
    refused = {name: [ids[row] for row in range(len(ids)) if not mask[row]] for name, mask in masks}
    return refused, None if scores is None else scores.tolist()


__all__ = ["Nodes", "Plan", "Plugin", "Request", "asked", "labelled", "plan_with", "stand", "view_of"]
