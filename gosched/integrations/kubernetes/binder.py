"""Start orders into bindings. A gang is bound once all of its orders are here, and a pod for each of them.

Invariant: no pod is bound for an order whose gang is incomplete, nor against a rule about other pods; and a binding
whose answer was lost is looked up, not sent to a second node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from http import HTTPStatus
from typing import Any

import structlog

from gosched.core.reasons import Reason
from gosched.core.records.task import TaskState
from gosched.integrations.kube_objects.pods import ALLOCATION, Pod
from gosched.integrations.kube_objects.quantities import minus
from gosched.integrations.kubernetes.api import KubeApi, KubeError, KubeUnreachable, backoff_s
from gosched.integrations.kubernetes.neighbours import Neighbours
from gosched.integrations.kubernetes.tasks import Order, Tasks
from gosched.integrations.kubernetes.world import World

MAX_BINDINGS = 48  # at once
MAX_TRIES = 8
RULE_BROKEN = "RULE_BROKEN"  # why a job has failed that was planned against a rule about other pods
_NOT_BOUND = "NOT_BOUND"

log = structlog.get_logger()


class Binder:
    """Binds pods for orders. `shape_of` names what a waiting pod asks for, as the task groups of gangs do; empty: it is
    not known. `evict` is called for a pod that was bound after its order to stop had come."""

    def __init__(
        self,
        api: KubeApi,
        world: World,
        tasks: Tasks,
        shape_of: Callable[[Pod], str],
        evict: Callable[[str], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._api = api
        self._world = world
        self._tasks = tasks
        self._shape_of = shape_of
        self._evict = evict
        self._spawn = spawn
        self._calls = asyncio.Semaphore(MAX_BINDINGS)
        self._assigned: dict[str, str] = {}  # uid of a pod -> allocation that it is being bound for
        self._in_hand: set[str] = set()  # allocations that are being bound
        self._stops: dict[str, str] = {}  # of these, those that are to stop, and why
        self._outdated: set[str] = set()  # ids of jobs that are being cancelled

    def take(self, order: Order) -> None:
        """Take an order; it is bound with the rest of its gang."""
        if not self._tasks.take(order):
            return
        if order.job_id in self._outdated:
            problem = "its job is being submitted anew, as other pods leave it other nodes now"
            self._tasks.end(order.allocation_id, order.node, TaskState.LOST, Reason.NODE_LOST, problem)
        else:
            self.go_on(order.job_id)

    def retire(self, job_id: str) -> bool:
        """Take no orders of a job any more, so that it may be cancelled; return False if there are some."""
        if self._tasks.ordered_of_job(job_id) or self._tasks.bound_of_job(job_id):
            return False
        self._outdated.add(job_id)
        return True

    def is_retired(self, job_id: str) -> bool:
        """Return whether orders of a job are not taken any more."""
        return job_id in self._outdated

    def keep_retired(self, live: Collection[str]) -> None:
        """Forget the retired jobs that are not live any more."""
        self._outdated.intersection_update(live)

    def node_of(self, pod: Pod) -> str:
        """Return the node that a pod is on, or is being bound to; empty: it has none."""
        allocation = self._assigned.get(pod.uid) or self._tasks.allocation_of(pod)
        known = self._tasks.ordered.get(allocation) or self._tasks.bound.get(allocation)
        return pod.node or (known.node if known else "")

    def go_on(self, job_id: str) -> None:
        """Bind what is ordered of a job, if all of one start of it is here."""
        starts: dict[tuple[str, str], list[Order]] = {}
        for order in self._tasks.ordered_of_job(job_id):
            if order.allocation_id not in self._in_hand:
                starts.setdefault(order.start, []).append(order)
        for (_, attempt), orders in starts.items():
            bound = [b for b in self._tasks.bound_of_job(job_id) if b.allocation_id.endswith(f".{attempt}")]
            if len(orders) + len(bound) >= orders[0].count:
                self._bind_all(orders)

    def is_free(self, pod: Pod) -> bool:
        """Return whether no allocation has the pod, or is about to."""
        return pod.uid not in self._assigned and not self._tasks.allocation_of(pod)

    def stop(self, allocation_id: str, node: str, reason: str) -> None:
        """Give up an order; one that is being bound is evicted as soon as it is."""
        if allocation_id in self._in_hand:
            self._stops[allocation_id] = reason
        else:
            self._tasks.end(allocation_id, node, TaskState.KILLED, reason, "it was stopped before it was bound")

    def _bind_all(self, orders: list[Order]) -> None:
        """Bind all of the orders, or end all: one that cannot be bound makes its gang start anew."""
        found = [(order, self._choose(order)) for order in orders]
        chosen = [(order, pod) for order, pod in found if pod is not None]
        missing = len(found) - len(chosen)
        nodes = dict.fromkeys(order.node for order in orders)
        problem = next((said for node in nodes if (said := self._node_problem(node))), "")
        problem = problem or ("no pod that waits is like the one that was planned" if missing else "")
        if problem:
            self._give_up(found, TaskState.LOST, Reason.NODE_LOST, problem)
            return
        neighbours = Neighbours(self._world, self.node_of)
        for order, pod in chosen:
            if broken := neighbours.broken(pod, order.node):
                self._give_up(found, TaskState.FAILED, RULE_BROKEN, f"pod {pod.path} on node {order.node}: {broken}")
                return
        for order, pod in chosen:
            self._in_hand.add(order.allocation_id)
            self._spawn(self._bind(order, pod))

    def _give_up(self, found: Sequence[tuple[Order, Pod | None]], state: TaskState, reason: str, problem: str) -> None:
        for order, pod in found:
            if pod is not None:
                self._assigned.pop(pod.uid, None)
            self._tasks.end(order.allocation_id, order.node, state, reason, problem)

    def _node_problem(self, name: str) -> str:
        """Return why nothing can be bound to a node: what the plan was made for may be over."""
        node = self._world.nodes.get(name)
        if node is None:
            return f"node {name} is gone"
        if node.unfit:
            return f"node {name}: {node.unfit}"
        left = minus(node.allocatable, self._world.foreign(name, self._tasks.has))
        return "" if self._tasks.held(name).fits_in(left) else f"other schedulers' pods took the place on node {name}"

    def _choose(self, order: Order) -> Pod | None:
        for pod in self._candidates(order):
            if pod.waits and not pod.gates and self.is_free(pod) and (order.pod or self._shape_of(pod) == order.group):
                self._assigned[pod.uid] = order.allocation_id
                return pod
        return None

    def _candidates(self, order: Order) -> list[Pod]:
        if order.pod:
            return [pod for pod in [self._world.waiting.get(order.pod)] if pod is not None]
        return self._world.members(order.gang)

    async def _bind(self, order: Order, pod: Pod) -> None:
        try:
            problem = await self._try_to_bind(order, pod)
        finally:
            self._in_hand.discard(order.allocation_id)
            self._assigned.pop(pod.uid, None)
            reason = self._stops.pop(order.allocation_id, "")
        if problem:
            log.warning("a pod was not bound", pod=pod.path, node=order.node, why=problem)
            state = TaskState.KILLED if reason else TaskState.LOST
            self._tasks.end(order.allocation_id, order.node, state, reason or _NOT_BOUND, problem)
            return
        self._tasks.bind(order.allocation_id, pod, order.node)
        current = self._world.pods.get(pod.uid)
        if current is None or current.has_ended:  # it went before the answer came
            self._tasks.pod_ended(current or pod, deleted=current is None)
        elif reason and self._tasks.stop(order.allocation_id, reason):
            self._evict(pod.uid)

    async def _try_to_bind(self, order: Order, pod: Pod) -> str:
        """Return why the pod could not be bound to its node; empty: it is."""
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            # The API server refuses a pod of this name that is another one, and writes the annotation with the node.
            "metadata": {"name": pod.name, "uid": pod.uid, "annotations": {ALLOCATION: order.allocation_id}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": order.node},
        }
        failures = 0
        while order.allocation_id not in self._stops:
            try:
                async with self._calls:
                    await self._api.post(f"{path}/binding", body)
                return ""
            except KubeError as error:
                failures += 1
                if isinstance(error, KubeUnreachable) or error.status == HTTPStatus.CONFLICT:
                    said = await self._look(path, order, pod)
                    if said is not None:
                        return said
                if (not error.may_pass and error.status != HTTPStatus.CONFLICT) or failures >= MAX_TRIES:
                    return str(error)
                await asyncio.sleep(max(error.retry_after_s, backoff_s(failures)))
        return "it was stopped before it was bound"

    async def _look(self, path: str, order: Order, pod: Pod) -> str | None:
        """Return what became of a binding that was sent, as `_try_to_bind` does; None: nothing yet.

        It is asked for until there is an answer, also if the order is to stop: given up, the pod could run for an order
        that has ended.
        """
        failures = 0
        while True:
            try:
                found = await self._api.get(path)
                break
            except KubeError as error:
                if error.status == HTTPStatus.NOT_FOUND:
                    return "the pod is gone"
                if not error.may_pass:
                    return None
                failures += 1
                await asyncio.sleep(max(error.retry_after_s, backoff_s(failures)))
        metadata, node = found.get("metadata") or {}, (found.get("spec") or {}).get("nodeName")
        if metadata.get("uid") != pod.uid:
            return "the pod is gone"
        if node and (metadata.get("annotations") or {}).get(ALLOCATION) == order.allocation_id:
            return ""
        if node:
            return f"another scheduler has bound the pod to node {node}"
        return None
