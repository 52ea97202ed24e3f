"""Queues and quotas as a caller reads and then changes them: their etag, and what would come of a change.

Invariant: the etag depends on the rules alone, never on use; so it changes with them only.
"""

from __future__ import annotations

from collections.abc import Iterable

import grpc

from gosched.core.commands.cluster import SetQueues, SetQuotas
from gosched.core.digest import record_digest
from gosched.core.outcome import Accepted, Outcome, Rejected
from gosched.core.records.queue import Queue
from gosched.core.records.tenant import Quota
from gosched.core.rules.quotas import is_no_quota
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.errors import ApiError
from gosched.state_machine.queues import checked
from gosched.state_machine.quotas import quotas_with

_BITS = (1 << 128) - 1


def etag_of(digests: Iterable[int]) -> str:
    """Return the etag of records with these digests, in any order."""
    return f"{sum(digests) & _BITS:032x}"


def queues_etag(queues: Iterable[Queue]) -> str:
    """Return the etag of all queues."""
    return etag_of(record_digest("queues", queue.path, queue) for queue in queues)


def quotas_etag(quotas: Iterable[Quota]) -> str:
    """Return the etag of all quotas."""
    return etag_of(record_digest("quotas", quota.tenant, quota) for quota in quotas if not is_no_quota(quota))


def rules_etag(command: SetQueues | SetQuotas, state: ClusterState) -> str:
    """Return the etag, in this state, of what the command replaces."""
    if isinstance(command, SetQueues):
        return queues_etag(state.queues.values())
    return quotas_etag(state.quotas.values())


def changed_since() -> ApiError:
    """Return the error of a change whose caller has read other rules than there are."""
    detail = "it has changed since it was read: If-Match does not match"
    return ApiError(grpc.StatusCode.ABORTED, detail, reason="PRECONDITION_FAILED")


def changed_queues(state: ClusterState, queues: Iterable[Queue]) -> list[str]:
    """Return the paths of queues that would be others, new or gone once these are all."""
    wanted = {queue.path: queue for queue in queues}
    return [path for path in {**state.queues, **wanted} if state.queues.get(path) != wanted.get(path)]


def changed_quotas(state: ClusterState, quotas: Iterable[Quota], *, replace: bool) -> list[Quota]:
    """Return the quotas that would be others once these are set; of tenants that would lose theirs an empty one."""
    wanted = {quota.tenant: quota for quota in quotas}
    gone = [Quota(tenant=tenant) for tenant in state.quotas if replace and tenant not in wanted]
    return [quota for quota in [*wanted.values(), *gone] if quota != state.quotas.get(quota.tenant)]


def tried(state: ClusterState, command: SetQueues | SetQuotas) -> Outcome:
    """Return what would come of the command; nothing is changed."""
    if isinstance(command, SetQueues):
        return checked(state, command)[0]
    wanted = quotas_with(state, command.quotas, replace=command.replace)
    return wanted if isinstance(wanted, Rejected) else Accepted(unchanged=wanted == state.quotas)
