"""What is forgotten: jobs that have ended, tenants that are idle, accounts that have decayed, nodes that are dead.

Jobs are forgotten by tenant: the tenant with the most of them loses one first, an element of an array before another
job. So no tenant's jobs push out another's, and an array's counts outlive its elements.

Invariant: one command forgets a bounded number, and nothing that something else in the state still needs.
"""

from __future__ import annotations

import heapq
from itertools import islice

from gosched.core.accounting import half_life_of
from gosched.core.commands.jobs import DropFinishedJobs
from gosched.core.events import Event, JobChanged, NodeChanged
from gosched.core.limits import KEPT_ELEMENTS, MAX_ACCOUNTS, MAX_FORGOTTEN_AT_ONCE, MAX_TENANTS
from gosched.core.records.job import Job, JobState
from gosched.core.records.node import Node, NodeState
from gosched.core.records.tenant import Tenant, account_key
from gosched.core.records.usage import NOTHING_SPENT
from gosched.core.spec.job_spec import JobSpec
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.kept_jobs import KeptGroup, KeptKind
from gosched.state_machine import joining, reservations

IDLE_HALF_LIVES = 20  # then an account holds a millionth of what it did


def forget(state: ClusterState, events: list[Event], job: Job) -> None:
    """Forget a job that has ended."""
    state.drop_job(job.id)
    events.append(
        JobChanged(job_id=job.id, queue=job.spec.queue, before=job.state, after=JobState.UNSPECIFIED, job=job)
    )


def fold_elements(state: ClusterState, events: list[Event], parent_id: str) -> None:
    """Forget the elements of an array that ended first, beyond KEPT_ELEMENTS; its counts have them."""
    for group in (KeptGroup(KeptKind.SUCCEEDED, parent_id), KeptGroup(KeptKind.FAILED, parent_id)):
        for _ in range(min(state.kept.size(group) - KEPT_ELEMENTS, MAX_FORGOTTEN_AT_ONCE)):
            job_id = state.kept.oldest(group)
            if _is_needed(state, job_id):
                break
            forget(state, events, state.jobs[job_id])


def forget_jobs(state: ClusterState, events: list[Event], command: DropFinishedJobs) -> bool:
    """Forget jobs that are too old, then those beyond what is kept. Return whether there were any."""
    left = MAX_FORGOTTEN_AT_ONCE
    for job in _too_old(state, command.ended_before_ms):
        forget(state, events, job)
        left -= max(1, job.spec.task_count)
    tenants = [(-kept, tenant) for tenant, kept in state.kept.by_tenant.items()]
    heapq.heapify(tenants)
    while left > 0 and tenants and len(state.finished) > command.keep:
        kept, tenant = heapq.heappop(tenants)
        job_id = _oldest_of(state, tenant)
        if not job_id or _is_needed(state, job_id):
            continue
        left -= max(1, state.jobs[job_id].spec.task_count)
        forget(state, events, state.jobs[job_id])
        heapq.heappush(tenants, (kept + 1, tenant))
    return left < MAX_FORGOTTEN_AT_ONCE


def forget_idle(state: ClusterState, events: list[Event], spec: JobSpec) -> str:
    """Forget idle tenants and accounts if a new job's tenant needs their places. Return which bound still stands
    against the job, in which case nothing was changed, or an empty string."""
    tenants: list[str] = []
    accounts: list[str] = []
    if spec.tenant not in state.tenants and len(state.tenants) >= MAX_TENANTS:
        tenants = _idle_tenants(state)
        if not tenants:
            return f"the cluster holds {MAX_TENANTS} tenants with live jobs or quotas, its limit"
    is_new = account_key(spec.queue, spec.tenant) not in state.accounts
    if is_new and len(state.accounts) >= MAX_ACCOUNTS and half_life_of(state.queues, spec.queue):
        accounts = _decayed_accounts(state)
        if not accounts:
            return f"the cluster accounts for {MAX_ACCOUNTS} tenants in queues, its limit"
    for tenant in tenants:
        while job_id := _oldest_of(state, tenant):
            forget(state, events, state.jobs[job_id])
        state.drop_tenant(tenant)
    for key in accounts:
        state.drop_account(key)
    return ""


def forget_dead_nodes(state: ClusterState, events: list[Event]) -> None:
    """Forget the nodes that died first, if there are any."""
    in_windows = dict.fromkeys(node for window in state.windows.values() for node in window.nodes)
    dead = [node for node in state.nodes.values() if node.state is NodeState.DEAD and node.id not in in_windows]
    for node in heapq.nsmallest(MAX_FORGOTTEN_AT_ONCE, dead, key=lambda node: (node.changed_at_ms, node.id)):
        forget_node(state, events, node)


def forget_node(state: ClusterState, events: list[Event], node: Node) -> None:
    """Forget a node that is DEAD, so it holds nothing, and that no window names. What was reserved there is not any
    more: the planner looks for another place."""
    reserved = [r.job_id for r in state.reservations.values() if any(share.node_id == node.id for share in r.shares)]
    for job_id in reserved:
        reservations.forget(state, events, job_id)
    state.drop_node(node.id)
    joining.forgotten(state, node)
    events.append(NodeChanged(node_id=node.id, before=node.state, after=NodeState.UNSPECIFIED, node=node))


def _too_old(state: ClusterState, before_ms: int) -> list[Job]:
    chosen: list[Job] = []
    left = MAX_FORGOTTEN_AT_ONCE
    for job in state.finished_oldest_first():
        if job.kept_since_ms >= before_ms or left <= 0:
            break
        if not _is_needed(state, job.id):
            chosen.append(job)
            left -= max(1, job.spec.task_count)
    return chosen


def _oldest_of(state: ClusterState, tenant: str) -> str:
    elements, others = KeptGroup(KeptKind.ELEMENTS, tenant), KeptGroup(KeptKind.OTHERS, tenant)
    return state.kept.oldest(elements) or state.kept.oldest(others)


def _is_needed(state: ClusterState, job_id: str) -> bool:
    """Return whether a job is still needed, since not all that waited for its end have been told."""
    return job_id in state.follow_ups


def _idle_tenants(state: ClusterState) -> list[str]:
    """Return tenants without live jobs and quotas, up to a bound: those without kept jobs first, then those that have
    spent nothing, then the oldest."""
    needed = dict.fromkeys(state.jobs[job_id].spec.tenant for job_id in state.follow_ups)
    idle = [
        tenant
        for tenant in state.tenants.values()
        if not (tenant.name in state.counts.live_by_tenant or tenant.name in state.quotas or tenant.name in needed)
    ]

    def worth(tenant: Tenant) -> tuple[bool, bool, int, str]:
        return (
            tenant.name in state.kept.by_tenant,
            tenant.spent != NOTHING_SPENT,
            tenant.created_at_ms,
            tenant.name,
        )

    chosen: list[str] = []
    jobs = 0
    for tenant in heapq.nsmallest(MAX_FORGOTTEN_AT_ONCE, idle, key=worth):
        jobs += state.kept.by_tenant.get(tenant.name, 0)
        if jobs > MAX_FORGOTTEN_AT_ONCE:
            break
        chosen.append(tenant.name)
    return chosen


def _decayed_accounts(state: ClusterState) -> list[str]:
    holding = dict.fromkeys(account_key(queue, tenant) for queue, tenant, _ in state.charges)
    decayed = (
        key
        for key, account in state.accounts.items()
        if key not in holding
        and state.clock_ms - account.at_ms >= IDLE_HALF_LIVES * half_life_of(state.queues, account.queue)
    )
    return [*islice(decayed, MAX_FORGOTTEN_AT_ONCE)]
