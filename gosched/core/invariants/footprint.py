"""Whether the bytes that a state counts are those that its tables hold."""

from __future__ import annotations

from collections.abc import Iterator

from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.footprint import Footprint
from gosched.core.state.record_bytes import answered_bytes, content_bytes, fence_bytes, reservation_bytes
from gosched.core.state.spec_parts import PartValue, parts_of
from gosched.core.state.tables import TABLES


def footprint_problems(state: ClusterState) -> Iterator[str]:
    """Yield sizes that do not follow from the tables, and equal parts of specs that are not one record."""
    held, again = state.footprint, _measured(state)
    if (held.live, held.kept) != (again.live, again.kept):
        yield f"jobs take {held.live} and {held.kept} bytes, by the tables {again.live} and {again.kept}"
    for table in {**held.tables, **again.tables}:
        if held.tables.get(table, 0) != again.tables.get(table, 0):
            yield f"{table} take {held.tables.get(table, 0)} bytes, by the tables {again.tables.get(table, 0)}"
    if held.answered != again.answered:
        yield "the requests that are remembered take other bytes by their users than by the tables"
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
    for answered in state.answered.values():
        footprint.add_answered(answered.user, answered_bytes(answered))
    footprint.tables = {
        table.name: sum([table.size_of(record) for _, record in table.items(state)])
        for table in TABLES
        if table.size_of is not None
    }
    footprint.tables["configuration"] = content_bytes(state.configuration) if state.configuration is not None else 0
    return footprint
