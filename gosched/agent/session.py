"""The agent's session with the masters: registers, reports what it observes, obeys their orders.

Invariant: losing the masters stops nothing, and neither does reaching those of another cluster. The session goes from
one master to the next for as long as the agent lives; only a clear refusal to let this node in ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NoReturn

import grpc
import structlog

from gosched import __version__
from gosched.agent.datadir import DataDir
from gosched.agent.hardware.vitals import Vitals
from gosched.agent.logic.fence import Made
from gosched.agent.logic.reconcile import Desired
from gosched.agent.logs.kept import KeptLogs
from gosched.agent.masters import NotAMaster, Unreachable
from gosched.agent.orders import BadOrder, parse_order, parse_secrets, parse_stop
from gosched.agent.revoked import RevokedMasters
from gosched.agent.supervisor.records import boot_ms
from gosched.agent.tasks.table import Tasks
from gosched.api.spark import SparkProgress
from gosched.core.commands.nodes import RegisterNode
from gosched.core.orders import StopOrder, TaskOrder
from gosched.core.reasons import Reason, RefusalReason
from gosched.wire.codec import fill, to_message
from gosched.wire.refusals import refusal_reason
from gosched.wire.v1 import node_pb2, node_pb2_grpc, types_pb2

CALL_TIMEOUT_S = 3.0
HEARTBEAT_S = 5.0  # until a master has said how often
EARLIEST = 0.85  # of the time to the next heartbeat: agents that begin together do not stay in step
BACKOFF_MIN_S = 0.1
BACKOFF_MAX_S = 2.0
ASK_AGAIN_S = 0.5  # after an answer that does not count; the next one may not count either
MAX_MASTERS = 64  # that the masters may tell of
STOP_FIRST_LIMIT_S = 5.0
GOODBYE_LIMIT_S = 2.0  # for all masters together
HEARTBEATS_PER_LEASE = 5
MAX_LEFTOVERS_NAMED = 20  # in a line of the log

Why = Callable[[str], Awaitable[str]]
Connect = Callable[[str], Awaitable[Any]]  # address -> grpc.aio.Channel; raises NotAMaster, Unreachable

_NOT_LET_IN = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ALREADY_EXISTS)
_NOT_KNOWN = (
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
)


class MasterRefused(Exception):
    """The masters do not let this node in; the text is theirs and says why."""


class NodeIdInUse(MasterRefused):
    """Another agent has the id of this node."""


class NotOurMaster(Exception):
    """The answer came from a master of an epoch that is over, or of another cluster."""


class Session:
    """The agent's session with one master after the other.

    `describe` returns what the node is at this moment; a node that has changed registers again. `joined` is set once
    the masters have let this node in, perhaps on condition that leftovers end first.
    """

    def __init__(
        self,
        describe: Callable[[], RegisterNode],
        masters: Sequence[str],
        connect: Connect,
        tasks: Tasks,
        kept_logs: KeptLogs,
        data_dir: DataDir,
        changed: asyncio.Event,
        joined: asyncio.Event,
        vitals: Vitals,
        *,
        heartbeat_ms: int | None,
        why: Why | None = None,
        is_outdated: Callable[[], bool] = lambda: False,
        revoked: RevokedMasters | None = None,
        spark: Callable[[], Mapping[str, SparkProgress]] = dict,
    ) -> None:
        """`heartbeat_ms`: between two heartbeats at most; None: as the masters say. `why`: what keeps this node from
        the master at an address, in words; empty: nothing that it can see. `is_outdated`: the channel is to be opened
        anew, since there are new certificates. `revoked`: what masters say of revoked certificates; None: it is not
        kept. `spark`: what applications say whose drivers run here, by allocation."""
        self._describe = describe
        self._me = describe()
        self._vitals = vitals
        self._joined = joined
        self._configured = tuple(masters)
        self._masters = list(masters)  # and those that they told of
        self._connect = connect
        self._tasks = tasks
        self._kept_logs = kept_logs
        self._data_dir = data_dir
        self._changed = changed
        self._longest_s = heartbeat_ms / 1000 if heartbeat_ms else math.inf  # between two heartbeats
        self._heartbeat_s = min(HEARTBEAT_S, self._longest_s)
        self._in_step = True  # with the agents that have lost the same master
        self._lease_s = math.inf
        self._registered = False
        self._followed = False  # to a restored cluster, which has not let this node in yet
        self._failures = 0  # since the last answer
        self._refused: dict[str, grpc.StatusCode | None] = {}  # master -> why it did not let this node in, since then
        self._obeying: asyncio.Task[None] | None = None
        self._number = 0  # of the newest heartbeat
        self._why = why
        self._is_outdated = is_outdated
        self._revoked = revoked
        self._spark = spark
        self._telling: asyncio.Task[None] | None = None
        self._log = structlog.get_logger().bind(node=self._me.node_id)

    async def run(self) -> NoReturn:
        """Talk to the masters for good. Raises MasterRefused."""
        place = random.randrange(len(self._masters))  # agents spread over the masters
        while True:
            master = self._masters[place % len(self._masters)]
            try:
                channel = await self._connect(master)
                try:
                    await self._talk(node_pb2_grpc.NodeServiceStub(channel))
                finally:
                    await channel.close()
                continue  # with the same master
            except Unreachable as error:
                self._on_error(master, grpc.StatusCode.UNAVAILABLE, str(error))
            except NotAMaster as error:
                self._on_error(master, None, str(error))
            except grpc.aio.AioRpcError as error:
                self._on_error(master, error.code(), error.details() or "")
            except NotOurMaster as error:
                self._registered = False  # a registration proves which epoch is the masters'
                self._on_error(master, None, str(error))
            except OSError as error:
                self._log.error("cannot write to the data directory", why=str(error))
            place += 1
            await asyncio.sleep(self._backoff_s())

    async def goodbye(self) -> None:
        """Tell the masters, once `run` was cancelled, that this agent is stopped and comes back: they give the node no
        work, and wait for its tasks."""
        if not self._registered:
            return
        await self._tasks.close_to_orders()
        try:
            async with asyncio.timeout(GOODBYE_LIMIT_S):
                while not await self._part_from_one():
                    await asyncio.sleep(BACKOFF_MIN_S)
        except TimeoutError:
            self._log.warning("no master took this agent's goodbye: the node is given up if it stays away")

    async def _part_from_one(self) -> bool:
        """Return whether a master has taken the goodbye."""
        for master in list(self._masters):
            try:
                channel = await self._connect(master)
                try:
                    request, sent_ms = self._news(), boot_ms()
                    request.goodbye = True
                    stub = node_pb2_grpc.NodeServiceStub(channel)
                    answer = await stub.Heartbeat(request, timeout=CALL_TIMEOUT_S)
                finally:
                    await channel.close()
            except (Unreachable, NotAMaster, grpc.aio.AioRpcError):
                continue
            if answer.away_ms and self._data_dir.belongs_to(answer.cluster_id) and not answer.register_again:
                self._log.info("the masters wait for this agent", seconds=answer.away_ms // 1000)
                try:
                    self._data_dir.write_lease(sent_ms + answer.away_ms, answer.lease_ms)
                except OSError as error:
                    self._log.error(
                        "cannot write the lease: tasks that end with it do not wait so long", why=str(error)
                    )
            return True
        return False

    async def _talk(self, stub: Any) -> None:
        """Talk to one master, until a call fails, or the channel is outdated."""
        while not self._is_outdated():
            self._changed.clear()
            if not self._registered or self._describe() != self._me:
                await self._register(stub)
                continue
            await self._heartbeat(stub)
            if self._registered:
                await self._wait_for_change(self._pause_s())

    async def _register(self, stub: Any) -> None:
        me = self._me = self._describe()
        request = node_pb2.RegisterNodeRequest(
            tasks=[to_message(report, types_pb2.TaskReport) for report in self._tasks.observed()],
            clock_ms=int(time.time() * 1000),
            version=__version__,
            cluster_id=self._data_dir.cluster_id,
        )
        fill(me, request)
        self._data_dir.end_absence()
        sent_ms, seen = boot_ms(), self._data_dir.epoch
        try:
            answer = await stub.RegisterNode(request, timeout=CALL_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            if _is_id_in_use(error):
                raise NodeIdInUse(error.details()) from error
            if error.code() in _NOT_LET_IN:
                raise MasterRefused(error.details()) from error
            raise
        self._check_cluster(answer.cluster_id, answer.lineage)
        if not self._data_dir.belongs_to(answer.cluster_id):
            self._follow_to(answer.cluster_id)
            return  # and register with all that this node knows
        if answer.epoch_confirmed and answer.epoch < seen:
            # It was opened after `seen` was heard of, and epochs only grow: no leader of this cluster ever said `seen`.
            self._log.warning("an epoch that never was is forgotten", epoch=seen, instead=answer.epoch)
            await self._tasks.correct_epoch(seen, answer.epoch)
        self._check_epoch(answer.epoch)
        self._data_dir.join(answer.cluster_id)
        leftovers = tuple(self._tasks.live(answer.stop_first))
        stops = tuple(StopOrder(allocation_id=i, grace_ms=0, reason=Reason.NOT_EXPECTED) for i in leftovers)
        self._tasks.fence.register(answer.registration)
        made = Made(registration=answer.registration)
        if problem := await self._tasks.obey(Desired(stop=stops), {}, epoch=answer.epoch, made=made):
            raise NotOurMaster(f"its answer does not count: {problem}")
        self._data_dir.hear(answer.epoch)
        if self._followed:
            await self._tasks.drop(answer.forget)
        self._joined.set()
        self._answered(sent_ms, answer.lease_ms)
        if answer.stop_first:
            named = ", ".join(leftovers[:MAX_LEFTOVERS_NAMED])
            self._log.info("leftovers are stopped before this node takes work", tasks=len(leftovers), named=named)
            await self._wait_until_ended(leftovers)
            return
        self._beat_every(answer.heartbeat_ms)
        self._registered, self._followed = True, False
        self._log.info("registered", epoch=answer.epoch, address=me.address)

    async def _heartbeat(self, stub: Any) -> None:
        request = self._news()
        sent_ms = boot_ms()
        answer = await stub.Heartbeat(request, timeout=CALL_TIMEOUT_S)
        self._check_cluster(answer.cluster_id, answer.lineage)
        if not self._data_dir.belongs_to(answer.cluster_id):
            self._registered = False  # by a registration this node goes over
            return
        self._check_epoch(answer.epoch)
        self._data_dir.hear(answer.epoch)
        if answer.register_again:
            self._answered()
            self._registered = False
            return
        self._data_dir.join(answer.cluster_id)  # which has got its id since this node joined it
        if answer.masters:
            told = [master for master in answer.masters[:MAX_MASTERS] if master not in self._configured]
            self._masters = [*self._configured, *told]
        self._answered(sent_ms, answer.lease_ms)
        self._beat_every(answer.heartbeat_ms)
        if self._revoked and self._revoked.take(answer.revoked_etag, answer.revoked):
            self._log.info("revoked certificates of masters are known", certificates=len(answer.revoked))
        if self._obeying is not None:
            if not self._obeying.done():
                self._obeying.add_done_callback(lambda _: self._changed.set())
                return  # a later answer, asked for then, brings what is still to be done
            self._obeying.result()  # raises what it met
        self._obeying = asyncio.create_task(self._obey(answer, request.registration))

    def _news(self) -> node_pb2.HeartbeatRequest:
        self._number += 1
        return node_pb2.HeartbeatRequest(
            node_id=self._me.node_id,
            incarnation=self._me.incarnation,
            tasks=[to_message(report, types_pb2.TaskReport) for report in self._tasks.observed()],
            epoch=self._data_dir.epoch,
            unfit=self._vitals.unfit(),
            usage=self._vitals.usage(),
            version=__version__,
            clock_ms=int(time.time() * 1000),
            log_jobs=self._kept_logs.jobs_to_ask(),
            revoked_etag=self._revoked.etag if self._revoked else "",
            spark={id: to_message(said, node_pb2.SparkProgress) for id, said in self._spark().items()},
            registration=self._tasks.fence.registration,
            number=self._number,
            heard=self._tasks.fence.heard,
        )

    async def _obey(self, answer: node_pb2.HeartbeatResponse, registration: int) -> None:
        """Obey beside the heartbeats: starting hundreds of tasks takes longer than a node may be silent."""
        desired, orders = self._parse(answer)
        try:
            secrets = parse_secrets(answer.secrets)
            made = Made(registration=registration, revision=answer.revision)
            problem = await self._tasks.obey(
                desired, orders, epoch=answer.epoch, made=made, under_way=answer.under_way, secrets=secrets
            )
            if problem:
                asyncio.get_running_loop().call_later(ASK_AGAIN_S, self._changed.set)
            else:
                self._kept_logs.forget_jobs(answer.forgotten_jobs)
        except OSError as error:
            self._log.error("cannot write to the data directory", why=str(error))

    def _parse(self, answer: node_pb2.HeartbeatResponse) -> tuple[Desired, dict[str, TaskOrder]]:
        orders: dict[str, TaskOrder] = {}
        stops: list[StopOrder] = []
        for start in answer.start:
            try:
                orders[start.allocation_id] = parse_order(start)
            except BadOrder as error:
                self._log.error("an order makes no sense", why=str(error))
        for stop in answer.stop:
            try:
                stops.append(parse_stop(stop))
            except BadOrder as error:
                self._log.error("an order makes no sense", why=str(error))
        desired = Desired(
            start=tuple(orders),
            stop=tuple(stops),
            forget=tuple(answer.forget),
            freeze=tuple(answer.freeze),
            thaw=tuple(answer.thaw),
        )
        return desired, orders

    def _check_cluster(self, cluster_id: str, lineage: Sequence[str]) -> None:
        """Check, before anything of the answer is believed, that it is of this node's cluster, or of one that continues
        it. Raises NotOurMaster."""
        if not self._data_dir.belongs_to(cluster_id) and self._data_dir.cluster_id not in lineage:
            raise NotOurMaster(
                f"it is of cluster {cluster_id or 'without an id'}, and this node belongs to "
                f"{self._data_dir.cluster_id}: nothing is stopped; correct --master, or, to move the node over, end "
                "its tasks and start it with an empty data directory"
            )

    def _follow_to(self, cluster_id: str) -> None:
        """Go over to the restored cluster, and report to it again all that has ended since the backup."""
        self._log.warning(
            "this node's cluster was restored from a backup: it goes over", to=cluster_id, was=self._data_dir.cluster_id
        )
        self._tasks.recall()
        self._data_dir.follow_to(cluster_id)
        self._followed = True

    def _check_epoch(self, epoch: int) -> None:
        """Raise NotOurMaster for an epoch that is over."""
        if epoch < self._data_dir.epoch:
            raise NotOurMaster(f"it is of epoch {epoch}; this node has seen {self._data_dir.epoch}")

    async def _wait_until_ended(self, allocation_ids: Sequence[str]) -> None:
        """Wait for a moment at least, so that the masters are not asked in a hot loop."""
        deadline = time.monotonic() + STOP_FIRST_LIMIT_S
        await asyncio.sleep(BACKOFF_MIN_S)
        while self._tasks.live(allocation_ids) and time.monotonic() < deadline:
            await asyncio.sleep(BACKOFF_MIN_S)

    def _beat_every(self, heartbeat_ms: int) -> None:
        """Take over how often the masters want to hear of this node; 0: they do not say."""
        if heartbeat_ms > 0:
            self._heartbeat_s = min(heartbeat_ms / 1000, self._longest_s)

    def _pause_s(self) -> float:
        """Return the time to the next heartbeat. A task that ends with the lease must outlive a lost one. Agents that
        were answered again together, after a failover, spread over the whole time."""
        pause_s = self._heartbeat_s
        if any(task.order.stop_alone for task in self._tasks.running()):
            pause_s = min(pause_s, self._lease_s / HEARTBEATS_PER_LEASE)
        earliest, self._in_step = 0.0 if self._in_step else EARLIEST, False
        return pause_s * random.uniform(earliest, 1.0)

    async def _wait_for_change(self, limit_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._changed.wait()

    def _answered(self, sent_ms: int = 0, lease_ms: int = 0) -> None:
        """Note an answer. The lease counts from `sent_ms`, when no master can have renewed it yet."""
        if lease_ms:
            self._data_dir.write_lease(sent_ms + lease_ms, lease_ms)
            self._lease_s = lease_ms / 1000
        if self._failures > 0:
            self._in_step = True
            self._log.info("a master answers again", failures=self._failures)
        self._failures = 0
        self._refused.clear()

    def _on_error(self, master: str, code: grpc.StatusCode | None, detail: str) -> None:
        if code in _NOT_KNOWN:
            self._registered = False
        if code in (None, *_NOT_KNOWN):
            if (
                master not in self._refused or self._refused[master] is not code
            ):  # it would say so several times a second
                self._log.error("a master does not let this node in; it goes on asking", master=master, why=detail)
            self._refused[master] = code
        elif self._failures == 0:
            self._telling = asyncio.create_task(self._tell(master, detail))  # no master waits for the reason

    async def _tell(self, master: str, detail: str) -> None:
        why = await self._why(master) if self._why else ""
        self._log.warning("a master does not answer; trying the next", master=master, why=why or detail)

    def _backoff_s(self) -> float:
        self._failures += 1
        longest: float = min(BACKOFF_MAX_S, BACKOFF_MIN_S * 2 ** min(self._failures - 1, 10))
        return longest * random.uniform(0.5, 1.0)


def _is_id_in_use(error: grpc.aio.AioRpcError) -> bool:
    if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
        return False
    reason = refusal_reason(error)
    if not reason:  # a master of an older release sends words alone
        return "in use" in (error.details() or "").lower()
    return reason == RefusalReason.NODE_ID_IN_USE
