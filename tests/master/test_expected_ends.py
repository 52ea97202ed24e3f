"""When jobs are expected to end, as people are told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gosched.cli.output import expected_end_text
from gosched.core.commands.cluster import PassTime
from gosched.core.records.task import TaskState
from gosched.master.jobs.expected_ends import ExpectedEnd, end_of_start, expected_end
from gosched.master.jobs.job_view import job_view
from tests.state_machine.cluster import Cluster, group, spec

MINUTE = 60_000


@pytest.fixture
def c() -> Cluster:
    """Jobs named train ran for 1 to 16 minutes."""
    made = Cluster()
    made.node("n1", cpus=16)
    for number in range(16):
        job = begun(made, f"train-{number}")
        wait(made, (number + 1) * MINUTE - 1)
        made.report(job, 0, TaskState.SUCCEEDED, 0)
    return made


def begun(c: Cluster, name: str, **more: object) -> str:
    job = c.submit(spec(name, group(), **more))
    c.place(job, "n1")
    return job


def wait(c: Cluster, ms: int) -> None:
    c.accept(PassTime(), at_ms=c.state.clock_ms + ms)


def minutes(c: Cluster, job: str) -> tuple[int, int]:
    """From its placement."""
    end, begun_ms = expected_end(c.state, c.job(job)), c.job(job).placed_at_ms
    return tuple([(at_ms - begun_ms) // MINUTE if at_ms else 0 for at_ms in end])  # type: ignore[return-value]


def test_a_running_job_has_an_expected_end_that_moves_with_its_age(c: Cluster) -> None:
    job = begun(c, "train-99")
    expected, likely = minutes(c, job)
    assert 8 <= expected < likely
    wait(c, 13 * MINUTE + 1)
    assert minutes(c, job) == (15, likely)
    wait(c, 50 * MINUTE)
    assert expected_end(c.state, c.job(job)) == ExpectedEnd()  # nothing like it ran for so long
    view = job_view(c.state, c.job(job), {})
    assert (view.expected_end_ms, view.likely_end_ms) == (0, 0)


def test_no_end_is_expected_after_the_timeout_nor_of_a_job_that_waits_or_stands_still(c: Cluster) -> None:
    assert minutes(c, begun(c, "train-50", timeout_ms=5 * MINUTE)) == (5, 5)
    waiting = c.submit(spec("train-51", group()))
    assert expected_end(c.state, c.job(waiting)) == ExpectedEnd()
    frozen = c.job(begun(c, "train-52"))
    assert expected_end(c.state, frozen) != ExpectedEnd()
    assert expected_end(c.state, replace(frozen, frozen=True)) == ExpectedEnd()


def test_a_planned_job_is_expected_to_end_so_long_after_its_start(c: Cluster) -> None:
    job = c.job(c.submit(spec("train-50", group())))
    now, later = end_of_start(c.state, job, 1000), end_of_start(c.state, job, 61_000)
    assert (later.expected_ms - now.expected_ms, later.likely_ms - now.likely_ms) == (MINUTE, MINUTE)
    assert end_of_start(c.state, job, 0) == ExpectedEnd()


def test_the_command_line_says_both() -> None:
    both = {"expected_end": "2026-12-01T14:10:00Z", "likely_end": "2026-12-01T15:00:00Z"}
    assert expected_end_text(both) == "2026-12-01T14:10:00Z, by 2026-12-01T15:00:00Z with 90 %"
    assert expected_end_text(both | {"expected_end": None}) == "by 2026-12-01T15:00:00Z with 90 %"
    assert expected_end_text({"expected_end": None, "likely_end": None}) == ""
