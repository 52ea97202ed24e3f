"""Backups that the leader makes by itself, into a directory, and from there through a command to wherever it likes.

The newest file in the directory says when the last one was made, so a restart makes none too early. Invariant: what is
in the directory under a backup's name is whole, and went through the command; a failure leaves the others as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import structlog

from gosched.api.status import BackupStatus
from gosched.config.backup_model import NAME_PLACE, Backup
from gosched.config.cron import next_run_ms
from gosched.core.text import printable
from gosched.master.backups.backup_source import BackupSource
from gosched.observe.metrics import BackupGauges
from gosched.wire.backup_file import write_backup
from gosched.wire.backup_seal import BadBackup, read_secret

LOOK_S = 1.0
RETRY_S = 60.0  # after a failure, or sooner where `every` is shorter
COMMAND_S = 3600.0
_SAID_BYTES = 2000  # of what the command says on stderr
_NAMED = "gosched-{cluster}-{at}-r{revision}.backup"
_FILE = re.compile(r"gosched-(?P<cluster>.+)-(?P<at>\d{8}T\d{6}Z)-r\d+\.backup")

log = structlog.get_logger()


class BackupFailed(Exception):
    """A backup that failed; one line says why."""


class ScheduledBackups:
    """The backups of a master while it leads."""

    def __init__(
        self,
        settings: Backup,
        source: BackupSource,
        *,
        leads: Callable[[], bool],
        cluster_id: Callable[[], str],
        now_ms: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._source = source
        self._leads = leads
        self._cluster_id = cluster_id
        self._now_ms = now_ms
        self._folder = Path(settings.directory)
        self._began_ms = now_ms()
        self._retry_ms = 0
        self.status = BackupStatus()

    async def run(self) -> None:
        """Make backups when they are due, until it is cancelled."""
        led = False
        while True:
            await asyncio.sleep(LOOK_S)
            leads = self._leads()
            if leads and not led:
                await self.find_last()
            led = leads
            if leads and self.due_ms() <= self._now_ms():
                await self.take()

    async def take(self) -> None:
        """Make a backup now; what comes of it is in `status` and in the log."""
        before = self.status
        try:
            path, size = await self._write()
        except (BackupFailed, BadBackup, OSError) as error:
            what = f"{error.filename or self._folder}: {error.strerror}" if isinstance(error, OSError) else str(error)
            self.status = BackupStatus(
                last_success_ms=before.last_success_ms,
                last_bytes=before.last_bytes,
                failures=before.failures + 1,
                problem=what,
            )
            retry_ms = min(RETRY_S * 1000, self._settings.every_ms or RETRY_S * 1000)
            self._retry_ms = self._now_ms() + int(retry_ms)
            log.error("a backup failed", why=what, again_in_s=retry_ms / 1000)
            return
        self._retry_ms = 0
        self.status = BackupStatus(last_success_ms=self._now_ms(), last_bytes=size, failures=before.failures)
        dropped = await asyncio.to_thread(self._prune)
        log.info("backup made", file=str(path), bytes=size, dropped=dropped)

    async def _write(self) -> tuple[Path, int]:
        settings = self._settings
        secret = await asyncio.to_thread(read_secret, settings.passphrase_file, settings.key_file)
        await asyncio.to_thread(self._folder.mkdir, parents=True, exist_ok=True, mode=0o700)
        info, chunks = self._source.take()
        at = datetime.fromtimestamp(info.taken_at_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
        name = _NAMED.format(cluster=info.cluster_id or "without-id", at=at, revision=info.revision)
        if not settings.command:
            return self._folder / name, await asyncio.to_thread(write_backup, self._folder / name, info, chunks, secret)
        waiting = self._folder / f".{name}.sending"
        try:
            size = await asyncio.to_thread(write_backup, waiting, info, chunks, secret)
            await self._send(waiting, name)
            waiting.rename(self._folder / name)
        finally:
            waiting.unlink(missing_ok=True)
        return self._folder / name, size

    async def _send(self, path: Path, name: str) -> None:
        """Run the command on the file. Raises BackupFailed."""
        words = [word.replace(NAME_PLACE, name) for word in self._settings.command]
        try:
            with path.open("rb") as file:
                process = await asyncio.create_subprocess_exec(
                    *words,
                    stdin=file,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.PIPE,
                    start_new_session=True,
                )
        except OSError as error:
            raise BackupFailed(f"cannot run {words[0]}: {error.strerror}") from error
        try:
            async with asyncio.timeout(COMMAND_S):
                said = await _end_of(process)
        except TimeoutError:
            raise BackupFailed(f"{words[0]} had not ended after {COMMAND_S:.0f} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise BackupFailed(f"{words[0]} ended with code {process.returncode}: {said or 'it said nothing'}")

    async def find_last(self) -> None:
        """Learn from the directory when the last backup of this cluster was made, by whichever master shares it."""
        own = await asyncio.to_thread(self._own_files)
        if own:
            at = datetime.strptime(_at(own[-1]), "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            last_ms = max(self.status.last_success_ms, int(at.timestamp() * 1000))
            failures = self.status.failures
            self.status = BackupStatus(last_success_ms=last_ms, last_bytes=own[-1].stat().st_size, failures=failures)

    def due_ms(self) -> int:
        """Return when the next backup is due; 0: now."""
        last_ms, every_ms = self.status.last_success_ms, self._settings.every_ms
        if self._retry_ms:
            return self._retry_ms
        if every_ms is not None:
            return last_ms + every_ms if last_ms else 0
        assert self._settings.schedule is not None
        return next_run_ms(self._settings.schedule, "UTC", last_ms or self._began_ms) or self._now_ms() + 1

    def _prune(self) -> int:
        """Remove those beyond `keep`, the oldest first, and what a crash left unfinished; return how many."""
        for path in self._folder.glob(f".gosched-{self._cluster_id() or 'without-id'}-*"):
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < time.time() - COMMAND_S:
                    path.unlink()
        beyond = self._own_files()[: -self._settings.keep]
        for path in beyond:
            path.unlink(missing_ok=True)
        return len(beyond)

    def _own_files(self) -> list[Path]:
        """Return the backups of this cluster, the oldest first. Those of other clusters are left alone."""
        cluster = self._cluster_id() or "without-id"
        try:
            found = [
                path for path in self._folder.iterdir() if (m := _FILE.fullmatch(path.name)) and m["cluster"] == cluster
            ]
        except OSError:
            return []
        return sorted(found, key=lambda path: (_at(path), path.name))


def backup_gauges(status: BackupStatus | None, now_ms: int) -> BackupGauges | None:
    """Return what metrics show; None: no backups are scheduled here."""
    if status is None:
        return None
    age_s = max(0, now_ms - status.last_success_ms) / 1000 if status.last_success_ms else math.inf
    return BackupGauges(age_s=age_s, last_bytes=status.last_bytes, failures=status.failures)


def _at(path: Path) -> str:
    found = _FILE.fullmatch(path.name)
    assert found is not None
    return found["at"]


async def _end_of(process: asyncio.subprocess.Process) -> str:
    """Wait for it, and return the end of what it said."""
    assert process.stderr is not None
    said = b""
    while data := await process.stderr.read(65536):
        said = (said + data)[-_SAID_BYTES:]
    await process.wait()
    return printable(" ".join(said.decode("utf-8", "replace").split()))
