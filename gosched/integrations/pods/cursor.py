"""How far the log of a container was printed, so that it goes on after a break with no line lost or repeated.

The API server takes whole seconds as the start of a log. So the lines of the newest seconds come again, and as many of
them are left out as were printed before: their order is that of the file, always the same.

Invariant: it keeps counts of the newest seconds, and never more of a log than one piece.
"""

from __future__ import annotations

from datetime import UTC, datetime

PIECE_BYTES = 64 << 10  # of a line without an end
_OVERLAP_S = 1  # stdout and stderr are written by two threads, whose lines may stand in the wrong order


class Cursor:
    def __init__(self) -> None:
        self._printed: dict[int, int] = {}  # lines by the second of their time
        self._newest = 0
        self._buffer = b""
        self._at_start = True
        self._second = 0
        self._to_skip = 0  # lines that were printed before the break
        self._is_dropped = False  # the line under way
        self._partly = 0  # bytes printed of the line after those
        self._to_drop = 0  # bytes of the line under way that were printed before the break

    def resume(self) -> str:
        """Begin anew, and return the time to ask for: empty: from the beginning."""
        since = self._newest - _OVERLAP_S
        self._buffer, self._at_start = b"", True
        self._to_skip = sum(count for second, count in self._printed.items() if second >= since)
        return datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if self._newest else ""

    def take(self, data: bytes) -> bytes:
        """Return what is to be printed of what came."""
        self._buffer += data
        printed = []
        while self._buffer:
            end = self._buffer.find(b"\n", 0, PIECE_BYTES) + 1
            if not end and len(self._buffer) < PIECE_BYTES:
                break
            piece, self._buffer = self._buffer[: end or PIECE_BYTES], self._buffer[end or PIECE_BYTES :]
            printed.append(self._piece(piece))
        return b"".join(printed)

    def end(self) -> bytes:
        """Return what is to be printed of a last line without its end; the log was read whole."""
        rest, self._buffer = self._buffer, b""
        return self._piece(rest) if rest else b""

    def _piece(self, piece: bytes) -> bytes:
        if self._at_start:
            piece = self._start(piece)
        is_whole = piece.endswith(b"\n")
        self._at_start = is_whole
        if self._is_dropped:
            return b""
        new = piece[self._to_drop :]
        self._to_drop = max(0, self._to_drop - len(piece))
        if self._second:
            self._partly += len(new)
            if is_whole:
                self._count()
        return new

    def _start(self, line: bytes) -> bytes:
        """Judge a new line by its time; return it without that."""
        stamp, _, text = line.partition(b" ")
        self._second = _second(stamp)
        if not self._second:  # words of the kubelet about the log
            self._is_dropped, self._to_drop = self._to_skip > 0, 0
            return line
        self._is_dropped = self._to_skip > 0 and self._second <= self._newest
        if self._is_dropped:
            self._to_skip -= 1
        else:
            self._to_skip = 0
            self._to_drop = self._partly
        return text

    def _count(self) -> None:
        self._partly = self._to_drop = 0
        self._printed[self._second] = self._printed.get(self._second, 0) + 1
        if self._second > self._newest:
            self._newest = self._second
            for old in [second for second in self._printed if second < self._newest - _OVERLAP_S]:
                del self._printed[old]


def _second(stamp: bytes) -> int:
    """Return the second of a time in RFC 3339; 0: it is none."""
    try:
        return int(datetime.fromisoformat(stamp.decode("ascii")).timestamp()) if b"T" in stamp else 0
    except (ValueError, OverflowError):  # UnicodeDecodeError is a ValueError
        return 0
