"""Log lines: JSON or text on stderr, and one line for each event that a person would want to find later."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from typing import assert_never

import structlog

from gosched.core.events import (
    ClockSet,
    DeadlineMissed,
    EpochOpened,
    Event,
    FenceChanged,
    JobChanged,
    JobEvicted,
    JobFrozen,
    JobUpdated,
    NodeChanged,
    QueuesChanged,
    ReservationChanged,
    TaskChanged,
    WindowsChanged,
)
from gosched.core.text import printable_values

log = structlog.get_logger()


def configure(level: str) -> None:
    """Configure the logs of a whole process; its main calls it once."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            printable_values,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], bool_as_flag=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


def log_events(events: Iterable[Event], *, revision: int, epoch: int) -> None:
    for event in events:
        match event:
            case EpochOpened():
                log.info("epoch opened", leader=event.leader, epoch=event.epoch, revision=revision)
            case NodeChanged():
                node = {"node": event.node_id, "before": event.before.name, "after": event.after.name}
                log.info("node", **node, reason=event.reason, epoch=epoch, revision=revision)
            case JobChanged():
                job = {"job": event.job_id, "queue": event.queue, "before": event.before.name}
                log.info("job", **job, after=event.after.name, reason=event.reason, epoch=epoch, revision=revision)
            case TaskChanged():
                task = {"task": event.task_id, "node": event.node_id, "before": event.before.name}
                log.debug("task", **task, after=event.after.name, reason=event.reason, epoch=epoch, revision=revision)
            case ClockSet():
                clock = {"from_ms": event.from_ms, "to_ms": event.to_ms}
                log.warning("the state's clock was set back", **clock, epoch=epoch, revision=revision)
            case QueuesChanged():
                log.info("queues changed", epoch=epoch, revision=revision)
            case WindowsChanged():
                log.info("windows changed", epoch=epoch, revision=revision)
            case _:
                _log_force(event, {"job": event.job_id, "epoch": epoch, "revision": revision})


def _log_force(
    event: JobEvicted | FenceChanged | ReservationChanged | DeadlineMissed | JobUpdated | JobFrozen,
    about: dict[str, str | int],
) -> None:
    match event:
        case JobEvicted():
            lost = {"tasks": event.tasks, "whole": event.whole, "lost_s": event.lost_ms / 1000}
            log.info("evicted", **about, **lost, queue=event.queue, made_for=event.for_job, cause=event.cause.name)
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
            log.warning("deadline missed", **about, queue=event.queue)
        case JobFrozen():
            log.info("frozen" if event.frozen else "thawed", **about, nodes=len(event.node_ids))
        case JobUpdated():
            log.debug("job updated", **about)
        case _:
            assert_never(event)
