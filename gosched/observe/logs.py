"""One log record for each event that an operator would want to find later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import structlog

from gosched.core.events import (
    AccessChanged,
    ClockSet,
    CommandFailed,
    DeadlineMissed,
    EpochOpened,
    Event,
    FenceChanged,
    JobChanged,
    JobEvicted,
    JobFrozen,
    JobUpdated,
    NodeChanged,
    NodeJoined,
    QueuesChanged,
    ReservationChanged,
    TaskChanged,
    WaitReasonNoted,
    WindowsChanged,
)
from gosched.core.state.cluster_state import ClusterState
from gosched.core.trace_context import job_trace
from gosched.logs.process import shows_debug

log = structlog.get_logger()


def log_events(events: Iterable[Event], state: ClusterState, *, revision: int) -> None:
    """Write the records of what one command changed; `state` is the one after it, of the same revision or a later
    one."""
    epoch = state.epoch
    with_debug = shows_debug()
    for event in events:
        match event:
            case EpochOpened():
                log.info("epoch opened", leader=event.leader, epoch=event.epoch, revision=revision)
            case NodeChanged():
                node = {"node": event.node_id, "before": event.before.name, "after": event.after.name}
                log.info("node", **node, reason=event.reason, epoch=epoch, revision=revision)
            case JobChanged():
                job = {"job": event.job_id, "queue": event.queue, "before": event.before.name}
                job |= {"after": event.after.name, "reason": event.reason, **_traced(state, event.job_id)}
                log.info("job", **job, epoch=epoch, revision=revision)
            case TaskChanged() | WaitReasonNoted() if not with_debug:
                pass  # most events are of these
            case TaskChanged():
                task = {"job": event.job_id, "task": event.task_id, "node": event.node_id, "before": event.before.name}
                log.debug("task", **task, after=event.after.name, reason=event.reason, epoch=epoch, revision=revision)
            case ClockSet():
                clock = {"from_ms": event.from_ms, "to_ms": event.to_ms}
                log.warning("the state's clock was set back", **clock, epoch=epoch, revision=revision)
            case CommandFailed():
                failed = {"command": event.command, "why": event.why, "trace": event.trace}
                log.error("a command met a bug and was refused", **failed, epoch=epoch, revision=revision)
            case QueuesChanged():
                log.info("queues changed", epoch=epoch, revision=revision)
            case WaitReasonNoted():
                log.debug("waits", job=event.job_id, code=event.code, why=event.message, epoch=epoch, revision=revision)
            case AccessChanged():
                log.info("access changed", epoch=epoch, revision=revision)
            case NodeJoined():
                log.info("an agent joined", node=event.name, token=event.token_id, epoch=epoch, revision=revision)
            case WindowsChanged():
                log.info("windows changed", epoch=epoch, revision=revision)
            case _:
                about: dict[str, str | int] = {**_of_job(state, event.job_id), "epoch": epoch, "revision": revision}
                _log_force(event, about)


def _of_job(state: ClusterState, job_id: str) -> dict[str, str]:
    """Return the keys by which a job's records are found."""
    job = state.jobs.get(job_id)
    return {"job": job_id} | ({"queue": job.spec.queue} if job is not None else {}) | _traced(state, job_id)


def _traced(state: ClusterState, job_id: str) -> dict[str, str]:
    """Return the id of the job's trace, if it was submitted with a W3C context."""
    job = state.jobs.get(job_id)
    return {"trace_id": job_trace(job).trace_id} if job is not None and job.traceparent else {}


def _log_force(
    event: JobEvicted | FenceChanged | ReservationChanged | DeadlineMissed | JobUpdated | JobFrozen,
    about: dict[str, str | int],
) -> None:
    match event:
        case JobEvicted():
            lost = {"tasks": event.tasks, "whole": event.whole, "lost_s": event.lost_ms / 1000}
            about |= {"queue": event.queue}
            log.info("evicted", **about, **lost, made_for=event.for_job, cause=event.cause.name)
        case FenceChanged(made=True):
            log.info("fence made", **about, nodes=len(event.node_ids))
        case FenceChanged():
            log.info("fence gone", **about, nodes=len(event.node_ids), why=event.why)
        case ReservationChanged(broken=True):
            log.warning("reserved start broken", **about, start_ms=event.start_ms)
        case ReservationChanged(start_ms=0):
            log.info("reserved start dropped", **about)
        case ReservationChanged():
            log.info("start reserved", **about, start_ms=event.start_ms)
        case DeadlineMissed():
            log.warning("deadline missed", **about | {"queue": event.queue})
        case JobFrozen():
            log.info("frozen" if event.frozen else "thawed", **about, nodes=len(event.node_ids))
        case JobUpdated():
            log.debug("job updated", **about)
        case _:
            assert_never(event)
