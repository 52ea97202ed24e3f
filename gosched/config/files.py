"""Files that people name: their content, or one line that says why there is none."""

from __future__ import annotations

import os
from pathlib import Path

from gosched.config.errors import ConfigError


def read_file(path: str, *, what: str) -> bytes:
    """Return the content of a file. Raise ConfigError with what to do."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the {what}: {error.strerror or error}") from error


def stamp_of(path: str | Path) -> tuple[int, ...] | None:
    """Return what changes when a file does; None: it cannot be seen."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
