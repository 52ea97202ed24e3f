"""The revoked certificates that this agent knows of: who shows one is no master, whatever its certificate says.

Masters send the serial numbers of those that are, or may be, of masters with the answers to heartbeats.

Invariant: what is known survives a restart, and only a master that is not revoked changes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from gosched.agent.files import write_synced
from gosched.core.limits import MAX_REVOCATIONS_TOLD
from gosched.core.rules.revocation import SERIAL

_ETAG = re.compile(r"[0-9a-f]{1,64}")


class RevokedMasters:
    """The serial numbers in a file, and their etag."""

    def __init__(self, file: Path) -> None:
        """Read the file. One that cannot be read is as none: the next heartbeat brings all."""
        self._file = file
        self.etag = ""
        self._serials: frozenset[str] = frozenset()
        try:
            found = json.loads(file.read_text())
            self._serials, self.etag = frozenset(map(str, found["serials"])), str(found["etag"])
        except (OSError, ValueError, KeyError, TypeError):
            return

    def holds(self, serial: str) -> bool:
        """Return whether the certificate with this serial number is revoked."""
        return serial in self._serials

    def take(self, etag: str, serials: Iterable[str]) -> bool:
        """Take over what a master says, and return whether it is news. Raises OSError."""
        if etag == self.etag or not _ETAG.fullmatch(etag):  # an older release says nothing
            return False
        known = sorted({serial for serial in serials if SERIAL.fullmatch(serial)})[:MAX_REVOCATIONS_TOLD]
        write_synced(self._file, json.dumps({"etag": etag, "serials": known}).encode())
        self.etag, self._serials = etag, frozenset(known)
        return True
