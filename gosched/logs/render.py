"""A log record as one line: JSON for collectors, or logfmt for people and terminals.

Invariant: a record is one line, whatever its values hold, and it does nothing to a terminal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

Format = Literal["json", "console"]

#: By name, as in the settings; the numbers are those of `logging`.
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
FIRST = ("timestamp", "level", "event")


def render(record: Mapping[str, Any], form: Format) -> str:
    """Return the record without a line's end; time, level and event come first."""
    first = {key: record[key] for key in FIRST if key in record}
    rest = {key: value for key, value in record.items() if key not in first}
    ordered = first | rest
    if form == "json":
        return json.dumps(ordered, default=str, ensure_ascii=False)
    return " ".join([f"{_key(key)}={_quoted(value)}" for key, value in ordered.items()])


def now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _key(key: str) -> str:
    return key.replace(" ", "_").replace("=", "_")


def _quoted(value: object) -> str:
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    text = text.replace("\r", "\\r").replace("\n", "\\n")
    if not text or any(character in text for character in ' "='):
        return '"' + text.replace('"', '\\"') + '"' if text else ""
    return text
