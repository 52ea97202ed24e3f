"""What fences hold, and what their victims hold still, by node and by job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gosched.core.records.allocation import Allocation, TaskPlacement
from gosched.core.records.fence import Fence
from gosched.core.records.node import Node
from gosched.core.resources import ZERO, Resources
from gosched.core.sharing import Amounts, add_to, charge_of
from gosched.core.spec.job_spec import JobSpec, group_of


class FencedCapacity:
    """Indexes over fences, and over allocations that are evicted for them. No zeros are kept."""

    def __init__(self) -> None:
        #: Node -> job -> where its fence starts tasks on that node.
        self.placements: dict[str, dict[str, tuple[TaskPlacement, ...]]] = {}
        #: Node -> what fences hold there.
        self.resources: dict[str, Resources] = {}
        #: Node -> what allocations hold there that are evicted for a fence.
        self.evicting: dict[str, Resources] = {}
        #: Job -> how many allocations its fence waits for.
        self.awaited: dict[str, int] = {}

    def put(self, fence: Fence, spec: JobSpec) -> None:
        """Add the fence of a job that has none yet."""
        by_node: dict[str, list[TaskPlacement]] = {}
        for placement in fence.tasks:
            by_node.setdefault(placement.node_id, []).append(placement)
        for node, placements in by_node.items():
            self.placements.setdefault(node, {})[fence.job_id] = tuple(placements)
            held = self.resources.get(node, ZERO) + _requested(spec, placements)
            if not held.is_zero():
                self.resources[node] = held

    def drop(self, fence: Fence, spec: JobSpec) -> None:
        for node in dict.fromkeys(placement.node_id for placement in fence.tasks):
            placements = self.placements[node].pop(fence.job_id)
            left = self.resources.pop(node, ZERO) - _requested(spec, placements)
            if not left.is_zero():
                self.resources[node] = left
            if not self.placements[node]:
                del self.placements[node]

    def count_victim(self, allocation: Allocation, sign: int) -> None:
        """Add (1) or remove (-1) an allocation that is evicted for a fence."""
        node, job_id = allocation.node_id, allocation.evicted_for_fence
        before = self.evicting.pop(node, ZERO)
        after = before + allocation.resources if sign > 0 else before - allocation.resources
        if not after.is_zero():
            self.evicting[node] = after
        count = self.awaited.pop(job_id, 0) + sign
        if count:
            self.awaited[job_id] = count


def charge_of_fence(fence: Fence, spec: JobSpec, nodes: Mapping[str, Node]) -> Amounts:
    """Return what the fence of a job with this spec will hold once it has become a start. `nodes`: by id."""
    total: Amounts = {}
    for placement in fence.tasks:
        resources = group_of(spec, placement.rank).resources
        add_to(total, charge_of(resources, nodes[placement.node_id].gpu_model))
    return total


def _requested(spec: JobSpec, placements: Iterable[TaskPlacement]) -> Resources:
    total = ZERO
    for placement in placements:
        total = total + group_of(spec, placement.rank).resources
    return total
