"""A state whose clock is far ahead, as a master of the release before could make it: it shows, and can be mended."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import grpc
import pytest

from gosched.core.commands.cluster import SetClock
from gosched.core.commands.command import Command
from gosched.core.features import FeatureLevel
from gosched.core.records.job import JobState
from gosched.wire.v1 import scheduler_pb2
from tests.master.clock import Ahead
from tests.master.harness import LIMIT_S, RUNNING, Front, agent, one_master, spec, until

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS
WEEK_MS = 7 * 24 * HOUR_MS
ASK = scheduler_pb2.SetClockRequest(client_id="test", request_id="again")


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


async def poison(master: Front, ahead_ms: int = YEAR_MS) -> None:
    await master.replication.propose([Command(body=SetClock(to_ms=wall_ms() + ahead_ms))])


async def status(master: Front) -> Any:
    return await master.scheduler.GetClusterStatus(scheduler_pb2.GetClusterStatusRequest(), timeout=LIMIT_S)


async def set_clock(master: Front) -> Any:
    return await master.scheduler.SetClock(ASK, timeout=LIMIT_S)


def test_a_clock_a_year_ahead_is_shown_and_set_back_and_nothing_waits_a_year() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as node:
            assert (await status(master)).clock_problem == ""
            await poison(master)
            shown = await status(master)
            assert shown.clock_ms > wall_ms() + WEEK_MS
            assert "goschedctl cluster set-clock" in shown.clock_problem
            assert shown.masters[0].clock_offset_ms < -WEEK_MS
            assert b'gosched_clock_offset_seconds{master="m1"} -' in master.server.metrics.text()
            nightly = await master.submit(spec("nightly", cron="0 6 * * *", timezone="UTC"))
            timed = (await master.submit(spec("timed", timeout_ms=1_000))).job_id
            await until(lambda: node.orders)
            node.see_all(RUNNING)
            await node.beat(master)
            done = await set_clock(master)
            assert (done.unchanged, done.from_ms > wall_ms() + WEEK_MS) == (False, True)
            assert abs(master.state.clock_ms - wall_ms()) < 60_000
            schedule = master.state.jobs[nightly.job_id]
            assert 0 < schedule.children.next_run_at_ms - wall_ms() <= 24 * HOUR_MS
            await until(lambda: master.state.jobs[timed].reason == "TIMEOUT")
            shown = await status(master)
            assert (shown.clock_problem, abs(shown.clock_ms - wall_ms()) < 60_000) == ("", True)
            anew = scheduler_pb2.SetClockRequest(client_id="test", request_id="anew")
            assert (await master.scheduler.SetClock(anew, timeout=LIMIT_S)).unchanged
            assert (await set_clock(master)).from_ms == done.from_ms, "a repeat gets the first answer"

    asyncio.run(story())


@pytest.mark.parametrize("ahead_ms", [HOUR_MS // 2, YEAR_MS])  # within what a stamp may move the clock by, and beyond
def test_what_is_proposed_while_the_clock_is_set_back_does_not_bring_the_old_time_again(ahead_ms: int) -> None:
    async def story() -> None:
        async with one_master() as master:
            await poison(master, ahead_ms)
            before = [master.submit(spec(f"a{n}")) for n in range(20)]
            after = [master.submit(spec(f"b{n}")) for n in range(20)]
            await asyncio.gather(*before, set_clock(master), *after)
            await master.submit(spec("last"))
            assert abs(master.state.clock_ms - wall_ms()) < 60_000
            assert max(job.submitted_at_ms for job in master.state.jobs.values()) <= master.state.clock_ms

    asyncio.run(story())


def test_a_backoff_that_began_in_the_wrong_time_is_over_in_time() -> None:
    async def story() -> None:
        async with one_master() as master:
            await poison(master)
            job = (await master.submit(spec("a"))).job_id
            await set_clock(master)
            async with agent(master):
                await until(lambda: master.state.jobs[job].state is JobState.RUNNING)

    asyncio.run(story())


def test_below_its_feature_level_the_clock_is_not_set_and_the_answer_says_why() -> None:
    async def story() -> None:
        async with one_master() as master:
            await poison(master)
            master.state.feature_level = FeatureLevel.FIRST
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await set_clock(master)
            assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            assert "feature level 5" in (error.value.details() or "")
            assert master.state.clock_ms > wall_ms() + WEEK_MS

    asyncio.run(story())


def test_a_leader_takes_the_state_over_hours_in_which_nothing_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = Ahead(monkeypatch)

    async def story() -> None:
        async with one_master() as master:
            before = master.state.clock_ms
            ahead.by_ms += 9 * HOUR_MS
            job = (await master.submit(spec("a"))).job_id  # its stamp is not believed yet, and does no harm
            await until(lambda: master.state.clock_ms - before >= 9 * HOUR_MS)
            assert master.state.jobs[job].submitted_at_ms >= before

    asyncio.run(story())
