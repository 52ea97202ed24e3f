"""Tenants, their quotas, the accounts of their use, and those that they have on nodes."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.records.usage import NOTHING_SPENT, Spent
from gosched.core.resources import AmountMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What a tenant may hold in the whole cluster."""

    #: It need not have submitted anything yet.
    tenant: str
    #: By resource; `gpu:h100` counts GPUs of one model. What is not named has no limit.
    limit: AmountMap = ()
    #: 0: any number.
    max_running_jobs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What a tenant used in a queue with a half-life. Read it with `core.accounting`, which knows the units."""

    #: Path of a leaf.
    queue: str
    tenant: str
    #: Amounts times milliseconds, decayed; no zeros.
    used: AmountMap = ()
    #: Moment up to which it is decayed.
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """What jobs are charged to. Made by the first job that names it."""

    name: str
    #: When that job was submitted.
    created_at_ms: int
    #: By the ended starts of all its jobs, since then.
    spent: Spent = NOTHING_SPENT


@dataclass(frozen=True, slots=True, kw_only=True)
class UnixAccount:
    """Whose tasks run on nodes under an account of their own. Never dropped: files may bear its number for ever."""

    tenant: str
    #: A user whose name is authenticated; empty: all of the tenant's whose names are not.
    user: str = ""
    #: Counts from 1. An agent adds it to the beginning of its range of ids.
    number: int

    @property
    def key(self) -> str:
        return unix_account_key(self.tenant, self.user)


def unix_account_key(tenant: str, user: str) -> str:
    """Return the key of an account in its table; names of tenants hold no slash."""
    return f"{tenant}/{user}"


def account_key(queue: str, tenant: str) -> str:
    return f"{queue}/{tenant}"
