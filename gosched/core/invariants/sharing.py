"""Queues, quotas, accounts, and what tenants hold and have spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple

from gosched.core.accounting import half_life_of
from gosched.core.records.job import JobState
from gosched.core.records.node import NodeState
from gosched.core.records.tenant import account_key
from gosched.core.records.usage import NOTHING_SPENT, Spent
from gosched.core.resources import ZERO, Resources
from gosched.core.sharing import as_map, cluster_total, parent_of
from gosched.core.state.cluster_state import ClusterState


def spending_problems(state: ClusterState) -> Iterator[str]:
    """A tenant pays for every job that there is, and those that are gone."""
    by_tenant: dict[str, Spent] = {}
    for job in state.jobs.values():
        if not job.spec.is_parent:
            by_tenant[job.spec.tenant] = by_tenant.get(job.spec.tenant, NOTHING_SPENT) + job.spent
    for name, spent in by_tenant.items():
        paid = state.tenants[name].spent if name in state.tenants else NOTHING_SPENT
        if any(a < b for a, b in zip(astuple(paid), astuple(spent), strict=True)):
            yield f"the jobs of tenant {name} have spent {spent}, it paid for {paid}"


def sharing_problems(state: ClusterState) -> Iterator[str]:
    for path in state.queues:
        if parent_of(path) and parent_of(path) not in state.queues:
            yield f"queue {path} lacks its parent"
    for tenant, quota in state.quotas.items():
        if quota.tenant != tenant or not (quota.limit or quota.max_running_jobs):
            yield f"the quota of {tenant} is in the wrong place, or limits nothing"
    for key, account in state.accounts.items():
        if key != account_key(account.queue, account.tenant) or account.at_ms > state.clock_ms:
            yield f"account {key} is in the wrong place, or ahead of the clock"
        elif account.queue not in state.queues or not half_life_of(state.queues, account.queue):
            yield f"account {key} is of no queue with a half-life"
        if any(amount <= 0 for _, amount in account.used):
            yield f"account {key} has amounts that are not positive"
    for queue, tenant, _ in state.charges:
        free = queue not in state.queues or not half_life_of(state.queues, queue)
        if not free and account_key(queue, tenant) not in state.accounts:
            yield f"tenant {tenant} holds something in queue {queue}, which has a half-life, and has no account"


def sum_problems(state: ClusterState) -> Iterator[str]:
    charges: dict[tuple[str, str, str], Resources] = {}
    for allocation in state.allocations.values():
        if allocation.job_id in state.jobs:
            spec = state.jobs[allocation.job_id].spec
            payer = (spec.queue, spec.tenant, allocation.gpu_model)
            charges[payer] = charges.get(payer, ZERO) + allocation.resources
    if state.charges != {payer: held for payer, held in charges.items() if held != ZERO}:
        yield "charges are not what the allocations hold"
    gangs = [j.spec for j in state.jobs.values() if j.state is JobState.RUNNING and not j.spec.is_parent]
    running = Counter((spec.queue, spec.tenant) for spec in gangs)
    if state.running != running:
        yield "running is not the count of RUNNING jobs"
    living = cluster_total((n.usable, n.gpu_model) for n in state.nodes.values() if n.state is not NodeState.DEAD)
    if as_map(state.total) != as_map(living):
        yield "total is not what the living nodes can give"
