"""The sessions of Kubernetes' nodes with the masters, by the protocol of agents: one for each node, on one connection.

Invariant: a node that registers anew is never the reason that a pod is stopped: what the masters do not know any more
is given up, not evicted.
"""

from __future__ import annotations

import asyncio
import math
import random
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import grpc
import structlog

from gosched import __version__
from gosched.agent.logic.fence import Fence, Made
from gosched.agent.logic.reconcile import Desired
from gosched.agent.masters import Connector, NotAMaster, Unreachable
from gosched.agent.orders import BadOrder, parse_order, parse_stop
from gosched.core.commands.nodes import RegisterNode
from gosched.core.orders import StopOrder, TaskOrder
from gosched.core.reasons import Reason
from gosched.integrations.kubernetes.api import backoff_s
from gosched.integrations.kubernetes.tasks import Tasks
from gosched.wire.codec import fill, to_message
from gosched.wire.metadata import LEADER
from gosched.wire.v1 import node_pb2, node_pb2_grpc, types_pb2

CALL_TIMEOUT_S = 10.0
CLOSE_S = 3 * CALL_TIMEOUT_S  # after which no call is on a channel that has failed: an exchange has two
MAX_CALLS = 32  # at once, of all nodes
HEARTBEAT_S = 5.0  # until a master has said how often
SETTLE_S = 0.1  # what changes together is told by one heartbeat
BINDING_S = 1.0  # for so long a node whose pods are being bound tells nothing of those that are

log = structlog.get_logger()


class Obeys(Protocol):
    """What carries out orders for a node."""

    def start(self, node: str, orders: Sequence[TaskOrder]) -> None: ...

    def stop(self, node: str, orders: Sequence[StopOrder]) -> None: ...


class Offers(Protocol):
    """What a node offers now; `whole`: without what other schedulers' pods take."""

    def __call__(self, incarnation: str, *, whole: bool) -> RegisterNode: ...


class Masters:
    """One channel to one master, which all sessions share; the next master's when a call fails."""

    def __init__(self, masters: Sequence[str], connect: Connector) -> None:
        self._masters = list(masters)
        self._connect = connect
        self._place = random.randrange(len(self._masters))
        self._channel: Any = None
        self._stub: Any = None  # of the channel
        self._opening = asyncio.Lock()
        self.calls = asyncio.Semaphore(MAX_CALLS)
        self.epoch = 0
        self.cluster_id = ""

    async def stub(self) -> tuple[Any, Any]:
        """Return the channel and its stub. Raises NotAMaster, Unreachable."""
        async with self._opening:
            if self._channel is not None and self._connect.is_outdated:
                await self._close()
            if self._channel is None:
                try:
                    self._channel = await self._connect(self._masters[self._place % len(self._masters)])
                except (NotAMaster, Unreachable):
                    self._place += 1
                    raise
                self._stub = node_pb2_grpc.NodeServiceStub(self._channel)
            return self._channel, self._stub

    async def failed(self, channel: Any) -> None:
        """Go on to the next master, unless another session has done so."""
        async with self._opening:
            if channel is self._channel:
                self._place += 1
                await self._close()

    async def passed_on(self, channel: Any, call: Any) -> None:
        """Go on with the leader, if a call was passed on to it: then one master less works for each call."""
        trailer = dict(await call.trailing_metadata() or ())
        leader = str(trailer.get(LEADER, ""))
        if leader not in self._masters:
            return
        async with self._opening:
            if channel is self._channel:
                self._place = self._masters.index(leader)
                await self._close()

    async def _close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            asyncio.get_running_loop().call_later(CLOSE_S, _close_later, channel)  # others' calls may be on it


class NodeSession:
    """`offer` returns what the node offers now, `unfit` why it takes no new tasks, and `holds` whether no other bridge
    may have registered it."""

    def __init__(
        self,
        name: str,
        masters: Masters,
        tasks: Tasks,
        obeys: Obeys,
        offer: Offers,
        unfit: Callable[[], str],
        holds: Callable[[], bool],
        heartbeat_ms: int | None,
    ) -> None:
        self.name = name
        self.incarnation = secrets.token_hex(8)
        self.changed = asyncio.Event()
        #: Which orders count.
        self.fence = Fence()
        #: The Kubernetes node is gone: the session ends once the masters know that it takes no work.
        self.ends = False
        self._masters = masters
        self._tasks = tasks
        self._obeys = obeys
        self._offer = offer
        self._unfit = unfit
        self._holds = holds
        self._longest_s = heartbeat_ms / 1000 if heartbeat_ms else math.inf  # between two heartbeats
        self._heartbeat_s = min(HEARTBEAT_S, self._longest_s)
        self._known: RegisterNode | None = None  # what the masters know
        self._said = ""
        self._number = 0  # of the newest heartbeat

    async def run(self) -> None:
        """Talk to the masters until `ends`."""
        failures = 0
        while True:
            self.changed.clear()
            last = self.ends
            try:
                async with self._masters.calls:
                    await self._exchange_with_one()
                failures, self._said = 0, ""
            except (NotAMaster, Unreachable, grpc.aio.AioRpcError) as error:
                self._say(error.details() or "" if isinstance(error, grpc.aio.AioRpcError) else str(error))
                failures += 1
                await asyncio.sleep(backoff_s(failures))
                continue
            if last:
                return
            await self._wait()

    async def _wait(self) -> None:
        due = time.monotonic() + self._heartbeat_s * random.uniform(0.8, 1.0)
        try:
            async with asyncio.timeout(due - time.monotonic()):
                await self.changed.wait()
        except TimeoutError:
            return
        ends = min(due, time.monotonic() + BINDING_S)
        await asyncio.sleep(SETTLE_S)
        while self._tasks.is_binding(self.name) and not self.ends and time.monotonic() < ends:
            await asyncio.sleep(SETTLE_S)

    async def _exchange_with_one(self) -> None:
        """Exchange news with one master. Raises NotAMaster, Unreachable, AioRpcError; the next call goes to another one
        where this one does not answer."""
        channel, stub = await self._masters.stub()
        try:
            await self._exchange(channel, stub)
        except grpc.aio.AioRpcError as error:
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                await self._masters.failed(channel)
            raise

    def _say(self, why: str) -> None:
        if why != self._said:
            log.warning("the masters do not take a node's news; they are asked again", node=self.name, why=why)
        self._said = why

    async def _exchange(self, channel: Any, stub: Any) -> None:
        """Register if need be, report, and then tell what the node offers now: masters refuse a node that offers less
        than they believe that its tasks hold, so they are told first of those that have ended."""
        if self._known is None and not (
            self._holds() and await self._register(stub, self._offer(self.incarnation, whole=True))
        ):
            return
        await self._heartbeat(channel, stub)
        offer = self._offer(self.incarnation, whole=False)
        if self._known is not None and offer != self._known and not self.ends and self._holds():
            await self._register(stub, offer)

    async def _register(self, stub: Any, offer: RegisterNode) -> bool:
        request = node_pb2.RegisterNodeRequest(
            tasks=self._reports(),
            clock_ms=int(time.time() * 1000),
            version=__version__,
            cluster_id=self._masters.cluster_id,
        )
        fill(offer, request)
        answer = await stub.RegisterNode(request, timeout=CALL_TIMEOUT_S)
        self._masters.cluster_id = answer.cluster_id or self._masters.cluster_id
        self._masters.epoch = max(self._masters.epoch, answer.epoch)
        self.fence.register(answer.registration)
        self._tasks.forget(self.name, answer.forget)
        if answer.stop_first:
            log.warning(
                "the masters gave up tasks of a node; their pods run on, as those of another scheduler",
                node=self.name,
                tasks=len(answer.stop_first),
            )
            for allocation_id in answer.stop_first:
                self._tasks.disown(allocation_id)
            self.changed.set()
            return False
        self._beat_every(answer.heartbeat_ms)
        self._known = offer
        return True

    def _beat_every(self, heartbeat_ms: int) -> None:
        """Take over how often the masters want to hear of the node; 0: they do not say."""
        if heartbeat_ms > 0:
            self._heartbeat_s = min(heartbeat_ms / 1000, self._longest_s)

    async def _heartbeat(self, channel: Any, stub: Any) -> None:
        assert self._known is not None
        self._number += 1
        request = node_pb2.HeartbeatRequest(
            node_id=self._known.node_id,
            incarnation=self.incarnation,
            tasks=self._reports(),
            epoch=self._masters.epoch,
            unfit=self._unfit(),
            version=__version__,
            clock_ms=int(time.time() * 1000),
            registration=self.fence.registration,
            number=self._number,
            heard=self.fence.heard,
        )
        call = stub.Heartbeat(request, timeout=CALL_TIMEOUT_S)
        answer = await call
        await self._masters.passed_on(channel, call)
        self._masters.epoch = max(self._masters.epoch, answer.epoch)
        if answer.register_again:
            self._known = None
            self.changed.set()
            return
        self._beat_every(answer.heartbeat_ms)
        desired = Desired(start=tuple([order.allocation_id for order in answer.start]))
        made = Made(registration=request.registration, revision=answer.revision)
        if self.fence.take_answer(desired, made, answer.under_way):
            return  # the next answer is newer
        self._tasks.forget(self.name, answer.forget)
        stops: list[StopOrder] = []
        starts: list[TaskOrder] = []
        try:
            stops = [parse_stop(order) for order in answer.stop]
            starts = [parse_order(order) for order in answer.start]
        except BadOrder as error:
            log.error("an order makes no sense", node=self.name, why=str(error))
        for order in stops:
            if order.reason == Reason.NOT_EXPECTED:
                self._tasks.disown(order.allocation_id)
        self._obeys.stop(self.name, [order for order in stops if order.reason != Reason.NOT_EXPECTED])
        if not self.ends:
            self._obeys.start(self.name, starts)

    def _reports(self) -> list[Any]:
        return [to_message(report, types_pb2.TaskReport) for report in self._tasks.reports(self.name)]


def _close_later(channel: Any) -> None:
    task = asyncio.ensure_future(channel.close())
    _closing.add(task)
    task.add_done_callback(_closing.discard)


_closing: set[asyncio.Task[None]] = set()
