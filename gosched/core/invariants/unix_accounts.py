"""Accounts on nodes: each holder has its own number, from 1 on without gaps."""

from __future__ import annotations

from collections.abc import Iterator

from gosched.core.limits import MAX_UNIX_ACCOUNTS
from gosched.core.state.cluster_state import ClusterState


def unix_account_problems(state: ClusterState) -> Iterator[str]:
    if len(state.unix_accounts) > MAX_UNIX_ACCOUNTS:
        yield f"there are {len(state.unix_accounts)} accounts on nodes"
    numbers = sorted(account.number for account in state.unix_accounts.values())
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"the numbers of {len(numbers)} accounts on nodes are not 1 to {len(numbers)}"
    for key, account in state.unix_accounts.items():
        if key != account.key:
            yield f"account {account.key} is in the wrong place, {key}"
