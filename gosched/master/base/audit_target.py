"""The audit log as a master's settings say: its target, its start and its end.

Invariant: a master whose audit log cannot be opened does not start; one whose log cannot be written later goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from gosched.audit.chain_file import ChainFile
from gosched.audit.log import MAX_BATCH, AuditLog
from gosched.audit.record import AuditRecord
from gosched.audit.syslog import SOCKET, Syslog
from gosched.config import MasterSettings
from gosched.config.private import close_directory

FOLDER = "audit"  # in the data directory

log = structlog.get_logger()


class AuditTarget:
    """`lost` is told how many records were lost, by any thread."""

    def __init__(self, settings: MasterSettings, master: str, lost: Callable[[int], None]) -> None:
        self._settings = settings
        self._log: AuditLog | None = None
        self._folder: Path | None = None
        audit = settings.audit
        if audit.target == "file":
            self._folder = Path(audit.path or Path(settings.data_dir, FOLDER))
            files = ChainFile(self._folder, max_bytes=audit.max_bytes, max_files=audit.max_files)
            self._log = AuditLog(files, master, failed=_failed, lost=lost, batch=MAX_BATCH)
        elif audit.target == "syslog":
            self._log = AuditLog(Syslog(audit.path or SOCKET), master, failed=_failed, lost=lost, batch=1)

    def put(self, record: AuditRecord) -> None:
        """Take a record; it is written soon, or nowhere where there is no target."""
        if self._log is not None:
            self._log.put(record)

    def start(self) -> None:
        """Open the target. Raises ConfigError."""
        if self._log is None:
            return
        try:
            if self._folder is not None:
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                if problem := close_directory(self._folder):
                    raise self._settings.error("audit.path", f"audit.path: {problem}")
            self._log.start()
        except OSError as error:
            where = error.filename or self._settings.audit.path or SOCKET
            raise self._settings.error(
                "audit", f"audit: cannot write to {where}: {error.strerror}; to go without an audit log, target: none"
            ) from error

    async def stop(self) -> None:
        """Write what waits, for a moment."""
        if self._log is not None:
            await asyncio.to_thread(self._log.close)


def _failed(why: str) -> None:
    log.error("the audit log cannot be written; calls go on, and records wait or are lost", why=why)
