"""The leader's work, from the gain of leadership to its loss: barrier, epoch, queues, leases, then cycles.

Invariant: everything here is done under one epoch, named in every command; once another epoch is open it stops at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial

import structlog

from gosched.config import MasterSettings
from gosched.core.amounts import duration_text
from gosched.core.commands.cluster import OpenEpoch, PassTime, SetFeatureLevel, SetQueues
from gosched.core.commands.jobs import DropFinishedJobs
from gosched.core.commands.nodes import MarkNodeDead
from gosched.core.events import ClockSet, Event, NodeChanged
from gosched.core.features import NEWEST_LEVEL, FeatureLevel
from gosched.core.outcome import Code, Rejected
from gosched.core.records.master import Master
from gosched.core.records.node import Node, NodeState
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.silent_members import may_live_on
from gosched.core.state.timers import TimerKind
from gosched.master.agents.dispatch import Dispatcher
from gosched.master.agents.leases import CHECK_S, Leases
from gosched.master.agents.live_usage import LiveUsage
from gosched.master.agents.node_control import UnfitNodes
from gosched.master.base.cancel import cancel_all
from gosched.master.base.clock import Clock
from gosched.master.base.errors import ApiError, accepted, tried
from gosched.master.base.ids import new_cluster_id, new_task_key
from gosched.master.base.leadership import Leadership
from gosched.master.base.proposals import Proposals
from gosched.master.cluster.clock_keeper import ClockKeeper
from gosched.master.history.wait_notes import WaitNotes
from gosched.master.jobs.schedules import Schedules
from gosched.master.leader.reload import differs, taken_from
from gosched.master.planning.cycles import Cycles
from gosched.master.planning.eviction_watch import EvictionWatch
from gosched.observe.faults import Faults
from gosched.replication.interface import AppliedBatch, Replication

RETRY_S = 0.1
RETENTION_CHECK_S = 5.0
TIMER_CHECK_S = 1.0  # the longest wait for a timer that was set meanwhile
NEWS_CHECK_S = 0.2  # between two looks at whether agents have told what may have ended in time
TIMER_REST_S = 0.02  # between two looks at what is due

log = structlog.get_logger()


class Leader:
    def __init__(
        self,
        replication: Replication,
        leadership: Leadership,
        proposals: Proposals,
        cycles: Cycles,
        leases: Leases,
        usage: LiveUsage,
        unfit: UnfitNodes,
        dispatcher: Dispatcher,
        schedules: Schedules,
        evictions: EvictionWatch,
        keeper: ClockKeeper,
        clock: Clock,
        settings: MasterSettings,
        me: Master,
        cluster_id: str,
        notes: WaitNotes,
        faults: Faults,
    ) -> None:
        """`cluster_id`: the id of a cluster that this master founds; empty: one is made that no other cluster has."""
        self._replication = replication
        self._leadership = leadership
        self._proposals = proposals
        self._cycles = cycles
        self._leases = leases
        self._usage = usage
        self._unfit = unfit
        self._dispatcher = dispatcher
        self._schedules = schedules
        self._evictions = evictions
        self._keeper = keeper
        self._clock = clock
        self._settings = settings
        self._me = me
        self._cluster_id = cluster_id or new_cluster_id()
        self._notes = notes
        self._faults = faults
        self._left_over = asyncio.Event()  # there are follow-ups
        self._judges_from_s = 0.0  # by the monotonic clock
        self._epoch = 0  # that this leader's copies (columns, leases, orders) are kept for
        replication.follow(self._on_batch)

    async def run(self) -> None:
        """Lead whenever this master is the leader, until it is cancelled. What fails for another reason than a loss of
        the lead costs one turn of one loop."""
        while True:
            while not self._leadership.is_raft_leader:
                await self._leadership.change()
            try:
                await self._lead()
            except ApiError as error:
                log.info("not leading", why=error.detail)
                await asyncio.sleep(RETRY_S)

    async def _lead(self) -> None:
        await self._proposals.barrier()
        is_new = not self._state.epoch  # nothing has been decided yet
        lacks_key = self._state.feature_level >= FeatureLevel.BOUNDED and not self._state.task_key
        if is_new or lacks_key:  # it lacks one where it was restored
            level = NEWEST_LEVEL if is_new else self._state.feature_level
            found = SetFeatureLevel(level=level, cluster_id=self._cluster_id, task_key=new_task_key())
            accepted(await self._proposals.propose(found))
        asked_s = self._clock.monotonic_s()
        outcome = accepted(await self._proposals.propose(OpenEpoch(leader=self._me)))
        epoch = int(outcome.subject)
        try:
            await self._first_queues(epoch)
            self._begin(epoch, asked_s)
            log.info("leading", epoch=epoch, revision=self._state.revision)
            await self._until_deposed(
                epoch,
                {
                    "cycles": self._cycles.run,
                    "schedules": self._schedules.run,
                    "timers": self._pass_time,
                    "clock of the state": self._keeper.keep_up,
                    "leases": self._watch_nodes,
                    "retention": self._drop_finished,
                    "wait reasons": self._notes.run,
                },
            )
        finally:
            self._end(epoch)

    def _begin(self, epoch: int, asked_s: float) -> None:
        """Reset all that follows the state, with no batch in between: the copies are of one revision. `asked_s`: when
        the epoch was proposed."""
        self._epoch = epoch
        self._judges_from_s = self._clock.monotonic_s() + self._settings.lease.first_lease_ms / 1000
        living = [node.id for node in self._state.nodes.values() if node.state is not NodeState.DEAD]
        self._leases.begin(living, asked_s)
        for node in self._state.nodes.values():
            if node.away_ms:
                self._leases.wait_for(node.id, node.away_ms / 1000)
        self._usage.begin()
        self._cycles.reset()
        with self._faults.guarded("schedules"):
            self._schedules.reset()
        with self._faults.guarded("orders"):  # heartbeats bring what is not told now
            self._dispatcher.begin(epoch)
        self._leadership.opened(epoch)

    def _end(self, epoch: int) -> None:
        if self._epoch == epoch:
            log.info("not leading any more", epoch=epoch)
        self._epoch = 0
        self._leadership.closed()
        self._dispatcher.end()
        self._cycles.forget()

    async def _until_deposed(self, epoch: int, work: Mapping[str, Callable[[int], Awaitable[None]]]) -> None:
        """Do the work until another epoch is open. Raises ApiError."""
        kept = [self._faults.keep(part, partial(loop, epoch), passes=(ApiError,)) for part, loop in work.items()]
        tasks = [asyncio.ensure_future(loop) for loop in kept]
        try:
            while self._leadership.epoch == epoch:
                changed = asyncio.ensure_future(self._leadership.change())
                done, _ = await asyncio.wait([changed, *tasks], return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                for task in done.difference({changed}):
                    task.result()  # raises: none of them ends by itself
        finally:
            await cancel_all(tasks)

    @property
    def _state(self) -> ClusterState:
        return self._replication.state

    def _on_batch(self, batch: AppliedBatch) -> None:
        if not self._epoch or self._leadership.epoch != self._epoch:
            return  # deposed in this very batch: what it placed is the next leader's to order
        events = [event for applied in batch.commands for event in applied.events]
        if self._state.follow_ups:
            self._left_over.set()
        self._cycles.take(events)
        with self._faults.guarded("orders"):
            self._dispatcher.take(events)
        with self._faults.guarded("schedules"):
            self._schedules.take(events)
        with self._faults.guarded("leases"):
            self._drop_leases(events)
        for applied in batch.commands:
            with self._faults.guarded("evictions"):
                self._evictions.take(applied.events, at_ms=self._state.clock_ms, revision=applied.revision)

    def _drop_leases(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, NodeChanged) and event.after in (NodeState.DEAD, NodeState.UNSPECIFIED):
                self._leases.drop(event.node_id)
                self._usage.drop(event.node_id)
                self._unfit.drop(event.node_id)
            if isinstance(event, ClockSet):
                self._cycles.reset()  # the planner's columns hold moments

    async def _first_queues(self, epoch: int) -> None:
        """Set the config's queues and quotas at the first start; from then on they are what users made of them."""
        wanted = taken_from(self._settings)
        if self._state.queues:
            if differs(wanted, self._state):
                log.warning(
                    "the config's queues or quotas differ from the cluster's; to take them over, send this master a"
                    " SIGHUP or use goschedctl queue apply"
                )
            return
        command = SetQueues(queues=self._settings.queue_records(), quotas=wanted.quotas, sets_quotas=True)
        outcome = await self._proposals.propose(command, epoch=epoch)
        if isinstance(outcome, Rejected):
            log.warning("the config's queues and quotas are not taken over", why=outcome.detail)

    async def _pass_time(self, epoch: int) -> None:
        """Tell the state machine that time has passed whenever something is due by it: timeouts, deadlines, the end of
        a window, and what commands before have left to do."""
        while True:
            rest_s = TIMER_CHECK_S
            due_ms = min([moment for moment in self._moments() if moment], default=0)
            if due_ms:
                left_s = (due_ms - max(self._clock.now_ms(), self._state.clock_ms)) / 1000
                rest_s = min(max(left_s, TIMER_REST_S), TIMER_CHECK_S)
                if left_s <= 0 and self._awaits_news():
                    await asyncio.sleep(NEWS_CHECK_S)
                    continue
                if left_s <= 0:
                    outcome = tried(await self._proposals.propose(PassTime(), epoch=epoch))
                    rest_s = TIMER_CHECK_S if outcome.unchanged else TIMER_REST_S
            await self._rest(rest_s)

    def _awaits_news(self) -> bool:
        """Return whether something is due for a job with a task on a node that this leader has not heard: the task may
        have ended in time, while no master could be told. Agents have as long to say so as a first lease lasts."""
        if self._clock.monotonic_s() >= self._judges_from_s:
            return False
        state = self._state
        for subject in state.timers.due(max(self._clock.now_ms(), state.clock_ms)):
            if subject.kind is TimerKind.JOB:
                tasks = state.tasks_of(state.jobs[subject.id])
                if any(task.state.is_active and self._leases.age_ms(task.node_id) < 0 for task in tasks):
                    return True
        return False

    async def _rest(self, rest_s: float) -> None:
        """Wait; follow-ups end a long rest."""
        await asyncio.sleep(min(rest_s, TIMER_REST_S))
        if not self._state.follow_ups:
            self._left_over.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(rest_s - TIMER_REST_S, 0)):
                await self._left_over.wait()

    def _moments(self) -> Iterator[int]:
        """Return when something is due; 0: never."""
        yield self._state.clock_ms if self._state.follow_ups else 0
        yield self._state.timers.next_ms()
        for window in self._state.windows.values():
            yield window.end_ms

    async def _watch_nodes(self, epoch: int) -> None:
        doubts = False
        while True:
            await asyncio.sleep(CHECK_S)
            given_up = self._leases.expired()
            self._end_waits()
            doubt = self._leases.doubt
            if bool(doubt) is not doubts:
                doubts = bool(doubt)
                log.warning("silent nodes are not given up" if doubts else "silent nodes are given up again", why=doubt)
            for node_id in [node_id for node_id in given_up if node_id not in self._state.nodes]:
                self._leases.drop(node_id)
            if silent := [self._state.nodes[node_id] for node_id in given_up if node_id in self._state.nodes]:
                await asyncio.gather(*(self._give_up(node, epoch) for node in silent))
                self._leases.resume()

    def _end_waits(self) -> None:
        """Give up the silent nodes that were waited for and are not worth it any more."""
        for node_id in self._leases.waited_for:
            if not self._is_waited_for(node_id):
                self._leases.end_wait(node_id)

    def _is_waited_for(self, node_id: str) -> bool:
        """Return whether all that a silent node holds may live on there, and other gangs have lost theirs."""
        node, held = self._state.nodes.get(node_id), self._state.node_allocations.get(node_id)
        if node is None or node.state in (NodeState.READY, NodeState.DEAD) or node.away_ms or not held:
            return False
        if self._state.feature_level < FeatureLevel.BOUNDED:
            return False
        return len(may_live_on(self._state, node_id, self._leases.silent_ms(node_id))) == len(held)

    async def _give_up(self, silent: Node, epoch: int) -> None:
        """Declare a node dead, by as many commands as its tasks need; not one that has registered anew meanwhile. One
        with tasks that may live on is waited for."""
        node_id, no_heartbeat = silent.id, f"no heartbeat for {self._settings.lease.node_timeout_ms // 1000} s"
        while (node := self._state.nodes.get(node_id)) is not None and node.state is not NodeState.DEAD:
            if (node.incarnation, node.registration) != (silent.incarnation, silent.registration):
                self._leases.spare(node_id)
                return
            if self._is_waited_for(node_id):
                self._leases.wait_on(node_id)
                return
            now_ms = max(self._clock.now_ms(), self._state.clock_ms)
            dead = MarkNodeDead(
                node_id=node_id,
                incarnation=node.incarnation,
                reason=f"its agent was stopped, and not started within {duration_text(node.away_ms)}"
                if node.away_ms
                else no_heartbeat,
                registration=node.registration,
                heard_at_ms=now_ms - age_ms if (age_ms := self._leases.age_ms(node_id)) >= 0 else 0,
                waited_ms=0 if node.away_ms else self._leases.silent_ms(node_id),  # such a one has been waited for
            )
            outcome = await self._proposals.propose(dead, epoch=epoch)
            if isinstance(outcome, Rejected):
                log.info("node not given up", node=node_id, why=outcome.detail)
                if outcome.code is not Code.STALE_INCARNATION:
                    return
        self._leases.drop(node_id)

    async def _drop_finished(self, epoch: int) -> None:
        keep = self._settings.retention
        while True:
            cutoff = self._clock.now_ms() - keep.max_age_ms
            oldest = next(self._state.finished_oldest_first(), None)
            beyond = len(self._state.finished) > keep.max_jobs
            if oldest is None or (not beyond and oldest.kept_since_ms >= cutoff):
                await asyncio.sleep(RETENTION_CHECK_S)
                continue
            command = DropFinishedJobs(keep=keep.max_jobs, ended_before_ms=cutoff)
            outcome = tried(await self._proposals.propose(command, epoch=epoch))
            if outcome.unchanged:  # what is beyond is still needed
                await asyncio.sleep(RETENTION_CHECK_S)
