"""Words of the history's lines: amounts of time, moments, lists of names."""

from __future__ import annotations

from collections.abc import Sequence

from gosched.core.records.job import Job
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.job_names import name_beside

NAMES_SHOWN = 4


def listed(names: Sequence[str]) -> str:
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def span(ms: int) -> str:
    """Return an amount of time in one unit, or two: `40 s`, `12 min`, `3 h 20 min`."""
    seconds = max(ms, 0) // 1000
    if seconds < 120:
        return f"{seconds} s"
    minutes = seconds // 60
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def because(reason: str, detail: str) -> str:
    """Return what a line ends with to say why: `: DETAIL (REASON)`."""
    if detail and reason:
        return f": {detail} ({reason})"
    return f": {detail or reason}" if detail or reason else ""


def node_name(state: ClusterState, node_id: str) -> str:
    node = state.nodes.get(node_id)
    return node.name if node is not None else node_id


def job_name(state: ClusterState, job_id: str, to: Job | None) -> str:
    """Return what a line about a job calls another one."""
    other = state.jobs.get(job_id)
    if other is None or to is None:
        return job_id
    return name_beside(other.spec.name, job_id, (other.spec.tenant, other.spec.queue), (to.spec.tenant, to.spec.queue))
