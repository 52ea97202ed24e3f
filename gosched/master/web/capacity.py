"""The capacity of the cluster by resource: what there is, is held, is really used, is promised and is wanted.

Invariant: all of it but the real use is of one revision.
"""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.sharing import Amounts, add_to, charge_of
from gosched.core.state.cluster_state import ClusterState
from gosched.master.web.bars import Bar, bar
from gosched.master.web.text import resource_order
from gosched.master.web.usage import NodeUses


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityRow:
    """One resource of the cluster."""

    name: str
    total: int
    #: By allocations.
    held: int
    #: By fences and by reserved starts, now or later.
    promised: int
    #: By jobs that wait.
    wanted: int
    #: None: it is not measured, or not known.
    busy: int | None
    drawing: Bar


def capacity_rows(state: ClusterState, demand: Amounts, uses: NodeUses | None) -> tuple[CapacityRow, ...]:
    """Return a row for each resource that some node has; single GPU models where there are several."""
    held: Amounts = {}
    for (_, _, model), resources in state.charges.items():
        add_to(held, charge_of(resources, model))
    promised, busy = promised_amounts(state), _busy(uses)
    rows = []
    for name in resource_order(state.total):
        total, mine, ahead = state.total.get(name, 0), held.get(name, 0), promised.get(name, 0)
        used = busy.get(name) if busy else None
        drawing = bar(total, ("promised", mine + ahead), ("held", mine), ("busy", min(used or 0, mine)))
        rows.append(
            CapacityRow(
                name=name,
                total=total,
                held=mine,
                promised=ahead,
                wanted=demand.get(name, 0),
                busy=used,
                drawing=drawing,
            )
        )
    return tuple(rows)


def promised_amounts(state: ClusterState) -> Amounts:
    """Return what fences keep and reserved starts will take, by resource."""
    promised: Amounts = {}
    for resources in state.fenced.resources.values():
        add_to(promised, charge_of(resources))
    for reservation in state.reservations.values():
        job = state.jobs.get(reservation.job_id)
        groups = {group.name: group for group in job.spec.groups} if job else {}
        for share in reservation.shares:
            if share.group in groups:
                add_to(promised, charge_of(groups[share.group].resources, groups[share.group].gpu_model), share.count)
    return promised


def _busy(uses: NodeUses | None) -> Amounts | None:
    if not uses:
        return None
    values = uses.values()
    busy = {
        "cpu": sum(use.cpu_millis for use in values),
        "memory": sum(use.memory_bytes for use in values),
    }
    if any(use.gpu_busy for use in values):
        busy["gpu"] = sum(use.gpu_millis for use in values)
    return busy
