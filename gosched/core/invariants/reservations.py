"""Reservations and windows."""

from __future__ import annotations

from collections.abc import Iterator

from gosched.core.limits import MAX_WINDOWS
from gosched.core.records.job import JobState
from gosched.core.state.cluster_state import ClusterState


def reservation_problems(state: ClusterState) -> Iterator[str]:
    for job_id, reservation in state.reservations.items():
        job = state.jobs.get(job_id)
        if job is None or reservation.job_id != job_id or job_id in state.fences:
            yield f"the reservation of job {job_id} is in the wrong place, or its job is gone or has a fence"
            continue
        if job.state is not JobState.PENDING or job.held or job.attempt != reservation.attempt:
            yield f"job {job_id} is {job.state.name} at attempt {job.attempt} and has a reservation"
        groups = {group.name: group.count for group in job.spec.groups}
        for name, count in groups.items():
            if sum(share.count for share in reservation.shares if share.group == name) > count:
                yield f"the reservation of job {job_id} holds too many tasks of group {name}"
        if any(s.node_id not in state.nodes or s.group not in groups or s.count < 1 for s in reservation.shares):
            yield f"the reservation of job {job_id} names nodes or groups that are not there"
    if len(state.windows) > MAX_WINDOWS:
        yield f"there are {len(state.windows)} windows"
    for name, window in state.windows.items():
        if window.name != name or 0 < window.end_ms <= window.start_ms:
            yield f"window {name} is in the wrong place, or ends before it starts"
        if any(node not in state.nodes for node in window.nodes):
            yield f"window {name} is of nodes that are not there"
