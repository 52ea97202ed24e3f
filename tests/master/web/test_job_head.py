"""What can be done to a job, by what it is and does."""

from __future__ import annotations

from dataclasses import replace

from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.spec.policies import GangPolicy
from gosched.master.web.job_head import Amount, actions_of
from tests.master.harness import spec


def job(*, count: int = 4, least: int = 4, state: JobState = JobState.RUNNING, **fields: object) -> Job:
    made = replace(spec("train", count=count), gang=GangPolicy(min_tasks=least))
    return Job(id="j1", spec=made, sequence=1, state=state, submitted_at_ms=1, **fields)  # type: ignore[arg-type]


def names(of: Job) -> list[str]:
    return [action.name for action in actions_of(of)]


def test_only_an_elastic_job_can_be_scaled_while_it_lives() -> None:
    assert names(job()) == ["suspend", "requeue", "cancel"]
    assert names(job(least=2)) == ["suspend", "requeue", "scale", "cancel"]
    assert names(job(least=2, state=JobState.PENDING)) == ["hold", "scale", "cancel"]
    assert names(job(least=2, intent=JobIntent.SUSPEND)) == ["resume", "scale", "cancel"]
    assert names(job(least=2, state=JobState.SUCCEEDED)) == names(job(intent=JobIntent.CANCEL)) == []


def test_the_number_that_is_asked_for_is_what_the_job_has_now() -> None:
    def asked(of: Job) -> Amount | None:
        return next(action.amount for action in actions_of(of) if action.name == "scale")

    assert asked(job(least=2)) == Amount(name="tasks", least=2, most=4, now=4)
    assert asked(job(least=2, scaled_to=3)) == Amount(name="tasks", least=2, most=4, now=3)
