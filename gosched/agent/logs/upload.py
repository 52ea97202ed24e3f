"""Copies the kept logs into the archive, one after the other, the oldest first.

Invariant: no task and no report waits for the archive. What could not be copied is tried again, also by a later agent,
until GIVE_UP_S after the task's end; at most one compressed log is on the disk meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NoReturn, Protocol

import structlog

from gosched.agent.beneath import NotAFile, open_file, opened
from gosched.agent.logs import kept_log
from gosched.agent.logs.kept import KeptLogs
from gosched.agent.logs.kept_log import KeptLog
from gosched.agent.supervisor.log_times import index_name
from gosched.archive.members import pack
from gosched.archive.store import ArchiveError, object_key, times_object

LOOK_EVERY_S = 2.0
GIVE_UP_S = 7 * 86_400.0
BACKOFF_MIN_S = 1.0
BACKOFF_MAX_S = 300.0  # of one log
PAUSE_MAX_S = 60.0  # of all, where the archive is down
STREAMS = ("stdout", "stderr")


class Target(Protocol):
    """The archive, as an agent uses it."""

    async def put(self, key: str, file: Path) -> None:
        """Store a file. Raises ArchiveError."""


@dataclass(slots=True)
class _Tries:
    """The failed uploads of one log, by this agent."""

    count: int
    #: By the monotonic clock.
    next_at: float


class Uploads:
    """`cluster_id` returns the cluster of this node; empty: none yet. `scratch` is a file for what is uploaded."""

    def __init__(self, kept_logs: KeptLogs, target: Target, cluster_id: Callable[[], str], scratch: Path) -> None:
        self._kept_logs = kept_logs
        self._target = target
        self._cluster_id = cluster_id
        self._scratch = scratch
        self._tries: dict[str, _Tries] = {}
        self._failed_in_a_row = 0
        self._paused_until = 0.0  # by the monotonic clock
        self.failures = 0
        self._log = structlog.get_logger()

    async def run(self, hand_over: Callable[[], Awaitable[None]]) -> NoReturn:
        """Upload for as long as the agent runs. `hand_over` makes kept logs of those that have ended since."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await hand_over()
            await self.once()

    async def once(self) -> None:
        """Upload what is due, until one upload fails: the archive may be down, and is asked again a little later."""
        if not self._cluster_id() or time.monotonic() < self._paused_until:
            return
        pending = self._kept_logs.to_archive()
        self._tries = {log.allocation_id: t for log in pending if (t := self._tries.get(log.allocation_id))}
        for log in pending:
            tries = self._tries.get(log.allocation_id)
            if tries is not None and tries.next_at > time.monotonic():
                continue
            try:
                await self._upload(log)
            except (ArchiveError, OSError) as error:
                await self._failed(log, str(error))
                return
            self._tries.pop(log.allocation_id, None)
            self._failed_in_a_row = 0
            await self._kept_logs.archived(log.allocation_id)

    async def _upload(self, log: KeptLog) -> None:
        directory = self._kept_logs.place(log.allocation_id)
        for stream in STREAMS if log.has_started else ():
            if await asyncio.to_thread(_compress_times, directory, stream, self._scratch):
                await self._put(log, times_object(stream))
            await asyncio.to_thread(_compress, directory, stream, self._scratch)
            await self._put(log, stream)

    async def _put(self, log: KeptLog, name: str) -> None:
        try:
            await self._target.put(object_key(self._cluster_id(), log.allocation_id, name), self._scratch)
        finally:
            self._scratch.unlink(missing_ok=True)

    async def _failed(self, log: KeptLog, why: str) -> None:
        self.failures += 1
        self._failed_in_a_row += 1
        self._paused_until = time.monotonic() + min(PAUSE_MAX_S, BACKOFF_MIN_S * 2 ** min(self._failed_in_a_row, 10))
        tries = self._tries.setdefault(log.allocation_id, _Tries(0, 0.0))
        tries.count += 1
        backoff_s = min(BACKOFF_MAX_S, BACKOFF_MIN_S * 2 ** min(tries.count - 1, 20))
        tries.next_at = time.monotonic() + backoff_s
        since_end_s = time.time() - log.ended_at_ms / 1000
        said = self._log.bind(allocation=log.allocation_id, why=why, tries=tries.count)
        if since_end_s > GIVE_UP_S:
            said.error("a log could not be archived, and is not tried again")
            with contextlib.suppress(OSError):
                await self._kept_logs.archived(log.allocation_id)
        else:
            said.warning("a log could not be archived yet", again_in_s=round(backoff_s))


def _compress(directory: Path, stream: str, target: Path) -> None:
    """Write one stream of a kept log into a file. A stream without any byte is an empty member. Raises OSError."""
    with _created(target) as file, opened(directory, os.O_PATH | os.O_DIRECTORY) as place:
        all_names = kept_log.files(directory)
        pack(_opened(place, [(name, name) for name in all_names if name.startswith(f"{stream}-")]), file)
        if kept_log.files(directory) != all_names:
            raise FileNotFoundError("it was dropped meanwhile")
        if not file.tell():
            pack([(f"{stream}-{0:020d}.log", BytesIO())], file)


def _compress_times(directory: Path, stream: str, target: Path) -> bool:
    """Write the indexes of one stream into a file, each under the name of the log's file that it belongs to; return
    whether there are any. Raises OSError."""
    names = [(name, index_name(name)) for name in kept_log.files(directory) if name.startswith(f"{stream}-")]
    names = [(name, index) for name, index in names if (directory / index).exists()]
    if names:
        with _created(target) as file, opened(directory, os.O_PATH | os.O_DIRECTORY) as place:
            pack(_opened(place, names), file)
    return bool(names)


def _created(target: Path) -> BinaryIO:
    return open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb")


def _opened(directory: int, names: list[tuple[str, str]]) -> Iterator[tuple[str, BinaryIO]]:
    """Yield files under the names that they get. What a task with the agent's own rights put in the place of one is
    left out."""
    for name, found in names:
        with contextlib.suppress(NotAFile), open(open_file(directory, found), "rb") as file:
            yield name, file
