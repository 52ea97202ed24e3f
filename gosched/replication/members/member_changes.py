"""Changes of the members, on the one that leads: one at a time, and each differs from the last by one voter.

Two majorities of members that differ by one have a member in common, so no joint consensus is needed (Ongaro's thesis,
section 4.1), as long as a leader begins a change only once the last one is committed, and an entry of its own term is
(the flaw of single-server changes that he found in 2015: else a change of an earlier leader may come back from the
dead). A new member is a learner first: it gets the log, is not counted, and becomes a voter once it has caught up.
Invariant: whoever leads is a voter; it hands over before it is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import structlog

from gosched.core.features import FeatureLevel
from gosched.core.records.master import Configuration, Member
from gosched.core.state.cluster_state import ClusterState
from gosched.replication.disk.journal import Journal
from gosched.replication.members.configuration import Members, entry_naming, ids, voters

MAX_VOTERS = 7
MAX_LEARNERS = 2
CLOSE = 16  # entries: a learner that lacks no more is told of the rest within a heartbeat

log = structlog.get_logger()


class Leading(Protocol):
    """The member's Raft, as far as changes go."""

    @property
    def raftCommitIndex(self) -> int: ...

    @property
    def raftCurrentTerm(self) -> int: ...

    def _isLeader(self) -> bool: ...

    def append_naming(self, entry: bytes) -> None: ...

    def acknowledged(self) -> Mapping[str, int]: ...

    def hears_voter(self, member: str) -> bool: ...

    def transferLeadership(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a change of the members does not begin."""

    detail: str
    #: It may begin when it is asked for again.
    again: bool = False


class MemberChanges:
    def __init__(self, raft: Leading, members: Members, journal: Journal, state: Callable[[], ClusterState]) -> None:
        self._raft = raft
        self._members = members
        self._journal = journal
        self._state = state

    def turn(self) -> None:
        """Name the members in the log once its level allows it; then make voters of learners that have caught up."""
        if not self._raft._isLeader() or self._state().feature_level < FeatureLevel.BOUNDED or self._not_now():
            return
        now = self._members.newest().configuration
        if not now.version:
            if all(member.address for member in now.members):  # a cluster of one may have none
                self._propose(now.members)
            return
        learner = next((m for m in now.members if not m.voter and self._is_ready(m.id)), None)
        if learner is not None and not self._lacks_majority(voters(now) | {learner.id}):
            log.info("the new master has caught up: it votes from now on", peer=learner.id)
            self._propose(_with(now, Member(id=learner.id, address=learner.address)))

    def add(self, member: str, address: str) -> Refusal | None:
        """Add a learner. A known member at its own address is no change."""
        if refusal := self._not_ready():
            return refusal
        now = self._members.newest().configuration
        there = next((m for m in now.members if m.id == member), None)
        if there is not None and there.address == address:
            return None
        if there is not None:
            return Refusal(
                detail=f"{member} is a master already, at {there.address}: remove it first, or name another id"
            )
        if other := next((m.id for m in now.members if m.address == address), ""):
            return Refusal(detail=f"{address} is the Raft address of {other}: name the address of {member}")
        if len(now.members) >= MAX_VOTERS:
            return Refusal(detail=f"a cluster has at most {MAX_VOTERS} masters: remove one first")
        learners = [m.id for m in now.members if not m.voter]
        if len(learners) >= MAX_LEARNERS:
            return Refusal(
                detail=f"{', '.join(learners)} are still catching up: wait, or remove one of them", again=True
            )
        if refusal := self._busy():
            return refusal
        self._propose(_with(now, Member(id=member, address=address, voter=False)))
        return None

    def remove(self, member: str) -> Refusal | None:
        """Remove a member. One that is no member is no change."""
        if refusal := self._not_ready():
            return refusal
        now = self._members.newest().configuration
        if member not in ids(now):
            return None
        left = voters(now) - {member}
        if not left:
            return Refusal(detail=f"{member} is the last master: a cluster has at least one")
        if refusal := self._busy():  # first: a leader that has just taken over has not heard from all yet
            return refusal
        missing = self._lacks_majority(left) if member in voters(now) else ""
        if missing:
            return Refusal(
                detail=f"without {member} the masters had no majority: {missing} is not reached, or has not caught up. "
                "Start it, or add another master first"
            )
        if member == self._members.me:
            self._raft.transferLeadership()
            return Refusal(detail=f"{member} leads, and hands over before it is removed: ask again", again=True)
        self._propose(tuple(m for m in now.members if m.id != member))
        return None

    def _not_ready(self) -> Refusal | None:
        if not self._raft._isLeader():
            return Refusal(detail="this master does not lead", again=True)
        if self._state().feature_level < FeatureLevel.BOUNDED:
            return Refusal(
                detail=f"masters are added and removed from feature level {FeatureLevel.BOUNDED.value} on: upgrade all "
                "masters, then run goschedctl cluster finalize-upgrade"
            )
        now = self._members.newest().configuration
        if not all(member.address for member in now.members):
            return Refusal(
                detail="this master listens for no other: set raft.enabled, raft.bind_addr and raft.advertise_addr, "
                "and start it again"
            )
        if not now.version:
            return Refusal(detail="the leader has not named the masters in the log yet: ask again", again=True)
        return None

    def _busy(self) -> Refusal | None:
        problem = self._not_now()
        return Refusal(detail=problem, again=True) if problem else None

    def _not_now(self) -> str:
        """Return why no change may begin, or nothing."""
        committed = self._raft.raftCommitIndex
        if self._journal.term_at(committed) != self._raft.raftCurrentTerm:
            return "the leader has just taken over: ask again"
        if self._members.newest().index > committed:
            return "another change of the masters is under way: ask again"
        return ""

    def _is_ready(self, learner: str) -> bool:
        has = self._raft.acknowledged().get(learner, 0)
        return (
            self._raft.hears_voter(learner)
            and has >= self._raft.raftCommitIndex - CLOSE
            and self._journal.term_at(has) == self._raft.raftCurrentTerm
        )

    def _lacks_majority(self, of: set[str]) -> str:
        """Return one that cannot vote, where too many cannot: they are not reached, or join with an empty disk."""
        away = [other for other in sorted(of - {self._members.me}) if not self._raft.hears_voter(other)]
        return away[0] if len(of) - len(away) <= len(of) // 2 else ""

    def _propose(self, members: tuple[Member, ...]) -> None:
        now = self._members.newest().configuration
        made = Configuration(version=now.version + 1, members=members)
        said = [member.id if member.voter else f"{member.id} (learner)" for member in members]
        log.info("the masters change", version=made.version, masters=said)
        self._raft.append_naming(entry_naming(made, level=self._state().feature_level))


def _with(now: Configuration, member: Member) -> tuple[Member, ...]:
    """Return the members with this one, in the place of any of its id."""
    others = [other for other in now.members if other.id != member.id]
    return tuple(sorted([*others, member], key=lambda m: m.id))
