"""Which master leads, as this one knows it, and whether it serves as the leader itself.

Invariant: this master serves as the leader only between the opening of its own epoch and the first sign of another.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Any

import grpc

from gosched.core.events import EpochOpened
from gosched.core.records.master import Master
from gosched.master.base.cancel import cancel_and_ignore
from gosched.master.base.errors import unavailable
from gosched.replication.interface import AppliedBatch, Part, Replication, Role

MOVE_S = 1.0  # for the successor of a leader that is gone


class Leadership:
    def __init__(self, replication: Replication) -> None:
        self._replication = replication
        self._epoch = 0
        self._changed = asyncio.Event()
        replication.watch_role(self._on_role)
        replication.follow(self._on_batch)

    @property
    def epoch(self) -> int:
        """This master's own epoch as the leader; 0 while it does not serve as one."""
        return self._epoch

    @property
    def is_raft_leader(self) -> bool:
        """Return whether Raft made this master the leader."""
        return self._replication.role.part is Part.LEADER

    def opened(self, epoch: int) -> None:
        if self._replication.state.epoch == epoch and self.is_raft_leader:
            self._epoch = epoch
            self._wake()

    def closed(self) -> None:
        self._epoch = 0
        self._wake()

    def leader(self) -> Master | None:
        """Return the leader's record, if it is known and is another master."""
        role = self._replication.role
        if role.leader in ("", self._replication.member_id):
            return None
        return self._replication.state.masters.get(role.leader)

    async def find(self, wait_s: float) -> Master | None:
        """Return the other master that leads; None: this one does. Raises ApiError when there is none for `wait_s`."""
        try:
            async with asyncio.timeout(wait_s):
                while not self._epoch:
                    leader = self.leader()
                    if leader is not None:
                        return leader
                    await self.change()
        except TimeoutError:
            raise unavailable("there is no leader at the moment; try again") from None
        return None

    async def moved_from(self, leader: Master, wait_s: float) -> None:
        """Return when another master leads, or after `wait_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while self.leader() == leader:
                    await self.change()

    async def while_leading(self, leader: Master, answer: Awaitable[Any]) -> Any:
        """Return an answer of the leader, unless another leader comes first: the old one may be frozen and never
        answer. Raises ApiError, AioRpcError; then another one leads, or MOVE_S are over."""
        waiting = asyncio.ensure_future(answer)
        try:
            while self.leader() == leader:
                changed = asyncio.ensure_future(self.change())
                await asyncio.wait([waiting, changed], return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                if waiting.done():
                    return waiting.result()
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                # A dead leader refuses at once; its successor is worth waiting for before the caller tries again.
                await self.moved_from(leader, MOVE_S)
            raise
        finally:
            cancel_and_ignore(waiting)
        raise unavailable("the leader has changed; try again")

    async def change(self) -> None:
        """Return at the next change of roles, or of the epoch."""
        await self._changed.wait()

    def _on_role(self, role: Role) -> None:
        if role.part is not Part.LEADER:
            self._epoch = 0
        self._wake()

    def _on_batch(self, batch: AppliedBatch) -> None:
        opened = any(isinstance(e, EpochOpened) for c in batch.commands for e in c.events)
        if opened or batch.reset:
            if batch.reset or self._epoch != self._replication.state.epoch:
                self._epoch = 0
            self._wake()

    def _wake(self) -> None:
        """Wake all that wait now; those that wait later wait for the next change."""
        self._changed.set()
        self._changed = asyncio.Event()
