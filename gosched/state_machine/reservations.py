"""Reservations: the starts that are reserved for pending jobs.

Invariant: only a job that waits has one, and for the attempt it waits for.
"""

from __future__ import annotations

from gosched.core.events import Event, JobChanged, JobUpdated, ReservationChanged
from gosched.core.records.job import Job, JobState
from gosched.core.records.reservation import Reservation
from gosched.core.replace import replace
from gosched.core.state.cluster_state import ClusterState


def reserve(state: ClusterState, events: list[Event], wanted: Reservation) -> str:
    """Make a reservation, or change the one of the job; or return why it cannot be."""
    problem = reservation_problem(state, wanted)
    if problem:
        return f"reservation refused: {problem}"
    old = state.reservations.get(wanted.job_id)
    if old is None or wanted != replace(old, made_at_ms=wanted.made_at_ms):
        job = state.jobs[wanted.job_id]
        broken = old is not None and old.for_deadline and not _is_late(job, old) and _is_late(job, wanted)
        keeps = wanted.for_deadline and not _is_late(job, wanted)
        if job.deadline_promised != keeps:
            state.put_job(replace(job, deadline_promised=keeps))
        state.put_reservation(wanted)
        before_ms = old.start_ms if old is not None else 0
        events.append(ReservationChanged(job_id=job.id, start_ms=wanted.start_ms, broken=broken, before_ms=before_ms))
    return ""


def reservation_problem(state: ClusterState, wanted: Reservation) -> str:
    """Return why the job cannot have it: one line for people, or an empty string."""
    job = state.jobs.get(wanted.job_id)
    if job is None:
        return "there is no such job"
    if not _waits(state, job) or job.attempt != wanted.attempt:
        return f"the job is {job.state.name} at attempt {job.attempt} and does not wait for a start at {wanted.attempt}"
    if wanted.start_ms <= 0 or (wanted.end_ms and wanted.end_ms <= wanted.start_ms):
        return f"it is from {wanted.start_ms} to {wanted.end_ms} ms"
    return _shares_problem(state, job, wanted)


def withdraw(state: ClusterState, events: list[Event], job_id: str) -> str:
    """Remove a reservation that cannot be kept; there may be none any more. Nothing is against that."""
    job = state.jobs.get(job_id)
    broken = job is not None and job.deadline_promised
    if job is not None and broken:
        state.put_job(replace(job, deadline_promised=False))
    if job_id in state.reservations:
        state.drop_reservation(job_id)
    elif not broken:
        return ""
    events.append(ReservationChanged(job_id=job_id, start_ms=0, broken=broken))
    return ""


def forget(state: ClusterState, events: list[Event], job_id: str) -> None:
    """Remove a reservation that the job does not need any more: it starts, or does not wait any longer."""
    if job_id in state.reservations:
        state.drop_reservation(job_id)
        events.append(ReservationChanged(job_id=job_id, start_ms=0))


def follow_up(state: ClusterState, events: list[Event]) -> None:
    """Forget the reservations of jobs that changed and do not wait any more. To be called after every command."""
    if not state.reservations:
        return
    for event in [*events]:
        if isinstance(event, JobChanged | JobUpdated) and event.job_id in state.reservations:
            job = state.jobs[event.job_id]
            if not _waits(state, job) or job.attempt != state.reservations[job.id].attempt:
                forget(state, events, job.id)


def _waits(state: ClusterState, job: Job) -> bool:
    return job.state is JobState.PENDING and not job.held and not job.spec.is_parent and job.id not in state.fences


def _shares_problem(state: ClusterState, job: Job, wanted: Reservation) -> str:
    counts = dict.fromkeys([group.name for group in job.spec.groups], 0)
    for share in wanted.shares:
        if share.node_id not in state.nodes:
            return f"there is no node {share.node_id!a}"
        if share.group not in counts or share.count <= 0:
            return f"{share.count} tasks of group {share.group!a}"
        counts[share.group] += share.count
    if len(dict.fromkeys((share.group, share.node_id) for share in wanted.shares)) != len(wanted.shares):
        return "it names a group twice on one node"
    for group in job.spec.groups:
        if not group.floor <= counts[group.name] <= group.count:
            return f"it holds room for {counts[group.name]} tasks of group {group.name}, {group.floor} start together"
    return ""


def _is_late(job: Job, reservation: Reservation) -> bool:
    return bool(job.deadline_ms) and reservation.start_ms > job.deadline_ms - job.spec.span_ms
