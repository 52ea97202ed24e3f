"""Proposals on their way into the log: those that arrive while an entry is in flight share the next one (group commit).

Invariant: what waits and what is in flight is bounded, and every proposal ends: with its outcomes, or with a failure
that says whether it may still be committed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gosched.core.commands.command import Command
from gosched.core.outcome import Outcome
from gosched.replication.interface import AppliedCommand, ProposalFailed
from gosched.replication.raft.raft_node import MAX_ENTRY_BYTES
from gosched.wire.batch import encode_command
from gosched.wire.v1 import log_pb2

MAX_WAITING_COMMANDS = 16_384
MAX_WAITING_BYTES = 64 * 1024 * 1024
MAX_IN_FLIGHT = 4  # entries: one, and full ones
BATCH_BYTES = MAX_ENTRY_BYTES - 1024  # of the commands of one entry; leaves space for the batch's own fields


@dataclass(slots=True, eq=False)
class _Waiting:
    """A call's commands: they go into one entry, together with others'."""

    #: In their order.
    messages: list[log_pb2.Command]
    #: Encoded, in bytes.
    size: int
    #: Resolved once, never with an exception.
    result: asyncio.Future[list[Outcome] | ProposalFailed]


@dataclass(slots=True)
class _InFlight:
    """An entry that was sent and is not applied yet."""

    parts: list[_Waiting] = field(default_factory=list)
    #: Encoded, in bytes.
    size: int = 0


class GroupCommit:
    """The queue of proposals and the entries in flight."""

    def __init__(self, send: Callable[[int, Sequence[log_pb2.Command]], None]) -> None:
        """Call `send` with the number of each entry and its commands."""
        self._send = send
        self._proposals = 0
        self._queue: deque[_Waiting] = deque()
        self._queued_commands = 0
        self.queued_bytes = 0
        self._in_flight: dict[int, _InFlight] = {}
        self._pump_scheduled = False

    async def propose(self, commands: Sequence[Command], timeout_s: float) -> list[Outcome]:
        """Return the outcomes of the commands once they are applied. Raises ProposalFailed."""
        if self._queued_commands + len(commands) > MAX_WAITING_COMMANDS:
            raise ProposalFailed("too many commands wait to be committed; try again", definite=True)
        messages = [encode_command(c) for c in commands]
        size = sum(m.ByteSize() + 8 for m in messages)
        if size > BATCH_BYTES:
            raise ProposalFailed(f"{size} bytes of commands are more than fit in one log entry", definite=True)
        if self.queued_bytes + size > MAX_WAITING_BYTES:
            raise ProposalFailed("too many bytes of commands wait to be committed; try again", definite=True)
        waiting = _Waiting(messages, size, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        self._queued_commands += len(messages)
        self.queued_bytes += size
        self._pump_soon()
        try:
            async with asyncio.timeout(timeout_s):  # wait_for of Python 3.11 swallows a cancel that meets a result
                result = await waiting.result
        except TimeoutError:
            raise ProposalFailed("no majority of the masters answered in time", definite=False) from None
        if isinstance(result, ProposalFailed):
            raise result
        return result

    def resolve(self, proposal: int, applied: tuple[AppliedCommand, ...]) -> None:
        """Hand out the outcomes of an entry that was applied."""
        entry = self._in_flight.pop(proposal, None)
        if entry is None:
            return  # given up when leadership was lost, and committed all the same
        at = 0
        for part in entry.parts:
            outcomes = [a.outcome for a in applied[at : at + len(part.messages)]]
            at += len(part.messages)
            if not part.result.done():
                part.result.set_result(outcomes)
        self._pump_soon()

    def fail(self, proposal: int, error: ProposalFailed) -> None:
        """Fail the calls of an entry."""
        entry = self._in_flight.pop(proposal, None)
        if entry is None:
            return
        for part in entry.parts:
            if not part.result.done():
                part.result.set_result(ProposalFailed(str(error), definite=error.definite))
        self._pump_soon()

    def fail_sent(self, detail: str) -> None:
        """Fail the calls whose entries were sent: they may have been committed, or be yet."""
        for proposal in list(self._in_flight):
            self.fail(proposal, ProposalFailed(detail, definite=False))

    def fail_all(self, detail: str) -> None:
        """Fail all calls: what was sent may yet be committed, what was not never will be."""
        self.fail_sent(detail)
        while self._queue:
            part = self._queue.popleft()
            if not part.result.done():
                part.result.set_result(ProposalFailed(detail, definite=True))
        self._queued_commands = self.queued_bytes = 0

    def _pump_soon(self) -> None:
        if not self._pump_scheduled:
            self._pump_scheduled = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._pump_scheduled = False
        while self._queue and self._is_due():
            entry = _InFlight()
            messages: list[log_pb2.Command] = []
            while self._queue and entry.size + self._queue[0].size <= BATCH_BYTES:
                part = self._queue.popleft()
                self._queued_commands -= len(part.messages)
                self.queued_bytes -= part.size
                if part.result.done():  # its caller gave up before it was sent
                    continue
                entry.parts.append(part)
                entry.size += part.size
                messages += part.messages
            if not messages:
                continue
            self._proposals += 1
            self._in_flight[self._proposals] = entry
            self._send(self._proposals, messages)

    def _is_due(self) -> bool:
        """Return whether an entry goes now: where one is in flight, it waits until it is full, for an entry costs every
        master more than a command in it."""
        full = self.queued_bytes >= BATCH_BYTES
        return not self._in_flight or (full and len(self._in_flight) < MAX_IN_FLIGHT)
