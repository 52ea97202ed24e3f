"""The bridge: the API server on one side, the masters on the other.

Invariant: no order is taken before both sides have been listed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import structlog

from gosched.agent.masters import Connector
from gosched.client import GoSchedError
from gosched.client.aio.client import AsyncGoSchedClient
from gosched.core.commands.nodes import RegisterNode
from gosched.core.orders import StopOrder, TaskOrder
from gosched.core.reasons import Reason
from gosched.core.records.task import TaskState
from gosched.core.resources import ZERO
from gosched.integrations.kube_objects.nodes import KubeNode, offer
from gosched.integrations.kube_objects.pods import Pod
from gosched.integrations.kubernetes.api import KubeApi, KubeError, backoff_s
from gosched.integrations.kubernetes.binder import Binder
from gosched.integrations.kubernetes.conditions import Conditions
from gosched.integrations.kubernetes.evictions import Evictions
from gosched.integrations.kubernetes.groups import Groups
from gosched.integrations.kubernetes.sessions import Masters, NodeSession
from gosched.integrations.kubernetes.submitting import Submitting
from gosched.integrations.kubernetes.tasks import Tasks, read_order
from gosched.integrations.kubernetes.volumes import Volumes
from gosched.integrations.kubernetes.worker import KubeWorker
from gosched.integrations.kubernetes.world import NODES, PODS, World
from gosched.wire.v1 import worker_pb2_grpc

STOP_S = 0.5

log = structlog.get_logger()


class Bridge:
    """`address`: under which the masters reach this program. `queue`: of pods that name none. `holds`: whether no other
    bridge serves the cluster."""

    def __init__(
        self,
        api: KubeApi,
        client: AsyncGoSchedClient,
        masters: Sequence[str],
        connect: Connector,
        *,
        scheduler: str,
        cluster: str,
        queue: str,
        address: str,
        heartbeat_ms: int | None,
        holds: Callable[[], bool],
    ) -> None:
        self._api = api
        self._cluster = cluster
        self._address = address
        self._heartbeat_ms = heartbeat_ms
        self._holds = holds
        self._masters = Masters(masters, connect)
        self._world = World(scheduler)
        self._tasks = Tasks(self._news_of)
        self._said = Conditions(api, self._world, scheduler)
        self._evictions = Evictions(api, self._world, self._spawn)
        self._submitting = Submitting(
            client,
            self._world,
            self._tasks,
            Groups(api),
            Volumes(api),
            self._said,
            cluster=cluster,
            queue=queue,
            holds=holds,
        )
        self._binder = Binder(
            api, self._world, self._tasks, self._submitting.shape_of, self._evictions.begin, self._spawn
        )
        self._submitting.binder = self._binder
        self._by_name: dict[str, NodeSession] = {}
        self._by_id: dict[str, NodeSession] = {}
        self._group: asyncio.TaskGroup
        self._begun = False
        self._world.pod_changed = self._on_pod
        self._world.node_changed = self._on_node

    def serve(self, server: Any) -> None:
        """Add what the leader calls to a gRPC server."""
        worker_pb2_grpc.add_WorkerServiceServicer_to_server(KubeWorker(self._by_id, self._masters, self), server)

    async def run(self) -> None:
        """Go on for good."""
        async with asyncio.TaskGroup() as self._group:
            self._spawn(self._api.follow(NODES, self._world.replace_nodes, self._world.change_node))
            self._spawn(self._api.follow(PODS, self._world.replace_pods, self._world.change_pod))
            self._spawn(self._said.run())
            await self._begin()
            self._spawn(self._submitting.run())

    async def _begin(self) -> None:
        while not (self._world.has_nodes and self._world.has_pods):
            await asyncio.sleep(0.05)
        failures = 0
        while True:
            try:
                await self._submitting.begin()
                break
            except (GoSchedError, KubeError) as error:
                failures += 1
                log.warning("the masters or the API server do not answer; they are asked again", why=str(error))
                await asyncio.sleep(backoff_s(failures))
        self._begun = True
        for node in self._world.nodes.values():
            self._open(node)
        log.info("bridge started", nodes=len(self._by_id), pods=len(self._world.pods), bound=len(self._tasks.bound))

    def start(self, node: str, orders: Sequence[TaskOrder]) -> None:
        """Obey start orders for a node."""
        for order in orders:
            known = read_order(node, order)
            if known is not None:
                self._binder.take(known)
                continue
            detail = "this is a Kubernetes node: only pods run here. Leave out the toleration that let the job in"
            self._tasks.end(order.allocation_id, node, TaskState.FAILED, Reason.RUNTIME_NOT_SUPPORTED, detail)

    def stop(self, node: str, orders: Sequence[StopOrder]) -> None:
        """Obey stop orders for a node."""
        for order in orders:
            bound = self._tasks.stop(order.allocation_id, order.reason)
            if bound is not None:
                self._evictions.begin(bound.pod)
            else:
                self._binder.stop(order.allocation_id, node, order.reason)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        assert pod is not None
        if after is None:
            self._tasks.pod_ended(pod, deleted=True)
            self._tasks.pod_gone(pod)
        elif after.has_ended:
            self._tasks.pod_ended(after, deleted=False)
        elif after.node and after.allocation:
            self._tasks.bind(after.allocation, after, after.node)
        if before is not None and before.waits and not (after and after.waits):
            self._submitting.forget(before)
            self._said.forget(before)
        if pod.node and not self._tasks.has(pod):  # of ours, what is to be told is known by now
            self._news_of(pod.node)
        self._submitting.wake.set()

    def _on_node(self, before: KubeNode | None, after: KubeNode | None) -> None:
        if before is not None and (after is None or after.uid != before.uid):
            self._close(before)
        if after is not None and self._begun:
            self._open(after)
            self._news_of(after.name)

    def _open(self, node: KubeNode) -> None:
        if node.uid in self._by_id:
            return
        session = NodeSession(
            node.name,
            self._masters,
            self._tasks,
            self,
            partial(self._offer, node.name, node),
            partial(self._unfit, node),
            self._holds,
            self._heartbeat_ms,
        )
        self._by_name[node.name] = self._by_id[node.uid] = session
        self._spawn(self._talk(session))

    async def _talk(self, session: NodeSession) -> None:
        await session.run()
        if session.name not in self._by_name:
            self._tasks.drop_node(session.name)

    def _close(self, node: KubeNode) -> None:
        """End the session of a node that is gone: its last heartbeat says so, and what became of its tasks; the masters
        count it as dead once its lease is over."""
        session = self._by_id.pop(node.uid, None)
        if session is not None:
            log.info("a node is gone", node=node.name)
            self._by_name.pop(node.name, None)
            self._tasks.node_gone(node.name)
            session.ends = True
            session.changed.set()

    def _offer(self, name: str, first: KubeNode, incarnation: str, *, whole: bool) -> RegisterNode:
        node = self._world.nodes.get(name, first)
        node = node if node.uid == first.uid else first
        return offer(
            node,
            cluster=self._cluster,
            foreign=ZERO if whole else self._world.foreign(name, self._tasks.has),
            own=self._tasks.held(name),
            address=self._address,
            incarnation=incarnation,
        )

    def _unfit(self, first: KubeNode) -> str:
        node = self._world.nodes.get(first.name)
        return node.unfit if node is not None and node.uid == first.uid else "the Kubernetes node is gone"

    def _news_of(self, node: str) -> None:
        if session := self._by_name.get(node):
            session.changed.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._group.create_task(work)


async def serve(bridge: Bridge, server: Any) -> None:
    """Serve the leader's orders, and run the bridge for good."""
    bridge.serve(server)
    await server.start()
    try:
        await bridge.run()
    finally:
        await server.stop(STOP_S)
