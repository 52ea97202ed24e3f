"""Small JSON files that hold their content twice, each time with a checksum.

Invariant: one damaged copy is mended from its twin and logged; what has no sound copy is never used.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

import structlog

from gosched.replication.disk.damage import DamagedLog
from gosched.replication.disk.disk import Disk

log = structlog.get_logger()


def write(disk: Disk, name: str, content: dict[str, Any]) -> None:
    line = json.dumps(content, sort_keys=True).encode()
    copy = b"%08x %b\n" % (zlib.crc32(line), line)
    disk.replace(name, [copy, copy])


def read(disk: Disk, name: str, *, if_lost: str) -> dict[str, Any] | None:
    """Return the content, or None without a file. `if_lost`: what to do when both copies are damaged. Files of the
    release before are JSON alone. Raises DamagedLog, DiskFailed."""
    data = disk.read(name)
    if data is None:
        return None
    half = len(data) // 2
    copies = [_content(data[:half]), _content(data[half:])]
    found = copies[0] if copies[0] is not None else copies[1]
    if found is None:
        found = _without_checksum(data)
    elif None in copies or copies[0] != copies[1]:
        log.warning("a damaged copy in a file is mended from its twin", file=name)
    if found is None:
        raise DamagedLog(f"{name} is damaged: {if_lost}")
    return found


def _content(copy: bytes) -> dict[str, Any] | None:
    checksum, _, line = copy.removesuffix(b"\n").partition(b" ")
    if checksum != b"%08x" % zlib.crc32(line) or not copy.endswith(b"\n"):
        return None
    content = json.loads(line)
    return content if isinstance(content, dict) else None


def _without_checksum(data: bytes) -> dict[str, Any] | None:
    if not data.startswith(b"{"):
        return None
    try:
        content = json.loads(data)
    except ValueError:
        return None
    return content if isinstance(content, dict) and "boot" not in content else None
