"""Files that people name: their content, or one line that says why there is none."""

from __future__ import annotations

from pathlib import Path

from gosched.config.errors import ConfigError


def read_file(path: str, *, what: str) -> bytes:
    """Return the content of a file. Raise ConfigError with what to do."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the {what}: {error.strerror or error}") from error
