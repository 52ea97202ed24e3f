"""Who this member is, on disk: a master whose disk was wiped must not come back as the one that voted.

Rule: a data directory gets a random name when it is empty; the other members keep the name of each disk they met, and
refuse another one under the same member id unless it joins without a vote (rule R9).
"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, replace

from gosched.replication.disk import Disk
from gosched.replication.journal import FILE as JOURNAL
from gosched.replication.journal import DamagedLog, is_unused

IDENTITY = "identity.json"
PEERS = "peers.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """`joining`: the disk was empty in a cluster that exists; it may not vote yet. `joined`: it was, and now it may."""

    cluster: str
    member: str
    disk: str
    joining: bool
    joined: bool = False

    @property
    def came_later(self) -> bool:
        """The disk took the place of another, by rule R9: a member that was away meanwhile must accept it too."""
        return self.joining or self.joined


def load_identity(disk: Disk, *, cluster: str, member: str, bootstrap: bool) -> Identity:
    """Reads the identity, or makes one in an empty directory. Raises DamagedLog where the two do not fit."""
    data = disk.read(IDENTITY)
    if data is None:
        if not is_unused(disk.read(JOURNAL) or b""):
            raise DamagedLog(f"{IDENTITY} is gone but {JOURNAL} is there: restore it, or move the data directory away")
        return Identity(cluster=cluster, member=member, disk=secrets.token_hex(8), joining=not bootstrap)
    try:
        identity = Identity(**json.loads(data))
    except (ValueError, TypeError) as error:
        raise DamagedLog(f"{IDENTITY} cannot be read ({error}): restore it, or move the data directory away") from error
    if disk.read(JOURNAL) is None:
        raise DamagedLog(
            f"{JOURNAL} is gone but {IDENTITY} is there. If the other masters are well, move the data directory away "
            "and start this master with `bootstrap: false`: it will copy their state"
        )
    if identity.member != member:
        raise DamagedLog(f"the data directory belongs to {identity.member}, this is {member}: give each its own")
    if identity.cluster != cluster:
        raise DamagedLog(
            f"the data directory belongs to a cluster of {identity.cluster}, the config names {cluster}: correct "
            "raft.node_id and raft.peers, or move the data directory away"
        )
    return identity


def save_identity(disk: Disk, identity: Identity) -> None:
    """Call after the journal exists: the two are checked against each other at the next start."""
    disk.replace(IDENTITY, [json.dumps(asdict(identity)).encode()])


def joined(identity: Identity) -> Identity:
    return replace(identity, joining=False, joined=True)


class KnownDisks:
    """The name of each other member's disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        data = disk.read(PEERS)
        try:
            self._names: dict[str, str] = json.loads(data) if data else {}
        except ValueError as error:
            raise DamagedLog(f"{PEERS} cannot be read ({error}): remove it") from error

    def refusal(self, member: str, name: str, *, came_later: bool) -> str:
        """Why this disk may not speak for the member, or empty; a new one is noted."""
        known = self._names.get(member)
        if known not in (None, name) and not came_later:
            return (
                f"{member} comes with another disk than before. If its disk was lost, start it with an empty data "
                "directory and `bootstrap: false`: it joins without a vote until it has caught up"
            )
        if known != name:
            self._names[member] = name
            self._disk.replace(PEERS, [json.dumps(self._names, sort_keys=True).encode()])
        return ""
