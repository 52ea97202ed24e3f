"""Running counts over the cluster, kept by events, so that no question "how many" walks all jobs.

Invariant: after `take` of all events the counts equal those of a `reset`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from gosched.core.events import Event, JobChanged, JobUpdated, NodeChanged
from gosched.core.records.job import JobState
from gosched.core.records.node import NodeState
from gosched.core.sharing import Amounts, add_to, charge_of
from gosched.core.spec.job_spec import JobSpec
from gosched.core.state.cluster_state import ClusterState

K = TypeVar("K")


class ClusterCounts:
    """How many jobs and nodes are in which state, and what the pending jobs ask for."""

    def __init__(self) -> None:
        #: (queue, state as it is shown) -> jobs.
        self.jobs: Counter[tuple[str, JobState]] = Counter()
        #: State -> nodes.
        self.nodes: Counter[NodeState] = Counter()
        #: Queue -> what its pending jobs ask for.
        self.demand: dict[str, Amounts] = {}
        self._pending: dict[str, JobSpec] = {}  # by job id
        self._frozen: dict[str, str] = {}  # job id -> its queue; it is RUNNING by the events, and shown as SUSPENDED

    def reset(self, state: ClusterState) -> None:
        self.jobs = Counter((job.spec.queue, job.shown_state) for job in state.jobs.values())
        self._frozen = {job.id: job.spec.queue for job in state.jobs.values() if job.shown_state is not job.state}
        self.nodes = Counter(node.state for node in state.nodes.values())
        self.demand, self._pending = {}, {}
        for job in state.jobs.values():
            if job.state is JobState.PENDING:
                self._wait(job.id, job.spec)

    def take(self, state: ClusterState, events: Iterable[Event]) -> None:
        """Follow the events; `state` is the one after them."""
        for event in events:
            if isinstance(event, JobChanged):
                _move(self.jobs, (event.queue, event.before), (event.queue, event.after))
                self._take_demand(state, event)
                self._take_frozen(state, event.job_id)
            elif isinstance(event, JobUpdated):
                self._take_frozen(state, event.job_id)
            elif isinstance(event, NodeChanged):
                _move(self.nodes, event.before, event.after)

    def jobs_in(self, queue: str, state: JobState) -> int:
        return self.jobs[(queue, state)]

    def jobs_being(self, state: JobState) -> int:
        return sum(n for (_, s), n in self.jobs.items() if s is state)

    def _take_frozen(self, state: ClusterState, job_id: str) -> None:
        job = state.jobs.get(job_id)
        running, suspended = JobState.RUNNING, JobState.SUSPENDED
        if job is not None and job.shown_state is not job.state:
            if job_id not in self._frozen:
                queue = self._frozen[job_id] = job.spec.queue
                _move(self.jobs, (queue, running), (queue, suspended))
        elif job_id in self._frozen:
            queue = self._frozen.pop(job_id)
            _move(self.jobs, (queue, suspended), (queue, running))

    def _take_demand(self, state: ClusterState, event: JobChanged) -> None:
        job = state.jobs.get(event.job_id)
        if event.after is not JobState.PENDING:
            self._wait_no_more(event.job_id)
        elif job is not None:  # else dropped since then
            self._wait(job.id, job.spec)

    def _wait(self, job_id: str, spec: JobSpec) -> None:
        if job_id not in self._pending and not spec.is_parent:  # an array's children ask for themselves
            self._pending[job_id] = spec
            _add_demand(self.demand.setdefault(spec.queue, {}), spec, 1)

    def _wait_no_more(self, job_id: str) -> None:
        spec = self._pending.pop(job_id, None)
        if spec is not None:
            _add_demand(self.demand[spec.queue], spec, -1)


def _add_demand(total: Amounts, spec: JobSpec, sign: int) -> None:
    for group in spec.groups:
        add_to(total, charge_of(group.resources, group.gpu_model), sign * group.count)


def _move(counter: Counter[K], before: K, after: K) -> None:
    """Count one less before and one more after. UNSPECIFIED stands for "not there" and is counted like the rest."""
    counter[before] -= 1
    counter[after] += 1
