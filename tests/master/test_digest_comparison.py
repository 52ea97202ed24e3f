"""Masters that hold different states are noticed, and the odd one is named."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gosched.core.commands.cluster import Noop
from gosched.core.commands.command import Command
from gosched.master.base.channels import Channels
from gosched.master.base.leadership import Leadership
from gosched.master.cluster import digest_comparison
from gosched.master.cluster.digest_comparison import PERIOD_MS, DigestComparison, StateDigests, part_count
from gosched.wire.v1 import cluster_pb2
from tests.master.harness import LIMIT_S, Front, spec, two_masters, until


async def a_minute_later(one: Front, *others: Front) -> None:
    """Returns once each of them has one more digest."""
    fronts = (one, *others)
    before = [len(await kept(front)) for front in fronts]
    at_ms = one.state.clock_ms + PERIOD_MS
    await one.replication.propose([Command(body=Noop(), at_ms=at_ms)])
    async with asyncio.timeout(LIMIT_S):
        while [len(await kept(front)) for front in fronts] != [n + 1 for n in before]:
            await asyncio.sleep(0.005)


async def kept(front: Front) -> list[tuple[int, int, str]]:
    answer = await front.cluster.GetStateDigests(cluster_pb2.GetStateDigestsRequest(), timeout=LIMIT_S)
    return [(one.revision, one.part, one.digest) for one in answer.digests]


class Comparing:
    """A comparison as the front's master makes one, at the time that a test chooses."""

    def __init__(self, front: Front) -> None:
        self.digests = StateDigests(front.replication)
        self.comparison = DigestComparison(
            front.replication,
            Leadership(front.replication),
            self.digests,
            Channels(None, to_masters=True),
            front.server.metrics.digest_mismatch,
        )
        self.expected = 0

    async def compare(self) -> None:
        await self.comparison.compare()

    async def after_a_minute(self, one: Front, two: Front) -> None:
        self.expected += 1
        await a_minute_later(one, two)
        await until(lambda: len(self.digests.kept()) == self.expected)
        await self.compare()


def mismatches(front: Front) -> bytes:
    lines = front.server.metrics.text().splitlines()
    return next(line for line in lines if line.startswith(b"gosched_state_digest_mismatch_total")).split()[1]


def test_a_master_in_another_state_is_counted_once_for_each_comparison() -> None:
    async def story() -> None:
        async with two_masters() as (_, one, two):
            await one.submit(spec())
            await until(lambda: len(one.state.masters) == 2)
            comparing = Comparing(one)
            await comparing.after_a_minute(one, two)
            assert await kept(one) == await kept(two)
            assert mismatches(one) == b"0.0"
            (job,) = two.state.jobs.values()
            two.state.put_job(replace(job, attempt=7))
            await comparing.after_a_minute(one, two)
            await comparing.compare()
            assert mismatches(one) == b"1.0"

    asyncio.run(story())


def test_all_parts_have_their_turn_and_find_a_change_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with two_masters() as (_, one, two):
            for n in range(30):
                await one.submit(spec(f"job-{n}"))
            await until(lambda: len(one.state.masters) == 2)
            monkeypatch.setattr(digest_comparison, "PART_RECORDS", 10)
            job = next(iter(two.state.jobs.values()))
            two.state.put_job(replace(job, attempt=7))
            comparing = Comparing(one)
            for _ in range(part_count(one.state)):
                await comparing.after_a_minute(one, two)
            assert mismatches(one) == b"1.0"

    asyncio.run(story())
