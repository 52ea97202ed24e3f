"""Deadlines at submission, plans that nobody commits, and questions to a planner that has no time."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import grpc
import pytest

from gosched.core.commands.plans import Cause, Eviction, GangPlacement
from gosched.core.reasons import WaitReason
from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.job import Job
from gosched.core.records.reservation import Reservation, Share
from gosched.core.spec.array import Array
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.job_spec import JobSpec, OnMiss
from gosched.master.api import forecast
from gosched.master.jobs import admission
from gosched.master.planning import planner_queries
from gosched.scheduling import Explanation
from gosched.scheduling.queries.deadline_admission import Admission
from gosched.scheduling.queries.what_if import WhatIf, WhatIfPlan
from gosched.wire.codec import to_message
from gosched.wire.v1 import scheduler_pb2, types_pb2
from tests.master.harness import LIMIT_S, RUNNING, Front, agent, one_master, spec, until

HOUR_MS = 3_600_000


def due(name: str = "job", **more: Any) -> JobSpec:
    return spec(name, deadline_in_ms=HOUR_MS, timeout_ms=60_000, **more)


def slot(job: Job, now_ms: int) -> Reservation:
    shares = (Share(group="main", node_id="n1", count=1),)
    return Reservation(
        job_id=job.id, attempt=1, start_ms=now_ms + 120_000, shares=shares, for_deadline=True, made_at_ms=now_ms
    )


class Slots:
    """Admits the first `many` jobs; each call takes a while, so that calls would overlap."""

    def __init__(self, many: int) -> None:
        self.left = many
        self.calls: list[tuple[str, int]] = []  # and how many slots were taken in the view

    def __call__(self, view: Any, policy: Any, job: Job, now_ms: int, seed: int) -> Admission:
        taken = sum(reservation.for_deadline for reservation in view.reservations.values())
        self.calls.append((job.spec.name, taken))
        threading.Event().wait(0.02)
        if self.left <= taken:
            return Admission(reservation=None, problem="n1 is full", earliest_ms=HOUR_MS, largest=3, priority=70)
        return Admission(reservation=slot(job, now_ms), problem="", earliest_ms=0, largest=0, priority=0)


async def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    assert "\n" not in (raised.value.details() or "")
    return raised.value.code(), raised.value.details() or ""


def test_two_submissions_never_get_the_same_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = Slots(1)
    monkeypatch.setattr(admission, "admit", slots)

    async def story() -> None:
        async with one_master() as master, agent(master, cpus=1):
            await busy(master)
            answers = await asyncio.gather(*[master.submit(due(f"d{i}")) for i in range(5)])
            assert sorted(seen for _, seen in slots.calls) == [0, 1, 1, 1, 1]
            assert sum(reservation.for_deadline for reservation in master.state.reservations.values()) == 1
            assert sorted(len(answer.warnings) for answer in answers) == [0, 1, 1, 1, 1]
            (warning,) = next(answer.warnings for answer in answers if answer.warnings)
            assert warning == (
                "no start can be reserved for the deadline: n1 is full; its earliest possible end is"
                " 1970-01-01T01:00:00Z; a gang of 3 of its tasks would be in time; priority 70 would start it at once"
            )

    asyncio.run(story())


def test_a_deadline_that_must_be_kept_and_cannot_is_refused_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "admit", Slots(0))

    async def story() -> None:
        async with one_master() as master, agent(master):
            code, detail = await refused(master.submit(due(on_miss=OnMiss.REFUSE)))
            assert code is grpc.StatusCode.FAILED_PRECONDITION
            assert "priority 70 would start it" in detail
            assert not master.state.jobs

    asyncio.run(story())


def test_a_repeat_of_an_admitted_submission_gets_the_first_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = Slots(1)
    monkeypatch.setattr(admission, "admit", slots)

    async def story() -> None:
        async with one_master() as master, agent(master, cpus=1):
            await busy(master)
            job = due(on_miss=OnMiss.REFUSE)
            answers = await asyncio.gather(*[master.submit(job, "r1") for _ in range(3)])
            assert len({answer.job_id for answer in answers}) == 1
            again = await master.submit(job)  # the live job of this name and spec
            assert (again.job_id, again.unchanged) == (answers[0].job_id, True)
            assert len(slots.calls) == 1
            slots.left = 0
            await master.scheduler.CancelJob(scheduler_pb2.CancelJobRequest(job="job"), timeout=LIMIT_S)
            assert (await master.submit(job, "r1")).job_id == answers[0].job_id  # although none would be admitted now

    asyncio.run(story())


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"hold": True}, "the job is held"),
        ({"begin_in_ms": 1000}, "it begins later"),
        ({"array": Array(last=9, step=1)}, "elements of an array"),
    ],
)
def test_a_deadline_of_what_is_not_planned_yet_is_promised_nothing(more: dict[str, Any], words: str) -> None:
    async def story() -> None:
        async with one_master() as master, agent(master):
            code, detail = await refused(master.submit(due("strict", on_miss=OnMiss.REFUSE, **more)))
            assert (code, words in detail) == (grpc.StatusCode.FAILED_PRECONDITION, True)
            answer = await master.submit(due(**more))
            assert words in answer.warnings[0]

    asyncio.run(story())


def test_a_job_whose_begin_has_passed_is_promised_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "admit", Slots(1))

    async def story() -> None:
        async with one_master() as master, agent(master, cpus=1):
            await busy(master)
            answer = await master.submit(due(begin_at_ms=1, on_miss=OnMiss.REFUSE))
            assert list(answer.warnings) == []
            assert answer.job_id in master.state.reservations

    asyncio.run(story())


def test_a_plan_of_a_job_that_begins_later_says_so_and_plans_it_as_if_it_began_now() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master):
            late = replace(spec("never"), begin_in_ms=HOUR_MS, deadline_at_ms=1)
            specs = [replace(spec("later"), begin_at_ms=4_000_000_000_000), late]
            request = scheduler_pb2.PlanJobRequest(specs=[to_message(s, types_pb2.JobSpec) for s in specs])
            later, never = (await master.scheduler.PlanJob(request, timeout=LIMIT_S)).jobs
            assert later.outcome == "starts"
            assert later.warnings[0] == "it would not begin before 2096-10-02T07:06:40Z: planned as if it began now"
            assert never.outcome == "refused"
            assert "would begin when its deadline is over" in never.explanation.message

    asyncio.run(story())


def test_bad_specs_get_the_state_machines_answer_not_the_planners() -> None:
    async def story() -> None:
        async with one_master() as master:
            code, detail = await refused(master.submit(replace(due(), queue="nope")))
            assert (code, "nope" in detail) == (grpc.StatusCode.NOT_FOUND, True)

    asyncio.run(story())


def test_a_plan_says_what_would_become_of_each_job_and_commits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[JobSpec] = []

    async def story() -> None:
        async with one_master() as master, agent(master, cpus=4) as n1:
            victim = (await master.submit(spec("victim"))).job_id
            await until(lambda: n1.orders)
            n1.see_all(RUNNING)
            await n1.beat(master)

            def answer(view: Any, policy: Any, specs: tuple[JobSpec, ...], now_ms: int, seed: int) -> WhatIfPlan:
                asked.extend(specs)
                eviction = Eviction(job_id=victim, attempt=1, cause=Cause.PREEMPT)
                placement = GangPlacement(
                    job_id="new", attempt=1, tasks=(TaskPlacement(rank=0, node_id="n1"),), evictions=(eviction,)
                )
                why = Explanation(code=WaitReason.INSUFFICIENT, message="needs 8 CPUs", nearest="n1 has 3")
                return WhatIfPlan(
                    jobs=(
                        WhatIf(
                            name="a",
                            outcome="starts_after_evictions",
                            placement=placement,
                            start_ms=now_ms,
                            explanation=None,
                        ),
                        WhatIf(name="b", outcome="waits", placement=None, start_ms=HOUR_MS, explanation=why),
                    ),
                    moved=((victim, 5, 0),),
                )

            monkeypatch.setattr(forecast, "what_if", answer)
            before = dict(master.state.jobs)
            after = (Dependency(job="victim", condition=Condition.ANY),)
            specs = [
                spec("a", hold=True, after=after),
                replace(spec("bad"), queue="nope"),
                spec("b", array=Array(last=9, step=1)),
            ]
            request = scheduler_pb2.PlanJobRequest(specs=[to_message(s, types_pb2.JobSpec) for s in specs])
            plan = await master.scheduler.PlanJob(request, timeout=LIMIT_S)
            assert master.state.jobs == before
            assert [(s.hold, s.after, s.is_parent) for s in asked] == [(False, (), False)] * 2
            first, bad, second = plan.jobs
            assert (first.outcome, [(n.node_id, n.tasks) for n in first.nodes]) == (
                "starts_after_evictions",
                [("n1", 1)],
            )
            assert [(v.name, v.tasks, v.whole, v.cause) for v in first.victims] == [("victim", 1, True, "preempt")]
            assert len(first.warnings) == 2
            assert (bad.outcome, "nope" in bad.explanation.message) == ("refused", True)
            assert (second.outcome, second.start_ms, second.explanation.nearest) == ("waits", HOUR_MS, "n1 has 3")
            assert "one of its 10 elements" in second.warnings[0]
            assert [(m.name, m.before_ms, m.after_ms) for m in plan.moved] == [("victim", 5, 0)]
            code, _ = await refused(master.scheduler.PlanJob(scheduler_pb2.PlanJobRequest(), timeout=LIMIT_S))
            assert code is grpc.StatusCode.INVALID_ARGUMENT

    asyncio.run(story())


def test_a_plan_says_what_a_submission_would_say_about_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = Slots(0)
    monkeypatch.setattr(admission, "admit", slots)

    async def story() -> None:
        async with one_master() as master, agent(master):
            must, may = due("must", on_miss=OnMiss.REFUSE), due("may")
            specs = [must, may, due("none", hold=True), spec("plain")]
            request = scheduler_pb2.PlanJobRequest(specs=[to_message(s, types_pb2.JobSpec) for s in specs])
            plan = await master.scheduler.PlanJob(request, timeout=LIMIT_S)
            assert [job.outcome for job in plan.jobs] == ["refused", "starts", "starts", "starts"]
            _, detail = await refused(master.submit(must))
            assert plan.jobs[0].explanation.message == detail
            assert list(plan.jobs[1].warnings) == list((await master.submit(may)).warnings)
            assert [len(job.warnings) for job in plan.jobs] == [0, 1, 2, 0]
            slots.left = 1
            (job,) = (await master.scheduler.PlanJob(request, timeout=LIMIT_S)).jobs[:1]
            assert job.outcome == "starts"
            assert not master.state.reservations

    asyncio.run(story())


def test_a_planner_that_does_not_answer_in_time_is_said_to_be_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(planner_queries, "ANSWER_S", 0.05)
    monkeypatch.setattr(forecast, "what_if", lambda *given: go_on.wait(LIMIT_S))

    async def story() -> None:
        async with one_master() as master:
            request = scheduler_pb2.PlanJobRequest(specs=[to_message(spec(), types_pb2.JobSpec)])
            code, detail = await refused(master.scheduler.PlanJob(request, timeout=LIMIT_S))
            go_on.set()
            assert (code, "did not answer" in detail) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)

    asyncio.run(story())


async def busy(master: Front) -> None:
    """The only CPU is taken for a minute, so that admitted jobs wait, and their promises can be kept."""
    job_id = (await master.submit(spec("hog", timeout_ms=60_000))).job_id
    await until(lambda: master.state.jobs[job_id].active)
