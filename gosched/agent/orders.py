"""Orders as records: parsed once at the edge, stored whole, so that a task can be described after any restart."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from gosched.agent.logic.reconcile import StopWish
from gosched.core.primitives import StringMap
from gosched.core.resources import ZERO, Resources
from gosched.core.spec.isolation import PLAIN, Isolation
from gosched.core.spec.task_group import Runtime
from gosched.wire.codec import fill, map_pairs, to_record
from gosched.wire.v1 import types_pb2, worker_pb2

MAX_ID_BYTES = 1024


class BadOrder(ValueError):
    """One line that says what is wrong with an order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """`env` is what the task's environment must have; the agent adds a few names that it lacks. `stop_alone`: the task
    ends, with `stop_grace_ms`, before the masters may count this node as dead."""

    allocation_id: str
    task_id: str
    job_id: str
    runtime: Runtime = Runtime.PROCESS
    image: str = ""
    command: tuple[str, ...] = ()
    env: StringMap = ()
    working_dir: str = ""
    resources: Resources = ZERO
    gpus: tuple[int, ...] = ()
    cpus: str = ""
    isolation: Isolation = PLAIN
    stop_alone: bool = False
    stop_grace_ms: int = 0


def parse_order(message: worker_pb2.TaskOrder) -> Order:
    try:
        return Order(
            allocation_id=checked_id(message.allocation_id),
            task_id=message.task_id,
            job_id=message.job_id,
            runtime=Runtime(message.runtime),
            image=message.image,
            command=tuple(message.command),
            env=map_pairs(message.env),
            working_dir=message.working_dir,
            resources=to_record(message.resources, Resources),
            gpus=tuple(message.gpus),
            cpus=message.cpus,
            isolation=to_record(message.isolation, Isolation),
            stop_alone=message.stop_alone,
            stop_grace_ms=max(0, message.stop_grace_ms),
        )
    except ValueError as error:
        raise BadOrder(str(error)) from error


def parse_stop(message: worker_pb2.StopOrder) -> StopWish:
    number = message.checkpoint_signal
    return StopWish(
        allocation_id=checked_id(message.allocation_id),
        grace_ms=max(0, message.grace_ms),
        reason=message.reason,
        checkpoint_signal=number if number in signal.valid_signals() else 0,
        checkpoint_ms=max(0, message.checkpoint_ms),
    )


def encode_order(order: Order) -> bytes:
    message = worker_pb2.TaskOrder(
        allocation_id=order.allocation_id,
        task_id=order.task_id,
        job_id=order.job_id,
        runtime=types_pb2.Runtime.Name(order.runtime),
        image=order.image,
        command=order.command,
        env=dict(order.env),
        working_dir=order.working_dir,
        gpus=order.gpus,
        cpus=order.cpus,
        stop_alone=order.stop_alone,
        stop_grace_ms=order.stop_grace_ms,
    )
    fill(order.resources, message.resources)
    fill(order.isolation, message.isolation)
    return message.SerializeToString()


def buried_order(allocation_id: str) -> Order:
    """For an allocation whose own order never came: its id says whose it was."""
    task_id = allocation_id.rpartition(".")[0]
    return Order(allocation_id=allocation_id, task_id=task_id, job_id=task_id.partition("/")[0])


def checked_id(allocation_id: str) -> str:
    """An allocation id is JOB/GROUP/INDEX.ATTEMPT; what it is made of is the masters' affair."""
    if "/" not in allocation_id or len(allocation_id.encode()) > MAX_ID_BYTES:
        raise BadOrder(f"not an allocation id: {allocation_id[:80]!r}")
    return allocation_id
