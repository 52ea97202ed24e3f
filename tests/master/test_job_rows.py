"""Rows of listings: why a job waits, since when, and which attempt is shown."""

from __future__ import annotations

from gosched.api.job_row import row_of
from gosched.core.commands.jobs import CancelJob, SubmitJob
from gosched.core.reasons import WaitReason
from gosched.core.records.job import JobState
from gosched.core.spec.array import Array
from gosched.core.spec.dependency import Condition, Dependency
from gosched.master.history.recorder import NotedReason
from gosched.master.jobs.job_rows import job_row
from gosched.scheduling import Explanation
from tests.state_machine.cluster import Cluster, retrying, spec

WHY = Explanation(code=WaitReason.INSUFFICIENT, message="needs 8 CPUs; 4 are free", start_ms=99)


def submitted(name: str, **more: object) -> tuple[Cluster, str]:
    c = Cluster()
    c.accept(SubmitJob(job_id="other", spec=spec("other")))
    c.accept(SubmitJob(job_id=name, spec=spec(name, **more)))
    return c, name


def test_a_pending_job_waits_for_what_the_newest_cycle_found_since_that_reason_was_noted() -> None:
    c, name = submitted("a")
    job = c.state.jobs[name]
    row = job_row(c.state, job, {name: WHY}, {name: NotedReason("INSUFFICIENT", "older words", 7)})
    assert (row.wait_code, row.wait_message, row.waits_since_ms) == ("INSUFFICIENT", WHY.message, 7)
    assert row.start_ms == 99
    changed = job_row(c.state, job, {name: WHY}, {name: NotedReason("QUOTA", "", 7)})
    assert (changed.wait_code, changed.waits_since_ms) == ("INSUFFICIENT", 0)
    assert job_row(c.state, job, {}, {}) == row_of(job)


def test_a_master_that_does_not_lead_says_what_was_noted_last() -> None:
    c, name = submitted("a")
    row = job_row(c.state, c.state.jobs[name], {}, {name: NotedReason("QUOTA", "holds all", 7)})
    assert (row.wait_code, row.wait_message, row.waits_since_ms) == ("QUOTA", "holds all", 7)


def test_what_waits_from_the_beginning_does_so_since_its_submission() -> None:
    c, name = submitted("a", hold=True)
    row = job_row(c.state, c.state.jobs[name], {}, {})
    assert (row.wait_code, row.waits_since_ms) == ("HELD", c.state.jobs[name].submitted_at_ms)
    c, name = submitted("a", after=(Dependency(job="other", condition=Condition.SUCCESS),))
    row = job_row(c.state, c.state.jobs[name], {}, {})
    assert (row.wait_code, row.waits_since_ms) == ("DEPENDENCY", c.state.jobs[name].submitted_at_ms)
    assert "other (PENDING; must succeed)" in row.wait_message


def test_what_has_ended_and_an_array_at_work_do_not_wait() -> None:
    c, name = submitted("a")
    c.accept(CancelJob(job_id=name))
    assert job_row(c.state, c.state.jobs[name], {name: WHY}, {}).wait_code == ""
    c, name = submitted("sweep", array=Array(last=2, step=1))
    assert job_row(c.state, c.state.jobs[name], {}, {}).wait_code == ""
    child = job_row(c.state, c.state.jobs["sweep.0"], {}, {})
    assert (child.parent, child.element, child.children) == ("sweep", 0, None)


def test_the_attempt_that_is_shown_is_the_newest_that_was_placed() -> None:
    c = Cluster()
    c.node("n1")
    c.submit(retrying())
    job_id = next(iter(c.state.jobs))
    assert c.state.jobs[job_id].shown_attempt == 0
    c.place(job_id, "n1")
    assert row_of(c.state.jobs[job_id]).attempt == 1
    c.die("n1")
    waiting = c.state.jobs[job_id]
    assert (waiting.state, waiting.attempt, waiting.shown_attempt) == (JobState.PENDING, 2, 1)
    c.accept(CancelJob(job_id=job_id))
    assert row_of(c.state.jobs[job_id]).attempt == 1
