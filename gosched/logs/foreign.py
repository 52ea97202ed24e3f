"""Lines that others write to a process's stderr, such as gRPC's C core, told as records.

Invariant: no byte is dropped but control characters, which are escaped; what cannot be understood is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from gosched.core.text import printable

MAX_LINE_BYTES = 64 * 1024
MAX_RECORD_LINES = 200  # of a traceback

#: Absl's: severity, date or time zone, time, thread, file:line.
_ABSL = re.compile(r"([IWEF])\d{4} [\d:.]+ +\d+ ([^\s:]+:\d+)\] (.*)", re.DOTALL)
#: Absl says this once in each process that writes anything.
_ABSL_BEGINS = "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR"
#: What gRPC says, for debugging, of a handshake that failed: the library's name of the mistake, and more words.
_HANDSHAKE = re.compile(
    r"Handshake failed with error SSL_ERROR_SSL: error:\w+:SSL routines:OPENSSL_internal:(\w+): (.*)"
)
HANDSHAKE_FAILED = "a TLS handshake failed"
_MISTAKES = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the caller showed no certificate",
    "WRONG_VERSION_NUMBER": "the other side speaks plain text",
    "HTTP_REQUEST": "the other side speaks plain HTTP",
    "BAD_PACKET_LENGTH": "the other side does not trust the certificate of this program",
    "TLSV1_ALERT_UNKNOWN_CA": "the other side does not trust the certificate of this program",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the other side refuses the certificate of this program",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the other side takes the certificate of this program for expired",
    "unable to get local issuer certificate": "the other side's certificate is not signed by the authority in tls.ca",
    "self signed certificate": "the other side's certificate is not signed by the authority in tls.ca",
    "certificate has expired": "the other side's certificate has expired",
    "certificate is not yet valid": "the other side's certificate is not valid yet, by the clock of this machine",
}
_SEVERITIES = {"I": "debug", "W": "warning", "E": "error", "F": "critical"}  # what libraries tell is for debugging
_NAMED = re.compile(r"[\[(<]?(debug|info|warning|warn|error|critical|fatal)\b", re.IGNORECASE)
_NAMES = {"warn": "warning", "fatal": "critical", "info": "debug"}
_CONTINUES = re.compile(r"[ \t]|=== Source Location Trace|src/core/\S+:\d+$")  # also of absl's status
_TRACEBACK = ("Traceback (most recent call last):", "Exception in thread", "Exception ignored in")


def record_of(text: str) -> dict[str, Any]:
    """Return the level, the event and the logger of what was written: one line, or a traceback of several."""
    if found := _ABSL.match(text):
        severity, where, words = found.groups()
        if mistake := _HANDSHAKE.match(words):
            why = _MISTAKES.get(mistake[1]) or _MISTAKES.get(mistake[2]) or f"{mistake[1]}: {mistake[2]}"
            return {"level": "warning", "event": HANDSHAKE_FAILED, "why": _shown(why), "logger": "absl", "where": where}
        return {"level": _SEVERITIES[severity], "event": _shown(words), "logger": "absl", "where": _shown(where)}
    if text.startswith(_ABSL_BEGINS):
        return {"level": "debug", "event": text, "logger": "absl"}
    if text.startswith(_TRACEBACK):
        head, _, _ = text.rpartition("\n")
        last = text[len(head) :].strip() if head else text
        return {"level": "error", "event": _shown(last), "logger": "stderr", "exception": _shown(text)}
    named = _NAMED.match(text)
    level = named[1].lower() if named else "warning"
    return {"level": _NAMES.get(level, level), "event": _shown(text), "logger": "stderr"}


class Grouping:
    """Bytes from a pipe, cut into texts that each become one record.

    Indented lines belong to the line before them; a traceback ends with the first line that is not indented. An empty
    line ends either.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._lines: list[str] = []
        self._in_traceback = False

    @property
    def is_unfinished(self) -> bool:
        """Return whether what has been read lacks the rest of a line, or of a traceback."""
        return bool(self._rest) or self._in_traceback

    def take(self, data: bytes) -> Iterable[str]:
        """Yield the texts that are known to be whole."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            yield from self._line(line.decode("utf-8", "replace"))

    def flush(self, *, cut: bool = False) -> Iterable[str]:
        """Yield what waits for more lines; `cut`: the unfinished line too."""
        if cut and self._rest:
            data, self._rest = self._rest, b""
            yield from self._line(data.decode("utf-8", "replace"))
        if self._lines:
            yield "\n".join(self._lines)
        self._lines, self._in_traceback = [], False

    def _line(self, line: str) -> Iterable[str]:
        line = line.rstrip("\r")
        continues = _CONTINUES.match(line) is not None
        follows = bool(self._lines) and len(self._lines) < MAX_RECORD_LINES
        if follows and (continues or self._in_traceback):
            self._lines.append(line)
            if not continues and not line.startswith(_TRACEBACK):
                yield from self.flush()
            return
        yield from self.flush()
        if line.strip():
            self._lines, self._in_traceback = [line], line.startswith(_TRACEBACK)


def _shown(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))
