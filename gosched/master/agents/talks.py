"""What the leader and each agent have told each other: the newest heartbeat, and the start orders that were pushed.

Invariant: a heartbeat that was made before one that was answered counts no more; and an order that an agent has, or is
about to get, is not sent to it whole a second time. All of it is of one registration, and in memory: a new leader
begins with nothing, and tells everything again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gosched.core.records.node import Node


@dataclass(slots=True)
class _Talk:
    #: Incarnation and number of the node's registration.
    registration: tuple[str, int]
    #: Of the newest heartbeat; 0: there was none, or the agent does not count them.
    number: int = 0
    #: What the newest heartbeat should have named and did not, and the epoch that it knew.
    missing: tuple[int, Sequence[str]] = (0, ())
    #: Allocations whose start orders are in calls that have not been answered.
    pushing: set[str] = field(default_factory=set)
    #: Those that the agent has obeyed -> revision of the order, until a heartbeat that was made later.
    obeyed: dict[str, int] = field(default_factory=dict)
    #: Those whose orders the newest answer has brought.
    answered: frozenset[str] = frozenset()


class Talks:
    """By node."""

    def __init__(self) -> None:
        self._talks: dict[str, _Talk] = {}

    def begin(self) -> None:
        self._talks.clear()

    def drop(self, node_id: str) -> None:
        self._talks.pop(node_id, None)

    def is_late(self, node: Node, number: int) -> bool:
        """Return whether a later heartbeat was taken before this one; else take it."""
        talk = self._of(node)
        if 0 < number <= talk.number:
            return True
        talk.number = number
        return False

    def missing(self, node: Node, epoch: int) -> Sequence[str]:
        """Return what the heartbeat before should have named and did not, if it knew the same epoch."""
        known, missing = self._of(node).missing
        return missing if known == epoch else ()

    def note_missing(self, node: Node, epoch: int, missing: Sequence[str]) -> None:
        """Note what this heartbeat should have named and did not."""
        self._of(node).missing = (epoch, missing)

    def push(self, node: Node, allocations: Iterable[str]) -> None:
        """Note that start orders are being pushed."""
        self._of(node).pushing.update(allocations)

    def pushed(self, node: Node, allocations: Iterable[str], revision: int, *, obeyed: bool) -> None:
        """Note how a push has ended."""
        talk = self._of(node)
        talk.pushing.difference_update(allocations)
        if obeyed:
            talk.obeyed.update(dict.fromkeys(allocations, revision))

    def is_told(self, node: Node, allocation_id: str) -> bool:
        """Return whether the newest answer to a heartbeat has brought the order, so that no push need."""
        return allocation_id in self._of(node).answered

    def answer(self, node: Node, heard: int) -> frozenset[str]:
        """Return the allocations whose start orders need not be in the answer to the newest heartbeat, whose sender had
        obeyed the pushes up to the revision `heard`."""
        talk = self._of(node)
        talk.obeyed = {id: revision for id, revision in talk.obeyed.items() if revision > heard}
        return frozenset(talk.pushing.union(talk.obeyed)) if talk.number else frozenset()

    def told(self, node: Node, allocations: Iterable[str]) -> None:
        """Note which start orders the answer brings."""
        self._of(node).answered = frozenset(allocations)

    def _of(self, node: Node) -> _Talk:
        registration = (node.incarnation, node.registration)
        talk = self._talks.get(node.id)
        if talk is not None and talk.registration[1] > node.registration:
            return _Talk(registration)  # this one is over
        if talk is None or talk.registration != registration:
            talk = self._talks[node.id] = _Talk(registration)
        return talk
