"""Nodes of the cluster, their hardware and their states."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.primitives import Named, StringMap, added
from gosched.core.resources import MILLI, Resources
from gosched.core.spec.placement_rules import Taint


class NodeState(Named):
    """Whether a node takes work."""

    UNSPECIFIED = 0
    READY = 1
    #: It takes no new work; what runs there goes on.
    CORDONED = 2
    #: It takes no new work, and what runs there is to end or move.
    DRAINING = 3
    #: Its lease is over: what ran there is LOST.
    DEAD = 4


class ClosedBy(IntEnum):
    """What closed a node, and so may open it again."""

    UNSPECIFIED = 0
    OPERATOR = 1
    #: Its own agent says that it is unfit for work.
    AGENT = 2
    #: Task after task failed there.
    FAILURES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """How a node is built. Each field is empty or 0 where the agent does not know."""

    #: The CPUs of each NUMA node, as lists such as "0-23,48-71".
    numa_cpus: tuple[str, ...] = ()
    #: The NUMA node of each GPU.
    gpu_numa: tuple[int, ...] = ()
    #: The island of fast links (NVLink) of each GPU.
    gpu_links: tuple[int, ...] = ()
    #: Of each GPU.
    gpu_memory_bytes: int = 0
    #: GPUs that have errors and take no work; in order.
    bad_gpus: tuple[int, ...] = ()


UNKNOWN_HARDWARE = Hardware()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine with an agent."""

    #: Chosen by the agent, and kept across its restarts.
    id: str
    #: For people; not necessarily unique.
    name: str
    #: host:port of its agent.
    address: str
    #: All that it offers.
    capacity: Resources
    #: Of all its GPUs; empty: it has none, or they are not known.
    gpu_model: str = ""
    #: Of the agent's config, and those that an operator set; sorted by key.
    labels: StringMap = ()
    #: What keeps tasks off it; empty: nothing.
    taints: tuple[Taint, ...] = ()
    #: How it is built.
    hardware: Hardware = UNKNOWN_HARDWARE
    #: Whether it takes work.
    state: NodeState = NodeState.READY
    #: Why it is in its state, in one line; empty: there is none.
    reason: str = ""
    #: Names one boot of its agent.
    incarnation: str
    #: When it registered for the first time.
    registered_at_ms: int
    #: When it changed last.
    changed_at_ms: int
    #: What its agent cannot enforce, in one line; empty: it enforces everything.
    isolation: str = ""
    #: What made it CORDONED or DRAINING, and so may open it again; UNSPECIFIED: nothing.
    closed_by: ClosedBy = ClosedBy.UNSPECIFIED
    #: When a DRAINING node's tasks are stopped; 0: they may end by themselves.
    drain_by_ms: int = 0
    #: Jobs whose tasks failed there lately through the node's own fault, with no success in between; MAX_FAILING_JOBS
    #: at most.
    failing: tuple[str, ...] = ()
    #: Keys of those of its labels that an operator set; sorted.
    set_labels: tuple[str, ...] = added(())
    #: Those of its taints that an operator set.
    set_taints: tuple[Taint, ...] = added(())
    #: Names its registration: it grows with each one that ends what was before, as a death of the node or another boot
    #: of its agent does. Orders, heartbeats and reports carry it. 0: its agent knows of no such number.
    registration: int = added(0, 2)
    #: Its agent was stopped, and is awaited for so long; each leader counts from its own start. 0: it is not away.
    away_ms: int = added(0, 2)

    @property
    def usable(self) -> Resources:
        """The part of its capacity that can be placed on: GPUs with errors cannot, though a task may hold one still."""
        return self.capacity - Resources(gpu_millis=len(self.hardware.bad_gpus) * MILLI)
