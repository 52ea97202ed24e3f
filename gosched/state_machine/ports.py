"""The port of a job on the node of its first task, where the others of its gang meet it.

Invariant: no two jobs with tasks on a node have the same port, while fewer than all PORTS are taken there. Other
programs may have it: the agent looks before the task starts, and the gang starts again with another one.
"""

from __future__ import annotations

from hashlib import blake2b

from gosched.core.features import FeatureLevel
from gosched.core.limits import FIRST_PORT, PORTS
from gosched.core.records.job import Job
from gosched.core.state.cluster_state import ClusterState


def free_port(state: ClusterState, job: Job, node_id: str) -> int:
    """Return a port for the attempt on the node: another one than its last attempt had, whose port may still be in use.
    0: the cluster's feature level knows no ports."""
    if state.feature_level < FeatureLevel.BOUNDED:
        return 0
    first = preferred(job.id, job.attempt)
    ports = (FIRST_PORT + (first + step) % PORTS for step in range(PORTS))
    return next((port for port in ports if not _is_taken(state, port, node_id)), FIRST_PORT + first)


def preferred(job_id: str, attempt: int) -> int:
    """Return where the search begins, below PORTS: spread, so that those of two agents on one host
    seldom meet."""
    return int.from_bytes(blake2b(f"{job_id}.{attempt}".encode(), digest_size=8).digest(), "big") % PORTS


def _is_taken(state: ClusterState, port: int, node_id: str) -> bool:
    """Return whether a job that has the port holds something on the node."""
    tasks = (task for job_id in state.port_jobs.get(port, ()) for task in state.tasks_of(state.jobs[job_id]))
    held = (state.allocations.get(task.allocation_id) for task in tasks)
    return any(allocation is not None and allocation.node_id == node_id for allocation in held)
