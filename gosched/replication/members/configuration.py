"""Which members the log names: those of the newest entry that names any, committed or not (Ongaro's thesis, 4.1).

Where the log names none, the applied state does, and before that the config of each member. Invariant: what is in force
follows from the log, the snapshot and the config alone, so a restart, a cut of the log and a new snapshot need nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gosched.core.commands.cluster import SetMembers
from gosched.core.commands.command import Command
from gosched.core.records.master import Configuration, Member
from gosched.core.state.cluster_state import ClusterState
from gosched.replication.disk.journal import Journal
from gosched.replication.peer_messages import MEMBERS
from gosched.wire.batch import decode_batch, encode_batch, encode_command

PROPOSER = "members"  # of entries that name the members; their version is the proposal's number


@dataclass(frozen=True, slots=True)
class Placed:
    """Members, and where the log names them."""

    #: Of the entry; 0: it is applied and may be compacted away, or stands in the config.
    index: int
    configuration: Configuration


class Members:
    """The members as this one knows them."""

    def __init__(self, me: str, journal: Journal, state: Callable[[], ClusterState], listed: Mapping[str, str]) -> None:
        """`state` gives the applied one; `listed`: the members by the config, with their addresses."""
        self.me = me
        self._journal = journal
        self._state = state
        self._listed = configuration(0, listed)

    def newest(self) -> Placed:
        """Return what is in force here."""
        if self._journal.naming:
            command, index, _ = self._journal.naming[-1]
            return Placed(index, named_by(command))
        return Placed(0, self.applied() or self._listed)

    def applied(self) -> Configuration | None:
        return self._state().configuration

    @property
    def feature_level(self) -> int:
        return self._state().feature_level

    @property
    def is_one(self) -> bool:
        """Return whether this member is among those in force."""
        return self.me in ids(self.newest().configuration)

    @property
    def is_voter(self) -> bool:
        return self.me in voters(self.newest().configuration)

    @property
    def was_removed(self) -> bool:
        """Return whether the applied members are without this one, and nothing in the log takes it back."""
        applied = self.applied()
        return applied is not None and self.me not in ids(applied) and not self.is_one


def configuration(version: int, addresses: Mapping[str, str], learners: frozenset[str] = frozenset()) -> Configuration:
    members = [Member(id=m, address=addresses[m], voter=m not in learners) for m in sorted(addresses)]
    return Configuration(version=version, members=tuple(members))


def ids(of: Configuration) -> set[str]:
    return {member.id for member in of.members}


def voters(of: Configuration) -> set[str]:
    return {member.id for member in of.members if member.voter}


def entry_naming(of: Configuration, *, level: int) -> bytes:
    command = encode_command(Command(body=SetMembers(configuration=of)))
    return MEMBERS + encode_batch(PROPOSER, of.version, [command], level=level)


@functools.lru_cache(maxsize=64)
def named_by(command: bytes) -> Configuration:
    """Return the members that an entry names. Raises UnknownSchema."""
    body = decode_batch(command[1:]).commands[0].body
    assert isinstance(body, SetMembers)
    return body.configuration
