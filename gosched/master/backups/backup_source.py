"""Backups of this master's state, taken while it serves.

A copy of the tables is made at once, so a backup is of one revision; the records are encoded as they are sent, beside
the event loop. Invariant: no more than `MAX_AT_ONCE` copies are held for others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

from gosched import __version__
from gosched.master.base.clock import StateClock
from gosched.master.base.errors import busy, unavailable
from gosched.replication.backups.backup import content
from gosched.replication.interface import Replication
from gosched.wire.backup_file import BackupInfo
from gosched.wire.codec import to_message
from gosched.wire.v1 import cluster_pb2

MAX_AT_ONCE = 2
CATCH_UP_S = 10.0
_LOOK_S = 0.05


class BackupSource:
    def __init__(self, replication: Replication, clock: StateClock) -> None:
        self._replication = replication
        self._clock = clock
        self._open = 0

    def take(self) -> tuple[BackupInfo, Iterator[bytes]]:
        """Return what the backup is of, and its content, for any thread to read once."""
        state = self._replication.state
        info = BackupInfo(
            release=__version__,
            master=self._replication.member_id,
            cluster_id=state.cluster_id,
            revision=state.revision,
            feature_level=state.feature_level,
            taken_at_ms=self._clock.wall_ms(),
            jobs=len(state.jobs),
            nodes=len(state.nodes),
            allocations=len(state.allocations),
        )
        return info, content(state)

    async def parts(self, min_revision: int) -> AsyncIterator[cluster_pb2.BackupPart]:
        """Yield a backup of at least this revision. Raises ApiError."""
        if self._open >= MAX_AT_ONCE:
            raise busy(f"{MAX_AT_ONCE} backups are being taken from this master: try again later, or ask another one")
        self._open += 1
        try:
            await self._reach(min_revision)
            info, chunks = self.take()
            yield cluster_pb2.BackupPart(info=to_message(info, cluster_pb2.BackupInfo))
            while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
                yield cluster_pb2.BackupPart(data=chunk)
        finally:
            self._open -= 1

    async def _reach(self, revision: int) -> None:
        """Wait until all that was acknowledged before the call is applied here. Raises ApiError."""
        try:
            async with asyncio.timeout(CATCH_UP_S):
                while self._replication.state.revision < revision:
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            now = self._replication.state.revision
            raise unavailable(f"this master is behind, at revision {now} of {revision}: ask another one") from None
