"""The revoked certificates that this agent knows of: who shows one is no master, whatever its certificate says.

Masters send the marks of those that are, or may be, of masters with the answers to heartbeats.

Invariant: what is known survives a restart, and only a master that is not revoked changes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from gosched.agent.files import write_synced
from gosched.core.limits import MAX_REVOCATIONS_TOLD
from gosched.core.rules.revocation import MARK

_ETAG = re.compile(r"[0-9a-f]{1,64}")


class RevokedMasters:
    """The marks in a file, and their etag."""

    def __init__(self, file: Path) -> None:
        """Read the file. One that cannot be read is as none: the next heartbeat brings all."""
        self._file = file
        self.etag = ""
        self._marks: frozenset[str] = frozenset()
        try:
            found = json.loads(file.read_text())
            self._marks, self.etag = frozenset(map(str, found["marks"])), str(found["etag"])
        except (OSError, ValueError, KeyError, TypeError):
            return

    def holds(self, marks: Iterable[str]) -> bool:
        """Return whether a certificate with these marks is revoked."""
        return any(mark in self._marks for mark in marks)

    def take(self, etag: str, marks: Iterable[str]) -> bool:
        """Take over what a master says, and return whether it is news. Raises OSError."""
        if etag == self.etag or not _ETAG.fullmatch(etag):  # an older release says nothing
            return False
        known = sorted({mark for mark in marks if MARK.fullmatch(mark)})[:MAX_REVOCATIONS_TOLD]
        write_synced(self._file, json.dumps({"etag": etag, "marks": known}).encode())
        self.etag, self._marks = etag, frozenset(known)
        return True
