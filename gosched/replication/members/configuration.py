"""Which members the log names: those of the newest entry that names any, committed or not (Ongaro's thesis, 4.1).

Where the log names none, the applied state does, and before that the config of each member. Invariant: what is in force
follows from the log, the snapshot and the config alone, so a restart, a cut of the log and a new snapshot need nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gosched.core.commands.cluster import SetMembers
from gosched.core.commands.command import Command
from gosched.core.records.master import Configuration, Member
from gosched.core.state.cluster_state import ClusterState
from gosched.replication.disk.journal import Journal
from gosched.replication.disk.journal_format import Entry
from gosched.replication.peer_messages import MEMBERS
from gosched.wire.batch import decode_batch, encode_batch, encode_command

PROPOSER = "members"  # of entries that name the members; their version is the proposal's number


@dataclass(frozen=True, slots=True)
class Placed:
    """Members, and where the log names them."""

    #: Of the entry; 0: it is applied and may be compacted away, or stands in the config.
    index: int
    configuration: Configuration
    #: Who of them votes.
    voters: frozenset[str]


class Members:
    """The members as this one knows them."""

    def __init__(self, me: str, journal: Journal, state: Callable[[], ClusterState], listed: Mapping[str, str]) -> None:
        """`state` gives the applied one; `listed`: the members by the config, with their addresses."""
        self.me = me
        self._journal = journal
        self._state = state
        self._listed = configuration(0, listed)
        self._read_from: Entry | Configuration = self._listed
        self._newest = _placed(self._listed)

    def newest(self) -> Placed:
        """Return what is in force here. It is asked for in each turn, and read anew when another entry names it."""
        naming = self._journal.naming
        source = naming[-1] if naming else self.applied() or self._listed
        if source is not self._read_from:
            self._newest, self._read_from = _placed(source), source
        return self._newest

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
        return self.me in self.newest().voters

    @property
    def was_removed(self) -> bool:
        """Return whether the applied members are without this one, and nothing in the log takes it back."""
        applied = self.applied()
        return applied is not None and self.me not in ids(applied) and not self.is_one


def _placed(source: Entry | Configuration) -> Placed:
    if isinstance(source, Configuration):
        return Placed(0, source, frozenset(voters(source)))
    command, index, _ = source
    named = named_by(command)
    return Placed(index, named, frozenset(voters(named)))


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


def named_by(command: bytes) -> Configuration:
    """Return the members that an entry names. Raises UnknownSchema."""
    body = decode_batch(command[1:]).commands[0].body
    assert isinstance(body, SetMembers)
    return body.configuration
