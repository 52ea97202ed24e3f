"""When this member stands for election: it asks before it does, and its patience is learned.

A pre-vote (Ongaro's thesis, section 9.6) asks the others whether they would vote for us, raises no term and writes
nothing. PySyncObj knows none: it stands in the first turn after its deadline. So before each turn a deadline that is
over is put off, and a round of questions begins. A round that is won sets the deadline to `STAND_NOW`. Whatever else
moves the deadline meanwhile (a leader that speaks, a vote that was given) ends the round.

A member that hears a live leader says no. Of two members that ask at once, the one with the longer log, then the
greater id, gets its yes. Invariant: the term rises only after a majority said yes, after an order of the leader (a
transfer), or where a leader's term is behind a member's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import pysyncobj.syncobj as library

from gosched.replication.disk.journal import Journal
from gosched.replication.peer_messages import Message
from gosched.replication.raft.timing import Slowest, Timing

STAND_NOW = 0.0  # what the library sets at a transfer, too
_GROWTH, _MAX_GROWTH = 1.5, 4.0  # of the patience, for each election that was lost since a leader was heard
_MAX_LEARNED = 8.0  # times the configured patience
_AFTER_LOST_LEADER_S = (0.1, 0.3)


class Candidate(Protocol):
    """The member, as far as its elections go."""

    #: The library's, in seconds of the monotonic clock: the member stands in the first turn after it.
    deadline: float

    @property
    def raftCurrentTerm(self) -> int: ...

    def may_stand(self) -> bool: ...

    def _isLeader(self) -> bool: ...

    def forget_leader(self) -> None: ...

    def step_down(self) -> None: ...


@dataclass(slots=True)
class _Round:
    term: int  # that we would stand in
    ends: float  # the deadline that it set: another one means that something happened
    yes: set[Any] = field(default_factory=set)


class Elections:
    """The elections of one member. `send`, `is_connected` and `knows` are set once there is a transport; the last tells
    whether a member knows pre-votes: one of an older release is taken for a yes."""

    def __init__(self, raft: Candidate, me: str, others: Iterable[Any], *, journal: Journal, timing: Timing) -> None:
        self._raft, self._me, self._others = raft, me, list(others)
        self._journal = journal
        self._timing = timing
        self._round: _Round | None = None
        self._term_to_stand_in = 0
        self._highest_term = 0  # that another member told of
        # A live leader; None: not since its connection broke. Who has just begun has not listened, and knows nothing.
        self._heard_at: float | None = library.monotonicTime()
        self._lost = 0  # elections, since a leader was heard
        self.syncs = Slowest()
        self.round_trip_s = 0.0
        self.send: Callable[[Any, Message], bool] = lambda node, message: False
        self.is_connected: Callable[[Any], bool] = lambda node: False
        self.knows: Callable[[Any], bool] = lambda node: True

    def set_voters(self, others: Iterable[Any]) -> None:
        """Take over the other voters, and end a round of questions to others than these."""
        self._others = list(others)
        self._round = None

    def timeout(self) -> float:
        """Return the silence after which to stand, in seconds: more on a slow disk or link, or after lost elections."""
        timing = self._timing
        learned = 3 * (self.syncs.value + self.round_trip_s)
        least = min(max(timing.election_min, learned), _MAX_LEARNED * timing.election_min)
        least *= min(_GROWTH ** max(self._lost - 1, 0), _MAX_GROWTH)
        return random.uniform(least, least * timing.election_max / timing.election_min)

    # Standing

    def before_turn(self) -> None:
        raft, now = self._raft, library.monotonicTime()
        if raft._isLeader():
            self._lost = 0
        elif not raft.may_stand():
            raft.deadline = max(raft.deadline, now + self.timeout())
        elif raft.deadline != STAND_NOW and raft.deadline < now:
            self._ask(now)

    def term_to_vote_in(self, term: int) -> int:
        """Return the term to stand in where the library would take `term`: others may have told of a higher one."""
        self._lost += 1
        term, self._term_to_stand_in = max(term, self._term_to_stand_in), 0
        return term

    def _ask(self, now: float) -> None:
        raft = self._raft
        raft.forget_leader()
        raft.deadline = now + self.timeout()
        self._round = asked = _Round(max(raft.raftCurrentTerm, self._highest_term) + 1, raft.deadline)
        last_index = self._journal.last_index
        message = {"type": "pre_vote", "term": asked.term, "last_log_index": last_index}
        message["last_log_term"] = self._journal.term_at(last_index)
        for node in self._others:
            if self.is_connected(node) and not self.knows(node):
                asked.yes.add(node)
            elif self.is_connected(node):
                self.send(node, dict(message))
        self._stand_if_won(asked)

    def _stand_if_won(self, asked: _Round) -> None:
        if 1 + len(asked.yes) > (1 + len(self._others)) / 2:
            self._term_to_stand_in = asked.term
            self._raft.deadline = STAND_NOW

    # What others say

    def on_pre_vote(self, node: Any, message: Message) -> None:
        answer = {"type": "pre_vote_reply", "term": message["term"], "own_term": self._raft.raftCurrentTerm}
        self.send(node, {**answer, "granted": self._would_vote(node, message)})

    def on_reply(self, node: Any, message: Message) -> None:
        raft = self._raft
        self._highest_term = max(self._highest_term, message["own_term"])
        if raft._isLeader():
            if (
                message["own_term"] > raft.raftCurrentTerm
            ):  # R13: it cannot follow us; at once in a term in which it can
                raft.step_down()
                self._term_to_stand_in = message["own_term"] + 1
                raft.deadline = STAND_NOW
            return
        asked = self._current_round()
        if asked is not None and node in self._others and message["granted"] and message["term"] == asked.term:
            asked.yes.add(node)
            self._stand_if_won(asked)

    def on_old_term(self, node: Any) -> None:
        """Answer a leader of a term before ours, which we may not follow."""
        if self.knows(node):
            answer = {"type": "pre_vote_reply", "term": 0, "own_term": self._raft.raftCurrentTerm, "granted": False}
            self.send(node, answer)
        else:
            self._raft.deadline = STAND_NOW  # one of an older release learns of our term by an election only

    def heard_leader(self) -> None:
        self._heard_at = library.monotonicTime()
        self._lost = self._term_to_stand_in = 0
        self._round = None

    def stood_still(self) -> None:
        """Forgive the leader's silence while this process did not run."""
        if self._heard_at is not None:
            self._heard_at = library.monotonicTime()

    def lost_leader(self) -> None:
        """Stand soon: a connection that breaks tells of a leader's death sooner than its silence does."""
        self._heard_at = None
        soon = library.monotonicTime() + random.uniform(*_AFTER_LOST_LEADER_S)
        self._raft.deadline = min(self._raft.deadline, soon)

    def _would_vote(self, node: Any, message: Message) -> bool:
        raft = self._raft
        if raft._isLeader() or message["term"] <= raft.raftCurrentTerm:
            return False
        if self._heard_at is not None and library.monotonicTime() - self._heard_at < self._timing.election_min:
            return False
        ours = self._journal.term_at(self._journal.last_index) or 0, self._journal.last_index
        theirs = message["last_log_term"], message["last_log_index"]
        if self._current_round() is None:
            return theirs >= ours
        return (*theirs, node.id) > (*ours, self._me)

    def _current_round(self) -> _Round | None:
        asked = self._round
        return asked if asked is not None and asked.ends == self._raft.deadline else None
