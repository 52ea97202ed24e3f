"""Whether the tasks of one gang fit where a plan places them.

Invariant: nothing is written; what the earlier tasks of the gang take is remembered here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from gosched.core.cpulist import format_cpulist, parse_cpulist
from gosched.core.matching import blocking_taint, meets
from gosched.core.records.allocation import Allocation, TaskPlacement
from gosched.core.records.node import Node, NodeState
from gosched.core.resources import MILLI, ZERO, Resources
from gosched.core.sharing import Amounts, add_to, charge_of
from gosched.core.spec.job_spec import group_of
from gosched.core.spec.task_group import TaskGroup
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine.hardware import cpu_mask, cpulist_problem


class HeldResources(Protocol):
    """What is held on a node besides the gang. For a gang that starts at once, the state itself."""

    def held(self, node_id: str) -> tuple[Resources, ...]: ...

    def node_gpus_held(self, node_id: str) -> Mapping[int, int]: ...

    def node_cpus_held(self, node_id: str) -> int: ...


class HeldByEach:
    """What some allocations hold, and (`fences`) what all fences will."""

    def __init__(self, state: ClusterState, counts: Callable[[Allocation], bool], *, fences: bool) -> None:
        self._state = state
        self._counts = counts
        self._fences = fences

    def held(self, node_id: str) -> tuple[Resources, ...]:
        total = self._state.fenced.resources.get(node_id, ZERO) if self._fences else ZERO
        for allocation in self._allocations(node_id):
            total = total + allocation.resources
        return (total,)

    def node_gpus_held(self, node_id: str) -> dict[int, int]:
        held: dict[int, int] = {}
        for allocation in self._allocations(node_id):
            _take_gpus(held, allocation.gpus, allocation.resources)
        for resources, placement in self._fenced(node_id):
            _take_gpus(held, placement.gpus, resources)
        return held

    def node_cpus_held(self, node_id: str) -> int:
        mask = 0
        for allocation in self._allocations(node_id):
            mask |= parse_cpulist(allocation.cpus)
        for _, placement in self._fenced(node_id):
            mask |= parse_cpulist(placement.cpus)
        return mask

    def _allocations(self, node_id: str) -> list[Allocation]:
        held = [self._state.allocations[a] for a in self._state.node_allocations[node_id]]
        return [allocation for allocation in held if self._counts(allocation)]

    def _fenced(self, node_id: str) -> list[tuple[Resources, TaskPlacement]]:
        fences = self._state.fenced.placements.get(node_id, {}) if self._fences else {}
        specs = {job_id: self._state.jobs[job_id].spec for job_id in fences}
        return [(group_of(specs[j], p.rank).resources, p) for j, placements in fences.items() for p in placements]


class GangFit:
    """A check of one gang. Each method that ends in `problem` returns one line for people, or an empty string."""

    def __init__(self, state: ClusterState, held: HeldResources) -> None:
        self._state = state
        self._held = held
        self._wanted: dict[str, Resources] = {}  # by node
        self._gpus: dict[str, dict[int, int]] = {}  # node -> GPU -> milli-GPUs taken, by others too
        self._cpus: dict[str, int] = {}  # node -> mask of owned CPUs, by others too
        self._charge: Amounts = {}

    def group_problem(self, group: TaskGroup, placements: tuple[TaskPlacement, ...]) -> str:
        """Take what the tasks need, or return which of them cannot run where it is placed."""
        suitable: dict[str, Node] = {}
        for placement in placements:
            node = suitable.get(placement.node_id)
            if node is None:
                node = self._state.nodes.get(placement.node_id)
                if node is None:
                    return f"there is no node {placement.node_id!a}"
                problem = _node_problem(node, group)
                if problem:
                    return problem
                suitable[node.id] = node
            problem = self._gpu_problem(node, group, placement.gpus)
            problem = problem or (self._cpu_problem(node, group, placement.cpus) if placement.cpus else "")
            if problem:
                return problem
            self._wanted[node.id] = self._wanted.get(node.id, ZERO) + group.resources
        return ""

    def capacity_problem(self) -> str:
        """Return which node lacks capacity. To be asked after all groups."""
        for node, resources in self._wanted.items():
            capacity = self._state.nodes[node].capacity
            if not all((held + resources).fits_in(capacity) for held in self._held.held(node)):
                return f"node {node} has no room for it any more"
        return ""

    def charge(self) -> Amounts:
        """Return all that the gang takes, by resource name."""
        total: Amounts = {}
        for node, resources in self._wanted.items():
            add_to(total, charge_of(resources, self._state.nodes[node].gpu_model))
        return total

    def _gpu_problem(self, node: Node, group: TaskGroup, gpus: tuple[int, ...]) -> str:
        millis = group.resources.gpu_millis
        if len(gpus) * MILLI != millis and not (len(gpus) == 1 and 0 < millis < MILLI):
            return f"{len(gpus)} GPUs are placed on node {node.id} for a task of group {group.name}"
        if not gpus:
            return ""
        if node.id not in self._gpus:
            self._gpus[node.id] = dict(self._held.node_gpus_held(node.id))
        taken = self._gpus[node.id]
        for gpu in gpus:
            if not 0 <= gpu < node.capacity.gpu_millis // MILLI:
                return f"node {node.id} has no GPU {gpu}"
            if _is_bad(node, gpu):
                return f"GPU {gpu} of node {node.id} has errors"
            taken[gpu] = taken.get(gpu, 0) + min(millis, MILLI)
            if taken[gpu] > MILLI:
                return f"GPU {gpu} of node {node.id} is taken"
        return ""

    def _cpu_problem(self, node: Node, group: TaskGroup, cpus: str) -> str:
        problem = cpulist_problem(cpus)
        if problem:
            return problem
        mask = parse_cpulist(cpus)
        if mask.bit_count() * MILLI != group.resources.cpu_millis:
            return f"{mask.bit_count()} CPUs are named on node {node.id} for a task of group {group.name}"
        missing = mask & ~cpu_mask(node.hardware.numa_cpus)
        if missing:
            return f"node {node.id} has no CPUs {format_cpulist(missing)}"
        if node.id not in self._cpus:
            self._cpus[node.id] = self._held.node_cpus_held(node.id)
        if mask & self._cpus[node.id]:
            return f"CPUs {format_cpulist(mask & self._cpus[node.id])} of node {node.id} are taken"
        self._cpus[node.id] |= mask
        return ""


def _is_bad(node: Node, gpu: int) -> bool:
    return gpu in node.hardware.bad_gpus


def _take_gpus(held: dict[int, int], gpus: tuple[int, ...], resources: Resources) -> None:
    for gpu in gpus:
        held[gpu] = held.get(gpu, 0) + min(resources.gpu_millis, MILLI)


def _node_problem(node: Node, group: TaskGroup) -> str:
    """Return why tasks of the group may not run on the node at all."""
    if node.state is not NodeState.READY:
        return f"node {node.id} is {node.state.name}"
    for pair in group.node_selector:
        if pair not in node.labels:
            return f"node {node.id} lacks the label {pair[0]}={pair[1]}"
    if group.gpu_model and group.gpu_model != node.gpu_model:
        return f"node {node.id} has no {group.gpu_model} GPUs"
    if group.gpu_memory_bytes:
        share = node.hardware.gpu_memory_bytes * min(MILLI, group.resources.gpu_millis) // MILLI
        if share < group.gpu_memory_bytes:
            return f"node {node.id} gives a task {share} bytes of memory per GPU, it needs {group.gpu_memory_bytes}"
    taint = blocking_taint(group.tolerations, node.taints)
    if taint is not None:
        return f"node {node.id} has the taint {taint.key}, which group {group.name} does not tolerate"
    required = [term for term in group.affinity if not term.weight]
    labels = dict(node.labels) if required else {}
    for term in required:
        if not meets(term, labels):
            return f"node {node.id} does not meet the affinity on the label {term.label}"
    return ""
