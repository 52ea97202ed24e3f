"""Preemption from submission to start, plans and promises: the real planner and state machine behind a real master."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from structlog.testing import capture_logs

from gosched.core.records.job import JobState
from gosched.core.spec.job_spec import JobSpec, OnMiss
from gosched.core.spec.policies import Preemption, RetryCause, RetryPolicy
from gosched.wire.codec import to_message
from gosched.wire.v1 import scheduler_pb2, types_pb2
from tests.master.harness import LIMIT_S, RUNNING, FakeAgent, Front, agent, one_master, spec, until

MINUTE_MS = 60_000
AGAIN = RetryPolicy(max_restarts=1, when=(RetryCause.PREEMPTED,))


def low(name: str = "low", **more: Any) -> JobSpec:
    return replace(spec(name, cpus=4, **more), retry=AGAIN)


def high(name: str = "high", **more: Any) -> JobSpec:
    return spec(name, cpus=4, priority=500, **more)


async def runs(master: Front, node: FakeAgent, job: JobSpec) -> str:
    job_id = (await master.submit(job)).job_id
    await until(lambda: [order for order in node.orders if order.startswith(job_id)])
    node.see_all(RUNNING)
    await node.beat(master)
    return job_id


async def plan(master: Front, *specs: JobSpec) -> scheduler_pb2.PlanJobResponse:
    request = scheduler_pb2.PlanJobRequest(specs=[to_message(job, types_pb2.JobSpec) for job in specs])
    return await master.scheduler.PlanJob(request, timeout=LIMIT_S)


async def explained(master: Front, job: str) -> scheduler_pb2.JobExplanation:
    return await master.scheduler.ExplainJob(scheduler_pb2.GetJobRequest(job=job), timeout=LIMIT_S)


def test_a_higher_priority_waits_behind_its_fence_and_starts_when_the_victim_has_ended() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            victim = await runs(master, n1, low())
            (foreseen,) = (await plan(master, high())).jobs
            assert (foreseen.outcome, [(v.name, v.cause) for v in foreseen.victims]) == (
                "starts_after_evictions",
                [("low", "preempt")],
            )
            with capture_logs() as lines:
                winner = (await master.submit(high())).job_id
                await until(lambda: n1.stops)
                why = await explained(master, "high")
                assert (why.code, why.message) == (
                    "FENCE",
                    "it starts on n1 once its victims have ended (low): 1 task left",
                )
                assert (await master.job("high")).explanation.code == "FENCE"
                assert (await explained(master, "low")).code == "STOPPING"
                assert b"gosched_fences 1.0" in master.server.metrics.text()
                n1.see_all(types_pb2.TASK_STATE_KILLED)
                await n1.beat(master)
                await until(lambda: [order for order in n1.orders if order.startswith(winner)])
            assert master.state.jobs[victim].state is JobState.PENDING
            told = [line["event"] for line in lines if line["event"] in ("evicted", "fence made", "fence gone")]
            assert told == ["evicted", "fence made", "fence gone"]
            text = master.server.metrics.text()
            assert b'gosched_preemption_victims_total{queue="default"} 1.0' in text
            assert b'gosched_evictions_total{cause="preempt"} 1.0' in text
            assert b"gosched_preemption_cycles_total 0.0" in text

    asyncio.run(story())


def test_a_blocked_job_is_promised_a_start_that_is_listed_and_explained() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            await runs(master, n1, replace(spec("hog", cpus=4, timeout_ms=MINUTE_MS), preemption=NOT_PREEMPTIBLE))
            waits = (await master.submit(spec("waits", cpus=4))).job_id
            await until(lambda: waits in master.state.reservations)
            listed = await master.scheduler.ListReservations(scheduler_pb2.ListReservationsRequest(), timeout=LIMIT_S)
            (promised,) = listed.reservations
            hog = next(job for job in master.state.jobs.values() if job.spec.name == "hog")
            assert (promised.job_id, promised.start_ms) == (waits, hog.placed_at_ms + MINUTE_MS)
            why = await until_told(master, "waits")
            assert (why.start_ms, [holder.name for holder in why.holders]) == (promised.start_ms, ["hog"])
            assert b"gosched_reservations 1.0" in master.server.metrics.text()

    asyncio.run(story())


def test_a_deadline_is_promised_or_refused_with_what_would_do() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            await runs(master, n1, replace(spec("hog", cpus=4, timeout_ms=MINUTE_MS), preemption=NOT_PREEMPTIBLE))
            due = spec("due", cpus=4, timeout_ms=MINUTE_MS, deadline_in_ms=MINUTE_MS * 5 // 2, on_miss=OnMiss.REFUSE)
            admitted = await master.submit(due)
            assert not admitted.warnings
            assert master.state.reservations[admitted.job_id].for_deadline
            late = await master.submit(replace(due, name="late", on_miss=OnMiss.CONTINUE))
            (warning,) = late.warnings
            assert warning.startswith("no start can be reserved for the deadline: ")
            assert "earliest possible end is" in warning

    asyncio.run(story())


async def until_told(master: Front, job: str) -> scheduler_pb2.JobExplanation:
    while not (why := await explained(master, job)).start_ms:
        await asyncio.sleep(0.01)
    return why


NOT_PREEMPTIBLE = Preemption(preemptible=False)
