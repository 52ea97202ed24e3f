"""The masters' side of the archive: opens it, and removes logs that are older than the settings allow.

Invariant: only logs of this cluster, and of those that it was restored from, are removed, and only by the leader.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Protocol

import structlog

from gosched.archive.store import ArchiveError, LogArchive
from gosched.config import ConfigError
from gosched.config.archive_model import Archive
from gosched.master.base.leadership import Leadership
from gosched.replication.interface import Replication

SWEEP_EVERY_S = 3600.0


class Sweepable(Protocol):
    """The archive, as the leader cleans it."""

    async def delete_older(self, cluster_id: str, than: datetime) -> int:
        """Remove what was written before a moment, and return how many. Raises ArchiveError."""


def open_archive(settings: Archive | None) -> LogArchive | None:
    """Return the archive, if one is configured. Raises ConfigError."""
    try:
        return LogArchive(settings) if settings is not None else None
    except ArchiveError as error:
        raise ConfigError(str(error)) from error


async def sweep_archive(
    archive: Sweepable | None, settings: Archive | None, replication: Replication, leadership: Leadership
) -> None:
    """Sweep every hour while this master leads. Never returns, also where there is nothing to do."""
    retention_ms = settings.retention_ms if settings is not None else None
    while True:
        await asyncio.sleep(SWEEP_EVERY_S)
        if archive is not None and retention_ms is not None and leadership.epoch:
            await sweep(archive, replication, datetime.now(UTC) - timedelta(milliseconds=retention_ms))


async def sweep(archive: Sweepable, replication: Replication, older_than: datetime) -> None:
    """Remove old logs. An archive that does not answer is swept again later."""
    state, log = replication.state, structlog.get_logger()
    for cluster_id in (state.cluster_id, *state.lineage):
        try:
            removed = await archive.delete_older(cluster_id, older_than) if cluster_id else 0
        except ArchiveError as error:
            log.warning("the archive cannot be cleaned yet", why=str(error))
            return
        if removed:
            log.info("old logs are removed from the archive", cluster=cluster_id, removed=removed)
