"""What a daemon logged, as records."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any


def records(lines: Iterable[str]) -> list[dict[str, Any]]:
    """The records among lines of a log in JSON, in order; other lines are for people."""
    return [json.loads(line) for line in lines if line.startswith("{")]
