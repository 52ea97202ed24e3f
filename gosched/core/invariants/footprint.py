"""Whether the bytes that a state counts are those that its tables hold. For `core.invariants`."""

from __future__ import annotations

from collections.abc import Iterator

from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.footprint import (
    ACCOUNT_BYTES,
    TENANT_BYTES,
    Footprint,
    answer_bytes,
    content_bytes,
    fence_bytes,
    reservation_bytes,
)
from gosched.core.state.spec_parts import PartValue, parts_of


def footprint_problems(state: ClusterState) -> Iterator[str]:
    """What is held follows from the tables; equal parts of specs are one record."""
    held, again = state.footprint, _measured(state)
    if (held.live, held.kept) != (again.live, again.kept):
        yield f"jobs take {held.live} and {held.kept} bytes, by the tables {again.live} and {again.kept}"
    for table in {**held.tables, **again.tables}:
        if held.tables.get(table, 0) != again.tables.get(table, 0):
            yield f"{table} take {held.tables.get(table, 0)} bytes, by the tables {again.tables.get(table, 0)}"
    for tenant in state.tenants:
        if held.live_of(tenant) != again.live_of(tenant) or held.kept_of(tenant) != again.kept_of(tenant):
            yield f"the jobs of tenant {tenant} take other bytes than by the tables"
    parts: dict[PartValue, PartValue] = {}
    for job in state.jobs.values():
        for part in parts_of(job.spec):
            if parts.setdefault(part, part) is not part:
                yield f"job {job.id} has a copy of a part of its spec"


def _measured(state: ClusterState) -> Footprint:
    footprint = Footprint()
    for job in state.jobs.values():
        footprint.put_job(None, job)
    for task in state.tasks.values():
        footprint.put_task(None, task)
    for fence in state.fences.values():
        footprint.charge(fence.job_id, fence_bytes(fence))
    for reservation in state.reservations.values():
        footprint.charge(reservation.job_id, reservation_bytes(reservation))
    footprint.tables = {
        "nodes": sum([content_bytes(node) for node in state.nodes.values()]),
        "queues": content_bytes(tuple(state.queues.values())),
        "quotas": sum([content_bytes(quota) for quota in state.quotas.values()]),
        "configuration": content_bytes(state.configuration) if state.configuration is not None else 0,
        "windows": sum([content_bytes(window) for window in state.windows.values()]),
        "accounts": len(state.accounts) * ACCOUNT_BYTES,
        "tenants": len(state.tenants) * TENANT_BYTES,
        "answers": sum([answer_bytes(answer) for own in state.answers.values() for answer in own.values()]),
    }
    return footprint
