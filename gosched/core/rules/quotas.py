"""Checks the quotas of tenants. Paths of findings begin with the quota's place in the list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gosched.core.limits import MAX_QUOTAS_BYTES, MAX_TENANTS
from gosched.core.records.tenant import Quota
from gosched.core.rules.finding import Finding
from gosched.core.rules.values import check_name, check_not_negative, check_vector
from gosched.core.state.footprint import content_bytes


def check_quotas(quotas: Sequence[Quota]) -> Finding | None:
    """Return the first thing that is wrong with quotas that are set together, or None."""
    tenants: dict[str, None] = {}
    for place, quota in enumerate(quotas):
        subject = f"quota of {quota.tenant}"
        found = (
            check_name("tenant", quota.tenant, place, "tenant")
            or check_vector(subject, quota.limit, place, "limit")
            or check_not_negative(f"{subject}: max_running_jobs", quota.max_running_jobs, place, "max_running_jobs")
        )
        if found:
            return found
        if quota.tenant in tenants:
            problem = f"two quotas of tenant {quota.tenant} are given"
            return Finding(path=(place, "tenant"), problem=problem)
        tenants[quota.tenant] = None
    return None


def is_no_quota(quota: Quota) -> bool:
    """Return whether the quota limits nothing, so that setting it takes the tenant's away."""
    return not quota.limit and not quota.max_running_jobs


def check_quota_count(count: int) -> Finding | None:
    """Check how many tenants of a cluster have a quota."""
    if count > MAX_TENANTS:
        problem = f"there would be {count} quotas; at most {MAX_TENANTS} are allowed"
        return Finding(problem=problem, advice="take some away")
    return None


def check_quotas_size(quotas: Iterable[Quota]) -> Finding | None:
    """Check how much the quotas of a cluster take of the replicated state, from `FeatureLevel.BOUNDED` on."""
    size = sum([content_bytes(quota) for quota in quotas])
    if size <= MAX_QUOTAS_BYTES:
        return None
    problem = f"would take {size} bytes; at most {MAX_QUOTAS_BYTES} are allowed"
    return Finding(subject="all quotas", problem=problem, advice="name fewer resources")
