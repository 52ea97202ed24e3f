"""Text of others, as it may be shown: whatever it holds, it does nothing to a terminal."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any

# C0, C1, and what turns the direction of text or cannot be seen.
CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]",
)


def printable(text: str) -> str:
    """Return the text on one line, with `\\x1b` instead of an escape."""
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def printable_values(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Make the values of a log line printable (a processor of structlog)."""
    for key, value in event.items():
        if isinstance(value, str) and CONTROL.search(value):
            event[key] = "\n".join(map(printable, value.split("\n")))
    return event
