"""How many bytes a record counts in the footprint: more than it has in a snapshot, less than in memory (ADR 0039).

Invariant: a change of a formula is a new feature level, since what is refused depends on the sizes. Fields that hold
their default count nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass

from gosched.core.outcome import Answer, Answered
from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.fence import Fence
from gosched.core.records.job import Job
from gosched.core.records.reservation import Reservation
from gosched.core.records.run_history import RunHistory
from gosched.core.records.task import Task
from gosched.core.records.tenant import Account, Tenant

# What a record takes besides its texts; a task's covers its allocation, an account's and a tenant's their texts too.
JOB_BYTES = 256
TASK_BYTES = 256
ANSWER_BYTES = 16
ANSWERED_BYTES = 80  # its key and its user included
PLACEMENT_BYTES = 16  # of a fence or a reservation, for each task or share
ACCOUNT_BYTES = 512
TENANT_BYTES = 256
RUN_HISTORY_BYTES = 256
_RECORD_BYTES = 8
_NUMBER_BYTES = 4
_TEXT_BYTES = 2
TASK_IDS = 4  # times that a task's id, or a text as long, is in it and in its allocation


def text_bytes(text: str) -> int:
    """Return the length in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def content_bytes(value: object) -> int:
    """Return the size of a record of any kind, or of a part of one."""
    if isinstance(value, str):
        return _TEXT_BYTES + text_bytes(value)
    if isinstance(value, tuple):
        return sum([content_bytes(item) for item in value])
    if is_dataclass(value):
        return _RECORD_BYTES + sum([content_bytes(field) for field in _set_fields(value)])
    return _NUMBER_BYTES


def job_bytes(job: Job) -> int:
    """Return the size of the job itself: without its tasks, and without the parts of its spec that are shared."""
    spec = job.spec
    names = (job.id, job.id, job.parent, spec.name, spec.queue, spec.tenant, spec.cron, spec.timezone)
    return len(job.traceparent) + text_bytes(job.user) + JOB_BYTES + text_bytes("".join(names)) + changing_bytes(job)


def task_bytes(task: Task) -> int:
    """Return the size of the task and its allocation."""
    devices = _NUMBER_BYTES * len(task.gpus) + len(task.cpus)
    return TASK_BYTES + TASK_IDS * text_bytes(task.id) + devices + text_bytes(task.reason + task.detail)


def answer_bytes(answer: Answer) -> int:
    """Return the size of a remembered answer."""
    texts = [answer.client_id, answer.request_id, answer.detail, answer.subject]
    return ANSWER_BYTES + sum([text_bytes(text) for text in texts])


def answered_bytes(answered: Answered) -> int:
    """Return the size of a request that is remembered."""
    return ANSWERED_BYTES + text_bytes(answered.detail) + text_bytes(answered.subject)


def fence_bytes(fence: Fence) -> int:
    """Return the size of a fence with its placements."""
    return JOB_BYTES + sum([_placement_bytes(placement) for placement in fence.tasks])


def reservation_bytes(reservation: Reservation) -> int:
    """Return the size of a reservation with its shares."""
    shares = [PLACEMENT_BYTES + text_bytes(s.group) + text_bytes(s.node_id) for s in reservation.shares]
    return JOB_BYTES + sum(shares)


def account_bytes(_account: Account) -> int:
    """Return the size of an account, its texts included."""
    return ACCOUNT_BYTES


def tenant_bytes(_tenant: Tenant) -> int:
    """Return the size of a tenant, its texts included."""
    return TENANT_BYTES


def run_history_bytes(_history: RunHistory) -> int:
    """Return the size of a history of run times, full or not."""
    return RUN_HISTORY_BYTES


def changing_bytes(job: Job) -> int:
    size = text_bytes(job.reason + job.detail)
    return (
        size
        if not (job.waits_for or job.evicted_for)
        else size + content_bytes(job.waits_for) + content_bytes(job.evicted_for)
    )


def _placement_bytes(placement: TaskPlacement) -> int:
    devices = _NUMBER_BYTES * len(placement.gpus) + len(placement.cpus)
    return PLACEMENT_BYTES + text_bytes(placement.node_id) + devices


def _set_fields(record: object) -> Iterator[object]:
    """Yield the fields that do not hold their defaults."""
    for field in fields(record):  # type: ignore[arg-type] # a dataclass, as the caller has seen
        value = getattr(record, field.name)
        if field.default is MISSING or value != field.default:
            yield value
