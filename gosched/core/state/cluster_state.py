"""The cluster's state: tables of frozen records, and indexes derived from them.

One thread owns a ClusterState and is the only one that touches it; others get a `FrozenState`, which shares
the records. Only `gosched.state_machine` calls the `put_`, `drop_` and `set_` methods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import groupby

from gosched.core.cpulist import parse_cpulist
from gosched.core.digest import record_digest
from gosched.core.features import NEWEST_LEVEL, FeatureLevel
from gosched.core.limits import MAX_ANSWER_BYTES, MAX_ANSWERS_PER_CLIENT, MAX_CLIENTS_REMEMBERED, MAX_MASTERS
from gosched.core.outcome import Answer
from gosched.core.records.allocation import Allocation, TaskPlacement
from gosched.core.records.fence import Fence
from gosched.core.records.follow_up import FollowUp
from gosched.core.records.job import Job, JobState, wants_placement
from gosched.core.records.master import Configuration, Master
from gosched.core.records.node import Node, NodeState
from gosched.core.records.queue import Queue
from gosched.core.records.reservation import Reservation
from gosched.core.records.task import Task
from gosched.core.records.tenant import Account, Quota, Tenant, account_key
from gosched.core.records.window import Window
from gosched.core.resources import MILLI, ZERO, Resources
from gosched.core.sharing import Amounts, add_to, charge_of
from gosched.core.spec.job_spec import group_of
from gosched.core.state.footprint import (
    ACCOUNT_BYTES,
    TENANT_BYTES,
    Footprint,
    answer_bytes,
    content_bytes,
    fence_bytes,
    reservation_bytes,
)
from gosched.core.state.kept_jobs import KeptJobs
from gosched.core.state.spec_parts import without_parts
from gosched.core.state.timers import Timers

Record = (
    Node
    | Queue
    | Quota
    | Account
    | Tenant
    | Master
    | Job
    | Task
    | Allocation
    | Fence
    | Reservation
    | Window
    | FollowUp
    | Answer
)

TABLES = (
    "nodes",
    "queues",
    "quotas",
    "accounts",
    "tenants",
    "masters",
    "jobs",
    "tasks",
    "allocations",
    "fences",
    "reservations",
    "windows",
    "follow_ups",
)
_DIGEST_MODULUS = 1 << 128
_MAX_DIRTY = 2_000  # digested at once: some 10 ms


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenState:
    """A copy of the tables at one revision. The records are shared; nobody may change the dicts.

    The order of `answers` (clients, and the answers of each), of `masters` and of `follow_ups` is part of the state:
    the oldest are forgotten, or done, first. Snapshots keep it.
    """

    revision: int
    feature_level: int
    cluster_id: str
    configuration: Configuration | None
    lineage: tuple[str, ...]
    clock_ms: int
    epoch: int
    leader: str
    next_sequence: int
    nodes: dict[str, Node]
    queues: dict[str, Queue]
    quotas: dict[str, Quota]
    accounts: dict[str, Account]
    tenants: dict[str, Tenant]
    masters: dict[str, Master]
    jobs: dict[str, Job]
    tasks: dict[str, Task]
    allocations: dict[str, Allocation]
    fences: dict[str, Fence]
    reservations: dict[str, Reservation]
    windows: dict[str, Window]
    follow_ups: dict[str, FollowUp]
    answers: dict[str, dict[str, Answer]]


class ClusterState:
    """Mutable, single owner.

    Tables: `nodes queues quotas accounts tenants masters jobs tasks allocations fences reservations windows follow_ups
    answers`; quotas by tenant, accounts by "queue/tenant", fences, reservations and follow-ups by job.
    Derived: `usage` (node -> what its allocations hold), `node_allocations` (node -> allocation ids),
    `pending` (jobs that want to be placed), `finished` (in order of their end), `kept` (the same by tenant and array),
    `names` (job name -> newest id), `namesakes` (job name -> the older ones, by sequence),
    `live` (tenant -> its jobs that have not ended), `live_in` (the same by queue),
    `charges` ((queue, tenant, GPU model) -> what its allocations hold), `running` ((queue, tenant) -> RUNNING jobs),
    `total` (what the nodes that live can give together), `node_fences` (node -> job -> its placements there), `fenced`
    (node -> what fences hold there), `leaving` (node -> what allocations hold there that leave for a fence), `awaited`
    (job -> how many allocations its fence waits for), `dependents` (job -> jobs that wait for its end), `offspring`
    (parent -> its live children), `timers` (when something is due), `footprint` (bytes, by whom they are held).
    """

    def __init__(self, *, feature_level: int = NEWEST_LEVEL) -> None:
        self.revision = 0  # count of applied commands
        self.feature_level = feature_level
        self.cluster_id = ""  # empty: not founded yet, or founded by a release that gave none
        self.configuration: Configuration | None = None  # of the replicated log; None: the log names no members yet
        self.lineage: tuple[str, ...] = ()  # ids of the clusters whose backups this one was restored from, oldest first
        self.clock_ms = 0
        self.epoch = 0
        self.leader = ""
        self.next_sequence = 1
        self.nodes: dict[str, Node] = {}
        self.queues: dict[str, Queue] = {}
        self.quotas: dict[str, Quota] = {}
        self.accounts: dict[str, Account] = {}
        self.tenants: dict[str, Tenant] = {}
        self.masters: dict[str, Master] = {}
        self.jobs: dict[str, Job] = {}
        self.tasks: dict[str, Task] = {}
        self.allocations: dict[str, Allocation] = {}
        self.fences: dict[str, Fence] = {}
        self.reservations: dict[str, Reservation] = {}
        self.windows: dict[str, Window] = {}
        self.follow_ups: dict[str, FollowUp] = {}
        self.answers: dict[str, dict[str, Answer]] = {}

        self.usage: dict[str, Resources] = {}
        self.node_allocations: dict[str, dict[str, None]] = {}
        self.pending: dict[str, None] = {}
        self.finished: dict[str, None] = {}
        self.kept = KeptJobs()
        self.live: dict[str, int] = {}
        self.live_in: dict[str, int] = {}
        self.names: dict[str, str] = {}
        self.namesakes: dict[str, dict[str, None]] = {}
        self.charges: dict[tuple[str, str, str], Resources] = {}
        self.running: dict[tuple[str, str], int] = {}
        self.total: Amounts = {}
        self.node_fences: dict[str, dict[str, tuple[TaskPlacement, ...]]] = {}
        self.fenced: dict[str, Resources] = {}
        self.leaving: dict[str, Resources] = {}
        self.awaited: dict[str, int] = {}
        self.dependents: dict[str, dict[str, None]] = {}
        self.offspring: dict[str, dict[str, None]] = {}
        self.timers = Timers()
        self.footprint = Footprint()

        self._sum = 0
        self._hashes: dict[tuple[str, str], int] = {}
        self._dirty: dict[tuple[str, str], None] | None = None  # changed since the last digest; None: nobody asks

    # Tables

    def put_node(self, node: Node) -> None:
        self._count_capacity(self.nodes.get(node.id), -1)
        self._count_capacity(node, 1)
        self.nodes[node.id] = node
        self.footprint.put_record("nodes", node.id, content_bytes(node))
        self.usage.setdefault(node.id, ZERO)
        self.node_allocations.setdefault(node.id, {})
        self.timers.put_node(node)
        self._touch("nodes", node.id)

    def drop_node(self, node_id: str) -> None:
        """The node holds nothing, and nothing names it any more."""
        self._count_capacity(self.nodes.pop(node_id), -1)
        self.footprint.put_record("nodes", node_id, 0)
        del self.usage[node_id], self.node_allocations[node_id]
        self.timers.drop_node(node_id)
        self._touch("nodes", node_id)

    def set_queues(self, queues: tuple[Queue, ...]) -> None:
        for path in [*self.queues, *(q.path for q in queues)]:
            self._touch("queues", path)
        self.queues = {q.path: q for q in queues}
        self.footprint.put_record("queues", "", content_bytes(queues))

    def put_quota(self, quota: Quota) -> None:
        self.quotas[quota.tenant] = quota
        self.footprint.put_record("quotas", quota.tenant, content_bytes(quota))
        self._touch("quotas", quota.tenant)

    def drop_quota(self, tenant: str) -> None:
        del self.quotas[tenant]
        self.footprint.put_record("quotas", tenant, 0)
        self._touch("quotas", tenant)

    def put_account(self, account: Account) -> None:
        key = account_key(account.queue, account.tenant)
        self.accounts[key] = account
        self.footprint.tables["accounts"] = len(self.accounts) * ACCOUNT_BYTES
        self._touch("accounts", key)

    def drop_account(self, key: str) -> None:
        del self.accounts[key]
        self.footprint.tables["accounts"] = len(self.accounts) * ACCOUNT_BYTES
        self._touch("accounts", key)

    def put_tenant(self, tenant: Tenant) -> None:
        self.tenants[tenant.name] = tenant
        self.footprint.tables["tenants"] = len(self.tenants) * TENANT_BYTES
        self._touch("tenants", tenant.name)

    def drop_tenant(self, name: str) -> None:
        """The tenant has no jobs."""
        del self.tenants[name]
        self.footprint.tables["tenants"] = len(self.tenants) * TENANT_BYTES
        self._touch("tenants", name)

    def put_master(self, master: Master) -> None:
        """The one that spoke up longest ago is forgotten first."""
        self.masters.pop(master.id, None)
        self.masters[master.id] = master
        self._touch("masters", master.id)
        if len(self.masters) > MAX_MASTERS:
            oldest = next(iter(self.masters))
            del self.masters[oldest]
            self._touch("masters", oldest)

    def set_configuration(self, configuration: Configuration) -> None:
        """Masters that are no members any more are forgotten."""
        self.configuration = configuration
        self.footprint.put_record("configuration", "", content_bytes(configuration))
        members = [member.id for member in configuration.members]
        for gone in [master for master in self.masters if master not in members]:
            del self.masters[gone]
            self._touch("masters", gone)

    def put_job(self, job: Job) -> None:
        before = self.jobs.get(job.id)
        self._count_running(before, -1)
        self._count_running(job, 1)
        self._count_live(before, job)
        job = self.footprint.put_job(before, job)
        self._link(before, job)
        self.timers.put_job(job)
        self.jobs[job.id] = job
        held = self.jobs.get(self.names.get(job.spec.name, ""))
        if held is None or held.sequence < job.sequence:
            self.names[job.spec.name] = job.id
            if held is not None:
                self.namesakes.setdefault(held.spec.name, {})[held.id] = None
        if wants_placement(job) and job.id not in self.fences:
            self.pending.setdefault(job.id)
        else:
            self.pending.pop(job.id, None)
        if job.state.is_final:
            self.finished.setdefault(job.id)
            self.kept.add(job)
        self._touch("jobs", job.id)

    def drop_job(self, job_id: str) -> None:
        """The job is final, so it holds nothing."""
        job = self.jobs.pop(job_id)
        for task in job.task_ids():
            del self.tasks[task]
            self._touch("tasks", task)
        self.footprint.drop_job(job_id)
        self._forget_name(job)
        self.finished.pop(job_id, None)
        self.kept.drop(job)
        self.dependents.pop(job_id, None)
        self.timers.drop_job(job_id)
        self._touch("jobs", job_id)

    def put_task(self, task: Task) -> None:
        self.footprint.put_task(self.tasks.get(task.id), task)
        self.tasks[task.id] = task
        self._touch("tasks", task.id)

    def put_allocation(self, allocation: Allocation) -> None:
        self.allocations[allocation.id] = allocation
        node = allocation.node_id
        self.usage[node] = self.usage[node] + allocation.resources
        self.node_allocations[node][allocation.id] = None
        if not allocation.resources.is_zero():  # no zeros are kept: tasks that ask for nothing come and go in any order
            payer = self._payer(allocation)
            held = self.charges.get(payer)
            self.charges[payer] = allocation.resources if held is None else held + allocation.resources
        if allocation.leaves_for:
            self._count_leaving(allocation, 1)
        self._touch("allocations", allocation.id)

    def send_off(self, allocation_id: str, leaves_for: str) -> None:
        """The allocation makes room for a job's fence."""
        allocation = self.allocations[allocation_id]
        if allocation.leaves_for:
            self._count_leaving(allocation, -1)
        allocation = replace(allocation, leaves_for=leaves_for)
        self.allocations[allocation_id] = allocation
        if leaves_for:
            self._count_leaving(allocation, 1)
        self._touch("allocations", allocation_id)

    def drop_allocation(self, allocation_id: str) -> None:
        allocation = self.allocations.pop(allocation_id)
        node = allocation.node_id
        self.usage[node] = self.usage[node] - allocation.resources
        del self.node_allocations[node][allocation_id]
        if not allocation.resources.is_zero():
            payer = self._payer(allocation)
            left = self.charges.pop(payer) - allocation.resources
            if not left.is_zero():
                self.charges[payer] = left
        if allocation.leaves_for:
            self._count_leaving(allocation, -1)
        self._touch("allocations", allocation_id)

    def put_fence(self, fence: Fence) -> None:
        """The job has none yet."""
        self.fences[fence.job_id] = fence
        self.footprint.charge(fence.job_id, fence_bytes(fence))
        self.pending.pop(fence.job_id, None)
        by_node: dict[str, list[TaskPlacement]] = {}
        for placement in fence.tasks:
            by_node.setdefault(placement.node_id, []).append(placement)
        for node, placements in by_node.items():
            self.node_fences.setdefault(node, {})[fence.job_id] = tuple(placements)
            held = self.fenced.get(node, ZERO) + self._fenced(fence.job_id, placements)
            if not held.is_zero():
                self.fenced[node] = held
        self._touch("fences", fence.job_id)

    def drop_fence(self, job_id: str) -> None:
        """Its job waits like any other then, if it still does."""
        fence = self.fences.pop(job_id)
        self.footprint.charge(job_id, -fence_bytes(fence))
        for node in dict.fromkeys(placement.node_id for placement in fence.tasks):
            placements = self.node_fences[node].pop(job_id)
            left = self.fenced.pop(node, ZERO) - self._fenced(job_id, placements)
            if not left.is_zero():
                self.fenced[node] = left
            if not self.node_fences[node]:
                del self.node_fences[node]
        job = self.jobs.get(job_id)
        if job is not None and wants_placement(job):
            self.pending.setdefault(job_id)
        self._touch("fences", job_id)

    def put_reservation(self, reservation: Reservation) -> None:
        before = self.reservations.get(reservation.job_id)
        released = reservation_bytes(before) if before is not None else 0
        self.footprint.charge(reservation.job_id, reservation_bytes(reservation) - released)
        self.reservations[reservation.job_id] = reservation
        self._touch("reservations", reservation.job_id)

    def drop_reservation(self, job_id: str) -> None:
        self.footprint.charge(job_id, -reservation_bytes(self.reservations.pop(job_id)))
        self._touch("reservations", job_id)

    def put_window(self, window: Window) -> None:
        self.windows[window.name] = window
        self.footprint.put_record("windows", window.name, content_bytes(window))
        self._touch("windows", window.name)

    def drop_window(self, name: str) -> None:
        del self.windows[name]
        self.footprint.put_record("windows", name, 0)
        self._touch("windows", name)

    def restamp(self, table: str, key: str, record: Record) -> None:
        """Replaces a record by one that differs in its moments alone. Of the indexes only the timers know of those, and
        `finished`, which `set_clock` puts in order."""
        getattr(self, table)[key] = record
        if isinstance(record, Job):
            self.timers.put_job(record)
        elif isinstance(record, Node):
            self.timers.put_node(record)
        self._touch(table, key)

    def set_clock(self, clock_ms: int) -> None:
        """Once no record is stamped later than that."""
        self.clock_ms = clock_ms
        self.finished = _in_order_of_end(self.finished, self.jobs)
        self.kept = KeptJobs()
        for job_id in self.finished:
            self.kept.add(self.jobs[job_id])

    def put_follow_up(self, follow_up: FollowUp) -> None:
        """In the place of the one that the job has, else at the end."""
        self.follow_ups[follow_up.job_id] = follow_up
        self._touch("follow_ups", follow_up.job_id)

    def drop_follow_up(self, job_id: str) -> None:
        del self.follow_ups[job_id]
        self._touch("follow_ups", job_id)

    def put_answer(self, answer: Answer) -> None:
        """Kept for the clients that asked last; the oldest answers of each are forgotten first, and those of the
        clients that asked longest ago where all together are too large."""
        own = self._keep_answer(answer)
        if len(own) > MAX_ANSWERS_PER_CLIENT:
            self._forget_answer(answer.client_id)
        if len(self.answers) > MAX_CLIENTS_REMEMBERED:
            client = next(iter(self.answers))
            for _ in range(len(self.answers[client])):
                self._forget_answer(client)
        if self.feature_level >= FeatureLevel.BOUNDED:
            for _ in range(MAX_ANSWERS_PER_CLIENT):  # at once; one is enough but after the level was raised
                if self.footprint.tables["answers"] <= MAX_ANSWER_BYTES:
                    break
                self._forget_answer(next(iter(self.answers)))

    # Reading

    def node_gpus_held(self, node_id: str) -> dict[int, int]:
        """Milli-GPUs that nobody else may take of each GPU of the node, by its index; none for one that is free: what
        allocations hold now, or what they and the fences will hold once all have gone that leave, if that is more."""
        held: dict[int, int] = {}
        for allocation in [self.allocations[a] for a in self.node_allocations.get(node_id, ())]:
            for gpu in allocation.gpus:
                held[gpu] = held.get(gpu, 0) + min(allocation.resources.gpu_millis, MILLI)
        if node_id not in self.node_fences:
            return held
        after = self.node_gpus_after(node_id)
        return {gpu: max(held.get(gpu, 0), after.get(gpu, 0)) for gpu in sorted({**held, **after})}

    def node_gpus_after(self, node_id: str) -> dict[int, int]:
        """Milli-GPUs that will be held of each GPU once all have gone that leave for a fence."""
        held: dict[int, int] = {}
        for allocation in [self.allocations[a] for a in self.node_allocations.get(node_id, ())]:
            for gpu in allocation.gpus if not allocation.leaves_for else ():
                held[gpu] = held.get(gpu, 0) + min(allocation.resources.gpu_millis, MILLI)
        for job_id, placements in self.node_fences.get(node_id, {}).items():
            for placement in placements:
                for gpu in placement.gpus:
                    held[gpu] = held.get(gpu, 0) + min(self._asked(job_id, placement).gpu_millis, MILLI)
        return held

    def node_cpus_held(self, node_id: str) -> int:
        """The mask of the CPUs that allocations on the node own, or fences will."""
        mask = 0
        for allocation_id in self.node_allocations.get(node_id, ()):
            mask |= parse_cpulist(self.allocations[allocation_id].cpus)
        for placements in self.node_fences.get(node_id, {}).values():
            for placement in placements:
                mask |= parse_cpulist(placement.cpus)
        return mask

    def held(self, node_id: str) -> tuple[Resources, ...]:
        """What the node must have room for besides a newcomer: what is held now, and, where there are fences, what will
        be held once all have gone that leave."""
        usage = self.usage[node_id]
        fenced = self.fenced.get(node_id)
        return (usage,) if fenced is None else (usage, usage - self.leaving.get(node_id, ZERO) + fenced)

    def find_job(self, id_or_name: str) -> Job | None:
        """By id, else the newest job of that name."""
        return self.jobs.get(id_or_name) or self.jobs.get(self.names.get(id_or_name, ""))

    def tasks_of(self, job: Job) -> list[Task]:
        """In order of rank."""
        return [self.tasks[t] for t in job.task_ids()]

    def finished_oldest_first(self) -> Iterator[Job]:
        """By end, then by sequence: the same order on a master that was restored from a snapshot."""
        jobs = (self.jobs[j] for j in self.finished)
        for _, ended_together in groupby(jobs, key=lambda job: job.ended_at_ms):
            yield from sorted(ended_together, key=lambda job: job.sequence)

    def answer_to(self, client_id: str, request_id: str) -> Answer | None:
        return self.answers.get(client_id, {}).get(request_id)

    def freeze(self) -> FrozenState:
        return FrozenState(
            revision=self.revision,
            feature_level=self.feature_level,
            cluster_id=self.cluster_id,
            configuration=self.configuration,
            lineage=self.lineage,
            clock_ms=self.clock_ms,
            epoch=self.epoch,
            leader=self.leader,
            next_sequence=self.next_sequence,
            nodes=self.nodes.copy(),
            queues=self.queues.copy(),
            quotas=self.quotas.copy(),
            accounts=self.accounts.copy(),
            tenants=self.tenants.copy(),
            masters=self.masters.copy(),
            jobs=self.jobs.copy(),
            tasks=self.tasks.copy(),
            allocations=self.allocations.copy(),
            fences=self.fences.copy(),
            reservations=self.reservations.copy(),
            windows=self.windows.copy(),
            follow_ups=self.follow_ups.copy(),
            answers={client: own.copy() for client, own in self.answers.items()},
        )

    def digest(self) -> str:
        """Of the whole state; equal states have equal digests. The first call costs what there is, the others what
        changed since; a state that is never asked pays nothing."""
        for place in self._places() if self._dirty is None else self._dirty:
            record = self._record(place)
            old = self._hashes.pop(place, 0)
            new = 0
            if record is not None:
                new = self._hashes[place] = self._digest_of(place, record)
            self._sum = (self._sum + new - old) % _DIGEST_MODULUS
        self._dirty = {}
        scalars = f"{self.revision} {self.clock_ms} {self.epoch} {self.next_sequence} {self._sum} {self.leader}"
        if self.feature_level > FeatureLevel.FIRST:  # the release before knows neither
            scalars += f" {self.feature_level} {self.cluster_id}"
        if self.configuration is not None:
            scalars += f" {record_digest('configuration', '', self.configuration)}"
        if self.lineage:
            scalars += f" {' '.join(self.lineage)}"
        return blake2b(scalars.encode(), digest_size=16).hexdigest()

    def _keep_answer(self, answer: Answer) -> dict[str, Answer]:
        """Return all that are kept for its client."""
        own = self.answers.pop(answer.client_id, {})
        before = own.get(answer.request_id)
        self.footprint.add("answers", answer_bytes(answer) - (answer_bytes(before) if before is not None else 0))
        own[answer.request_id] = answer
        self.answers[answer.client_id] = own  # at the end: the newest client
        self._touch("answers", f"{answer.client_id}\0{answer.request_id}")
        return own

    def _forget_answer(self, client: str) -> None:
        """Forget the client's oldest one."""
        own = self.answers[client]
        oldest = next(iter(own))
        self.footprint.add("answers", -answer_bytes(own.pop(oldest)))
        self._touch("answers", f"{client}\0{oldest}")
        if not own:
            del self.answers[client]

    def raise_level(self, level: int) -> None:
        """From now on the state is digested, and goes on, as the level says."""
        self.feature_level = level
        self._sum, self._hashes, self._dirty = 0, {}, None

    def _digest_of(self, place: tuple[str, str], record: Record) -> int:
        """From FeatureLevel.BOUNDED on a part that many jobs share is digested once, not with each of them."""
        if self.feature_level >= FeatureLevel.BOUNDED and isinstance(record, Job):
            return record_digest(*place, (without_parts(record), self.footprint.part_digests(record.id)))
        return record_digest(*place, record)

    def _touch(self, table: str, key: str) -> None:
        if self._dirty is not None:
            self._dirty[(table, key)] = None
            if len(self._dirty) > _MAX_DIRTY:
                self.digest()

    def _places(self) -> Iterator[tuple[str, str]]:
        for table in TABLES:
            for key in getattr(self, table):
                yield table, key
        for client, own in self.answers.items():
            for request in own:
                yield "answers", f"{client}\0{request}"

    def _asked(self, job_id: str, placement: TaskPlacement) -> Resources:
        return group_of(self.jobs[job_id].spec, placement.rank).resources

    def _fenced(self, job_id: str, placements: Sequence[TaskPlacement]) -> Resources:
        total = ZERO
        for placement in placements:
            total = total + self._asked(job_id, placement)
        return total

    def _count_leaving(self, allocation: Allocation, sign: int) -> None:
        node, job_id = allocation.node_id, allocation.leaves_for
        before = self.leaving.pop(node, ZERO)
        after = before + allocation.resources if sign > 0 else before - allocation.resources
        if not after.is_zero():
            self.leaving[node] = after
        count = self.awaited.pop(job_id, 0) + sign
        if count:
            self.awaited[job_id] = count

    def _link(self, before: Job | None, job: Job) -> None:
        """Which job waits for which, and whose child it is; both in order of sequence, also after a restore."""
        waits_for = () if job.state.is_final else job.waits_for
        for dependency in before.waits_for if before is not None and before.waits_for != waits_for else ():
            waiting = self.dependents.get(dependency.job, {})
            if not any(wanted.job == dependency.job for wanted in waits_for):
                waiting.pop(job.id, None)
            if not waiting:
                self.dependents.pop(dependency.job, None)
        for dependency in waits_for:
            self.dependents.setdefault(dependency.job, {})[job.id] = None
        if job.parent and not job.state.is_final:
            self.offspring.setdefault(job.parent, {})[job.id] = None
        elif job.parent and job.parent in self.offspring:
            self.offspring[job.parent].pop(job.id, None)
            if not self.offspring[job.parent]:
                del self.offspring[job.parent]

    def _forget_name(self, job: Job) -> None:
        name = job.spec.name
        older = self.namesakes.get(name, {})
        if self.names.get(name) != job.id:
            older.pop(job.id, None)
        elif older:
            self.names[name], _ = older.popitem()
        else:
            del self.names[name]
        if name in self.namesakes and not older:
            del self.namesakes[name]

    def _payer(self, allocation: Allocation) -> tuple[str, str, str]:
        spec = self.jobs[allocation.job_id].spec
        return spec.queue, spec.tenant, allocation.gpu_model

    def _count_running(self, job: Job | None, change: int) -> None:
        if job is not None and job.state is JobState.RUNNING and not job.spec.is_parent:
            payer = (job.spec.queue, job.spec.tenant)
            count = self.running[payer] = self.running.get(payer, 0) + change
            if not count:
                del self.running[payer]

    def _count_live(self, before: Job | None, job: Job) -> None:
        change = (not job.state.is_final) - (before is not None and not before.state.is_final)
        if not change:  # as with most puts
            return
        for counts, key in ((self.live, job.spec.tenant), (self.live_in, job.spec.queue)):
            count = counts[key] = counts.get(key, 0) + change
            if not count:
                del counts[key]

    def _count_capacity(self, node: Node | None, sign: int) -> None:
        if node is not None and node.state is not NodeState.DEAD:
            add_to(self.total, charge_of(node.usable, node.gpu_model), sign)

    def _record(self, place: tuple[str, str]) -> Record | None:
        table, key = place
        if table == "answers":
            client, _, request = key.partition("\0")
            return self.answer_to(client, request)
        records: dict[str, Record] = getattr(self, table)
        return records.get(key)


def restore(frozen: FrozenState) -> ClusterState:
    """A state that goes on exactly as the frozen one would have; the indexes are made anew."""
    state = ClusterState(feature_level=frozen.feature_level)
    state.revision = frozen.revision
    state.cluster_id = frozen.cluster_id
    if frozen.configuration is not None:
        state.set_configuration(frozen.configuration)
    state.lineage = frozen.lineage
    state.clock_ms = frozen.clock_ms
    state.epoch = frozen.epoch
    state.leader = frozen.leader
    state.next_sequence = frozen.next_sequence
    for node in frozen.nodes.values():
        state.put_node(node)
    state.set_queues(tuple(frozen.queues.values()))
    for quota in frozen.quotas.values():
        state.put_quota(quota)
    for account in frozen.accounts.values():
        state.put_account(account)
    for tenant in frozen.tenants.values():
        state.put_tenant(tenant)
    for master in frozen.masters.values():
        state.put_master(master)
    for job in frozen.jobs.values():
        state.put_job(job)
    state.finished = _in_order_of_end(state.finished, frozen.jobs)
    for task in frozen.tasks.values():
        state.put_task(task)
    for allocation in frozen.allocations.values():
        state.put_allocation(allocation)
    for fence in frozen.fences.values():
        state.put_fence(fence)
    for reservation in frozen.reservations.values():
        state.put_reservation(reservation)
    for window in frozen.windows.values():
        state.put_window(window)
    for follow_up in frozen.follow_ups.values():
        state.put_follow_up(follow_up)
    for own in frozen.answers.values():
        for answer in own.values():
            state._keep_answer(answer)  # the next new one may be the one to put others out
    return state


def _in_order_of_end(finished: dict[str, None], jobs: dict[str, Job]) -> dict[str, None]:
    return dict.fromkeys(sorted(finished, key=lambda j: (jobs[j].ended_at_ms, jobs[j].sequence)))
