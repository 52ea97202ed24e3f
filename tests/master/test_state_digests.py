"""Masters that hold different states are noticed, and the odd one is named."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gosched.core.commands.cluster import Noop
from gosched.core.commands.command import Command
from gosched.master.cluster import state_digests
from gosched.master.cluster.state_digests import PERIOD_MS, DigestComparison
from tests.master.harness import Front, spec, two_masters, until


async def a_minute_later(one: Front, *others: Front) -> None:
    """Returns once each of them has one more digest."""
    fronts = (one, *others)
    before = [len(front.server._digests.kept()) for front in fronts]
    at_ms = one.state.clock_ms + PERIOD_MS
    await one.replication.propose([Command(body=Noop(), at_ms=at_ms)])
    await until(lambda: [len(front.server._digests.kept()) for front in fronts] == [n + 1 for n in before])


def comparison(front: Front) -> DigestComparison:
    return front.server._comparison()


def mismatches(front: Front) -> bytes:
    lines = front.server.metrics.text().splitlines()
    return next(line for line in lines if line.startswith(b"gosched_state_digest_mismatch_total")).split()[1]


def test_a_master_in_another_state_is_counted_once_for_each_comparison() -> None:
    async def story() -> None:
        async with two_masters() as (_, one, two):
            await one.submit(spec())
            await until(lambda: len(one.state.masters) == 2)
            await a_minute_later(one, two)
            compare = comparison(one)
            await compare.compare()
            assert one.server._digests.kept() == two.server._digests.kept()
            assert mismatches(one) == b"0.0"
            (job,) = two.state.jobs.values()
            two.state.put_job(replace(job, attempt=7))
            await a_minute_later(one, two)
            await compare.compare()
            await compare.compare()
            assert mismatches(one) == b"1.0"

    asyncio.run(story())


def test_all_parts_have_their_turn_and_find_a_change_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with two_masters() as (_, one, two):
            for n in range(30):
                await one.submit(spec(f"job-{n}"))
            await until(lambda: len(one.state.masters) == 2)
            monkeypatch.setattr(state_digests, "PART_RECORDS", 10)
            job = next(iter(two.state.jobs.values()))
            two.state.put_job(replace(job, attempt=7))
            compare = comparison(one)
            for _ in range(state_digests._parts(one.state)):
                await a_minute_later(one, two)
                await compare.compare()
            assert mismatches(one) == b"1.0"

    asyncio.run(story())
