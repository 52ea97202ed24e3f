"""What the leader does because time passes: timeouts, deadlines, runs of schedules."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from gosched.core.records.job import JobState
from gosched.core.spec.job_spec import Overlap
from gosched.master.base.clock import StateClock, SystemClock
from gosched.master.base.proposals import Proposals
from gosched.master.jobs import admission
from gosched.master.jobs.schedules import Schedules
from gosched.observe.faults import Faults
from gosched.scheduling.queries.deadline_admission import Admission
from gosched.wire.v1 import scheduler_pb2
from tests.master.clock import MINUTE_MS, Ahead
from tests.master.harness import LIMIT_S, RUNNING, SUCCEEDED, Front, agent, one_master, spec, two_masters, until
from tests.master.http_client import get

EVERY_MINUTE = "* * * * *"


def nightly(name: str = "nightly", **more: Any) -> Any:
    return replace(spec(name, **more), cron=EVERY_MINUTE, timezone="UTC", overlap=Overlap.ALLOW)


def children(master: Front, parent: str) -> list[Any]:
    return [job for job in master.state.jobs.values() if job.parent == parent]


def test_a_job_that_runs_beyond_its_timeout_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = Ahead(monkeypatch)

    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            job_id = (await master.submit(spec(timeout_ms=MINUTE_MS))).job_id
            await until(lambda: n1.orders)
            n1.see_all(RUNNING)
            await n1.beat(master)
            assert not n1.stops
            ahead.by_ms = MINUTE_MS
            await until(lambda: n1.stops)
            assert master.state.jobs[job_id].reason == "TIMEOUT"

    asyncio.run(story())


def test_a_new_leader_hears_a_node_before_it_judges_the_timeouts_of_its_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = Ahead(monkeypatch)

    async def story() -> None:
        async with two_masters() as (cluster, one, two), agent(one) as n1:
            job_id = (await one.submit(spec(timeout_ms=MINUTE_MS))).job_id
            await until(lambda: n1.orders)
            n1.see_all(RUNNING)
            await n1.beat(one)
            cluster.elect("m2")
            await until(lambda: two.state.leader == "m2")
            due_ms = two.state.jobs[job_id].placed_at_ms + MINUTE_MS
            ahead.by_ms = 2 * MINUTE_MS
            await two.submit(spec("other"))  # which moves the state's clock
            assert two.state.clock_ms > due_ms
            await asyncio.sleep(1.2)  # longer than TIMER_CHECK_S
            assert not n1.stops
            n1.see_all(SUCCEEDED, exit_code=0, ended_at_ms=due_ms - 1)
            await n1.beat(two)
            job = two.state.jobs[job_id]
            assert (job.state, job.ended_at_ms) == (JobState.SUCCEEDED, due_ms - 1)

    asyncio.run(story())


def test_a_job_starts_at_its_begin_and_says_before_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = Ahead(monkeypatch)

    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            await master.submit(spec("late", begin_in_ms=MINUTE_MS))
            await master.until_planned("late")
            page = (await get(master, "/jobs/late")).text
            assert "not before" in page
            assert "it does not begin before" in page
            ahead.by_ms = MINUTE_MS - 1
            await asyncio.sleep(0.2)
            assert not n1.orders
            ahead.by_ms = MINUTE_MS
            await until(lambda: n1.orders)

    asyncio.run(story())


def test_a_missed_deadline_is_told_and_counted_and_the_job_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = Admission(reservation=None, problem="there is no node", earliest_ms=0, largest=0, priority=0)
    monkeypatch.setattr(admission, "admit", lambda *given: refusal)
    ahead = Ahead(monkeypatch)

    async def story() -> None:
        async with one_master() as master:
            with capture_logs() as lines:
                job_id = (await master.submit(spec(deadline_in_ms=MINUTE_MS))).job_id
                ahead.by_ms = MINUTE_MS
                await until(lambda: master.state.jobs[job_id].deadline_missed)
            assert "deadline missed" in [line["event"] for line in lines]
            assert master.state.jobs[job_id].state is JobState.PENDING
            assert b'deadlines_missed_total{queue="default"} 1.0' in master.server.metrics.text()

    asyncio.run(story())


def test_a_schedule_runs_when_it_is_due_and_what_was_missed_is_made_up_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = Ahead(monkeypatch)

    async def story() -> None:
        async with one_master() as master:
            parent = (await master.submit(nightly())).job_id
            first = master.state.jobs[parent].children.next_run_at_ms
            assert first % MINUTE_MS == 0
            assert first - master.state.clock_ms == MINUTE_MS // 2
            ahead.by_ms = 10 * MINUTE_MS
            await until(lambda: children(master, parent))
            await asyncio.sleep(0.2)
            assert len(children(master, parent)) == 1
            following = master.state.jobs[parent].children.next_run_at_ms
            assert following - master.state.clock_ms == MINUTE_MS // 2
            ahead.by_ms += MINUTE_MS
            await until(lambda: len(children(master, parent)) == 2)

    asyncio.run(story())


def test_the_next_leader_goes_on_with_the_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = Ahead(monkeypatch)

    async def story() -> None:
        async with two_masters() as (cluster, one, two):
            parent = (await one.submit(nightly())).job_id
            cluster.elect("m2")
            await until(lambda: two.state.leader == "m2")
            ahead.by_ms = MINUTE_MS
            await until(lambda: children(two, parent))

    asyncio.run(story())


def test_a_held_schedule_and_one_that_was_cancelled_do_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = Ahead(monkeypatch)

    async def story() -> None:
        async with one_master() as master:
            held = (await master.submit(nightly("held", hold=True))).job_id
            gone = (await master.submit(nightly("gone"))).job_id
            await master.scheduler.CancelJob(scheduler_pb2.CancelJobRequest(job=gone), timeout=LIMIT_S)
            ahead.by_ms = 2 * MINUTE_MS
            await asyncio.sleep(0.2)
            assert not children(master, held) + children(master, gone)
            release = scheduler_pb2.ControlJobRequest(job="held", action="ACTION_RELEASE")
            await master.scheduler.ControlJob(release, timeout=LIMIT_S)
            await until(lambda: children(master, held))

    asyncio.run(story())


def test_a_schedule_that_cannot_be_is_refused_in_one_line() -> None:
    async def story() -> None:
        async with one_master() as master:
            for cron, zone in (("61 * * * *", "UTC"), ("0 0 30 2 *", ""), ("* * * *", ""), (EVERY_MINUTE, "Mars/Base")):
                with pytest.raises(grpc.aio.AioRpcError) as raised:
                    await master.submit(replace(spec(), cron=cron, timezone=zone))
                assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
                assert "\n" not in (raised.value.details() or "")
            assert not master.state.jobs

    asyncio.run(story())


def test_the_index_of_schedules_follows_the_events_and_looks_at_no_other_job() -> None:
    async def story() -> None:
        async with one_master() as master:
            clock = StateClock(SystemClock(), masters=1, bound_ms=1000)
            index = Schedules(
                master.replication, Proposals(master.replication, clock, lambda seconds: None), clock, Faults()
            )
            master.replication.follow(lambda batch: index.take(e for done in batch.commands for e in done.events))
            plain = (await master.submit(spec("plain"))).job_id
            parent = (await master.submit(nightly())).job_id
            assert (plain in index.live, parent in index.live) == (False, True)
            await master.scheduler.CancelJob(scheduler_pb2.CancelJobRequest(job=parent), timeout=LIMIT_S)
            assert not index.live

    asyncio.run(story())
