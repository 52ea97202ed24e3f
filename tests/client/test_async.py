"""The client for asyncio: the calls, streams and failures that test_client.py has of the other one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import grpc
import pytest

from gosched import AsyncGoSchedClient, AsyncJobHandle, Job, JobFailed
from gosched.client import Misused, NotFound, Refused, TimedOut, Unavailable, targets
from gosched.client.aio import masters
from gosched.client.spec import spec_of
from gosched.core.records.job import JobState
from gosched.wire import addresses
from gosched.wire.addresses import AddressBook
from tests.client.fake_cluster import FakeMaster
from tests.client.test_client import WITHOUT_PINGS
from tests.ports import HeldPort

JOB = Job(name="a", run="echo hi")


def use(address: object, body: Callable[[AsyncGoSchedClient], Coroutine[Any, Any, Any]], timeout_s: float = 30) -> Any:
    async def run() -> Any:
        async with asyncio.timeout(60), AsyncGoSchedClient(address, timeout_s=timeout_s) as client:
            return await body(client)

    return asyncio.run(run())


def test_calls_are_awaited(start_master):
    async def body(client):
        job = await client.submit(JOB)
        assert isinstance(job, AsyncJobHandle)
        assert repr(job) == "AsyncJobHandle(name='a', id='j-1')"
        assert (await job.status()).state is JobState.PENDING
        assert await client.job("a") == job
        assert [found.id for found in await client.list_jobs()] == ["j-1"]
        await job.cancel()
        with pytest.raises(NotFound):
            await client.get_job("nothing")
        with pytest.raises(Misused, match=r"get_job\(\): job: expected text, got 5"):
            await client.get_job(5)
        return await client.get_status()

    assert use(start_master().address, body).nodes == 2


def test_unknown_outcome_is_asked_again_under_the_same_request_id(start_master):
    first = start_master()
    second = start_master(shared=first)
    first.fail_after_commit = second.fail_after_commit = True

    async def body(client):
        return (await client.submit(JOB)).id

    assert use([first.address, second.address], body) == "j-1"
    assert list(first.jobs) == ["j-1"]


def test_a_client_whose_clock_is_hours_off_learns_the_masters_time(start_master):
    master = start_master()
    master.clock_ahead_ms = 7_200_000

    async def body(client):
        return [(await client.submit(JOB)).id for _ in range(2)]

    assert use(master.address, body) == ["j-1", "j-2"]
    assert master.calls.count("SubmitJob") == 3


def test_dead_and_frozen_masters_are_passed_over(start_master, monkeypatch):
    monkeypatch.setattr(targets, "TRY_S", 0.2)
    dead, frozen, alive = HeldPort(), start_master(), start_master()
    frozen.frozen = True

    async def body(client):
        return [(await client.get_status()).epoch for _ in range(3)]

    assert use([dead.address, frozen.address, alive.address], body) == [3, 3, 3]
    frozen.frozen = False


def test_a_call_that_was_passed_on_is_followed_by_calls_of_the_leader_itself(start_master, monkeypatch):
    leader = start_master()
    follower = start_master(shared=leader)
    follower.leader = leader.address
    monkeypatch.setattr(random, "randrange", lambda _: 0)

    async def body(client):
        for number in range(4):
            await client.submit(Job(name=f"job-{number}", run="echo hi"))

    use([follower.address, leader.address], body)
    assert (follower.calls, leader.calls) == (["SubmitJob"], ["SubmitJob"] * 3)


def test_without_any_master_a_change_says_that_it_may_still_take_effect():
    async def body(client):
        with pytest.raises(Unavailable, match="look before you repeat it"):
            await client.submit(JOB)

    use(HeldPort().address, body, timeout_s=0.5)


def test_refusal_is_not_tried_again(start_master):
    master = start_master()
    master.failures = [grpc.StatusCode.INVALID_ARGUMENT]

    async def body(client):
        with pytest.raises(Refused, match="no leader"):
            await client.get_status()

    use(master.address, body)
    assert master.calls == ["GetClusterStatus"]


def test_streams_go_on_where_they_broke_off(start_master):
    master: FakeMaster = start_master()
    master.log = b"".join(b"line %d\n" % n for n in range(50))
    master.log_breaks = [10, 11, 200]
    master.views = [[(JobState.PENDING, 5), (JobState.RUNNING, 8)], [(JobState.PENDING, 7), (JobState.SUCCEEDED, 11)]]

    async def body(client):
        job = await client.submit(JOB)
        log = b"".join([chunk.data async for chunk in job.logs(follow=True)])
        return log, [detail.revision async for detail in job.watch()]

    assert use(master.address, body) == (master.log, [5, 8, 11])


def test_wait_returns_the_end_and_result_raises_where_it_is_no_success(start_master):
    master: FakeMaster = start_master()
    master.views = [[(JobState.FAILED, 1)], [(JobState.FAILED, 1)]]

    async def body(client):
        job = await client.submit(JOB)
        assert (await job.wait()).state is JobState.FAILED
        with pytest.raises(JobFailed, match=r"job a \(j-1\) is FAILED"):
            await job.result()
        master.frozen = True
        with pytest.raises(TimedOut):
            await job.wait(0.2)
        master.frozen = False

    use(master.address, body)


def test_a_closed_client_says_so(start_master):
    address = start_master().address

    async def body(client):
        await client.close()
        with pytest.raises(Misused, match="the client is closed"):
            await client.get_status()

    use(address, body)


def test_closing_a_client_ends_what_its_other_tasks_wait_for_with_an_error_and_cancels_none_of_them(start_master):
    master = start_master()
    master.put("j-1", spec_of(JOB))
    master.frozen = True

    async def body(client):
        waiting = [asyncio.create_task(_read(client.watch("j-1"))), asyncio.create_task(client.get_job("j-1"))]
        await asyncio.sleep(0.2)
        await client.close()
        for task in waiting:
            with pytest.raises(Misused, match="the client is closed"):
                await task
        master.frozen = False

    use(master.address, body)


def test_closing_a_client_ends_streams_also_where_their_masters_name_points_elsewhere_by_now(start_master, monkeypatch):
    monkeypatch.setattr(addresses, "ASK_AGAIN_S", 0.0)
    monkeypatch.setattr(masters, "OPTIONS", WITHOUT_PINGS)
    master = start_master()
    master.put("j-1", spec_of(JOB))
    master.frozen = True
    target = f"masters.invalid:{master.address.rpartition(':')[2]}"
    answers = [["127.0.0.1"]]

    async def body(client):
        mine = client._masters
        mine._targets.book = AddressBook(lookup=lambda host: answers[-1])
        following = asyncio.create_task(_read(client.watch("j-1")))
        async with asyncio.timeout(10):
            while "WatchJob" not in master.calls:
                await asyncio.sleep(0.01)
        old = await mine.at(target)
        answers.append(["127.0.0.1", "127.0.0.9"])
        mine._targets.silent.add(target)
        assert await mine.at(target) is not old
        await asyncio.sleep(0.05)
        assert not following.done()
        await client.close()
        done, _ = await asyncio.wait([following], timeout=5)
        master.frozen = False
        assert done
        with pytest.raises(Misused, match="the client is closed"):
            await following

    use(target, body)


def test_a_task_that_is_cancelled_while_it_waits_for_a_call_is_cancelled(start_master):
    master = start_master()
    master.frozen = True

    async def body(client):
        task = asyncio.create_task(client.get_status())
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        master.frozen = False

    use(master.address, body)


def test_a_command_that_has_ended_or_was_cancelled_says_so(start_master):
    async def body(client):
        command = await client.exec("j-1", ["cat"])
        await command.send(b"hi")
        await command.end_input()
        assert [part async for part in command] == [("stdout", b"hi")]
        assert command.exit_code == 0
        for late in (command.send(b"more"), command.end_input()):
            with pytest.raises(Unavailable, match="the command has ended"):
                await late
        for begins in (False, True):
            command = await client.exec("j-1", ["cat"])
            if begins:
                await command.send(b"hi")
            command.cancel()
            with pytest.raises(Unavailable, match="it was cancelled"):
                await _read(command)

    use(start_master().address, body)


async def _read(stream):
    async for _ in stream:
        pass
