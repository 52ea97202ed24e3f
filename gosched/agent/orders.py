"""Orders of a master, checked and turned into records.

Invariant: whatever a master sends is checked here; beyond this module an order is taken as it is.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import replace

from gosched.agent.tasks.secrets import TaskSecrets
from gosched.core.limits import MAX_DETAIL_LENGTH
from gosched.core.orders import StopOrder, TaskOrder
from gosched.wire.codec import to_record
from gosched.wire.v1 import worker_pb2

MAX_ID_BYTES = 1024
MAX_EPOCH_JUMP = 100  # elections between two answers of masters


class BadOrder(ValueError):
    """One line that says what is wrong with an order."""


def parse_order(message: worker_pb2.TaskOrder) -> TaskOrder:
    """Return the order. Raises BadOrder."""
    check_id(message.allocation_id)
    try:
        order = to_record(message, TaskOrder)
    except ValueError as error:
        raise BadOrder(str(error)) from error
    return replace(order, stop_grace_ms=max(0, order.stop_grace_ms))


def parse_stop(message: worker_pb2.StopOrder) -> StopOrder:
    """Return the order; a signal that this host does not know is left out. Raises BadOrder."""
    check_id(message.allocation_id)
    order = to_record(message, StopOrder)
    number = order.checkpoint_signal
    return replace(
        order,
        grace_ms=max(0, order.grace_ms),
        checkpoint_signal=number if number in signal.valid_signals() else 0,
        checkpoint_ms=max(0, order.checkpoint_ms),
    )


def parse_secrets(messages: Iterable[worker_pb2.TaskSecrets]) -> dict[str, TaskSecrets]:
    """Return the secrets of orders, by their allocations."""
    return {
        message.allocation_id: TaskSecrets(
            values={each.name: each.value for each in message.values}, problem=message.problem[:MAX_DETAIL_LENGTH]
        )
        for message in messages
    }


def tombstone_order(allocation_id: str) -> TaskOrder:
    """Return an order for an allocation whose own never came. Its id names its task and its job."""
    task_id = allocation_id.rpartition(".")[0]
    return TaskOrder(allocation_id=allocation_id, task_id=task_id, job_id=task_id.partition("/")[0])


def check_id(allocation_id: str) -> None:
    """Raise BadOrder for what is no allocation id: JOB/GROUP/INDEX.ATTEMPT; what these are is up to the masters."""
    if "/" not in allocation_id or len(allocation_id.encode()) > MAX_ID_BYTES:
        raise BadOrder(f"not an allocation id: {allocation_id[:80]!r}")
