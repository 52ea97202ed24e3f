"""The logs of all tasks of this node that have ended: found by allocation, kept within bounds.

A log comes here once the masters know of the task's end. It stays for as long as its job's record, or for the time that
the settings name; before that the oldest goes where they are too large together, or too many, or the disk gets full.

Invariant: what is here follows from the directory, so it survives the agent. A log that had to go before its time
leaves a record of when and why, while its job is known and there is room for records.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import structlog

from gosched.agent import files
from gosched.agent.logs import kept_log
from gosched.agent.logs.kept_log import KeptLog
from gosched.agent.tasks.spool import Spool, spool_for
from gosched.config.private import tighten

MAX_KEPT = 10_000  # logs, and records of dropped ones
MAX_ASKED = 8  # jobs that one heartbeat names; masters answer for more
MANY_AT_ONCE = 500  # logs that one round moves or removes, so that it ends soon

_HORIZON = "horizon.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How long logs are kept, and how much they may take."""

    #: After the task's end; None: as long as the job's record.
    keep_ms: int | None
    max_bytes: int
    max_logs: int = MAX_KEPT
    #: Logs go to an archive: one that is not there yet stays, where there is room, also when its time is over.
    archives: bool = False


class KeptLogs:
    """The kept logs by allocation. Its index belongs to the event loop's thread; the disk is written in others."""

    def __init__(self, path: Path, trash: Path, bounds: Bounds, now_ms: Callable[[], int] | None = None) -> None:
        self._path = path
        self._trash = trash
        self._bounds = bounds
        self._now_ms = now_ms or (lambda: int(time.time() * 1000))
        self._logs: dict[str, KeptLog] = {}
        self._by_job: dict[str, set[str]] = {}  # the job that was asked about longest ago at the front
        self._forgotten: set[str] = set()  # of these jobs
        self._turn = asyncio.Lock()
        self._horizon_ms = 0  # of what ended before, even the records may have gone
        self.size_bytes = 0

    def load(self) -> None:
        """Read all records. What has none was being removed when the last agent ended."""
        self._path.mkdir(mode=0o700, exist_ok=True)
        tighten(self._path)
        for directory in self._path.iterdir():
            if not directory.is_dir():
                continue
            log = kept_log.read(directory)
            if log is None or self.place(log.allocation_id) != directory:
                structlog.get_logger().warning("a kept log without a record is removed", directory=str(directory))
                with contextlib.suppress(OSError):
                    kept_log.discard(directory, self._trash)
                continue
            self._add(log)
        with contextlib.suppress(OSError, ValueError, KeyError):
            self._horizon_ms = int(json.loads((self._path / _HORIZON).read_bytes())["ended_before_ms"])

    # Asked by readers

    def find(self, allocation_id: str) -> KeptLog | None:
        return self._logs.get(allocation_id)

    def place(self, allocation_id: str) -> Path:
        """Return where its files are, if they are kept."""
        return spool_for(self._path, allocation_id).path

    def why_missing(self, allocation_id: str) -> str:
        """Return why there is nothing to read of it, in one line; empty: there is."""
        log = self._logs.get(allocation_id)
        if log is None:
            long = "as long as their job's record"
            if self._bounds.keep_ms is not None:
                long = f"for {self._bounds.keep_ms // 1000} s"
            early = f"; those of tasks that ended before {_shown(self._horizon_ms)} had to go: they were too many"
            return f"not kept (any more): logs are kept {long}{early if self._horizon_ms else ''}"
        if log.dropped_at_ms:
            return f"dropped on {_shown(log.dropped_at_ms)} {log.dropped_why}"
        if not log.has_started:
            return f"the task did not start: {log.detail or 'it was ended before'}"
        return ""

    # Asked by the session

    def jobs_to_ask(self) -> Sequence[str]:
        """Return jobs whose logs are kept, for the masters to say which they have forgotten: others each time."""
        if self._bounds.keep_ms is not None:
            return ()
        asked = list(islice(self._by_job, MAX_ASKED))
        for job in asked:
            self._by_job[job] = self._by_job.pop(job)
        return asked

    def forget_jobs(self, job_ids: Iterable[str]) -> None:
        """Note that the masters have forgotten these jobs: their logs go with the next cleaning."""
        self._forgotten.update(job for job in job_ids if job in self._by_job)

    # Asked by the archive

    @property
    def unarchived(self) -> int:
        """Return how many logs are not in the archive yet; 0 without one."""
        waiting = [1 for log in self._logs.values() if not log.is_archived and not log.dropped_at_ms]
        return len(waiting) if self._bounds.archives else 0

    def to_archive(self) -> list[KeptLog]:
        """Return the logs that are not in the archive yet, the one that ended first at the front."""
        pending = [log for log in self._logs.values() if not log.is_archived and not log.dropped_at_ms]
        return sorted(pending, key=_by_end)

    async def archived(self, allocation_id: str) -> None:
        """Record that a log needs no (more) upload. Raises OSError."""
        async with self._turn:
            log = self._logs.get(allocation_id)
            if log is not None and not log.is_archived:
                now = replace(log, is_archived=True)
                await asyncio.to_thread(kept_log.write, self.place(allocation_id), now)
                self._logs[allocation_id] = now

    # Called by the cleaning of the agent

    async def take(self, spool: Spool, log: KeptLog) -> None:
        """Take over the log of a task that has ended, if it has one. Raises OSError."""
        async with self._turn:
            if not spool.logs.is_dir():
                return
            before = self._logs.get(log.allocation_id)
            taken = await asyncio.to_thread(kept_log.take, spool.logs, self.place(log.allocation_id), self._trash, log)
            if before is not None:
                self._leave_out(before)
            self._add(taken)

    async def clean(self) -> None:
        """Remove what is too old, too large or too many."""
        max_bytes = self._bounds.max_bytes
        async with self._turn:
            await self._remove_expired()
            await self._keep_below(max_bytes, f"to stay below {_amount(max_bytes)} (logs.max)")
            await self._keep_few()

    async def give_room(self, bytes_wanted: int) -> None:
        """Drop the oldest logs, where the disk is nearly full."""
        async with self._turn:
            await self._keep_below(max(0, self.size_bytes - bytes_wanted), "as the disk was nearly full")

    async def _remove_expired(self) -> None:
        if self._bounds.keep_ms is None:
            named, self._forgotten = self._forgotten, set()
            expired = [self._logs[i] for job in named for i in self._by_job.get(job, ())]
        else:
            limit_ms = self._now_ms() - self._bounds.keep_ms
            expired = [log for log in self._logs.values() if log.ended_at_ms <= limit_ms]
        # What stays for now is found, or asked about, again.
        await self._remove([log for log in expired if self._may_go(log)][:MANY_AT_ONCE])

    async def _keep_below(self, max_bytes: int, why: str) -> None:
        """Drop logs, those that the archive has first, then the oldest, until the others take no more than this."""
        if self.size_bytes <= max_bytes:
            return
        here = [log for log in self._logs.values() if not log.dropped_at_ms]
        for log in sorted(here, key=lambda each: (not each.is_archived, _by_end(each)))[:MANY_AT_ONCE]:
            if self.size_bytes <= max_bytes:
                return
            dropped = replace(log, dropped_at_ms=self._now_ms(), dropped_why=why, size_bytes=0)
            if await self._tried(kept_log.empty, self.place(log.allocation_id), dropped, what=log):
                self._leave_out(log)
                self._add(dropped)
                structlog.get_logger().warning(
                    "a kept log is dropped", allocation=log.allocation_id, why=why, archived=log.is_archived
                )

    async def _keep_few(self) -> None:
        surplus = len(self._logs) - self._bounds.max_logs
        if surplus <= 0:
            return
        dropped_first = sorted(self._logs.values(), key=lambda each: (not each.dropped_at_ms, _by_end(each)))
        going = dropped_first[: min(surplus, MANY_AT_ONCE)]
        self._horizon_ms = max(self._horizon_ms, *(log.ended_at_ms + 1 for log in going))
        with contextlib.suppress(OSError):  # then the next agent does not know; the logs are gone all the same
            files.replace(self._path / _HORIZON, json.dumps({"ended_before_ms": self._horizon_ms}).encode())
        await self._remove(going)

    async def _remove(self, logs: Iterable[KeptLog]) -> None:
        for log in logs:
            if await self._tried(kept_log.discard, self.place(log.allocation_id), self._trash, what=log):
                self._leave_out(log)

    async def _tried(self, work: Callable[[Path, Any], None], place: Path, extra: Any, *, what: KeptLog) -> bool:
        """Return whether it could be done; what could not is tried again in the next round."""
        try:
            await asyncio.to_thread(work, place, extra)
        except FileNotFoundError:
            return True  # a person removed it
        except OSError as error:
            structlog.get_logger().warning("cannot remove a kept log", allocation=what.allocation_id, why=str(error))
            return False
        return True

    def _may_go(self, log: KeptLog) -> bool:
        return log.is_archived or not self._bounds.archives or bool(log.dropped_at_ms)

    # The index

    def _add(self, log: KeptLog) -> None:
        self._logs[log.allocation_id] = log
        self._by_job.setdefault(log.job_id, set()).add(log.allocation_id)
        self.size_bytes += log.size_bytes

    def _leave_out(self, log: KeptLog) -> None:
        del self._logs[log.allocation_id]
        of_job = self._by_job[log.job_id]
        of_job.discard(log.allocation_id)
        if not of_job:
            del self._by_job[log.job_id]
        self.size_bytes -= log.size_bytes


def _by_end(log: KeptLog) -> tuple[int, str]:
    return log.ended_at_ms, log.allocation_id


def _amount(amount_bytes: int) -> str:
    return f"{amount_bytes / (1 << 30):g} GiB"


def _shown(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
