"""What one task needs of a node, as amounts by column."""

from __future__ import annotations

from gosched.core.resources import MILLI
from gosched.scheduling.snapshot.task_requests import TaskRequest
from gosched.scheduling.snapshot.view import LINK, SHARE, WHOLE, NodeColumns

Needs = list[tuple[int, int]]  # (column, least amount that must be free)


def needs_of(request: TaskRequest, nodes: NodeColumns, *, linked: bool = False) -> Needs | None:
    """Return what must be free on a node for one of the tasks; None if no node has such a resource at all.

    `linked`: its GPUs have to share an island, whether the request demands it or not.
    """
    cpu, memory, storage, gpu = request.each
    needs = []
    if cpu:
        needs.append((0, cpu))
    if memory:
        needs.append((1, memory))
    if storage:
        needs.append((2, storage))
    if gpu >= MILLI:
        needs.append((LINK if linked or request.constraints.needs_link else WHOLE, gpu))
    elif gpu:
        needs.append((SHARE, gpu))
    for name, amount in request.custom:
        if name not in nodes.custom:
            return None
        needs.append((nodes.custom[name], amount))
    return needs
