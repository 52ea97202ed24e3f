"""A backup as a file: two lines of readable text, then the bytes of a snapshot in frames.

    GOSCHED-BACKUP 1
    {"release": ..., "cluster_id": ..., "revision": ..., "encryption": null | {...}}
    frames: length (4 bytes, the highest bit: the last one), content; the last one is a SHA-256 of all before it

Invariant: a file under its own name is whole and synced; nothing of one that is not whole is given out as good.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, get_type_hints

from gosched.wire.backup_seal import BadBackup, Seal, Secret, new_seal, seal_of

_MAGIC = b"GOSCHED-BACKUP "
_FORMAT = b"1"
_MAX_HEADER_BYTES = 64 * 1024
_MAX_FRAME_BYTES = 64 * 1024 * 1024
_LENGTH = struct.Struct("<I")
_FINAL = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupInfo:
    """What a backup's header says."""

    #: Of the master that made it, and its id.
    release: str
    master: str
    #: Of the state: empty for a cluster of a release without ids.
    cluster_id: str
    revision: int
    feature_level: int
    #: By the master's clock.
    taken_at_ms: int
    jobs: int
    nodes: int
    allocations: int

    @property
    def taken_at(self) -> str:
        return datetime.fromtimestamp(self.taken_at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def age_s(self) -> float:
        return max(0.0, time.time() - self.taken_at_ms / 1000)


def write_backup(path: Path, info: BackupInfo, chunks: Iterable[bytes], secret: Secret | None = None) -> int:
    """Write the file, sync it and put it in place; return its size. Whatever is raised meanwhile leaves nothing. Raises
    BadBackup, OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(temporary, "xb", opener=_private) as file:
            write_to(file, info, chunks, secret)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        temporary.rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return size


def write_to(file: BinaryIO, info: BackupInfo, chunks: Iterable[bytes], secret: Secret | None = None) -> None:
    """Write a backup to a stream. Raises BadBackup, OSError."""
    seal, encryption = new_seal(secret)
    header = _MAGIC + _FORMAT + b"\n" + json.dumps({**asdict(info), "encryption": encryption}).encode() + b"\n"
    file.write(header)
    digest, index = sha256(header), 1
    for chunk in chunks:
        if not chunk:
            continue
        digest.update(chunk)
        sealed = seal.close(index, final=False, data=chunk, bound=header)
        file.write(_LENGTH.pack(len(sealed)) + sealed)
        index += 1
    last = seal.close(index, final=True, data=digest.digest(), bound=header)
    file.write(_LENGTH.pack(len(last) | _FINAL) + last)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A backup whose header was read. `chunks` reads the rest, once."""

    info: BackupInfo
    encrypted: bool
    chunks: Callable[[], Iterator[bytes]]


def read_from(file: BinaryIO, secret: Secret | None = None) -> Backup:
    """Read the header. Its chunks raise BadBackup at their end, too, where the file is not whole. Raises BadBackup,
    OSError."""
    first = file.readline(len(_MAGIC) + 16)
    if not first.startswith(_MAGIC) or not first.endswith(b"\n"):
        raise BadBackup("it is not a gosched backup")
    if first[len(_MAGIC) : -1] != _FORMAT:
        raise BadBackup("it was made by a newer gosched, in another format: use that one")
    line = file.readline(_MAX_HEADER_BYTES)
    try:
        values: dict[str, Any] = json.loads(line)
        encryption = values.pop("encryption")
        info = BackupInfo(**{name: kind(values[name]) for name, kind in _FIELDS.items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadBackup(f"its header is damaged ({error}): take another backup") from error
    seal, header = seal_of(encryption, secret), first + line
    return Backup(info=info, encrypted=encryption is not None, chunks=lambda: _chunks(file, seal, header))


def _chunks(file: BinaryIO, seal: Seal, header: bytes) -> Iterator[bytes]:
    digest, index = sha256(header), 1
    while True:
        length = file.read(_LENGTH.size)
        if len(length) < _LENGTH.size:
            raise BadBackup("its end is missing: the copy was cut short; take another one")
        (size,) = _LENGTH.unpack(length)
        final, size = bool(size & _FINAL), size & ~_FINAL
        sealed = file.read(size) if size <= _MAX_FRAME_BYTES else b""
        if len(sealed) < size:
            raise BadBackup("it is damaged, or its end is missing: take another backup")
        data = seal.open(index, final=final, data=sealed, bound=header)
        if final:
            break
        digest.update(data)
        index += 1
        yield data
    if data != digest.digest():
        raise BadBackup("its checksum is wrong: it is damaged; take another backup")
    if file.read(1):
        raise BadBackup("something follows its end: it is damaged; take another backup")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


_FIELDS: dict[str, type] = get_type_hints(BackupInfo)
