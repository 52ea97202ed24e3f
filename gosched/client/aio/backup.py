"""A backup of the cluster's state, for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc

from gosched.client.aio.masters import AsyncMasters, cancelled_as
from gosched.client.backup import BACKUP_S, TAKE_BACKUP, broken
from gosched.client.errors import Misused
from gosched.client.targets import CLOSED
from gosched.wire.backup_file import BackupInfo
from gosched.wire.codec import to_record
from gosched.wire.v1 import cluster_pb2


async def take_backup(
    masters: AsyncMasters, *, min_revision: int, timeout_s: float
) -> tuple[BackupInfo, AsyncIterator[bytes]]:
    """Return what the backup is of, and its content, to read once. Both raise GoSchedError."""
    request = cluster_pb2.TakeBackupRequest(min_revision=min_revision)
    async for channel, _ in masters.tries(timeout_s):
        stream = TAKE_BACKUP.stream(channel)(request, timeout=BACKUP_S)
        messages = aiter(stream)
        try:
            with cancelled_as(Misused(CLOSED)):
                first = await anext(messages)
        except grpc.RpcError as error:
            masters.failed(error)
            continue
        return to_record(first.info, BackupInfo), _data(stream, messages)
    raise AssertionError("tries() ends by raising")


async def _data(stream: Any, messages: Any) -> AsyncIterator[bytes]:
    try:
        with cancelled_as(Misused(CLOSED)):
            async for part in messages:
                yield part.data
    except grpc.RpcError as error:
        raise broken(error) from error
    finally:
        stream.cancel()
