"""What is looked at in the lives of small clusters: evictions, fences, promises, windows. Slow, plain Python, by the
records alone; each line that does not hold begins with the property's name."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from gosched.core.commands.plans import Cause, Eviction, GangPlacement
from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.job import Job, JobState
from gosched.core.records.task import TaskState
from gosched.core.records.window import Window
from gosched.core.sharing import Amounts, add_to, charge_of, guarantees, lineage
from gosched.core.spec.job_spec import group_of
from gosched.core.spec.policies import PreemptionPolicy
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.restore import restore
from gosched.scheduling import Plan, ViewBuilder, schedule
from tests.scheduling.support import tables
from tests.scheduling.support.driver import Driver

UNHELD = ("QUEUE_LIMIT", "QUOTA", "MAX_RUNNING_JOBS", "BACKOFF", "BEGIN", "QUEUED", "TOO_LARGE")
NEVER_MS = 1 << 62
SECOND_MS = 1000  # what a promise may be off without anybody noticing

T = TypeVar("T")


@dataclass
class Checks:
    """Of one life. `steady`: no node dies in it. `fences`: what each gang that evicted is to start on; `promised`: the
    earliest start that each gang that waits was promised. `patience_ms`: how much later it may be by now."""

    seen: Counter[str]
    steady: bool = True
    fences: dict[str, tuple[TaskPlacement, ...]] = field(default_factory=dict)
    promised: dict[str, int] = field(default_factory=dict)
    patience_ms: int = 0

    def before(self, driver: Driver, plan: Plan) -> None:
        budget = EvictionBudget(driver.state)
        for gang in plan.gangs:
            self._victims(driver, gang)
            self._windows(driver, gang)
            budget.take(gang)

    def after(self, driver: Driver, plan: Plan) -> None:
        if self.steady:
            self._fences(driver, plan)
            self._promises(driver)
        self._idle(driver, plan)

    def _victims(self, driver: Driver, gang: GangPlacement) -> None:
        """Who goes for whom."""
        now = driver.state.clock_ms
        assert gang.tasks or all(e.cause is Cause.WINDOW for e in gang.evictions), "start: an eviction for nobody"
        for eviction in gang.evictions:
            self.seen[eviction.cause.name] += 1
            self.seen["surplus"] += bool(eviction.ranks)
            victim = driver.job(eviction.job_id)
            if eviction.cause is Cause.PREEMPT:
                winner = driver.job(gang.job_id)
                assert victim.spec.queue == winner.spec.queue, f"priority: {victim.id} is of another queue"
                lower = victim.spec.priority < winner.spec.priority
                assert lower, f"priority: {victim.id} goes for {winner.id}"
                assert winner.spec.preemption.policy is PreemptionPolicy.LOWER_PRIORITY, f"priority: {winner.id}"
            if eviction.cause in (Cause.PREEMPT, Cause.RECLAIM):
                least = victim.placed_at_ms + victim.spec.preemption.min_runtime_ms
                assert now >= least, f"priority: {victim.id} has not run for its least time"
            if eviction.cause is Cause.BACKFILL:
                slowest = max([driver.job(e.job_id).spec.eviction_ms for e in gang.evictions])
                assert 0 < victim.until_ms <= now + slowest, f"priority: {victim.id} may stay until {victim.until_ms}"
            if eviction.cause is not Cause.REPAIR:
                may_go = victim.spec.preemption.preemptible and victim.spec.retry.max_restarts
                assert may_go, f"priority: {victim.id} must not go"

    def _windows(self, driver: Driver, gang: GangPlacement) -> None:
        """Nobody but its users starts where a window is, or will be before he has to go."""
        for window in driver.state.windows.values() if gang.job_id else ():
            job = driver.job(gang.job_id)
            limit = job.spec.timeout_ms
            end = gang.until_ms or (driver.state.clock_ms + limit if limit else NEVER_MS)
            inside = any(task.node_id in window.nodes for task in gang.tasks)
            if inside and not is_for(window, job):
                assert end <= window.start_ms, f"window: {job.id} would stand in it"
                self.seen["before a window"] += 1
            self.seen["in a window"] += inside and is_for(window, job)

    def _fences(self, driver: Driver, plan: Plan) -> None:
        """Whoever evicts starts on just the room that was made for it, the moment it is there."""
        state = driver.state
        self.fences |= {gang.job_id: gang.tasks for gang in plan.gangs if gang.evictions and gang.job_id}
        for job_id, wanted in [*self.fences.items()]:
            fence = state.fences.get(job_id)
            if fence is not None:
                assert fence.tasks == wanted, f"fence: that of {job_id} has moved"
                nodes = {task.node_id for task in wanted}
                stopping = [t for t in state.tasks.values() if t.state is TaskState.STOPPING and t.node_id in nodes]
                assert stopping, f"fence: {job_id} waits for nobody"
                continue
            del self.fences[job_id]
            job = state.jobs[job_id]
            placed = [t for t in state.tasks_of(job) if t.attempt == job.attempt and t.allocation_id]
            own = {(t.rank, t.node_id) for t in placed}
            started = job.state is not JobState.PENDING and own >= {(t.rank, t.node_id) for t in wanted}
            assert started, f"start: {job_id} evicted others and did not start there"
            self.seen["fenced"] += 1

    def _promises(self, driver: Driver) -> None:
        """A start that was promised is not put off, and comes; but what was told to go takes its time, and whoever
        waited for that ends so much later."""
        state, now = driver.state, driver.state.clock_ms
        leaving = bool(state.fences) or any(task.state is TaskState.STOPPING for task in state.tasks.values())
        live = [job for job in state.jobs.values() if not job.state.is_final]
        self.patience_ms = max([self.patience_ms, *(job.spec.eviction_ms for job in live if leaving)])
        patience = self.patience_ms + SECOND_MS
        if any(self._was_outranked(driver, job_id) for job_id in self.promised):
            self.promised.clear()  # it is planned anew, and may be in the way of younger promises
        for job_id, start_ms in [*self.promised.items()]:
            new, job = state.reservations.get(job_id), state.jobs[job_id]
            if new is not None and new.standing:
                del self.promised[job_id]  # it had lost the promise
                continue
            waits = job.state is JobState.PENDING and job_id not in state.fences
            self.seen["kept"] += not waits
            if not waits:
                del self.promised[job_id]
                continue
            assert new is not None, f"promise: that of {job_id} is gone"
            later = new.start_ms - start_ms
            assert later <= patience, f"promise: {job_id} was to start at {start_ms}, now {later} later"
            assert now < start_ms + patience, f"promise: {job_id} was to start at {start_ms}, it is {now}"
        for job_id, reservation in state.reservations.items():
            if reservation.standing:  # a guess is no promise
                self.seen["guessed"] += 1
                continue
            start_ms = reservation.start_ms
            assert start_ms >= state.jobs[job_id].begin_ms, f"promise: {job_id} is to start before its begin"
            self.promised[job_id] = min(start_ms, self.promised.get(job_id, start_ms))

    def _was_outranked(self, driver: Driver, job_id: str) -> bool:
        """Its promise is put off, and there are those who may evict it."""
        job, new = driver.job(job_id), driver.state.reservations.get(job_id)
        waits = job.state is JobState.PENDING and job_id not in driver.state.fences
        put_off = waits and (new is None or new.start_ms > self.promised[job_id])
        return put_off and may_be_overtaken(driver, job)

    def _idle(self, driver: Driver, plan: Plan) -> None:
        """Who waits does not fit on what nobody was promised, nor, if he yields, on what he might borrow."""
        state = driver.state
        if plan.withdrawn or plan.more:  # what they were promised is free from the next cycle on
            return
        for job_id, why in plan.explanations.items():
            job = state.jobs[job_id]
            if job_id in state.pending and why.code not in UNHELD:
                self.seen["waits"] += 1
                floor = job.spec.groups[0].floor if job.state is JobState.PENDING else 1
                span = job.spec.timeout_ms or NEVER_MS
                capacity = sum_in_best_domain(driver, job, state.clock_ms + span)
                assert capacity < floor, f"idle: {job_id} fits and waits: {why.code} {why.message}"
                if end := may_borrow(state, job):
                    capacity = sum_in_best_domain(driver, job, end, stays=False)
                    assert capacity < floor, f"idle: {job_id} might borrow room until {end}"
                    self.seen["no loan"] += 1


def check_order(driver: Driver, plan: Plan) -> None:
    """The same plan from the same state, in whatever order its tables were filled."""
    state = shuffled(driver.state, random.Random(driver.state.revision))
    builder = ViewBuilder()
    builder.reset(state)
    again = schedule(builder.view(state), driver.life.policy, plan.planned_at_ms, tables.SEED)
    assert again == plan, "order: another plan"


class EvictionBudget:
    """What each queue and all queues below it hold while a plan is carried out; looks at what is reclaimed."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.guaranteed = guarantees(state.queues, state.total)
        self.held: dict[str, Amounts] = {path: {} for path in state.queues}
        for allocation in state.allocations.values():
            if not allocation.evicted_for_fence:
                self._add(state.jobs[allocation.job_id], charge_of(allocation.resources), 1)
        for job_id, fence in state.fences.items():
            self._placed(state.jobs[job_id], fence.tasks)

    def take(self, gang: GangPlacement) -> None:
        before = {path: held.copy() for path, held in self.held.items()}
        own = lineage(self.state.jobs[gang.job_id].spec.queue) if gang.job_id else ()
        for eviction in gang.evictions:
            self._evicted(eviction)
        for path, held in self.held.items():
            for name, least in self.guaranteed[path].items() if path not in own else ():
                kept = before[path].get(name, 0) < least or held.get(name, 0) >= least
                assert kept or not _reclaims(gang), (
                    f"guarantee: {path} would hold {held.get(name, 0)} of {least} {name}"
                )
        if gang.job_id:
            self._saturation(gang)
            self._placed(self.state.jobs[gang.job_id], gang.tasks)

    def _saturation(self, gang: GangPlacement) -> None:
        """Whoever takes back room stays within what he is guaranteed, at each fork above him."""
        job = self.state.jobs[gang.job_id]
        floor = job.spec.groups[0].resources.times(job.spec.groups[0].floor)
        for eviction in gang.evictions if _reclaims(gang) else ():
            other = lineage(self.state.jobs[eviction.job_id].spec.queue)
            path = next((path for path in lineage(job.spec.queue) if path not in other), "")
            if path:
                wanted = self.held[path].get("cpu", 0) + floor.cpu_millis
                least = self.guaranteed[path].get("cpu", 0)
                assert wanted <= least, f"saturation: {path} takes back up to {wanted}, it is guaranteed {least}"

    def _evicted(self, eviction: Eviction) -> None:
        for task in self.state.tasks_of(self.state.jobs[eviction.job_id]):
            if task.state.is_active and (not eviction.ranks or task.rank in eviction.ranks):
                allocation = self.state.allocations[task.allocation_id]
                if not allocation.evicted_for_fence:
                    self._add(self.state.jobs[eviction.job_id], charge_of(allocation.resources), -1)

    def _placed(self, job: Job, tasks: tuple[TaskPlacement, ...]) -> None:
        for task in tasks:
            self._add(job, charge_of(group_of(job.spec, task.rank).resources), 1)

    def _add(self, job: Job, charge: Amounts, times: int) -> None:
        for path in lineage(job.spec.queue):
            add_to(self.held[path], charge, times)


def _reclaims(gang: GangPlacement) -> bool:
    return any(eviction.cause is Cause.RECLAIM for eviction in gang.evictions)


def may_be_overtaken(driver: Driver, job: Job) -> bool:
    """By one of its queue that may evict it, were it running."""
    yields = job.spec.preemption.preemptible and job.spec.retry.max_restarts > 0
    return yields and any(
        other.spec.queue == job.spec.queue
        and other.spec.priority > job.spec.priority
        and other.spec.preemption.policy is PreemptionPolicy.LOWER_PRIORITY
        for other in driver.state.jobs.values()
    )


def is_for(window: Window, job: Job) -> bool:
    return job.spec.tenant in window.tenants or any(path in window.queues for path in lineage(job.spec.queue))


def may_borrow(state: ClusterState, job: Job) -> int:
    """From when on the job may be told to go, if it gets room that is promised to others, since it loses little; 0: it
    gets no such room. One with a promise of its own has no need to."""
    spec, rules = job.spec, job.spec.preemption
    yields = rules.preemptible and spec.retry.max_restarts > 0 and (rules.cheap or rules.checkpoint_signal > 0)
    end = state.clock_ms + max(60_000, 2 * spec.eviction_ms)
    starts = [reservation.start_ms for reservation in state.reservations.values() if not reservation.standing]
    starts += [window.start_ms for window in state.windows.values()]
    needs_to = job.state is JobState.PENDING and job.id not in state.reservations
    return end if yields and needs_to and max(starts, default=0) >= end else 0


def sum_in_best_domain(driver: Driver, job: Job, end: int, *, stays: bool = True) -> int:
    """For how many tasks there is room now, in one rack if the job is bound to one, on nodes that are promised to
    nobody before `end`. Nobody has to go for a guess: who does not end by himself has no room where there is one."""
    state, group = driver.state, job.spec.groups[0]
    closed = {
        share.node_id
        for r in state.reservations.values()
        if r.job_id != job.id and (r.start_ms < end or (r.standing and not stays))
        for share in r.shares
    }
    closed |= {n for w in state.windows.values() if w.start_ms < end for n in w.nodes}
    standing = {t.node_id for t in state.tasks_of(job) if t.state.is_active}
    domains: Counter[str] = Counter()
    for node in state.nodes.values():
        if node.id in closed or node.state.name != "READY":
            continue
        rack = dict(node.labels).get("rack", "") if group.topology else ""
        if group.topology and any(dict(state.nodes[n].labels).get("rack", "") != rack for n in standing):
            continue
        free = min(node.capacity.cpu_millis - held.cpu_millis for held in state.held(node.id))
        domains[rack] += max(free, 0) // group.resources.cpu_millis
    return max(domains.values(), default=0)


def shuffled(state: ClusterState, draw: random.Random) -> ClusterState:
    """Return the same state, whose tables were filled in another order."""
    frozen = state.freeze()

    def mixed(table: Mapping[str, T]) -> dict[str, T]:
        return {key: table[key] for key in draw.sample(list(table), len(table))}

    return restore(
        replace(
            frozen,
            nodes=mixed(frozen.nodes),
            queues=mixed(frozen.queues),
            quotas=mixed(frozen.quotas),
            accounts=mixed(frozen.accounts),
            jobs=mixed(frozen.jobs),
            tasks=mixed(frozen.tasks),
            allocations=mixed(frozen.allocations),
            fences=mixed(frozen.fences),
            reservations=mixed(frozen.reservations),
            windows=mixed(frozen.windows),
        )
    )
