"""The allocations of Kubernetes' nodes: which are ordered, which are bound to a pod, which have ended.

Invariant: an allocation that was ordered and is not bound is not reported, so that the masters order it again from a
bridge that was started anew; one that has ended is reported until the masters have committed it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from gosched.core.commands.nodes import TaskReport
from gosched.core.orders import TaskOrder
from gosched.core.reasons import Reason
from gosched.core.records.task import TaskState
from gosched.core.resources import Resources
from gosched.integrations.kube_objects.pods import Pod
from gosched.integrations.kube_objects.quantities import total

POD_VARIABLE = "KUBE_POD_UID"  # of an order: uid of its pod
GROUP_VARIABLE = "KUBE_POD_GROUP"  # of an order: key of the gang whose pods take its places
SINGLE = "pod"  # name of the task group of a pod by itself; those of gangs are `gang-SHAPE`

_DELETED = "POD_DELETED"
_FAILED = "POD_FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One allocation that is to get a pod."""

    allocation_id: str
    #: Name of the Kubernetes node.
    node: str
    job_id: str
    attempt: str
    #: Of the task group.
    group: str
    #: How many tasks the job has.
    count: int
    #: Uid of its pod; empty: one of its gang's.
    pod: str
    #: Key of the gang; empty: a pod by itself.
    gang: str
    resources: Resources

    @property
    def start(self) -> tuple[str, str]:
        """The start of the job that it is part of."""
        return self.job_id, self.attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One allocation that has its pod."""

    allocation_id: str
    node: str
    pod: str
    requests: Resources
    state: TaskState
    started_at_ms: int
    #: Code of why it is to stop; empty: it is not.
    stop: str = ""


def read_order(node: str, order: TaskOrder) -> Order | None:
    """Return an order for a pod, or None for that of another job."""
    env = dict(order.env)
    pod, gang = env.get(POD_VARIABLE, ""), env.get(GROUP_VARIABLE, "")
    count = env.get("GOSCHED_TASK_COUNT", "")
    if not (pod or gang) or not count.isdecimal():
        return None
    return Order(
        allocation_id=order.allocation_id,
        node=node,
        job_id=order.job_id,
        attempt=attempt_of(order.allocation_id),
        group=group_of(order.allocation_id),
        count=int(count),
        pod=pod,
        gang=gang,
        resources=order.resources,
    )


def job_of(allocation_id: str) -> str:
    """Return the job of JOB/GROUP/INDEX.ATTEMPT."""
    return allocation_id.partition("/")[0]


def group_of(allocation_id: str) -> str:
    return allocation_id.rpartition("/")[0].rpartition("/")[2]


def attempt_of(allocation_id: str) -> str:
    return allocation_id.rpartition(".")[2]


class Tasks:
    """`changed` is called with the name of a node whose reports differ."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self.ordered: dict[str, Order] = {}
        self.bound: dict[str, Bound] = {}
        self._by_pod: dict[str, str] = {}  # uid -> allocation, of bound ones
        self._ended: dict[str, dict[str, TaskReport]] = {}  # node -> by allocation
        self._on_node: dict[str, dict[str, None]] = {}  # allocations that are ordered or bound
        self._of_job: dict[str, dict[str, None]] = {}  # the same
        self._disowned: dict[str, None] = {}  # allocations that the masters gave up, while their pods run on

    def take(self, order: Order) -> bool:
        """Note an order; return whether it is new."""
        if order.allocation_id in self.ordered or order.allocation_id in self.bound or self.has_ended(order):
            return False
        self.ordered[order.allocation_id] = order
        self._index(order.allocation_id, order.node)
        return True

    def has_ended(self, order: Order) -> bool:
        return order.allocation_id in self._ended.get(order.node, {})

    def bind(self, allocation_id: str, pod: Pod, node: str) -> None:
        """Note that a pod is bound for an allocation, or news of that pod."""
        if allocation_id in self._disowned or allocation_id in self._ended.get(node, {}):
            return
        before = self.bound.get(allocation_id)
        if before is None and pod.uid in self._by_pod:
            return
        state = TaskState.RUNNING if pod.phase == "Running" else TaskState.STARTING
        known = Bound(
            allocation_id=allocation_id,
            node=node,
            pod=pod.uid,
            requests=pod.requests,
            state=max(state, before.state) if before else state,
            started_at_ms=before.started_at_ms if before else now_ms(),
            stop=before.stop if before else "",
        )
        if known == before:
            return
        self.ordered.pop(allocation_id, None)
        self.bound[allocation_id] = known
        self._by_pod[pod.uid] = allocation_id
        self._index(allocation_id, node)
        self._changed(node)

    def allocation_of(self, pod: Pod) -> str:
        """Return the allocation of a bound pod; empty: it has none."""
        return self._by_pod.get(pod.uid, "")

    def has(self, pod: Pod) -> bool:
        return pod.uid in self._by_pod

    def stop(self, allocation_id: str, reason: str) -> Bound | None:
        """Note that a bound one is to stop, and return it; None: it is not bound."""
        found = self.bound.get(allocation_id)
        if found is None or found.stop:
            return found
        self.bound[allocation_id] = stopping = replace(found, stop=reason or "STOPPED", state=TaskState.STOPPING)
        self._changed(found.node)
        return stopping

    def pod_ended(self, pod: Pod, *, deleted: bool) -> None:
        """End the allocation of a pod that has ended or is gone."""
        found = self.bound.get(self._by_pod.get(pod.uid, ""))
        if found is None:
            return
        state, reason, detail = _ending(pod, found, deleted=deleted)
        self.end(found.allocation_id, found.node, state, reason, detail, exit_code=pod.exit_code)

    def end(
        self,
        allocation_id: str,
        node: str,
        state: TaskState,
        reason: str,
        detail: str,
        *,
        exit_code: int | None = None,
    ) -> None:
        """End an allocation; the masters are told until they have committed it."""
        bound = self._forget(allocation_id)
        self._ended.setdefault(node, {})[allocation_id] = TaskReport(
            allocation_id=allocation_id,
            state=state,
            reason=reason,
            detail=detail,
            exit_code=exit_code,
            started_at_ms=bound.started_at_ms if bound else 0,
            ended_at_ms=now_ms(),
        )
        self._changed(node)

    def disown(self, allocation_id: str) -> None:
        """Give up an allocation that the masters do not know any more. Its pod runs on, as one of the others'."""
        bound = self._forget(allocation_id)
        if bound is not None:
            self._disowned[allocation_id] = None
            self._changed(bound.node)

    def forget(self, node: str, allocation_ids: Iterable[str]) -> None:
        """Drop the ends that the masters have committed."""
        ended = self._ended.get(node, {})
        for allocation_id in allocation_ids:
            ended.pop(allocation_id, None)

    def pod_gone(self, pod: Pod) -> None:
        self._disowned.pop(pod.allocation, None)

    def node_gone(self, node: str) -> None:
        """End what was on a node that is gone. Kubernetes deletes its pods, and their controllers make others."""
        for allocation_id in list(self._on_node.get(node, ())):
            bound = allocation_id in self.bound
            state = TaskState.FAILED if group_of(allocation_id) == SINGLE else TaskState.SUCCEEDED
            detail = f"the Kubernetes node {node} is gone"
            self.end(allocation_id, node, state if bound else TaskState.LOST, Reason.NODE_LOST, detail)

    def drop_node(self, node: str) -> None:
        """Drop the ends of a node that the masters count as gone."""
        self._ended.pop(node, None)

    def reports(self, node: str) -> list[TaskReport]:
        """Return what the masters are told of a node: all that is bound, and what has ended."""
        live = [self.bound[i] for i in self._on_node.get(node, ()) if i in self.bound]
        found = [
            TaskReport(allocation_id=each.allocation_id, state=each.state, started_at_ms=each.started_at_ms)
            for each in live
        ]
        return [*found, *self._ended.get(node, {}).values()]

    def is_binding(self, node: str) -> bool:
        """Return whether orders for a node have no pod yet."""
        return any(i in self.ordered for i in self._on_node.get(node, ()))

    def held(self, node: str) -> Resources:
        """Return what ordered and bound allocations hold on a node."""
        on_node = self._on_node.get(node, ())
        ordered = [self.ordered[i].resources for i in on_node if i in self.ordered]
        return total([*ordered, *[self.bound[i].requests for i in on_node if i in self.bound]])

    def bound_of_job(self, job_id: str) -> list[Bound]:
        return [self.bound[i] for i in self._of_job.get(job_id, ()) if i in self.bound]

    def ordered_of_job(self, job_id: str) -> list[Order]:
        return [self.ordered[i] for i in self._of_job.get(job_id, ()) if i in self.ordered]

    def _index(self, allocation_id: str, node: str) -> None:
        self._on_node.setdefault(node, {})[allocation_id] = None
        self._of_job.setdefault(job_of(allocation_id), {})[allocation_id] = None

    def _forget(self, allocation_id: str) -> Bound | None:
        order, bound = self.ordered.pop(allocation_id, None), self.bound.pop(allocation_id, None)
        if bound is not None:
            self._by_pod.pop(bound.pod, None)
        if (known := bound or order) is not None:
            for index, key in ((self._on_node, known.node), (self._of_job, job_of(allocation_id))):
                index[key].pop(allocation_id, None)
                if not index[key]:
                    del index[key]
        return bound


def now_ms() -> int:
    return int(time.time() * 1000)


def _ending(pod: Pod, bound: Bound, *, deleted: bool) -> tuple[TaskState, str, str]:
    """Return how an allocation ended with its pod. A gang is placed whole; what a pod's failure means for the others is
    their controller's to say (ADR 0090), so a member that failed gives its place back and stops no other."""
    if bound.stop:
        return TaskState.KILLED, bound.stop, f"pod {pod.path} was evicted"
    if pod.phase == "Succeeded":
        return TaskState.SUCCEEDED, "", ""
    reason = _FAILED if pod.phase == "Failed" or not deleted else _DELETED
    detail = f"pod {pod.path} {'has failed' if reason == _FAILED else 'was deleted'}"
    detail += f": {pod.ending}" if pod.ending else ""
    state = TaskState.FAILED if group_of(bound.allocation_id) == SINGLE else TaskState.SUCCEEDED
    return state, reason, detail
