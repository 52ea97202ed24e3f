"""Tenants, their quotas, and the accounts of their use."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.records.usage import NOTHING_SPENT, Spent
from gosched.core.resources import AmountMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What a tenant may hold in the whole cluster. `gpu:h100` counts GPUs of one model."""

    tenant: str
    limit: AmountMap = ()
    max_running_jobs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What a tenant used in a queue with a half-life: amounts times milliseconds, decayed up to `at_ms`. Read it with
    `core.accounting`, which knows the units."""

    queue: str
    tenant: str
    used: AmountMap = ()
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Who is charged. Made by the first job that names it. `spent`: by all its jobs, since then."""

    name: str
    created_at_ms: int
    spent: Spent = NOTHING_SPENT


def account_key(queue: str, tenant: str) -> str:
    return f"{queue}/{tenant}"
