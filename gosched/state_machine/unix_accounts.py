"""The accounts that tenants, and users whose names are authenticated, have on nodes.

Invariant: a number has one holder for ever. It is never given to another one, because files that bear it may be on any
node, and on file systems that many nodes share.
"""

from __future__ import annotations

from gosched.core.features import FeatureLevel
from gosched.core.limits import MAX_UNIX_ACCOUNTS
from gosched.core.records.job import Job
from gosched.core.records.tenant import UnixAccount, unix_account_key
from gosched.core.state.cluster_state import ClusterState


def give_account(state: ClusterState, job: Job) -> None:
    """Give the job's holder an account when a task of it is placed for the first time. None is left for the one after
    MAX_UNIX_ACCOUNTS: its tasks run under an account that they share, and get no secrets."""
    user = job.user if job.authenticated else ""
    if state.feature_level < FeatureLevel.BOUNDED or unix_account_key(job.spec.tenant, user) in state.unix_accounts:
        return
    number = len(state.unix_accounts) + 1
    if number <= MAX_UNIX_ACCOUNTS:
        state.put_unix_account(UnixAccount(tenant=job.spec.tenant, user=user, number=number))


def account_number(state: ClusterState, job: Job) -> int:
    """Return the number of the job's holder; 0: it has none."""
    account = state.unix_accounts.get(unix_account_key(job.spec.tenant, job.user if job.authenticated else ""))
    return account.number if account is not None else 0
