"""Quotas of tenants: a command's are set all together, or not at all."""

from __future__ import annotations

from gosched.core.commands.cluster import SetQuotas
from gosched.core.events import Event, QueuesChanged
from gosched.core.limits import MAX_TENANTS
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.records.tenant import Quota
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine.names import name_problem, vector_problem
from gosched.state_machine.size_limits import quotas_size_refusal


def set_some(state: ClusterState, command: SetQuotas, events: list[Event]) -> Outcome:
    """A tenant that submitted nothing yet may have a quota already. Running jobs that hold more go on."""
    wanted = quotas_with(state, command.quotas, replace=command.replace)
    if isinstance(wanted, Rejected):
        return wanted
    if wanted == state.quotas:
        return Accepted(unchanged=True)
    put_quotas(state, wanted)
    events.append(QueuesChanged())
    return Accepted()


def quotas_with(state: ClusterState, quotas: tuple[Quota, ...], *, replace: bool) -> dict[str, Quota] | Rejected:
    """All quotas, by tenant, once these are set; `replace`: no others."""
    problem = _problem(quotas)
    if problem:
        return Rejected(code=Code.INVALID, detail=problem)
    wanted = {**({} if replace else state.quotas), **{quota.tenant: quota for quota in quotas}}
    wanted = {tenant: quota for tenant, quota in wanted.items() if quota.limit or quota.max_running_jobs}
    if len(wanted) > MAX_TENANTS:
        detail = f"there would be {len(wanted)} quotas; at most {MAX_TENANTS} are allowed: take some away"
        return Rejected(code=Code.EXHAUSTED, detail=detail)
    return quotas_size_refusal(state, wanted.values()) or wanted


def put_quotas(state: ClusterState, wanted: dict[str, Quota]) -> None:
    for tenant in [tenant for tenant in state.quotas if tenant not in wanted]:
        state.drop_quota(tenant)
    for tenant, quota in wanted.items():
        if state.quotas.get(tenant) != quota:
            state.put_quota(quota)


def _problem(quotas: tuple[Quota, ...]) -> str:
    tenants: dict[str, None] = {}
    for quota in quotas:
        problem = name_problem("tenant", quota.tenant) or vector_problem(f"quota of {quota.tenant}", quota.limit)
        if problem:
            return problem
        if quota.max_running_jobs < 0:
            return f"quota of {quota.tenant}: max_running_jobs {quota.max_running_jobs} must not be negative"
        if quota.tenant in tenants:
            return f"two quotas of tenant {quota.tenant} are given"
        tenants[quota.tenant] = None
    return ""
