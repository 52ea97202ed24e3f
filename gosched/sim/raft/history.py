"""What all members together may never do, checked while they run.

The invariants: one leader per term; the same entry at the same index on all members, across restarts; a new leader
holds everything committed; a majority of the voters' disks holds everything committed, by the members in force at its
leader; no proposal is applied twice; equal states at equal indexes; a proposal that definitely failed is never applied;
a restarted member has the term and the vote it had told others of.

Invariant: it only looks; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from gosched.core.outcome import Outcome
from gosched.replication.disk.journal import Journal


class Violation(Exception):
    """An invariant does not hold."""


class Log(Protocol):
    """A member's log as it is on its disk between two turns."""

    name: str
    joining: bool

    @property
    def durable(self) -> Journal | None: ...


@dataclass(slots=True)
class History:
    """What the members of a run did so far."""

    #: What some member took for committed: index -> command, term.
    committed: dict[int, tuple[bytes, int]] = field(default_factory=dict)
    last: int = 0
    force: frozenset[str] = frozenset()  # the voters whose majority committed the last entry
    last_in_term: dict[int, int] = field(default_factory=dict)  # term of a member -> last entry it was first to commit
    leaders: dict[int, str] = field(default_factory=dict)
    applied: dict[int, bytes] = field(default_factory=dict)
    digests: dict[int, str] = field(default_factory=dict)
    proposals: dict[tuple[str, int], int] = field(default_factory=dict)
    given_up: set[tuple[str, int]] = field(default_factory=set)  # proposals that definitely failed
    answers: dict[tuple[str, str], Outcome] = field(default_factory=dict)

    def leads(self, name: str, term: int, journal: Journal) -> None:
        known = self.leaders.get(term)
        if known == name:
            return
        self.leaders[term] = name
        if known is not None:
            raise Violation(f"term {term} has two leaders, {known} and {name}")
        # A late vote may make a leader of an old term; it need not hold what was committed in newer ones.
        must_hold = max((index for earlier, index in self.last_in_term.items() if earlier < term), default=0)
        if must_hold and not self._holds(journal, must_hold):
            raise Violation(f"{name} leads term {term} without the committed entry {self._first_missing(journal)}")

    def commits(self, name: str, term: int, index: int, journal: Journal, voters: frozenset[str]) -> None:
        """Check what a member takes for committed. `voters`: by the members in force at the member when it did."""
        for i in range(max(self.last + 1, journal.first_index), index + 1):
            entry = journal[i - journal.first_index]
            assert isinstance(entry, tuple)
            self.committed[i] = entry[0], entry[2]
        if index > self.last:
            self.last = self.last_in_term[term] = index
            self.force = voters
        if index >= journal.first_index and not self._holds(journal, index):
            raise Violation(f"{name} takes entry {index} for committed, which others committed otherwise")

    def applies(self, name: str, index: int, data: bytes, proposal: tuple[str, int], digest: str) -> None:
        if self.applied.setdefault(index, data) != data:
            raise Violation(f"{name} applies another command at index {index} than was applied there before")
        if self.proposals.setdefault(proposal, index) != index:
            raise Violation(f"proposal {proposal} is applied at {self.proposals[proposal]} and at {index}")
        if proposal in self.given_up:
            raise Violation(f"proposal {proposal} is applied, after it was said to have definitely failed")
        if self.digests.setdefault(index, digest) != digest:
            raise Violation(f"{name} has another state at index {index} than others had")

    def installs(self, name: str, index: int, digest: str) -> None:
        while index > 1 and index not in self.digests:
            index -= 1  # no-op entries change nothing
        if index > 1 and self.digests[index] != digest:
            raise Violation(f"{name} loads a snapshot whose state is not that at index {index}")

    def fails(self, proposal: tuple[str, int]) -> None:
        """Note a proposal whose proposer was told that it definitely failed."""
        self.given_up.add(proposal)
        if proposal in self.proposals:
            raise Violation(f"proposal {proposal} was applied, and is said to have definitely failed")

    def answers_request(self, client: str, request: str, outcome: Outcome) -> None:
        first = self.answers.setdefault((client, request), outcome)
        if first != outcome:
            raise Violation(f"request {request} of {client} got two answers: {first} and {outcome}")

    def durable(self, logs: Iterable[Log]) -> None:
        """Check that a majority holds what is committed. A disk that was lost, and whose member joins anew, may cost
        one copy."""
        if self.last <= 1:  # the first entry is not replicated: every log begins with it
            return
        logs = [log for log in logs if log.name in self.force]
        settled = [log for log in logs if not log.joining]
        holders = [log.name for log in settled if log.durable is not None and self._holds(log.durable, self.last)]
        excused = len(logs) - len(settled)
        if len(holders) + excused <= len(logs) // 2:
            raise Violation(f"entry {self.last} is committed, but only on the disks of {holders}")

    def reopened(self, name: str, before: tuple[int, str | None], journal: Journal) -> None:
        """Check a log after a restart. `before`: term and vote that the member had told others of."""
        term, vote = journal.getCurrentTerm(), journal.getVotedForNodeId()
        if term < before[0] or (term == before[0] and before[1] is not None and vote != before[1]):
            raise Violation(f"{name} restarts in term {term} with a vote for {vote}, it had {before}")

    def _holds(self, journal: Journal, index: int) -> bool:
        """Return whether a log holds the committed entries: by log matching, one equal entry proves those before it."""
        if index < journal.first_index:
            return True
        if index not in self.committed:  # compacted away where it was first seen: the next one tells
            return journal.last_index >= index
        return journal.term_at(index) == self.committed[index][1]

    def _first_missing(self, journal: Journal) -> int:
        return next(i for i in sorted(self.committed) if not self._holds(journal, i))
