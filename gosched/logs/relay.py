"""The process that reads what C code and libraries write to a daemon's stderr, and writes it as records.

    relay CONTROL_FD FORMAT LEVEL FIELDS

It reads lines from its stdin, the end of a pipe whose other end is the daemon's descriptor 2, and writes records to its
stdout, the daemon's real stderr. FIELDS, in JSON, are in each record. On the control descriptor come lines of JSON:
another `level`, or more `fields`. It is a process and no thread, so that what a daemon says right before it aborts is
not lost with it.

Invariant: it reads whatever its own reader does, and ends with the daemon.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from typing import Any

from gosched.logs.foreign import HANDSHAKE_FAILED, Grouping, record_of
from gosched.logs.render import LEVELS, Format, now, render
from gosched.stderr import BufferedStderr

QUIET_S = 0.05  # after which an unfinished line, or a traceback, is taken for whole
LINGER_S = 5.0  # once the daemon is gone: for children of it that still hold its stderr
HANDSHAKES_EVERY_S = 60.0  # of one kind
_MAX_KINDS = 64
_READ_BYTES = 1 << 16
_FOREIGN, _OUT = 0, 1


class Relay:
    """What has been read and not yet written, and how it is written."""

    def __init__(self, control: int, form: Format, level: str, fields: dict[str, Any]) -> None:
        self._control = control
        self._form = form
        self._level = LEVELS[level]
        self._fields = fields
        self._grouping = Grouping()
        self._orders = b""
        self._told: dict[str, float] = {}  # a kind of failed handshake, and until when it is not told again
        self._out = BufferedStderr(_OUT, lambda count: render(lines_lost(count), form))

    def run(self) -> None:
        """Relay until every writer is gone, or for LINGER_S after the daemon is."""
        open_fds, ends = {_FOREIGN, self._control}, None
        while _FOREIGN in open_fds and (ends is None or time.monotonic() < ends):
            patience = QUIET_S if self._grouping.is_unfinished else None if ends is None else LINGER_S
            ready, _, _ = select.select(list(open_fds), [], [], patience)
            if not ready:
                self._write(self._grouping.flush(cut=True))
            if _FOREIGN in ready and not self._read():
                open_fds.discard(_FOREIGN)
            if self._control in ready and not self._obey():
                open_fds.discard(self._control)
                ends = time.monotonic() + LINGER_S
        self._write(self._grouping.flush(cut=True))
        self._out.last_words()

    def _read(self) -> bool:
        data = os.read(_FOREIGN, _READ_BYTES)
        self._write(self._grouping.take(data))
        if not self._grouping.is_unfinished:
            self._write(self._grouping.flush())
        return bool(data)

    def _obey(self) -> bool:
        data = os.read(self._control, _READ_BYTES)
        *orders, self._orders = (self._orders + data).split(b"\n")
        for order in map(json.loads, orders):
            self._level = LEVELS.get(order.get("level", ""), self._level)
            self._fields |= order.get("fields", {})
        return bool(data)

    def _write(self, texts: Iterable[str]) -> None:
        for text in texts:
            record = record_of(text)
            if LEVELS[record["level"]] >= self._level and not self._was_told(record):
                self._out.write(render({"timestamp": now(), **record, **self._fields}, self._form) + "\n")

    def _was_told(self, record: dict[str, Any]) -> bool:
        """Return whether it is a failed handshake of a kind that was told within the last minute: one program with a
        wrong certificate tries again and again, and whoever can connect can make handshakes fail."""
        if record["event"] != HANDSHAKE_FAILED:
            return False
        now_s, kind = time.monotonic(), record["why"]
        if now_s < self._told.get(kind, 0.0) or (kind not in self._told and len(self._told) >= _MAX_KINDS):
            return True
        self._told[kind] = now_s + HANDSHAKES_EVERY_S
        return False


def lines_lost(count: int) -> dict[str, Any]:
    """Return the record that says how many lines were dropped because nothing read stderr."""
    words = "log lines dropped: nobody read stderr"
    return {"timestamp": now(), "level": "warning", "event": words, "count": count}


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # they are the daemon's, and it ends first
    form: Format = "json" if sys.argv[2] == "json" else "console"
    Relay(int(sys.argv[1]), form, sys.argv[3], json.loads(sys.argv[4])).run()


if __name__ == "__main__":
    main()
