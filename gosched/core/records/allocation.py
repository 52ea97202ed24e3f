"""Placements of tasks on nodes: proposed, and committed."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.resources import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What a task holds on a node, from the commit of its placement to its end. `gpu_model`: of the GPUs it holds.
    `leaves_for`: the job whose fence waits for it to end."""

    id: str
    task_id: str
    job_id: str
    node_id: str
    resources: Resources
    gpus: tuple[int, ...] = ()
    cpus: str = ""
    gpu_model: str = ""
    placed_at_ms: int
    leaves_for: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlacement:
    """Where the task of a rank goes, and what it gets there."""

    rank: int
    node_id: str
    gpus: tuple[int, ...] = ()
    cpus: str = ""
