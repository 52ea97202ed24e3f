"""A gang that lost members with a node starts again where it ran: the others keep their nodes, the lost ones get new
places in the same domain, and ranks follow the topology anew.

Invariant: a gang is repaired in place or not at all; one that cannot be waits for a placement like any other.
"""

from __future__ import annotations

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
from gosched.scheduling.snapshot.view import NodeColumns


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
    kept = [held for held in holder.holdings if _may_stay(held, holder, nodes)]
    capacity = base.after(occupied.freed(occupied.tasks_of(gang.job_id)))
    if kept:
        capacity.lose(occupied.freed(occupied.tasks_of(gang.job_id, [held.rank for held in kept])))
    tasks = [TaskPlacement(rank=h.rank, node_id=h.node_id, gpus=h.gpus, cpus=h.cpus) for h in kept]
    if missing := _missing(gang, kept):
        found = place(missing, capacity, feasibility.with_capacity(capacity), seed)
        if found is not None:
            tasks += found.tasks
        elif missing.tasks:
            return None
    return GangPlacement(job_id=gang.job_id, attempt=gang.attempt, tasks=_renewed(gang, tasks, feasibility))


def _may_stay(held: Holding, holder: RunningGang, nodes: NodeColumns) -> bool:
    """Return whether the node takes work and none of the task's GPUs is bad."""
    ready = bool(nodes.ready[nodes.rows([held.node_id])].all())
    return ready and len(held.gpus) == -(-holder.each[held.group].gpu_millis // MILLI)


def _missing(gang: PendingGang, kept: list[Holding]) -> PendingGang | None:
    """Return the gang of the members that are to be placed beside those that stay."""
    there = {held.rank for held in kept}
    requests: list[TaskRequest] = []
    for request in gang.requests:
        ranks = tuple([rank for rank in request.ranks if rank not in there])
        if ranks:
            requests.append(replace(request, ranks=ranks, floor=max(request.floor - (request.count - len(ranks)), 0)))
    if not requests:
        return None
    group_of = {rank: request.group for request in gang.requests for rank in request.ranks}
    return replace(
        replace_requests(gang, tuple(requests)),
        placed=tuple([(group_of[held.rank], held.node_id) for held in kept]),
    )


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
