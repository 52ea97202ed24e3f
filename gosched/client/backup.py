"""A backup of the cluster's state, from whichever master answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import grpc

from gosched.client.calls import CLUSTER, rpc
from gosched.client.errors import Unavailable
from gosched.client.masters import Masters
from gosched.wire.backup_file import BackupInfo
from gosched.wire.codec import to_record
from gosched.wire.v1 import cluster_pb2

BACKUP_S = 3600.0  # for all of one
TAKE_BACKUP = rpc(CLUSTER, "TakeBackup")


def take_backup(masters: Masters, *, min_revision: int, timeout_s: float) -> tuple[BackupInfo, Iterator[bytes]]:
    """Return what the backup is of, and its content, to read once. Both raise GoSchedError."""
    request = cluster_pb2.TakeBackupRequest(min_revision=min_revision)
    for channel, _ in masters.tries(timeout_s):
        stream = TAKE_BACKUP.stream(channel)(request, timeout=BACKUP_S)
        try:
            first = next(stream)
        except grpc.RpcError as error:
            masters.failed(error)
            continue
        return to_record(first.info, BackupInfo), _data(stream)
    raise AssertionError("tries() ends by raising")


def _data(stream: Any) -> Iterator[bytes]:
    try:
        for part in stream:
            yield part.data
    except grpc.RpcError as error:
        raise broken(error) from error
    finally:
        with suppress(grpc.RpcError):
            stream.cancel()


def broken(error: Any) -> Unavailable:
    return Unavailable(f"the master was lost in the middle of the backup ({error.details()}): take it anew")
