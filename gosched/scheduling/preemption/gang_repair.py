"""A gang that broke starts again where it ran: each member goes back to its node and its devices where it can, for what
it has there, such as a local checkpoint. The others get new places in the same domain.

What the gang holds is not what it wants: it may have been scaled down, and tasks beyond that still stop. They end
before the gang starts again, so their places are as good as any.

Invariant: a gang is repaired in place or not at all; one that cannot be waits for a placement like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gosched.core.commands.plans import GangPlacement
from gosched.core.cpulist import parse_cpulist
from gosched.core.records.allocation import TaskPlacement
from gosched.core.resources import MILLI
from gosched.scheduling.backfill.capacity_views import RestrictedCapacity
from gosched.scheduling.placement.feasibility import Feasibility
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.placement.gang_placement import place
from gosched.scheduling.snapshot.capacity_rows import Freed
from gosched.scheduling.snapshot.occupancy import Occupied
from gosched.scheduling.snapshot.running_gangs import Holding
from gosched.scheduling.snapshot.task_requests import PendingGang, replace_requests
from gosched.scheduling.snapshot.view import NodeColumns, Repair


def repaired(
    repair: Repair, freed: Freed, base: RestrictedCapacity, feasibility: Feasibility, seed: int
) -> GangPlacement | None:
    """Return the gang's next placement; None: it does not fit in place. `freed`: what it still holds."""
    gang = repair.gang
    capacity = base.after(freed)
    kept = _kept(repair, capacity, base, feasibility)
    if not kept and not len(freed.rows):
        return None
    tasks = [TaskPlacement(rank=h.rank, node_id=h.node_id, gpus=h.gpus, cpus=h.cpus) for h in kept]
    if missing := _missing(repair, kept):
        found = place(missing, capacity, feasibility.with_capacity(capacity), seed)
        if found is not None:
            tasks += found.tasks
        elif missing.tasks:
            return None
    tasks.sort(key=lambda task: task.rank)
    return GangPlacement(job_id=gang.job_id, attempt=gang.attempt, tasks=tuple(tasks))


def _kept(repair: Repair, capacity: FreeCapacity, base: RestrictedCapacity, feasibility: Feasibility) -> list[Holding]:
    """Take the places that members go back to from the capacity, and return them: those of members that are wanted, on
    nodes that would take them now (taints and labels may have changed), where nobody else is meanwhile."""
    nodes, gang = capacity.nodes, repair.gang
    found: list[Holding] = []
    for group, request in enumerate(gang.requests):
        suits = feasibility.choice(gang, request).allowed.copy()
        suits[base.closed] = False
        wanted = dict.fromkeys(request.ranks)
        own = [held for held in repair.holdings if held.group == group and held.rank in wanted]
        found += [held for held in own if suits[nodes.rows([held.node_id])].any() and _are_there(held, repair, nodes)]
    if not found:
        return []
    places = Occupied(nodes, [replace(repair, holdings=tuple(found))])
    if capacity.has(whole := places.freed(places.tasks_of(repair.job_id))):
        capacity.lose(whole)
        return found
    kept = []
    for held in found:
        one = places.freed(places.tasks_of(repair.job_id, [held.rank]))
        if capacity.has(one):
            capacity.lose(one)
            kept.append(held)
    return kept


def _are_there(held: Holding, repair: Repair, nodes: NodeColumns) -> bool:
    """Return whether these are as many devices as a task of the group has."""
    gpus = -(-repair.each[held.group].gpu_millis // MILLI)
    if len(held.gpus) != gpus or any(gpu >= nodes.gpu_free.shape[1] for gpu in held.gpus):
        return False
    own = 0
    for mask in nodes.cpus[nodes.find(held.node_id)] if held.cpus else ():
        own |= mask
    return not held.cpus or not parse_cpulist(held.cpus) & ~own


def _missing(repair: Repair, kept: Sequence[Holding]) -> PendingGang | None:
    """Return the gang of the members that are to be placed beside those that go back: no more than had a place. A gang
    that goes on waits for others like any."""
    gang = repair.gang
    if gang.joins:
        return None
    own = {held.rank: held.group for held in kept}
    requests = []
    for group, request in enumerate(gang.requests):
        there = sum(at == group for at in own.values())
        floor = max(request.floor - there, 0)
        most = max(repair.stood[group] - there, floor)
        ranks = tuple([rank for rank in request.ranks if rank not in own][:most])
        if ranks:
            requests.append(replace(request, ranks=ranks, floor=floor))
    if not requests:
        return None
    placed = tuple([(gang.requests[held.group].group, held.node_id) for held in kept])
    return replace(replace_requests(gang, tuple(requests)), placed=placed)
