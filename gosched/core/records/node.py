"""Nodes of the cluster, their hardware and their states."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.primitives import Named, StringMap
from gosched.core.resources import MILLI, Resources
from gosched.core.spec.placement_rules import Taint


class NodeState(Named):
    UNSPECIFIED = 0
    READY = 1
    CORDONED = 2
    DRAINING = 3
    DEAD = 4


class ClosedBy(IntEnum):
    """AGENT: it says itself that it is unfit for work. FAILURES: task after task failed there."""

    UNSPECIFIED = 0
    OPERATOR = 1
    AGENT = 2
    FAILURES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """How a node is built. Each list is empty where the agent does not know.

    `numa_cpus`: the CPUs of each NUMA node, as lists such as "0-23,48-71". `gpu_numa`, `gpu_links`: for each GPU its
    NUMA node, and its island of fast links (NVLink). `gpu_memory_bytes`: of each GPU; 0: not known. `bad_gpus`: those
    that have errors and take no work.
    """

    numa_cpus: tuple[str, ...] = ()
    gpu_numa: tuple[int, ...] = ()
    gpu_links: tuple[int, ...] = ()
    gpu_memory_bytes: int = 0
    bad_gpus: tuple[int, ...] = ()


UNKNOWN_HARDWARE = Hardware()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine with an agent. `incarnation` names one boot of that agent. `isolation`: what its agent cannot enforce,
    in one line; empty: it enforces everything.

    `closed_by` says who made it CORDONED, and so who may open it again. `drain_by_ms`: when a DRAINING node's tasks are
    stopped; 0: they may end by themselves. `failing`: the jobs whose tasks failed there lately through the node's own
    fault, with no success in between.
    """

    id: str
    name: str
    address: str
    capacity: Resources
    gpu_model: str = ""
    labels: StringMap = ()
    taints: tuple[Taint, ...] = ()
    hardware: Hardware = UNKNOWN_HARDWARE
    state: NodeState = NodeState.READY
    reason: str = ""
    incarnation: str
    registered_at_ms: int
    changed_at_ms: int
    isolation: str = ""
    closed_by: ClosedBy = ClosedBy.UNSPECIFIED
    drain_by_ms: int = 0
    failing: tuple[str, ...] = ()

    @property
    def usable(self) -> Resources:
        """What of its capacity can be promised: GPUs with errors cannot, though a task may hold one still."""
        return self.capacity - Resources(gpu_millis=len(self.hardware.bad_gpus) * MILLI)
