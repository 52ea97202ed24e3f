"""The audit log of a master that may be writing it meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gosched.audit.chain_file import files_of


def whole_lines(folder: Path) -> list[dict[str, Any]]:
    """Return the records in order. A line that has no end yet is being written, and is left out."""
    while True:
        try:
            content = b"".join(file.read_bytes() for file in files_of(folder))
        except FileNotFoundError:
            continue  # another file was begun meanwhile
        return [json.loads(line) for line in content.splitlines(keepends=True) if line.endswith(b"\n")]
