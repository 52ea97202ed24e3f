"""What wakes a scheduling cycle."""

from __future__ import annotations

import pytest

from gosched.core.commands.plans import Cause
from gosched.core.events import (
    DeadlineMissed,
    Event,
    FenceChanged,
    JobChanged,
    JobEvicted,
    JobUpdated,
    ReservationChanged,
    TaskChanged,
    WindowsChanged,
)
from gosched.core.records.job import JobState
from gosched.core.records.task import TaskState
from gosched.master.planning.cycles import could_start_a_job

ENDED = TaskChanged(
    job_id="j", task_id="t", allocation_id="a", node_id="n", before=TaskState.STOPPING, after=TaskState.KILLED
)


@pytest.mark.parametrize(
    ("event", "wakes"),
    [
        (FenceChanged(job_id="j", node_ids=("n",), made=False), True),
        (FenceChanged(job_id="j", node_ids=("n",), made=True), False),
        (ReservationChanged(job_id="j", start_ms=0), True),
        (ReservationChanged(job_id="j", start_ms=5), False),  # the plan that made it saw all there was
        (WindowsChanged(), True),
        (JobUpdated(job_id="j"), True),
        (JobChanged(job_id="j", queue="q", before=JobState.SUSPENDED, after=JobState.PENDING), True),
        (JobChanged(job_id="j", queue="q", before=JobState.PENDING, after=JobState.SUSPENDED), False),
        (ENDED, True),
        (DeadlineMissed(job_id="j", queue="q"), False),
        (JobEvicted(job_id="j", queue="q", for_job="k", cause=Cause.PREEMPT, tasks=1, whole=True, lost_ms=0), False),
    ],
)
def test_a_cycle_is_woken_by_whatcould_start_a_job(event: Event, wakes: bool) -> None:
    assert could_start_a_job(event) is wakes
