"""Placements of tasks on nodes: proposed, and committed."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.replace import quickly_made
from gosched.core.resources import Resources


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What a task holds on a node, from the commit of its placement to its end."""

    #: One start of one task (`allocation_id`).
    id: str
    task_id: str
    job_id: str
    node_id: str
    #: What the task requested.
    resources: Resources
    #: Indexes of its GPUs on the node; of a share, the one GPU.
    gpus: tuple[int, ...] = ()
    #: CPUs that are its own, as a list such as "0-3,8"; empty: it shares the others.
    cpus: str = ""
    #: Of the GPUs that it holds; empty: none.
    gpu_model: str = ""
    #: When its placement was committed.
    placed_at_ms: int
    #: Job whose fence waits for it to end; empty: none.
    evicted_for_fence: str = ""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlacement:
    """Where one task of a gang is placed, and what it gets there."""

    #: Of the task in its job.
    rank: int
    node_id: str
    #: As in Allocation.
    gpus: tuple[int, ...] = ()
    #: As in Allocation.
    cpus: str = ""
