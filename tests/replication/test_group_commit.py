"""When proposals go into the log: one entry at a time, with all that arrived meanwhile, unless it is full."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from gosched.core.outcome import Accepted
from gosched.replication import group_commit
from gosched.replication.group_commit import MAX_IN_FLIGHT, GroupCommit
from gosched.replication.interface import AppliedCommand, ProposalFailed
from gosched.wire.batch import encode_command
from gosched.wire.v1 import log_pb2

from .conftest import LIMIT_S, a_node

TURNS = 5  # of the loop, until all that can be sent is


class Log:
    """Entries that were sent, and the calls that wait for them."""

    def __init__(self) -> None:
        self.sizes: list[int] = []  # commands of each entry
        self.group = GroupCommit(self._send)
        self.calls: list[asyncio.Task[object]] = []

    def _send(self, number: int, commands: Sequence[log_pb2.Command]) -> None:
        assert number == len(self.sizes) + 1
        self.sizes.append(len(commands))

    async def propose(self, *sizes: int) -> None:
        """Make calls one after the other, with so many commands each."""
        for size in sizes:
            commands = [a_node("n")] * size
            self.calls.append(asyncio.create_task(self.group.propose(commands, LIMIT_S)))
            await turn()

    async def applied(self, number: int) -> None:
        outcome = AppliedCommand(revision=1, command=a_node("n"), outcome=Accepted(subject="n"), events=())
        self.group.resolve(number, (outcome,) * self.sizes[number - 1])
        await turn()


async def turn() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


def test_what_arrives_while_an_entry_is_in_flight_shares_the_next_one() -> None:
    async def story() -> None:
        log = Log()
        await log.propose(1)
        assert log.sizes == [1], "nobody else: it goes at once"
        await log.propose(1, 2, 3)
        assert log.sizes == [1]
        await log.applied(1)
        assert log.sizes == [1, 6]
        assert [call.done() for call in log.calls] == [True, False, False, False]
        await log.applied(2)
        assert [call.result() for call in log.calls] == [[Accepted(subject="n")] * size for size in (1, 1, 2, 3)]
        await log.propose(1)
        assert log.sizes == [1, 6, 1]
        await log.applied(3)

    asyncio.run(story())


def test_full_entries_go_side_by_side_up_to_a_bound_and_what_fails_lets_others_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_one = encode_command(a_node("n")).ByteSize() + 8
    monkeypatch.setattr(group_commit, "BATCH_BYTES", 10 * of_one)

    async def story() -> None:
        log = Log()
        await log.propose(1, 9)
        assert log.sizes == [1], "it is not full"
        await log.propose(1)
        assert log.sizes == [1, 10]
        await log.propose(*[10] * MAX_IN_FLIGHT)
        assert log.sizes == [1, *[10] * (MAX_IN_FLIGHT - 1)]
        log.group.fail(2, ProposalFailed("lost", definite=False))
        await turn()
        assert log.sizes == [1, *[10] * MAX_IN_FLIGHT]
        failed = [call for call in log.calls if call.done()]
        assert len(failed) == 2
        assert all("lost" in str(call.exception()) for call in failed)
        for number in (1, *range(3, MAX_IN_FLIGHT + 3)):
            await log.applied(number)
        assert all(call.done() for call in log.calls)

    asyncio.run(story())
