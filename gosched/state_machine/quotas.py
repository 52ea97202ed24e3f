"""Quotas of tenants: a command's are set all together, or not at all."""

from __future__ import annotations

from gosched.core.commands.cluster import SetQuotas
from gosched.core.events import Event, QueuesChanged
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.records.tenant import Quota
from gosched.core.rules.quotas import check_quota_count, check_quotas, is_no_quota
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine.size_limits import quotas_size_refusal


def set_some(state: ClusterState, command: SetQuotas, events: list[Event]) -> Outcome:
    """Set the quotas of some tenants, which may have submitted nothing yet. Running jobs that hold more go on."""
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
    found = check_quotas(quotas)
    if found:
        return Rejected(code=Code.INVALID, detail=str(found))
    wanted = {**({} if replace else state.quotas), **{quota.tenant: quota for quota in quotas}}
    wanted = {tenant: quota for tenant, quota in wanted.items() if not is_no_quota(quota)}
    found = check_quota_count(len(wanted))
    if found:
        return Rejected(code=Code.EXHAUSTED, detail=str(found))
    return quotas_size_refusal(state, wanted.values()) or wanted


def put_quotas(state: ClusterState, wanted: dict[str, Quota]) -> None:
    for tenant in [tenant for tenant in state.quotas if tenant not in wanted]:
        state.drop_quota(tenant)
    for tenant, quota in wanted.items():
        if state.quotas.get(tenant) != quota:
            state.put_quota(quota)
