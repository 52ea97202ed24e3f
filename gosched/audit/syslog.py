"""The audit log as messages to the syslog daemon of the machine, each with the line of JSON; the daemon sends them on.

The chain begins anew with each start of the master, for there is no file to read its end from.

Invariant: a message is sent whole, or the error is raised.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

from gosched.audit.chain import Head, next_line
from gosched.audit.record import AuditRecord, Outcome

SOCKET = "/dev/log"
SEND_S = 5.0
_AUTHPRIV = 10 << 3
_NOTICE, _WARNING = 5, 4
_NAME = "gosched-audit"


class Syslog:
    """Used by one thread."""

    torn = ""

    def __init__(self, path: str = SOCKET) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self.head = Head()

    def open(self) -> None:
        """Connect to the daemon. Raises OSError."""
        self._connected()

    def append(self, records: Sequence[AuditRecord]) -> None:
        """Send the one record. Raises OSError, and has sent nothing then."""
        (record,) = records
        head, line = next_line(self.head, record)
        level = _NOTICE if record.outcome is Outcome.ALLOWED else _WARNING
        message = b"<%d>%s[%d]: %s" % (_AUTHPRIV | level, _NAME.encode(), os.getpid(), line.rstrip())
        try:
            self._connected().send(message)
        except OSError:
            self.close()  # the daemon may have been started anew
            raise
        self.head = head

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self) -> socket.socket:
        if self._socket is None:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                made.settimeout(SEND_S)
                made.connect(self._path)
            except OSError:
                made.close()
                raise
            self._socket = made
        return self._socket
