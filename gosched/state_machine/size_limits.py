"""Bounds in bytes: what is refused, and what is dropped, so that the state stays as small as core/limits.py says.

What is kept of jobs that have ended has a share of its own, so it never keeps new ones out. Of the rest a tenant may
hold as much as it leaves free, whatever the others hold: so no tenant takes all, and one that holds little can always
submit. Below FeatureLevel.BOUNDED nothing of this holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gosched.core.events import Event, JobChanged
from gosched.core.features import FeatureLevel
from gosched.core.limits import (
    MAX_DETAIL_LENGTH,
    MAX_FORGOTTEN_AT_ONCE,
    MAX_KEPT_BYTES,
    MAX_NODE_BYTES,
    MAX_NODES_BYTES,
    MAX_STATE_BYTES,
    MAX_WINDOWS_BYTES,
)
from gosched.core.outcome import Code, Rejected
from gosched.core.records.node import Node
from gosched.core.records.queue import Queue
from gosched.core.records.reservation import Reservation
from gosched.core.records.tenant import Quota
from gosched.core.records.window import Window
from gosched.core.rules.finding import Finding
from gosched.core.rules.queues import check_queues_size
from gosched.core.rules.quotas import check_quotas_size
from gosched.core.spec.job_spec import JobSpec
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.record_bytes import content_bytes, reservation_bytes
from gosched.state_machine.retention import forget

_MIB = 1 << 20


def job_size_problem(state: ClusterState, job_id: str, spec: JobSpec, reservations: Sequence[Reservation] = ()) -> str:
    """Return why the state cannot take the bytes of a further job and its reservations, or an empty string."""
    if state.feature_level < FeatureLevel.BOUNDED:
        return ""
    footprint = state.footprint
    needed = footprint.needed(job_id, spec) + sum([reservation_bytes(wanted) for wanted in reservations])
    held = footprint.live_of(spec.tenant)
    free = MAX_STATE_BYTES - MAX_KEPT_BYTES - (footprint.total - footprint.kept) - needed
    if held + needed <= free:
        return ""
    return (
        f"live jobs of tenant {spec.tenant} hold {held // _MIB} MiB of the cluster's state, {max(free, 0) // _MIB} MiB "
        f"of {MAX_STATE_BYTES // _MIB} MiB would be left, and a tenant may hold as much as it leaves: let jobs end, or "
        "keep environments and commands short"
    )


def affordable(state: ClusterState, detail: str) -> str:
    """Return what is kept of a line that an agent reports: nothing of it once the state is full."""
    if state.feature_level >= FeatureLevel.BOUNDED and state.footprint.total >= MAX_STATE_BYTES:
        return ""
    return detail[:MAX_DETAIL_LENGTH]


def node_size_refusal(state: ClusterState, node: Node) -> Rejected | None:
    """Return the refusal of a node that is too large, by itself or with the others."""
    if state.feature_level < FeatureLevel.BOUNDED:
        return None
    size = content_bytes(node)
    if size > MAX_NODE_BYTES:
        detail = f"node {node.id} takes {size} bytes; at most {MAX_NODE_BYTES} are allowed: give it fewer labels"
        return Rejected(code=Code.INVALID, detail=detail)
    known = state.nodes.get(node.id)
    growth = size - (content_bytes(known) if known is not None else 0)
    if growth <= 0:
        return None
    total = state.footprint.tables.get("nodes", 0) + growth
    return _refusal(state, "nodes", total, MAX_NODES_BYTES, "give them fewer labels")


def queues_size_refusal(state: ClusterState, queues: tuple[Queue, ...]) -> Rejected | None:
    """Return the refusal of queues that are too large together."""
    return _refused(check_queues_size(queues)) if state.feature_level >= FeatureLevel.BOUNDED else None


def quotas_size_refusal(state: ClusterState, quotas: Iterable[Quota]) -> Rejected | None:
    """Return the refusal of quotas that are too large together."""
    return _refused(check_quotas_size(quotas)) if state.feature_level >= FeatureLevel.BOUNDED else None


def windows_size_refusal(state: ClusterState, window: Window) -> Rejected | None:
    """Return the refusal of a window that is too large with the others."""
    known = state.windows.get(window.name)
    size = state.footprint.tables.get("windows", 0) + content_bytes(window)
    size -= content_bytes(known) if known is not None else 0
    return _refusal(state, "windows", size, MAX_WINDOWS_BYTES, "delete one, or name fewer nodes")


def trim_kept(state: ClusterState, events: list[Event]) -> None:
    """Drop jobs that have ended while all of them take too much: the oldest of the tenants that have more than an even
    share. Those that this very command ended stay, and after MAX_FORGOTTEN_AT_ONCE tasks the next one goes on."""
    footprint = state.footprint
    if state.feature_level < FeatureLevel.BOUNDED or footprint.kept <= MAX_KEPT_BYTES:
        return
    wanted = MAX_KEPT_BYTES - MAX_KEPT_BYTES // 8  # so that the oldest are not searched for at every end
    share = _even_share([footprint.kept_of(tenant) for tenant in footprint.tenants_with_kept()], wanted)
    new = dict.fromkeys([event.job_id for event in events if isinstance(event, JobChanged)])
    left = MAX_FORGOTTEN_AT_ONCE
    for job in [*state.finished_oldest_first()]:
        if left <= 0:
            break
        is_needed = job.id in new or job.id in state.follow_ups
        if not is_needed and footprint.kept_of(job.spec.tenant) > share:
            left -= max(1, job.spec.task_count)
            forget(state, events, job)


def _even_share(sizes: list[int], total: int) -> int:
    """Return what each may have at most so that all fit: what those below it do not use is for the others."""
    for number, size in enumerate(sorted(sizes)):
        share = total // (len(sizes) - number)
        if size > share:
            return share
        total -= size
    return max(sizes, default=0)


def _refused(found: Finding | None) -> Rejected | None:
    return None if found is None else Rejected(code=Code.EXHAUSTED, detail=str(found))


def _refusal(state: ClusterState, what: str, size: int, most: int, advice: str) -> Rejected | None:
    if size <= most or state.feature_level < FeatureLevel.BOUNDED:
        return None
    detail = f"all {what} would take {size} bytes; at most {most} are allowed: {advice}"
    return Rejected(code=Code.EXHAUSTED, detail=detail)
