"""Which orders count: those of the node's present registration that nothing newer has overtaken. Pure.

A connection may deliver what was sent into it before it was cut, much later: by then the masters have given the node
up, its tasks run elsewhere, and its lease is fresh again. Invariant: what was made under another registration is
refused; so is a start that an answer to a heartbeat, made of a later state, did not name any more, since what is not
wanted any more may have come, ended and been forgotten here. A refusal does no harm: the next answer brings what holds.

Nothing is kept over a restart of the agent: every order names the incarnation, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gosched.agent.logic.reconcile import Desired


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Of what a message of a master was made."""

    #: Number of the node's registration; 0: the masters know of none.
    registration: int = 0
    #: Of the state; 0: the master does not say.
    revision: int = 0


class Fence:
    """What has been heard under the present registration."""

    def __init__(self) -> None:
        self.registration = 0
        #: Revision of the newest start that was pushed and obeyed.
        self.heard = 0
        self._answered = 0  # revision of the newest answer to a heartbeat
        self._under_way: frozenset[str] = frozenset()  # allocations whose starts that answer left to pushes
        self._frozen = 0  # revision of the newest order to freeze or to thaw
        self._closed = False

    def register(self, registration: int) -> None:
        """Begin a registration, or go on with the same one."""
        if registration != self.registration:
            self.forget()
        self.registration = registration

    def forget(self) -> None:
        """Forget what was heard: another state numbers its revisions anew."""
        self.heard = self._answered = self._frozen = 0
        self._under_way = frozenset()

    def close(self) -> None:
        """Obey nothing any more."""
        self._closed = True

    def problem(self, registration: int) -> str:
        """Return why no message of this registration counts; empty: it may."""
        if self._closed:
            return "its agent is being stopped"
        if registration != self.registration:
            return f"this is registration {self.registration}, and that order is of {registration or 'none'}"
        return ""

    def take_push(self, desired: Desired, made: Made) -> str:
        """Take an order that was pushed. Return why it does not count; empty: obey it, and `note` it then."""
        problem = self.problem(made.registration)
        if problem or not made.revision:
            return problem
        overtaken = made.revision < self._answered and not self._under_way.issuperset(desired.start)
        if desired.freeze or desired.thaw:
            overtaken = overtaken or made.revision < max(self._answered, self._frozen)
        if overtaken:
            return f"that order is of revision {made.revision}, and a newer one has overtaken it"
        if desired.freeze or desired.thaw:
            self._frozen = made.revision
        return ""

    def note(self, desired: Desired, made: Made) -> None:
        """Note that an order that was pushed has been obeyed."""
        if desired.start and made.registration == self.registration:
            self.heard = max(self.heard, made.revision)

    def take_answer(self, desired: Desired, made: Made, under_way: Iterable[str]) -> str:
        """Take the answer to a heartbeat. Return why it does not count; empty: obey it."""
        problem = self.problem(made.registration)
        if problem or not made.revision:
            return problem
        overtaken = made.revision < self._answered
        if desired.freeze or desired.thaw:
            overtaken = overtaken or made.revision < self._frozen
        if overtaken:
            return f"that answer is of revision {made.revision}, and a newer order has overtaken it"
        self._answered, self._under_way = made.revision, frozenset(under_way)
        return ""
