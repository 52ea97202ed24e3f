"""A gang that lost members with a node starts again where it ran: the others keep their nodes, the lost ones get new
places in the same domain, and ranks follow the topology anew.

What the gang holds is not what it wants: it may have been scaled down, and tasks beyond that still stop. They end
before the gang starts again, so their places count like those of the other members.

Invariant: a gang is repaired in place or not at all; one that cannot be waits for a placement like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gosched.core.commands.plans import GangPlacement
from gosched.core.records.allocation import TaskPlacement
from gosched.core.resources import MILLI
from gosched.scheduling.backfill.capacity_views import RestrictedCapacity
from gosched.scheduling.placement.feasibility import Feasibility
from gosched.scheduling.placement.gang_placement import place
from gosched.scheduling.snapshot.occupancy import Occupied
from gosched.scheduling.snapshot.running_gangs import Holding, RunningGang
from gosched.scheduling.snapshot.task_requests import PendingGang, TaskRequest, replace_requests
from gosched.scheduling.snapshot.view import BoolArray, NodeColumns


def repaired(
    gang: PendingGang,
    holder: RunningGang,
    occupied: Occupied[RunningGang],
    base: RestrictedCapacity,
    feasibility: Feasibility,
    seed: int,
) -> GangPlacement | None:
    """Return the gang's next placement; None: it does not fit in place."""
    nodes = base.capacity.nodes
    kept = [
        _to_keep(holder, group, request, nodes, feasibility.choice(gang, request).allowed)
        for group, request in enumerate(gang.requests)
    ]
    capacity = base.after(occupied.freed(occupied.tasks_of(gang.job_id)))
    if staying := [held.rank for own in kept for held in own]:
        capacity.lose(occupied.freed(occupied.tasks_of(gang.job_id, staying)))
    tasks = [
        TaskPlacement(rank=rank, node_id=held.node_id, gpus=held.gpus, cpus=held.cpus)
        for request, own in zip(gang.requests, kept, strict=True)
        for rank, held in zip(request.ranks, own, strict=False)
    ]
    if missing := _missing(gang, kept):
        found = place(missing, capacity, feasibility.with_capacity(capacity), seed)
        if found is not None:
            tasks += found.tasks
        elif missing.tasks:
            return None
    return GangPlacement(job_id=gang.job_id, attempt=gang.attempt, tasks=_renewed(gang, tasks, feasibility))


def _to_keep(
    holder: RunningGang, group: int, request: TaskRequest, nodes: NodeColumns, allowed: BoolArray
) -> list[Holding]:
    """Return the places that the group keeps: no more than it wants tasks, those of the lowest ranks first, on nodes
    that would take it now: taints and labels may have changed since it started."""
    own = [held for held in holder.holdings if held.group == group]
    return [held for held in own if _may_stay(held, holder, nodes, allowed)][: request.count]


def _may_stay(held: Holding, holder: RunningGang, nodes: NodeColumns, allowed: BoolArray) -> bool:
    """Return whether the node takes the task and none of the task's GPUs is bad."""
    fits = bool(allowed[nodes.rows([held.node_id])].all())
    return fits and len(held.gpus) == -(-holder.each[held.group].gpu_millis // MILLI)


def _missing(gang: PendingGang, kept: Sequence[Sequence[Holding]]) -> PendingGang | None:
    """Return the gang of the members that are to be placed beside those that stay. `kept`: the places of each group."""
    requests = [
        replace(request, ranks=request.ranks[len(own) :], floor=max(request.floor - len(own), 0))
        for request, own in zip(gang.requests, kept, strict=True)
        if len(own) < request.count
    ]
    if not requests:
        return None
    placed = [(request.group, held.node_id) for request, own in zip(gang.requests, kept, strict=True) for held in own]
    return replace(replace_requests(gang, tuple(requests)), placed=tuple(placed))


def _renewed(gang: PendingGang, tasks: list[TaskPlacement], feasibility: Feasibility) -> tuple[TaskPlacement, ...]:
    """Return the tasks with new ranks: neighbours in rank are neighbours in the tree of domains."""
    nodes, position = feasibility.nodes, feasibility.topology.position
    group_of = {rank: index for index, request in enumerate(gang.requests) for rank in request.ranks}
    renewed: list[TaskPlacement] = []
    for index, request in enumerate(gang.requests):
        own = [task for task in tasks if group_of[task.rank] == index]
        own.sort(key=lambda task: (int(position[nodes.row(task.node_id)]), task.gpus, task.rank))
        renewed += [replace(task, rank=rank) for rank, task in zip(request.ranks, own, strict=False)]
    return tuple(renewed)
