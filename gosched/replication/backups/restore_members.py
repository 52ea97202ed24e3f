"""The members of a restored log: those of the config, whatever the log names.

Who restores a cluster says with the configs who is in it; the masters that the log names may be gone for good.
Invariant: two masters whose configs name other members never hold different entries of one index and term.
"""

from __future__ import annotations

import zlib

from gosched.core.features import FeatureLevel
from gosched.replication.disk.journal_format import Entry
from gosched.replication.members.configuration import configuration, entry_naming, named_by
from gosched.replication.peer_messages import MEMBERS
from gosched.replication.replica_config import ReplicaConfig
from gosched.replication.snapshots.snapshot import decode

_TERMS = 1 << 16


def named_anew(entries: list[Entry], snapshot: bytes | None, config: ReplicaConfig, *, beyond: int) -> list[Entry]:
    """Return the entries and, where they or the snapshot name other members than the config, one that names these. Its
    term is later than `beyond`, and depends on what it says. Raises DamagedLog."""
    naming = [entry for entry in entries if entry[0][:1] == MEMBERS]
    applied = decode(snapshot).state.configuration if snapshot is not None else None
    now = named_by(naming[-1][0]) if naming else applied
    if now is None:
        return entries
    wanted = configuration(now.version + 1, config.listed)
    if wanted.members == now.members:
        return entries
    command = entry_naming(wanted, level=FeatureLevel.BOUNDED)
    term = max(beyond, entries[-1][2]) + 1 + zlib.crc32(command) % _TERMS
    return [*entries, (command, entries[-1][1] + 1, term)]
