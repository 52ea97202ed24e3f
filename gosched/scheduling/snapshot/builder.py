"""Keeps the columns and records of a view up to date, at the cost of what changed, on the thread that owns the state.

Invariant: after `apply` of all events the columns equal those of a `reset`. What a bug keeps out of the view, a job or
what is free on a node, is named in `faults`, and tried again with its next change or when `retry` says so.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import sub

import numpy as np

from gosched.core.cpulist import parse_cpulist
from gosched.core.events import (
    Event,
    FenceChanged,
    JobChanged,
    JobEvicted,
    JobUpdated,
    NodeChanged,
    ReservationChanged,
    TaskChanged,
)
from gosched.core.features import FeatureLevel
from gosched.core.limits import MAX_GPUS
from gosched.core.preemption_rules import rejoins_in_place, restarts_in_place
from gosched.core.reasons import Reason
from gosched.core.records.fence import Fence
from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.records.node import Node, NodeState
from gosched.core.records.task import TaskState
from gosched.core.replace import replace
from gosched.core.resources import MILLI, Resources
from gosched.core.run_times import Keys, RunTimes, keys_of, predict
from gosched.core.sharing import Amounts, add_to, charge_of
from gosched.core.spec.placement_rules import SELF
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.fenced_capacity import charge_of_fence
from gosched.scheduling.snapshot.by_groups import ByGroups, Groups
from gosched.scheduling.snapshot.columns import AMOUNTS, DEVICES, Column, vector
from gosched.scheduling.snapshot.devices import device_columns, device_columns_of_one
from gosched.scheduling.snapshot.label_counts import LabelCounts
from gosched.scheduling.snapshot.running_gangs import RunningGang, places_of, running_gang
from gosched.scheduling.snapshot.task_requests import PendingGang, pending_gang, with_run_times
from gosched.scheduling.snapshot.view import GPU_MODEL, FencedCharge, FreedSoon, NodeColumns, Repair, TaskKind, View

JOBS_AT_ONCE = 1000  # of a reset, between two signs of work
MAX_KINDS = 10_000  # of jobs alike, whose keys and run times are kept once
EXPECTED_AT_ONCE = 2000  # gangs that are told of new run times, with each view


class ViewBuilder:
    """The source of views. `tracked_labels` are those of jobs for which plugins ask how many tasks are where."""

    def __init__(self, tracked_labels: Iterable[str] = ()) -> None:
        #: The live columns: to be read on the owner's thread, and not to be changed.
        self.nodes = NodeColumns.empty()
        #: What views share of them; None: a node's own record has changed since.
        self._shared: NodeColumns | None = None
        self._label_counts = LabelCounts(tracked_labels)
        self._gangs: dict[str, PendingGang] = {}
        self._demand: dict[str, Amounts] = {}
        self._avoided: Counter[str] = Counter()  # TENANT/NAME of jobs that pending gangs keep away from
        self._live: dict[str, Counter[TaskKind]] = {}  # equal ones are one object
        self._workload: Counter[TaskKind] = Counter()  # of the live jobs
        self._holders: dict[str, RunningGang] = {}
        self._repairs: dict[str, Repair] = {}
        self._alike: dict[str, Keys] = {}  # of the live jobs; equal ones are one object
        self._kinds: dict[Keys, Keys] = {}
        self._run_times: dict[tuple[Keys, int], RunTimes | None] = {}  # by their keys and their timeouts
        self._lessons = 0  # up to which `_run_times` are
        self._to_tell: dict[str, None] = {}  # gangs that may not have the newest run times
        self._changed_jobs: dict[str, None] = {}  # jobs whose tasks or fence changed since the newest view
        #: Ids of jobs and nodes that are not in the view as they should be, each with the exception.
        self.faults: dict[str, Exception] = {}

    def reset(self, state: ClusterState, at_work: Callable[[], None] = lambda: None) -> None:
        """Begin anew with a state. `at_work` is called now and then: many live jobs take seconds."""
        self.nodes, self._shared = NodeColumns.empty(), None
        self._refresh_nodes(state, list(state.nodes))
        self._gangs, self._demand, self._avoided = {}, {}, Counter()
        self._live, self._workload = {}, Counter()
        self._holders, self._repairs, self.faults = {}, {}, {}
        self._alike, self._kinds, self._run_times, self._to_tell = {}, {}, {}, {}
        self._lessons = state.lessons
        live = [job.id for job in state.jobs.values() if not job.state.is_final]
        self._changed_jobs = dict.fromkeys(live)
        for first in range(0, len(live), JOBS_AT_ONCE):
            self._refresh_gangs(state, live[first : first + JOBS_AT_ONCE])
            at_work()
        self._label_counts.reset(state)

    def apply(self, state: ClusterState, events: Iterable[Event]) -> None:
        """Follow a batch of events; `state` is the one after all of them."""
        changed: dict[str, None] = {}  # nodes whose own record changed
        loaded: dict[str, None] = {}  # nodes whose allocations changed
        jobs: dict[str, None] = {}
        for event in events:
            if isinstance(event, TaskChanged):
                jobs[event.job_id] = None
                if event.after is TaskState.STOPPING:
                    self._changed_jobs[event.job_id] = None
                elif event.before.is_active != event.after.is_active:
                    loaded[event.node_id] = None
                    self._changed_jobs[event.job_id] = None
                    self._label_counts.apply(state, event)
            elif isinstance(event, NodeChanged):
                changed[event.node_id] = None
                self._changed_jobs.update(_holders_on(state, event.node_id))
            elif isinstance(event, JobChanged | JobUpdated | JobEvicted | FenceChanged | ReservationChanged):
                jobs[event.job_id] = self._changed_jobs[event.job_id] = None
                if isinstance(event, FenceChanged):
                    loaded.update(dict.fromkeys((*event.node_ids, *event.victims_on)))
        self._delete_rows([node for node in changed if node not in state.nodes])
        self._refresh_nodes(state, [node for node in changed if node in state.nodes])
        self._refresh_load(state, [node for node in loaded if node not in changed])
        self._refresh_gangs(state, jobs)

    def retry(self, state: ClusterState) -> None:
        """Try again what is named in `faults`, which is bounded by what there is."""
        again, self.faults = self.faults, {}
        jobs = [job_id for job_id in again if job_id in state.jobs]
        self._changed_jobs.update(dict.fromkeys(jobs))
        self._refresh_gangs(state, jobs)
        self._refresh_nodes(state, [node_id for node_id in again if node_id in state.nodes])

    def view(self, state: ClusterState) -> View:
        self._refresh_holders(state)
        self._refresh_run_times(state)
        return View(
            revision=state.revision,
            nodes=self.shared_nodes().with_load_of(self.nodes),
            pending=tuple(self._gangs.values()),
            queues=state.queues.copy(),
            quotas=state.quotas.copy(),
            accounts=tuple(state.accounts.values()),
            total=state.total.copy(),
            charges=state.charges.copy(),
            running=state.counts.running.copy(),
            demand={queue: wanted.copy() for queue, wanted in self._demand.items()},
            workload={kind: count for kind, count in self._workload.items() if count},
            avoided={name: self._nodes_of(state, name) for name in sorted(self._avoided)},
            label_counts=self._label_counts.copy(),
            holders=self._holders.copy(),
            fences=tuple(self._fenced_charges(state)),
            evicted_alone=tuple(_evicted_alone(state)),
            repairs=tuple(self._repairs.values()),
            reservations=state.reservations.copy(),
            windows=tuple(state.windows.values()),
            may_keep_nodes=state.feature_level >= FeatureLevel.BOUNDED,
            freed_soon=self._freed_soon(state),
        )

    def shared_nodes(self) -> NodeColumns:
        """Return the columns that views share. What tasks hold is that of some moment since a node changed."""
        if self._shared is None:
            self._shared = self.nodes.frozen()
        return self._shared

    def _nodes_of(self, state: ClusterState, name: str) -> tuple[str, ...]:
        try:
            return _nodes_of(state, name)
        except Exception as error:  # whoever keeps away from the job keeps away from all nodes
            self.faults[name] = error
            return tuple(self.nodes.ids)

    def _fenced_charges(self, state: ClusterState) -> Iterator[FencedCharge]:
        for fence in state.fences.values():
            try:
                yield _fenced_charge(state, fence)
            except Exception as error:  # limits do without it, and the state machine keeps them
                self.faults[fence.job_id] = error

    def _freed_soon(self, state: ClusterState) -> dict[str, FreedSoon]:
        found: dict[str, FreedSoon] = {}
        for node_id in state.fenced.placements:
            try:
                found[node_id] = _freed_soon(state, node_id)
            except Exception as error:  # nothing is counted on there
                self.faults[node_id] = error
        return found

    def _refresh_nodes(self, state: ClusterState, node_ids: Sequence[str]) -> None:
        if not node_ids:
            return
        self._shared = None
        self._insert_rows(sorted(set(node_ids).difference(self.nodes.ids)))
        try:
            self._fill_rows(state, node_ids)
        except Exception:  # one of them is to blame
            for node_id in node_ids:
                try:
                    self._fill_rows(state, [node_id])
                except Exception as error:
                    self._close(node_id, error)

    def _close(self, node_id: str, error: Exception) -> None:
        """Let nothing start on a node that cannot be read."""
        nodes, row = self.nodes, self.nodes.row(node_id)
        nodes.ready[row] = False
        nodes.capacity[row] = nodes.free[row] = 0
        nodes.gpu_free[row] = 0
        self.faults[node_id] = error

    def _fill_rows(self, state: ClusterState, node_ids: Sequence[str]) -> None:
        nodes = self.nodes
        records = [state.nodes[node_id] for node_id in node_ids]
        self._add_columns(records)
        rows = [nodes.row(node_id) for node_id in node_ids]
        nodes.ready[rows] = [r.state is NodeState.READY for r in records]
        nodes.closed[rows] = [r.state in (NodeState.CORDONED, NodeState.DRAINING) for r in records]
        nodes.labels.assign(len(nodes), rows, [dict(r.labels) | {GPU_MODEL: r.gpu_model} for r in records])
        nodes.gpu_memory[rows] = [r.hardware.gpu_memory_bytes for r in records]
        nodes.taints[rows] = [self._taint_set(r) for r in records]
        width = nodes.gpu_free.shape[1]
        for row, record in zip(rows, records, strict=True):
            nodes.names[row] = record.name
            nodes.gpu_link[row] = _padded(record.hardware.gpu_links, width)
            nodes.gpu_numa[row] = _padded(record.hardware.gpu_numa, width)
            nodes.cpus[row] = tuple([parse_cpulist(cpus) for cpus in record.hardware.numa_cpus])
        devices = np.array([_devices(r, width) for r in records], dtype=np.int64).reshape(len(rows), width)
        capacity = np.zeros((len(rows), nodes.capacity.shape[1]), dtype=np.int64)
        capacity[:, AMOUNTS] = [vector(r.capacity) for r in records]
        capacity[:, DEVICES] = device_columns(devices, nodes.gpu_link[rows])
        capacity[:, Column.GPU] = capacity[:, Column.WHOLE]
        for name, column in nodes.custom.items():
            capacity[:, column] = [dict(r.capacity.custom).get(name, 0) for r in records]
        nodes.capacity[rows] = capacity
        for node_id in node_ids:
            self.faults.pop(node_id, None)
        self._refresh_load(state, node_ids)

    def _insert_rows(self, new: Sequence[str]) -> None:
        """Insert rows for new nodes where their ids belong."""
        if not new:
            return
        nodes = self.nodes
        places = [bisect_left(nodes.ids, node_id) for node_id in new]
        old = {node_id: row for row, node_id in enumerate(nodes.ids)}
        nodes.ids = sorted([*nodes.ids, *new])
        nodes.capacity = np.asfortranarray(np.insert(nodes.capacity, places, 0, axis=0))
        nodes.free = np.asfortranarray(np.insert(nodes.free, places, 0, axis=0))
        nodes.ready = np.insert(nodes.ready, places, False)
        nodes.closed = np.insert(nodes.closed, places, False)
        nodes.gpu_free = np.insert(nodes.gpu_free, places, 0, axis=0)
        nodes.gpu_link = np.insert(nodes.gpu_link, places, -1, axis=0)
        nodes.gpu_numa = np.insert(nodes.gpu_numa, places, -1, axis=0)
        nodes.gpu_memory = np.insert(nodes.gpu_memory, places, 0)
        nodes.taints = np.insert(nodes.taints, places, 0)
        nodes.names = [nodes.names[old[i]] if i in old else "" for i in nodes.ids]
        nodes.cpus = [nodes.cpus[old[i]] if i in old else () for i in nodes.ids]
        nodes.cpus_owned = [nodes.cpus_owned[old[i]] if i in old else 0 for i in nodes.ids]
        nodes.labels.insert(places)

    def _delete_rows(self, gone: Sequence[str]) -> None:
        """Delete the rows of forgotten nodes; one that came and went within a batch has none."""
        nodes = self.nodes
        rows = nodes.rows(tuple(gone)).tolist()
        if not rows:
            return
        self._shared = None
        without = dict.fromkeys(rows)
        left = [row for row in range(len(nodes)) if row not in without]
        nodes.ids = [nodes.ids[row] for row in left]
        nodes.names = [nodes.names[row] for row in left]
        nodes.cpus = [nodes.cpus[row] for row in left]
        nodes.cpus_owned = [nodes.cpus_owned[row] for row in left]
        nodes.capacity = np.asfortranarray(nodes.capacity[left])
        nodes.free = np.asfortranarray(nodes.free[left])
        nodes.ready, nodes.closed = nodes.ready[left], nodes.closed[left]
        nodes.gpu_free, nodes.gpu_memory = nodes.gpu_free[left], nodes.gpu_memory[left]
        nodes.gpu_link, nodes.gpu_numa = nodes.gpu_link[left], nodes.gpu_numa[left]
        nodes.taints = nodes.taints[left]
        nodes.labels.delete(rows)

    def _add_columns(self, records: Sequence[Node]) -> None:
        """Add columns if a node has more GPUs than any before, or a resource that no other has."""
        nodes = self.nodes
        missing = max(_gpus(r) for r in records) - nodes.gpu_free.shape[1]
        if missing > 0:
            more = ((0, 0), (0, missing))
            nodes.gpu_free = np.pad(nodes.gpu_free, more)
            nodes.gpu_link = np.pad(nodes.gpu_link, more, constant_values=-1)
            nodes.gpu_numa = np.pad(nodes.gpu_numa, more, constant_values=-1)
        names = sorted({name for r in records for name, _ in r.capacity.custom}.difference(nodes.custom))
        if names:
            first = nodes.capacity.shape[1]
            nodes.custom.update({name: first + i for i, name in enumerate(names)})
            columns = ((0, 0), (0, len(names)))
            nodes.capacity = np.asfortranarray(np.pad(nodes.capacity, columns))
            nodes.free = np.asfortranarray(np.pad(nodes.free, columns))

    def _taint_set(self, record: Node) -> int:
        sets = self.nodes.taint_sets
        if record.taints not in sets:
            sets.append(record.taints)
        return sets.index(record.taints)

    def _refresh_load(self, state: ClusterState, node_ids: Sequence[str]) -> None:
        for node_id in node_ids:  # mostly the one or two of a task that came or went: numbers cost less than arrays
            try:
                self._refresh_load_of(state, node_id, self.nodes.row(node_id))
            except Exception as error:
                self._close(node_id, error)

    def _refresh_load_of(self, state: ClusterState, node_id: str, row: int) -> None:
        nodes, record = self.nodes, state.nodes[node_id]
        capacity = nodes.capacity[row].tolist()
        used, *later = [self._amounts(resources) for resources in state.held(node_id)]
        free = list(map(sub, capacity, map(max, used, *later) if later else used))
        devices = _devices(record, nodes.gpu_free.shape[1])
        if capacity[Column.WHOLE]:
            for gpu, millis in state.node_gpus_held(node_id).items():
                if gpu < len(devices):
                    devices[gpu] = max(0, devices[gpu] - millis)
            if record.hardware.bad_gpus:  # what tasks hold of bad GPUs is no part of the capacity
                free[Column.GPU] = sum(devices)
            free[DEVICES] = device_columns_of_one(devices, nodes.gpu_link[row].tolist())
        if nodes.cpus[row]:
            nodes.cpus_owned[row] = state.node_cpus_held(node_id)
        nodes.gpu_free[row] = devices
        nodes.free[row] = free

    def _amounts(self, resources: Resources) -> list[int]:
        """Return the amounts by column; the columns that are derived from devices are 0."""
        amounts = [0] * self.nodes.free.shape[1]
        amounts[AMOUNTS] = vector(resources)
        for name, amount in resources.custom:
            if name in self.nodes.custom:
                amounts[self.nodes.custom[name]] = amount
        return amounts

    def _refresh_holders(self, state: ClusterState) -> None:
        for job_id in self._changed_jobs:
            self._repairs.pop(job_id, None)
            self._holders.pop(job_id, None)
            try:
                self._refresh_holder(state, job_id)
            except Exception as error:
                self.faults[job_id] = error
        self._changed_jobs = {}

    def _refresh_holder(self, state: ClusterState, job_id: str) -> None:
        job = state.jobs.get(job_id)
        if job is None or job.state.is_final:
            return
        if gang := running_gang(state, job, self._run_times_of(state, job)):
            self._holders[job_id] = gang
        again = restarts_in_place(job) and _is_known(state, job)
        if job_id not in state.fences and (again or rejoins_in_place(job)):
            stops = job.intent is not JobIntent.RUN
            running = job.state is JobState.RUNNING
            self._repairs[job_id] = Repair(
                gang=pending_gang(next_attempt(job) if stops else job, state.tasks_of(job) if running else ()),
                attempt=job.attempt,
                stops=stops,
                each=tuple([group.resources for group in job.spec.groups]),
                holdings=places_of(state, job),
                stood=_stood(state, job),
            )

    def _refresh_run_times(self, state: ClusterState) -> None:
        """Tell gangs what was learned since they were made: some with each view, those first that have waited for it
        for longest."""
        if state.lessons != self._lessons and not self._to_tell:
            self._lessons, self._run_times = state.lessons, {}
            self._to_tell = dict.fromkeys([*self._gangs, *self._holders])
        for job_id in list(islice(self._to_tell, EXPECTED_AT_ONCE)):
            del self._to_tell[job_id]
            gang, holder = self._gangs.get(job_id), self._holders.get(job_id)
            if gang is None and holder is None:
                continue
            job = state.jobs[job_id]
            found = self._run_times_of(state, job)
            if gang is not None:
                self._gangs[job_id] = with_run_times(gang, found)
            if holder is not None and not job.frozen:
                self._holders[job_id] = replace(holder, run_times=found)

    def _run_times_of(self, state: ClusterState, job: Job) -> RunTimes | None:
        """Return the run times of jobs like this one, as far as they were looked up since anything was learned."""
        if not state.run_histories:
            return None
        alike = self._alike.get(job.id)
        if alike is None:
            keys = keys_of(job)
            alike = self._alike[job.id] = self._kinds.setdefault(keys, keys)
            if len(self._kinds) > MAX_KINDS:
                self._kinds.clear()
        key = (alike, job.spec.timeout_ms)
        if key not in self._run_times:
            if len(self._run_times) > MAX_KINDS:
                self._run_times.clear()
            self._run_times[key] = predict(state.run_histories, alike, job.spec.timeout_ms)
        return self._run_times[key]

    def _refresh_gangs(self, state: ClusterState, job_ids: Iterable[str]) -> None:
        for job_id in job_ids:
            self.faults.pop(job_id, None)
            try:
                self._remove_gang(job_id)
                self._count_workload(state.jobs.get(job_id), job_id)
                if job_id in state.pending:
                    job = state.jobs[job_id]
                    running = job.state is JobState.RUNNING
                    tasks = state.tasks_of(job) if running else ()
                    self._add_gang(pending_gang(job, tasks, self._run_times_of(state, job)))
            except Exception as error:
                self._gangs.pop(job_id, None)
                self.faults[job_id] = error

    def _count_workload(self, job: Job | None, job_id: str) -> None:
        """Count the job in the workload once, as long as it lives."""
        if job is None or job.state.is_final:
            self._alike.pop(job_id, None)
            self._workload.subtract(self._live.pop(job_id, {}))
        elif job_id not in self._live:
            self._live[job_id] = _KINDS(job.spec.groups)
            self._workload.update(self._live[job_id])

    def _add_gang(self, gang: PendingGang) -> None:
        self._gangs[gang.job_id] = gang
        add_to(self._demand.setdefault(gang.queue, {}), dict(gang.charge))
        self._avoided.update(_avoids(gang))

    def _remove_gang(self, job_id: str) -> None:
        gang = self._gangs.pop(job_id, None)
        if gang is not None:
            add_to(self._demand[gang.queue], dict(gang.charge), -1)
            if avoided := _avoids(gang):
                self._avoided.subtract(avoided)
                self._avoided += Counter()  # drops names that no gang avoids any more


def _holders_on(state: ClusterState, node_id: str) -> dict[str, None]:
    """Return the jobs with a place or a fence on the node: their GPUs may be bad now, or good again."""
    held = [state.allocations[a].job_id for a in state.node_allocations.get(node_id, ())]
    return dict.fromkeys([*held, *state.fenced.placements.get(node_id, ())])


def _stood(state: ClusterState, job: Job) -> tuple[int, ...]:
    tasks, first, found = state.tasks_of(job), 0, []
    for group in job.spec.groups:
        found.append(sum(1 for task in tasks[first : first + group.count] if task.node_id))
        first += group.count
    return tuple(found)


def _is_known(state: ClusterState, job: Job) -> bool:
    """Return whether all masters take such a repair: those of the release before know lost nodes alone."""
    lost = job.state is JobState.RUNNING and job.intent is JobIntent.RESTART and job.reason == Reason.NODE_LOST
    return lost or state.feature_level >= FeatureLevel.BOUNDED


def next_attempt(job: Job) -> Job:
    """Return the job as it will be once all its tasks have ended. Where its next attempt wants more tasks than are
    wanted now, those come later: a repair places no more than are wanted while it is planned."""
    initial = job.spec.gang.initial_tasks
    return replace(
        job,
        state=JobState.PENDING,
        intent=JobIntent.RUN,
        attempt=job.attempt + 1,
        active=0,
        running=0,
        scaled_to=min(initial, job.wanted) if initial else job.scaled_to,
    )


def _fenced_charge(state: ClusterState, fence: Fence) -> FencedCharge:
    job = state.jobs[fence.job_id]
    charge = charge_of_fence(fence, job.spec, state.nodes)
    charged: Amounts = {}
    if job.active and job.intent is not JobIntent.RUN:  # it is repaired
        for task in state.tasks_of(job):
            if task.state.is_active and (held := state.allocations[task.allocation_id]).evicted_for_fence == job.id:
                add_to(charged, charge_of(held.resources, held.gpu_model))
    starts = job.state is not JobState.RUNNING
    return FencedCharge(job.id, job.spec.queue, job.spec.tenant, charge, charged, starts)


def _evicted_alone(state: ClusterState) -> Iterator[tuple[str, Amounts]]:
    for node_id in state.fenced.evicting:
        for allocation in [state.allocations[each] for each in state.node_allocations[node_id]]:
            job = state.jobs[allocation.job_id]
            alone = job.intent is JobIntent.RUN or restarts_in_place(job)  # as in `running_gang`
            if alone and allocation.evicted_for_fence not in ("", job.id):
                yield job.spec.queue, charge_of(allocation.resources, allocation.gpu_model)


def _freed_soon(state: ClusterState, node_id: str) -> FreedSoon:
    held = state.held(node_id)
    now, later = held[0], held[-1]
    freed = now - later
    amounts = Resources(
        cpu_millis=max(freed.cpu_millis, 0),
        memory_bytes=max(freed.memory_bytes, 0),
        storage_bytes=max(freed.storage_bytes, 0),
        gpu_millis=max(freed.gpu_millis, 0),
        custom=tuple([(name, amount) for name, amount in freed.custom if amount > 0]),
    )
    after_all = state.node_gpus_after(node_id)
    bad = state.nodes[node_id].hardware.bad_gpus
    held_now = {gpu: millis for gpu, millis in state.node_gpus_held(node_id).items() if gpu not in bad}
    gpus = {gpu: millis - after_all.get(gpu, 0) for gpu, millis in held_now.items()}
    return FreedSoon(amounts, {gpu: millis for gpu, millis in gpus.items() if millis > 0})


def _kinds_of(groups: Groups, _: int) -> Counter[TaskKind]:
    kinds: Counter[TaskKind] = Counter()
    for group in groups:
        where = (group.gpu_model, tuple([term for term in group.affinity if not term.weight]))
        kinds[TaskKind(group.resources.cpu_millis, group.resources.gpu_millis, where)] += group.count
    return kinds


_KINDS = ByGroups(_kinds_of)


def _avoids(gang: PendingGang) -> list[str]:
    rules = [rule for request in gang.requests for rule in request.constraints.anti_affinity if rule.job != SELF]
    return [rule.full_name(gang.tenant) for rule in rules]


def _nodes_of(state: ClusterState, name: str) -> tuple[str, ...]:
    tenant, _, own = name.partition("/")
    job = state.jobs.get(state.names.id_of(tenant, own))
    return tuple([t.node_id for t in state.tasks_of(job) if t.state.is_active]) if job is not None else ()


def _gpus(node: Node) -> int:
    return min(node.capacity.gpu_millis // MILLI, MAX_GPUS)


def _devices(node: Node, width: int) -> list[int]:
    """Return the milli-GPUs of each device, 0 for a bad one and for those up to `width` that the node lacks."""
    gpus, bad = _gpus(node), node.hardware.bad_gpus
    return [MILLI if gpu < gpus and gpu not in bad else 0 for gpu in range(width)]


def _padded(values: Sequence[int], width: int) -> list[int]:
    return [*values[:width], *([-1] * (width - len(values)))]
