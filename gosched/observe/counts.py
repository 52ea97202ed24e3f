"""Running counts over the cluster, kept by events: nobody walks all jobs to answer "how many".

Rule: after `take` of all events the counts equal those of a `reset`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from gosched.core.cluster import NodeState
from gosched.core.job import Job, JobState, Task
from gosched.core.outcome import Event, JobChanged, NodeChanged, TaskChanged
from gosched.core.resources import ZERO, Resources
from gosched.core.state import ClusterState

K = TypeVar("K")


class ClusterCounts:
    """`jobs`: (queue, state) -> jobs. `nodes`: state -> nodes. `used`: queue -> what its tasks hold."""

    def __init__(self) -> None:
        self.jobs: Counter[tuple[str, JobState]] = Counter()
        self.nodes: Counter[NodeState] = Counter()
        self.used: dict[str, Resources] = {}
        self._held: dict[str, tuple[str, Resources]] = {}  # active task -> its queue and what it holds

    def reset(self, state: ClusterState) -> None:
        self.jobs = Counter((job.spec.queue, job.state) for job in state.jobs.values())
        self.nodes = Counter(node.state for node in state.nodes.values())
        self.used, self._held = {}, {}
        for allocation in state.allocations.values():
            self._hold(allocation.task_id, state.jobs[allocation.job_id].spec.queue, allocation.resources)

    def take(self, state: ClusterState, events: Iterable[Event]) -> None:
        """`state` is the one after the events."""
        for event in events:
            if isinstance(event, JobChanged):
                _move(self.jobs, (event.queue, event.before), (event.queue, event.after))
            elif isinstance(event, NodeChanged):
                _move(self.nodes, event.before, event.after)
            elif isinstance(event, TaskChanged) and event.before.is_active != event.after.is_active:
                self._take_task(state, event)

    def jobs_in(self, queue: str, state: JobState) -> int:
        return self.jobs[(queue, state)]

    def jobs_being(self, state: JobState) -> int:
        return sum(n for (_, s), n in self.jobs.items() if s is state)

    def _take_task(self, state: ClusterState, event: TaskChanged) -> None:
        if event.after.is_active:
            job = state.jobs[event.job_id]
            self._hold(event.task_id, job.spec.queue, _resources(job, state.tasks[event.task_id]))
        else:
            queue, held = self._held.pop(event.task_id, ("", ZERO))
            if queue:
                self.used[queue] = self.used[queue] - held

    def _hold(self, task_id: str, queue: str, resources: Resources) -> None:
        self._held[task_id] = (queue, resources)
        self.used[queue] = self.used.get(queue, ZERO) + resources


def _resources(job: Job, task: Task) -> Resources:
    return next(group.resources for group in job.spec.groups if group.name == task.group)


def _move(counter: Counter[K], before: K, after: K) -> None:
    """UNSPECIFIED stands for "not there" and is counted like the rest; nobody asks for it."""
    counter[before] -= 1
    counter[after] += 1
