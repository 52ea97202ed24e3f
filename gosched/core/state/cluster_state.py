"""The state of the cluster: the tables, and indexes derived from them.

One thread owns a ClusterState and is the only one that touches it; others get a `FrozenState`, which shares the
records. Invariant: only `gosched.state_machine` calls the `put_`, `drop_` and `set_` methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from gosched.core.cpulist import parse_cpulist
from gosched.core.features import NEWEST_LEVEL, FeatureLevel
from gosched.core.limits import MAX_MASTERS
from gosched.core.outcome import Answer, Answered
from gosched.core.records.access import Binding, Token
from gosched.core.records.allocation import Allocation
from gosched.core.records.fence import Fence
from gosched.core.records.follow_up import FollowUp
from gosched.core.records.job import Job, wants_placement
from gosched.core.records.join import JoinedNode, JoinToken
from gosched.core.records.master import Configuration, Master
from gosched.core.records.node import Node, NodeState
from gosched.core.records.queue import Queue
from gosched.core.records.reservation import Reservation
from gosched.core.records.revocation import Revocation
from gosched.core.records.run_history import RunHistory
from gosched.core.records.secret import Secret
from gosched.core.records.task import Task
from gosched.core.records.tenant import Account, Quota, Tenant, UnixAccount, account_key
from gosched.core.records.window import Window
from gosched.core.replace import replace
from gosched.core.request_ids import request_key
from gosched.core.resources import MILLI, ZERO, Resources
from gosched.core.sharing import Amounts, add_to, charge_of
from gosched.core.spec.job_spec import group_of
from gosched.core.state.fenced_capacity import FencedCapacity
from gosched.core.state.footprint import Footprint
from gosched.core.state.job_counts import JobCounts
from gosched.core.state.job_names import JobNames, meant
from gosched.core.state.job_relatives import JobRelatives
from gosched.core.state.kept_jobs import KeptJobs
from gosched.core.state.record_bytes import answer_bytes, answered_bytes, content_bytes, fence_bytes, reservation_bytes
from gosched.core.state.state_digest import StateDigest
from gosched.core.state.tables import TABLE_OF, TABLES, VALUES, Contents, FrozenState, answer_key
from gosched.core.state.timers import Timers, TimerSubject


class ClusterState(Contents):
    """The tables with their indexes. Mutable; it has a single owner."""

    def __init__(self, *, feature_level: int = NEWEST_LEVEL) -> None:
        super().__init__(feature_level=feature_level)
        #: Node -> what its allocations hold.
        self.usage: dict[str, Resources] = {}
        #: Node -> the ids of its allocations.
        self.node_allocations: dict[str, dict[str, None]] = {}
        #: What all nodes that are not DEAD can give together.
        self.total: Amounts = {}
        #: (queue, tenant, GPU model) -> what its allocations hold; no zeros.
        self.charges: dict[tuple[str, str, str], Resources] = {}
        #: GPU model -> how many of them it is in; no zeros.
        self.charged_models: dict[str, int] = {}
        #: What fences hold, and their victims.
        self.fenced = FencedCapacity()
        #: Port -> the jobs that have it, wherever their first tasks are.
        self.port_jobs: dict[int, dict[str, None]] = {}
        #: Jobs that want to be placed, and have no fence.
        self.pending: dict[str, None] = {}
        #: Jobs that have ended, in the order of their end.
        self.finished: dict[str, None] = {}
        #: The same by tenant and by array.
        self.kept = KeptJobs()
        self.names = JobNames(self.jobs)
        self.counts = JobCounts()
        self.relatives = JobRelatives()
        #: When something is due by the passing of time alone.
        self.timers = Timers()
        #: Counts the changes of bindings, tokens and revoked certificates in this process.
        self.access_changes = 0
        #: Counts the changes of histories of run times in this process.
        self.lessons = 0
        #: Counts the changes in this process, each before it is made: what raises while it stays changed nothing.
        self.writes = 0
        #: Bytes, by what holds them.
        self.footprint = Footprint()
        self._digest = StateDigest()

    # Cluster

    def set_epoch(self, epoch: int, leader: str) -> None:
        self.writes += 1
        self.epoch, self.leader = epoch, leader

    def set_cluster_id(self, cluster_id: str) -> None:
        self.writes += 1
        self.cluster_id = cluster_id

    def set_task_key(self, task_key: str) -> None:
        self.writes += 1
        self.task_key = task_key

    def set_next_sequence(self, sequence: int) -> None:
        self.writes += 1
        self.next_sequence = sequence

    def set_configuration(self, configuration: Configuration) -> None:
        """Set the members of the log, and forget masters that are none."""
        self.writes += 1
        self.configuration = configuration
        self.footprint.put_record("configuration", "", content_bytes(configuration))
        members = [member.id for member in configuration.members]
        for master in [master for master in self.masters if master not in members]:
            self._drop("masters", master)

    def put_master(self, master: Master) -> None:
        """Remember where a master listens; beyond MAX_MASTERS the one that announced itself longest ago is dropped."""
        self.writes += 1
        self.masters.pop(master.id, None)
        self._put("masters", master.id, master)
        if len(self.masters) > MAX_MASTERS:
            self._drop("masters", next(iter(self.masters)))

    def raise_level(self, level: int) -> None:
        """Raise the feature level: from now on the state is digested, and behaves, as the level says."""
        self.writes += 1
        self.feature_level = level
        if level >= FeatureLevel.BOUNDED:  # what is remembered of requests is kept in another table
            self.answers = {}
            self.footprint.tables.pop("answers", None)
        self._digest.forget()

    def set_clock(self, clock_ms: int) -> None:
        """Set the clock, once no record has a later moment."""
        self.writes += 1
        self.clock_ms = clock_ms
        self.order_finished()
        self.kept = KeptJobs()
        for job_id in self.finished:
            self.kept.add(self.jobs[job_id])

    def order_finished(self) -> None:
        """Put `finished` in order again, after many records have changed at once."""
        self.writes += 1
        jobs = self.jobs
        self.finished = dict.fromkeys(sorted(self.finished, key=lambda j: (jobs[j].kept_since_ms, jobs[j].sequence)))

    def put_moments(self, table: str, key: str, record: Any) -> None:
        """Replace a record by one that differs in its moments alone. Of the indexes only the timers know of those, and
        `finished`, which `set_clock` puts in order."""
        self.writes += 1
        getattr(self, table)[key] = record
        if isinstance(record, Job):
            self.timers.put_job(record)
        elif isinstance(record, Node):
            self.timers.put_node(record)
        elif isinstance(record, Fence):
            self.timers.put_fence(record)
        self._digest.touch(self, self.footprint, table, key)

    def pop_due(self) -> TimerSubject | None:
        """Return that for which something has been due for longest, or None; it is to be put again, with what is due
        next."""
        if not 0 < self.timers.next_ms() <= self.clock_ms:
            return None
        self.writes += 1
        return self.timers.pop_due(self.clock_ms)

    # Nodes and windows

    def put_node(self, node: Node) -> None:
        self.writes += 1
        self._count_capacity(self.nodes.get(node.id), -1)
        self._count_capacity(node, 1)
        self._put("nodes", node.id, node)
        self.usage.setdefault(node.id, ZERO)
        self.node_allocations.setdefault(node.id, {})
        self.timers.put_node(node)

    def drop_node(self, node_id: str) -> None:
        """Remove a node that holds nothing, and that nothing names any more."""
        self.writes += 1
        self._count_capacity(self.nodes[node_id], -1)
        self._drop("nodes", node_id)
        del self.usage[node_id], self.node_allocations[node_id]
        self.timers.drop_node(node_id)

    def put_window(self, window: Window) -> None:
        self._put("windows", window.name, window)

    def drop_window(self, name: str) -> None:
        self._drop("windows", name)

    # Bindings, tokens, revoked certificates

    def put_binding(self, binding: Binding) -> None:
        self.writes += 1
        self.access_changes += 1
        self._put("bindings", binding.name, binding)

    def drop_binding(self, name: str) -> None:
        self.writes += 1
        self.access_changes += 1
        self._drop("bindings", name)

    def put_token(self, token: Token) -> None:
        self.writes += 1
        self.access_changes += 1
        self._put("tokens", token.id, token)

    def drop_token(self, token_id: str) -> None:
        self.writes += 1
        self.access_changes += 1
        self._drop("tokens", token_id)

    # Secrets

    def put_secret(self, secret: Secret) -> None:
        self._put("secrets", secret.key, secret)

    def drop_secret(self, key: str) -> None:
        self._drop("secrets", key)

    # Accounts on nodes

    def put_unix_account(self, account: UnixAccount) -> None:
        self._put("unix_accounts", account.key, account)

    # Revoked certificates

    def put_revocation(self, revocation: Revocation) -> None:
        self.writes += 1
        self.access_changes += 1
        self._put("revocations", revocation.certificate, revocation)

    def drop_revocation(self, certificate: str) -> None:
        self.writes += 1
        self.access_changes += 1
        self._drop("revocations", certificate)

    def is_revoked(self, serial: str) -> bool:
        """Return whether the certificate with this serial number is refused."""
        return serial in self.revocations

    # Joining

    def put_join_token(self, token: JoinToken) -> None:
        self._put("join_tokens", token.id, token)

    def drop_join_token(self, token_id: str) -> None:
        self._drop("join_tokens", token_id)

    def put_joined_node(self, joined: JoinedNode) -> None:
        self._put("joined_nodes", joined.name, joined)

    def drop_joined_node(self, name: str) -> None:
        self._drop("joined_nodes", name)

    # Queues and tenants

    def set_queues(self, queues: tuple[Queue, ...]) -> None:
        """Replace all queues."""
        self.writes += 1
        for path in [*self.queues]:
            self._drop("queues", path)
        for queue in queues:
            self.put_queue(queue)

    def put_queue(self, queue: Queue) -> None:
        self._put("queues", queue.path, queue)

    def put_quota(self, quota: Quota) -> None:
        self._put("quotas", quota.tenant, quota)

    def drop_quota(self, tenant: str) -> None:
        self._drop("quotas", tenant)

    def put_account(self, account: Account) -> None:
        self._put("accounts", account_key(account.queue, account.tenant), account)

    def drop_account(self, key: str) -> None:
        self._drop("accounts", key)

    def put_tenant(self, tenant: Tenant) -> None:
        self._put("tenants", tenant.name, tenant)

    def drop_tenant(self, name: str) -> None:
        """Remove a tenant that has no jobs."""
        self._drop("tenants", name)

    # Jobs and tasks

    def put_job(self, job: Job) -> None:
        self.writes += 1
        before = self.jobs.get(job.id)
        self.counts.put(before, job)
        job = self.footprint.put_job(before, job)
        self.relatives.put(before, job)
        self.timers.put_job(job)
        self._index_port(job.id, before.port if before is not None else 0, job.port)
        self.jobs[job.id] = job
        if before is None:
            self.names.put(job)
        if wants_placement(job) and job.id not in self.fences:
            self.pending.setdefault(job.id)
        else:
            self.pending.pop(job.id, None)
        if job.state.is_final:
            self.finished.setdefault(job.id)
            self.kept.add(job)
        self._digest.touch(self, self.footprint, "jobs", job.id)

    def drop_job(self, job_id: str) -> None:
        """Remove a job that has ended, and so holds nothing."""
        self.writes += 1
        job = self.jobs.pop(job_id)
        for task in job.task_ids():
            self._drop("tasks", task)
        self.footprint.drop_job(job_id)
        self._index_port(job_id, job.port, 0)
        self.names.drop(job)
        self.finished.pop(job_id, None)
        self.kept.drop(job)
        self.relatives.drop(job_id)
        self.timers.drop_job(job_id)
        self._digest.touch(self, self.footprint, "jobs", job_id)

    def put_task(self, task: Task) -> None:
        self.writes += 1
        self.footprint.put_task(self.tasks.get(task.id), task)
        self.tasks[task.id] = task
        self._digest.touch(self, self.footprint, "tasks", task.id)

    def put_run_history(self, history: RunHistory) -> None:
        """Keep a history as the one that was taught last."""
        self.writes += 1
        self.lessons += 1
        self.run_histories.pop(history.key, None)
        self._put("run_histories", history.key, history)

    def drop_run_history(self, key: str) -> None:
        self._drop("run_histories", key)

    def put_follow_up(self, follow_up: FollowUp) -> None:
        """Keep a follow-up in the place of the one that the job has, else at the end."""
        self._put("follow_ups", follow_up.job_id, follow_up)

    def drop_follow_up(self, job_id: str) -> None:
        self._drop("follow_ups", job_id)

    # Allocations, fences, reservations

    def put_allocation(self, allocation: Allocation) -> None:
        """Add an allocation."""
        self.writes += 1
        self.allocations[allocation.id] = allocation
        node = allocation.node_id
        self.usage[node] = self.usage[node] + allocation.resources
        self.node_allocations[node][allocation.id] = None
        if not allocation.resources.is_zero():  # no zeros are kept: tasks that ask for nothing come and go in any order
            payer = self._payer(allocation)
            held = self.charges.get(payer)
            if held is None:
                self.charged_models[payer[2]] = self.charged_models.get(payer[2], 0) + 1
            self.charges[payer] = allocation.resources if held is None else held + allocation.resources
        if allocation.evicted_for_fence:
            self.fenced.count_victim(allocation, 1)
        self._digest.touch(self, self.footprint, "allocations", allocation.id)

    def set_evicted_for_fence(self, allocation_id: str, evicted_for_fence: str) -> None:
        """Note for which job's fence an allocation is evicted; empty: for none any more."""
        self.writes += 1
        allocation = self.allocations[allocation_id]
        if allocation.evicted_for_fence:
            self.fenced.count_victim(allocation, -1)
        allocation = replace(allocation, evicted_for_fence=evicted_for_fence)
        self.allocations[allocation_id] = allocation
        if evicted_for_fence:
            self.fenced.count_victim(allocation, 1)
        self._digest.touch(self, self.footprint, "allocations", allocation_id)

    def drop_allocation(self, allocation_id: str) -> None:
        self.writes += 1
        allocation = self.allocations.pop(allocation_id)
        node = allocation.node_id
        self.usage[node] = self.usage[node] - allocation.resources
        del self.node_allocations[node][allocation_id]
        if not allocation.resources.is_zero():
            payer = self._payer(allocation)
            left = self.charges.pop(payer) - allocation.resources
            if not left.is_zero():
                self.charges[payer] = left
            elif self.charged_models[payer[2]] > 1:
                self.charged_models[payer[2]] -= 1
            else:
                del self.charged_models[payer[2]]
        if allocation.evicted_for_fence:
            self.fenced.count_victim(allocation, -1)
        self._digest.touch(self, self.footprint, "allocations", allocation_id)

    def put_fence(self, fence: Fence) -> None:
        """Add the fence of a job that has none yet."""
        self._put("fences", fence.job_id, fence)
        self.footprint.charge(fence.job_id, fence_bytes(fence))
        self.pending.pop(fence.job_id, None)
        self.timers.put_fence(fence)
        self.fenced.put(fence, self.jobs[fence.job_id].spec)

    def drop_fence(self, job_id: str) -> None:
        """Remove a fence. Its job is pending again, if it still waits."""
        self.writes += 1
        fence, job = self.fences[job_id], self.jobs[job_id]
        self._drop("fences", job_id)
        self.timers.drop_fence(job_id)
        self.footprint.charge(job_id, -fence_bytes(fence))
        self.fenced.drop(fence, job.spec)
        if wants_placement(job):
            self.pending.setdefault(job_id)

    def put_reservation(self, reservation: Reservation) -> None:
        self.writes += 1
        before = self.reservations.get(reservation.job_id)
        released = reservation_bytes(before) if before is not None else 0
        self.footprint.charge(reservation.job_id, reservation_bytes(reservation) - released)
        self._put("reservations", reservation.job_id, reservation)

    def drop_reservation(self, job_id: str) -> None:
        self.writes += 1
        self.footprint.charge(job_id, -reservation_bytes(self.reservations[job_id]))
        self._drop("reservations", job_id)

    # Answers

    def put_answered(self, answered: Answered) -> None:
        """Remember a request that is not remembered yet as the newest one."""
        self.writes += 1
        self.answered[answered.key] = answered
        self.footprint.add_answered(answered.user, answered_bytes(answered))
        self._digest.touch(self, self.footprint, "answered", answered.key)

    def refuse_requests_before(self, made_ms: int) -> None:
        """Refuse requests from now on whose ids were made before a moment, unless they are remembered."""
        self.writes += 1
        self.requests_from_ms = max(self.requests_from_ms, made_ms)

    def drop_answered(self, answered: Answered) -> None:
        """Forget a request."""
        self.writes += 1
        del self.answered[answered.key]
        self.footprint.add_answered(answered.user, -answered_bytes(answered))
        self._digest.touch(self, self.footprint, "answered", answered.key)

    def answer_to(self, client_id: str, request_id: str) -> Answer | Answered | None:
        """Return what is remembered of a request; None: nothing."""
        if self.feature_level >= FeatureLevel.BOUNDED:
            return self.answered.get(request_key(client_id, request_id))
        return self.answers.get(client_id, {}).get(request_id)

    # Answers below FeatureLevel.BOUNDED

    def put_answer(self, answer: Answer) -> None:
        """Keep an answer as the newest one of its client, and its client as the one that asked last."""
        self.writes += 1
        own = self.answers.pop(answer.client_id, {})
        before = own.get(answer.request_id)
        self.footprint.add("answers", answer_bytes(answer) - (answer_bytes(before) if before is not None else 0))
        own[answer.request_id] = answer
        self.answers[answer.client_id] = own  # at the end: the newest client
        self._digest.touch(self, self.footprint, "answers", answer_key(answer))

    def drop_oldest_answer(self, client: str) -> None:
        """Forget the oldest answer to the client."""
        self.writes += 1
        own = self.answers[client]
        oldest = own.pop(next(iter(own)))
        self.footprint.add("answers", -answer_bytes(oldest))
        self._digest.touch(self, self.footprint, "answers", answer_key(oldest))
        if not own:
            del self.answers[client]

    # Reading

    def jobs_named(self, text: str, tenant: str = "") -> list[Job]:
        """Return the jobs that an id, TENANT/NAME or a name may mean: of a name the newest of each tenant, or of the
        one that is given."""
        if text in self.jobs:
            return [self.jobs[text]]
        if self.feature_level >= FeatureLevel.BOUNDED:
            of, slash, name = text.rpartition("/")
            tenant = of if slash else tenant
            ids = [self.names.id_of(tenant, name)] if slash or tenant else self.names.ids_of(name)
        else:
            ids = self.names.ids_of(text)
        return [self.jobs[job_id] for job_id in ids if job_id]

    def find_job(self, text: str, tenant: str = "") -> Job | None:
        """Return the job of an id or a name; of those of several tenants one that lives, else the newest."""
        return next(reversed(meant(self.jobs_named(text, tenant))), None)

    def tasks_of(self, job: Job) -> list[Task]:
        """Return the tasks of the job in order of rank."""
        return [self.tasks[t] for t in job.task_ids()]

    def finished_oldest_first(self) -> Iterator[Job]:
        """Yield the jobs that have ended by end, then by sequence: alike on a master that was restored."""
        jobs = (self.jobs[j] for j in self.finished)
        for _, ended_together in groupby(jobs, key=lambda job: job.kept_since_ms):
            yield from sorted(ended_together, key=lambda job: job.sequence)

    def held(self, node_id: str) -> tuple[Resources, ...]:
        """Return what the capacity of the node must cover besides a new task, each by itself: what is held now, and,
        where there are fences, what will be held once all their victims have ended."""
        usage = self.usage[node_id]
        fenced = self.fenced.resources.get(node_id)
        return (usage,) if fenced is None else (usage, usage - self.fenced.evicting.get(node_id, ZERO) + fenced)

    def node_gpus_held(self, node_id: str) -> dict[int, int]:
        """Return the milli-GPUs that are taken of each GPU of the node, by its index; a free one has no entry: what
        allocations hold now, or what will be held once all victims have ended, if that is more."""
        held: dict[int, int] = {}
        for allocation in [self.allocations[a] for a in self.node_allocations.get(node_id, ())]:
            for gpu in allocation.gpus:
                held[gpu] = held.get(gpu, 0) + min(allocation.resources.gpu_millis, MILLI)
        if node_id not in self.fenced.placements:
            return held
        after = self.node_gpus_after(node_id)
        return {gpu: max(held.get(gpu, 0), after.get(gpu, 0)) for gpu in sorted({**held, **after})}

    def node_gpus_after(self, node_id: str) -> dict[int, int]:
        """Return the milli-GPUs that will be taken of each GPU once all victims of fences have ended."""
        held: dict[int, int] = {}
        for allocation in [self.allocations[a] for a in self.node_allocations.get(node_id, ())]:
            for gpu in allocation.gpus if not allocation.evicted_for_fence else ():
                held[gpu] = held.get(gpu, 0) + min(allocation.resources.gpu_millis, MILLI)
        for job_id, placements in self.fenced.placements.get(node_id, {}).items():
            for placement in placements:
                requested = group_of(self.jobs[job_id].spec, placement.rank).resources
                for gpu in placement.gpus:
                    held[gpu] = held.get(gpu, 0) + min(requested.gpu_millis, MILLI)
        return held

    def node_cpus_held(self, node_id: str) -> int:
        """Return the mask of the CPUs of the node that belong to allocations, or will to fences."""
        mask = 0
        for allocation_id in self.node_allocations.get(node_id, ()):
            mask |= parse_cpulist(self.allocations[allocation_id].cpus)
        for placements in self.fenced.placements.get(node_id, {}).values():
            for placement in placements:
                mask |= parse_cpulist(placement.cpus)
        return mask

    def freeze(self) -> FrozenState:
        values: dict[str, Any] = {name: getattr(self, name) for name in VALUES}
        return FrozenState(**values | {table.name: table.copy(self) for table in TABLES})

    def digest(self) -> str:
        """Return the digest of the whole state; equal states have equal digests."""
        return self._digest.of(self, self.footprint)

    # Helpers

    def _put(self, table: str, key: str, record: Any) -> None:
        """Put a record into a table, its bytes into the footprint; the indexes are the caller's."""
        self.writes += 1
        getattr(self, table)[key] = record
        size_of = TABLE_OF[table].size_of
        if size_of is not None:
            self.footprint.put_record(table, key, size_of(record))
        self._digest.touch(self, self.footprint, table, key)

    def _drop(self, table: str, key: str) -> None:
        self.writes += 1
        del getattr(self, table)[key]
        if TABLE_OF[table].size_of is not None:
            self.footprint.put_record(table, key, 0)
        self._digest.touch(self, self.footprint, table, key)

    def _index_port(self, job_id: str, before: int, port: int) -> None:
        """Note the port of a job in the place of the one it had; 0: none."""
        if before == port:
            return
        if before:
            del self.port_jobs[before][job_id]
            if not self.port_jobs[before]:
                del self.port_jobs[before]
        if port:
            self.port_jobs.setdefault(port, {})[job_id] = None

    def _payer(self, allocation: Allocation) -> tuple[str, str, str]:
        spec = self.jobs[allocation.job_id].spec
        return spec.queue, spec.tenant, allocation.gpu_model

    def _count_capacity(self, node: Node | None, sign: int) -> None:
        if node is not None and node.state is not NodeState.DEAD:
            add_to(self.total, charge_of(node.usable, node.gpu_model), sign)
