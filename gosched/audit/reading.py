"""Reads the records of an audit log, without a look at its chain.

Invariant: a line that cannot be read is counted, and the others are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from gosched.audit.chain import read_line
from gosched.audit.record import Outcome
from gosched.audit.verify import MAX_LINE_BYTES, files_in


@dataclass(slots=True, kw_only=True)
class Reading:
    """`user`: of this one alone; `refused`: only what was refused; `since_ms`: since then."""

    user: str = ""
    refused: bool = False
    since_ms: int = 0
    #: Lines that could not be read.
    unread: int = 0

    def records(self, paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
        """Yield the records that are asked for, the oldest first, with their `seq`. Raises OSError."""
        for file in files_in(paths):
            with file.open("rb") as stream:
                while raw := stream.readline(MAX_LINE_BYTES):
                    try:
                        line = read_line(raw.rstrip(b"\r\n\0"))
                        record = {"seq": line.head.seq, **line.record}
                        wanted = self._wants(record)
                    except (ValueError, TypeError):
                        self.unread += 1
                        continue
                    if wanted:
                        yield record

    def _wants(self, record: dict[str, Any]) -> bool:
        if self.user and record.get("user") != self.user:
            return False
        if self.refused and record.get("outcome") != Outcome.REFUSED:
            return False
        return not self.since_ms or datetime.fromisoformat(record["time"]).timestamp() * 1000 >= self.since_ms
