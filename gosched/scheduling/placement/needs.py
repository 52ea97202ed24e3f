"""What one task needs of a node, as amounts by column."""

from __future__ import annotations

from gosched.core.resources import MILLI
from gosched.scheduling.snapshot.columns import Column
from gosched.scheduling.snapshot.task_requests import TaskRequest
from gosched.scheduling.snapshot.view import NodeColumns

Needs = list[tuple[int, int]]  # (column, least amount that must be free)


def needs_of(request: TaskRequest, nodes: NodeColumns, *, linked: bool = False) -> Needs | None:
    """Return what must be free on a node for one of the tasks; None if no node has such a resource at all.

    `linked`: its GPUs have to share an island, whether the request demands it or not.
    """
    cpu, memory, storage, gpu = request.each
    needs = []
    if cpu:
        needs.append((Column.CPU, cpu))
    if memory:
        needs.append((Column.MEMORY, memory))
    if storage:
        needs.append((Column.STORAGE, storage))
    if gpu >= MILLI:
        needs.append((Column.LINK if linked or request.constraints.needs_link else Column.WHOLE, gpu))
    elif gpu:
        needs.append((Column.SHARE, gpu))
    for name, amount in request.custom:
        if name not in nodes.custom:
            return None
        needs.append((nodes.custom[name], amount))
    return needs
