"""Accounts of what tenants used in queues with a half-life.

Invariant: an account is brought up to the clock of the state before what its tenant holds changes, so what lies between
two changes was constant. A tenant that holds something in such a queue has an account.
"""

from __future__ import annotations

from collections.abc import Mapping

from gosched.core.accounting import brought_up, half_life_of, lessened, rescaled
from gosched.core.features import FeatureLevel
from gosched.core.records.allocation import Allocation
from gosched.core.records.queue import Queue
from gosched.core.records.tenant import Account, account_key
from gosched.core.sharing import MODEL_PREFIX, Amounts, add_to, charge_of
from gosched.core.spec.job_spec import JobSpec
from gosched.core.state.cluster_state import ClusterState


def bring_up(state: ClusterState, spec: JobSpec) -> None:
    """Bring the account of a job up to now, before its tasks take or free something, and before their node changes."""
    half_life = half_life_of(state.queues, spec.queue)
    if half_life:
        _bring_up(state, spec.queue, spec.tenant, half_life)


def take_back(state: ClusterState, spec: JobSpec, allocation: Allocation, ended_at_ms: int) -> None:
    """Take back from the account of a job, which is up to now, what it holds for the time since one of its tasks ended:
    the node has told of that late."""
    half_life = half_life_of(state.queues, spec.queue)
    account = state.accounts.get(account_key(spec.queue, spec.tenant)) if half_life else None
    if account is not None and ended_at_ms < account.at_ms:
        held = charge_of(allocation.resources, allocation.gpu_model)
        state.put_account(lessened(account, held, half_life, account.at_ms - ended_at_ms))


def change_half_lives(state: ClusterState, wanted: Mapping[str, Queue]) -> None:
    """Close accounts, open others and keep the averages of the rest, before the queues change."""
    for key, account in [*state.accounts.items()]:
        old = half_life_of(state.queues, account.queue)
        new = half_life_of(wanted, account.queue) if account.queue in wanted else 0
        if not new:
            state.drop_account(key)
        elif new != old:
            _bring_up(state, account.queue, account.tenant, old)
            state.put_account(rescaled(state.accounts[key], old, new))
    for queue, tenant, _ in state.charges:
        if account_key(queue, tenant) not in state.accounts and half_life_of(wanted, queue):
            state.put_account(Account(queue=queue, tenant=tenant, at_ms=state.clock_ms))


def _bring_up(state: ClusterState, queue: str, tenant: str, half_life: int) -> None:
    account = state.accounts.get(account_key(queue, tenant))
    if account is None:  # so it held nothing so far
        state.put_account(Account(queue=queue, tenant=tenant, at_ms=state.clock_ms))
    elif account.at_ms < state.clock_ms:
        state.put_account(brought_up(account, _held(state, queue, tenant), half_life, state.clock_ms))


def _held(state: ClusterState, queue: str, tenant: str) -> Amounts:
    """Return what the tenant holds in the queue, of all GPU models: also of one whose GPUs have all become bad, which
    is no capacity any more."""
    held: Amounts = {}
    for model in sorted(state.charged_models) if state.feature_level >= FeatureLevel.BOUNDED else _models(state):
        resources = state.charges.get((queue, tenant, model))
        if resources is not None:
            add_to(held, charge_of(resources, model))
    return held


def _models(state: ClusterState) -> list[str]:
    """Return the GPU models of nodes, as masters of the release before look at them."""
    return ["", *(name.removeprefix(MODEL_PREFIX) for name in state.total if name.startswith(MODEL_PREFIX))]
