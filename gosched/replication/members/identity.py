"""Who this member is, on disk: a master whose disk was wiped must not come back as the one that voted.

Invariant: a data directory gets a random name when it is empty; the other members keep the name of each disk they met,
and refuse another one under the same member id unless it joins without a vote (rule R9), and one that was replaced, or
that is an older copy of what they met, for good.
"""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass, replace
from typing import Any

from gosched.replication.disk import stamped
from gosched.replication.disk.damage import DamagedLog
from gosched.replication.disk.disk import Disk

IDENTITY = "identity.json"
PEERS = "peers.json"
MAX_RETIRED = 16  # names of replaced disks that are kept for each member

_KEEP_IT = (
    "both of its copies are unreadable. The log beside it may be sound: keep the directory. Check the disk. If a "
    "majority of the masters is well, start this master with an empty data directory: it copies their state. If not, "
    "docs/operations/masters.md says how to restore the cluster from this one"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a data directory says of its member."""

    #: The members' ids, as the config names them.
    cluster: str
    member: str
    #: A random name of this directory.
    disk: str
    #: It was empty in a cluster that exists: it may not vote yet.
    joining: bool
    #: It was so once, and now it may.
    joined: bool = False
    #: It is empty, and waits until it has heard that all others are.
    founding: bool = False
    #: Made with the cluster, by its first command; empty until that is applied here.
    cluster_id: str = ""
    #: Counts the starts of the replica, and a random name of the last one.
    boot: int = 0
    run: str = ""
    #: The log names the members, so the config need not name them all.
    settled: bool = False
    #: It was removed from the cluster: nothing is done with the directory any more.
    removed: bool = False

    @property
    def came_later(self) -> bool:
        """Return whether the disk took the place of another by rule R9.

        A member that was away meanwhile must accept it too.
        """
        return self.joining or self.joined


class Removed(DamagedLog):
    """The directory is of a member that was removed."""


def new_identity(*, cluster: str, member: str, bootstrap: bool) -> Identity:
    """Return the identity of an empty directory. A cluster of one is founded at once."""
    alone = cluster == member
    return Identity(
        cluster=cluster,
        member=member,
        disk=secrets.token_hex(8),
        joining=not bootstrap and not alone,
        founding=bootstrap and not alone,
    )


def read_identity(disk: Disk, *, cluster: str, member: str) -> Identity | None:
    """Return the identity in the directory, or None. Raises DamagedLog where it belongs to another member or
    cluster."""
    values = stamped.read(disk, IDENTITY, if_lost=_KEEP_IT)
    if values is None:
        return None
    try:
        identity = Identity(**values)
    except TypeError as error:
        raise DamagedLog(f"{IDENTITY} cannot be read ({error}): use the gosched that wrote it") from error
    if identity.member != member:
        raise DamagedLog(f"the data directory belongs to {identity.member}, this is {member}: give each its own")
    if identity.removed:
        raise Removed(f"{removal_of(member)} The data directory says so")
    if identity.cluster != cluster and not identity.settled:
        raise DamagedLog(
            f"the data directory belongs to a cluster of {identity.cluster}, the config names {cluster}: correct "
            "raft.node_id and raft.peers, or move the data directory away"
        )
    return identity


def save_identity(disk: Disk, identity: Identity) -> None:
    values = asdict(identity)
    for name in ("settled", "removed"):
        if not values[name]:  # the release before knows neither, and may be gone back to until one of them is true
            del values[name]
    stamped.write(disk, IDENTITY, values)


def removal_of(member: str) -> str:
    return (
        f"{member} was removed from the cluster, so it stops. To add it again, empty its data directory, start it and "
        f"run: goschedctl cluster add-master {member} HOST:PORT."
    )


def joined(identity: Identity) -> Identity:
    return replace(identity, joining=False, joined=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """A disk as a member introduced it."""

    #: The random name of its directory.
    disk: str
    #: Its count of starts; 0: by a release that does not say.
    boot: int = 0
    #: The random name of that start; empty: by a release that does not say.
    run: str = ""
    #: It took the place of another disk, by rule R9.
    came_later: bool = False


class KnownDisks:
    """The disk of each other member, and those that it replaced."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        values = stamped.read(disk, PEERS, if_lost=f"remove {PEERS}: this master learns it anew") or {}
        self.boot = int(values.get("boot", 0))
        peers: dict[str, Any] = values.get("peers", values)
        self._met = {member: _met(entry) for member, entry in peers.items()}
        self._retired: dict[str, list[str]] = {
            member: entry["retired"] for member, entry in peers.items() if isinstance(entry, dict)
        }

    def refusal(self, member: str, met: Met) -> str:
        """Return why this disk may not speak for the member, or nothing."""
        known = self._met.get(member)
        if known is None:
            return ""
        if met.disk in self._retired.get(member, ()):
            return (
                f"{member} comes with a disk that another one took the place of: start it with the data directory that "
                "it had last, or with an empty one"
            )
        if known.disk != met.disk and not met.came_later:
            return (
                f"{member} comes with another disk than before. If its disk was lost, start it with an empty data "
                "directory: it joins without a vote until it has caught up"
            )
        if known.disk == met.disk and _is_older(met, known):
            return (
                f"{member} comes with an older copy of its data directory (start {met.boot}; it was met in start "
                f"{known.boot}): what it acknowledged since is gone. Start it with an empty data directory: it joins "
                "without a vote until it has caught up. Never restore the copy of one master "
                "(docs/operations/masters.md)"
            )
        return ""

    def keep_only(self, members: set[str]) -> None:
        """Forget those that are no members any more."""
        if gone := self._met.keys() - members:
            for member in gone:
                del self._met[member]
                self._retired.pop(member, None)
            self.save(self.boot)

    def is_new(self, member: str, met: Met) -> bool:
        known = self._met.get(member)
        return known is None or known.disk != met.disk

    def note(self, member: str, met: Met) -> None:
        """Keep it, once the peer has proved itself."""
        known = self._met.get(member)
        if known is not None and (known.disk, known.boot, known.run) == (met.disk, met.boot, met.run):
            return
        if known is not None and known.disk != met.disk:
            retired = [*self._retired.get(member, []), known.disk]
            self._retired[member] = [name for name in retired if name != met.disk][-MAX_RETIRED:]
        self._met[member] = met
        self.save(self.boot)

    def save(self, boot: int) -> None:
        self.boot = boot
        peers = {
            member: {"disk": m.disk, "boot": m.boot, "run": m.run, "retired": self._retired.get(member, [])}
            for member, m in self._met.items()
        }
        stamped.write(self._disk, PEERS, {"boot": boot, "peers": peers})


def _is_older(met: Met, known: Met) -> bool:
    """Return whether this start came before the known one.

    Numbers are taken once, so a start of the same number and another name began from a copy.
    """
    if not met.boot:
        return False
    return met.boot < known.boot or (met.boot == known.boot and met.run != known.run)


def _met(entry: Any) -> Met:
    """Return a kept entry; the release before kept the disk's name alone."""
    return Met(disk=entry["disk"], boot=entry["boot"], run=entry["run"]) if isinstance(entry, dict) else Met(disk=entry)
